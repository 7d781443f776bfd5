"""Evaluation: how good predictions are, and how many labels a method needed to make them so."""

from natsel.evaluation.classification import accuracy as accuracy
from natsel.evaluation.classification import nll as nll
from natsel.evaluation.curves import Bands as Bands
from natsel.evaluation.curves import area_under as area_under
from natsel.evaluation.curves import bands as bands
from natsel.evaluation.curves import class_entropy as class_entropy
from natsel.evaluation.curves import higher_is_better as higher_is_better
from natsel.evaluation.curves import interpolate as interpolate
from natsel.evaluation.regression import gaussian_nll as gaussian_nll
from natsel.evaluation.regression import rmse as rmse
from natsel.evaluation.savings import Known as Known
from natsel.evaluation.savings import Saved as Saved
from natsel.evaluation.savings import labels_saved as labels_saved
from natsel.evaluation.savings import labels_to as labels_to
from natsel.evaluation.savings import quartiles as quartiles
