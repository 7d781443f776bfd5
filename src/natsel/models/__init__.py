"""Models that believe: anything that can be fitted and then says, from consistent draws, what it expects.

Names are imported when they are first used, so that scikit-learn and the extras cost nothing to those who need others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from natsel.models.bayesian_linear import BayesianLinear as BayesianLinear
    from natsel.models.consistency import check_consistent as check_consistent
    from natsel.models.convert import as_model as as_model
    from natsel.models.deterministic import Deterministic as Deterministic
    from natsel.models.dropout import Dropout as Dropout
    from natsel.models.embeddings import Backbone as Backbone
    from natsel.models.ensemble import Ensemble as Ensemble
    from natsel.models.gaussian_process import GaussianProcess as GaussianProcess
    from natsel.models.gpytorch_process import GPyTorch as GPyTorch
    from natsel.models.gradients import Gradients as Gradients
    from natsel.models.heads import dropout_head as dropout_head
    from natsel.models.heads import ensemble_head as ensemble_head
    from natsel.models.laplace import LaplaceTorch as LaplaceTorch
    from natsel.models.last_layer import LastLayer as LastLayer
    from natsel.models.last_layer import last_layer_head as last_layer_head
    from natsel.models.networks import emnist_cnn as emnist_cnn
    from natsel.models.networks import fresh as fresh
    from natsel.models.networks import mlp as mlp
    from natsel.models.networks import mnist_cnn as mnist_cnn
    from natsel.models.pretrained import Frozen as Frozen
    from natsel.models.pretrained import efficientnet_lite0 as efficientnet_lite0
    from natsel.models.pretrained import minilm as minilm
    from natsel.models.probit_gp import ProbitGP as ProbitGP
    from natsel.models.protocol import Model as Model
    from natsel.models.protocol import Progress as Progress
    from natsel.models.protocol import Together as Together
    from natsel.models.sketch import Sketch as Sketch
    from natsel.models.sklearn import Sklearn as Sklearn
    from natsel.models.text import TextModel as TextModel
    from natsel.models.together import believe_both as believe_both
    from natsel.models.training import BATCHBALD as BATCHBALD
    from natsel.models.training import QUICK as QUICK
    from natsel.models.training import STOCHASTIC as STOCHASTIC
    from natsel.models.training import Epoch as Epoch
    from natsel.models.training import Training as Training
    from natsel.models.training import train as train

_NAMES = {
    "bayesian_linear": ("BayesianLinear",),
    "consistency": ("check_consistent",),
    "convert": ("as_model",),
    "deterministic": ("Deterministic",),
    "dropout": ("Dropout",),
    "embeddings": ("Backbone",),
    "ensemble": ("Ensemble",),
    "gaussian_process": ("GaussianProcess",),
    "gpytorch_process": ("GPyTorch",),
    "gradients": ("Gradients",),
    "heads": ("dropout_head", "ensemble_head"),
    "laplace": ("LaplaceTorch",),
    "last_layer": ("LastLayer", "last_layer_head"),
    "networks": ("emnist_cnn", "fresh", "mlp", "mnist_cnn"),
    "pretrained": ("Frozen", "efficientnet_lite0", "minilm"),
    "probit_gp": ("ProbitGP",),
    "protocol": ("Model", "Progress", "Together"),
    "sketch": ("Sketch",),
    "sklearn": ("Sklearn",),
    "text": ("TextModel",),
    "together": ("believe_both",),
    "training": ("BATCHBALD", "QUICK", "STOCHASTIC", "Epoch", "Training", "train"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'natsel.models' has no attribute {name!r}")
    value = getattr(import_module(f"natsel.models.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
