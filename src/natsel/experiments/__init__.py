"""Experiments: recipes that compare methods over seeds, and the report that shows what they cost."""

from natsel import options as _options
from natsel.experiments.pruning_curve import Kept as Kept
from natsel.experiments.pruning_curve import PruningCurve as PruningCurve
from natsel.experiments.pruning_curve import pruning_curve as pruning_curve

_options.checked_names(globals())
