"""Models that believe: anything that can be fitted and then says, from consistent draws, what it expects.

Names are imported when they are first used, so that scikit-learn and the extras cost nothing to those who need others;
`help(natsel.models)` shows a line about each, `__init__.pyi` where it lives.
"""

from natsel.stub_names import names_in_stub

__getattr__, __dir__ = names_in_stub(__name__)
