"""Sampling: which labelled examples to train on, step by step while training runs, or once before it."""

from natsel import options as _options
from natsel.sampling.example_scores import el2n as el2n
from natsel.sampling.example_scores import entropy as entropy
from natsel.sampling.example_scores import grand as grand
from natsel.sampling.example_scores import grand_last_layer as grand_last_layer
from natsel.sampling.example_scores import input_norm as input_norm
from natsel.sampling.example_scores import l1_error as l1_error
from natsel.sampling.example_scores import loss as loss
from natsel.sampling.example_scores import margin as margin
from natsel.sampling.example_scores import max_margin as max_margin
from natsel.sampling.example_scores import noisy_input_norm as noisy_input_norm
from natsel.sampling.example_scores import sum_margin as sum_margin
from natsel.sampling.forgetting import ForgettingEvents as ForgettingEvents
from natsel.sampling.irreducible_loss import IrreducibleLoss as IrreducibleLoss
from natsel.sampling.prune import kept_positions as kept_positions
from natsel.sampling.prune import prune as prune
from natsel.sampling.pruning import Pruning as Pruning
from natsel.sampling.selective_loader import SelectedBatch as SelectedBatch
from natsel.sampling.selective_loader import SelectionCounts as SelectionCounts
from natsel.sampling.selective_loader import SelectiveLoader as SelectiveLoader

_options.checked_names(globals())
