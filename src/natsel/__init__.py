"""natsel: select data by the nats they carry.

A method is an objective, read from a belief, maximised by a search:

>>> import natsel
>>> belief = natsel.CategoricalSamples.from_probs([[[0.9, 0.1], [0.9, 0.1]], [[1.0, 0.0], [0.0, 1.0]]])
>>> natsel.select("batchbald", belief, k=1).ids
array([1])

Begin with `Pool` and `ActiveLearner`, or, with predictions of your own, with `CategoricalSamples` and `select`.
Names are imported when they are first used; `help(natsel)` shows a line about each, `__init__.pyi` where it lives.
"""

from natsel.stub_names import names_in_stub

__version__ = "0.1.0"
__getattr__, __dir__ = names_in_stub(__name__)
