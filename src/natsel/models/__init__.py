"""Models that believe: anything that can be fitted and then says, from consistent draws, what it expects.

Names are imported when they are first used, so that scikit-learn and the extras cost nothing to those who need others;
`__init__.pyi` lists them.
"""

from natsel.stub_names import names_in_stub

__getattr__, __dir__ = names_in_stub(__name__)
