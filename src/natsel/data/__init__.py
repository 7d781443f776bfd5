"""Data: where examples come from, what has been done to them, and which of them have labels."""

from natsel.data.dataset import DataSet as DataSet
from natsel.data.examples import Examples as Examples
from natsel.data.folders import AbsentData as AbsentData
from natsel.data.groups import counted as counted
from natsel.data.groups import regrouped as regrouped
from natsel.data.images import image_folder as image_folder
from natsel.data.load import load as load
from natsel.data.load import names as names
from natsel.data.made import gp_line as gp_line
from natsel.data.made import two_bells as two_bells
from natsel.data.made import two_moons as two_moons
from natsel.data.pool import Pool as Pool
from natsel.data.sources import from_huggingface as from_huggingface
from natsel.data.sources import from_torch as from_torch
from natsel.data.sources import read_examples as read_examples
from natsel.data.transforms import MNIST_INITIAL as MNIST_INITIAL
from natsel.data.transforms import balanced_start as balanced_start
from natsel.data.transforms import imbalanced as imbalanced
from natsel.data.transforms import junk_classes as junk_classes
from natsel.data.transforms import noisy_labels as noisy_labels
from natsel.data.transforms import repeated as repeated
from natsel.data.transforms import split as split
from natsel.data.transforms import subsampled as subsampled
from natsel.data.transforms import with_junk as with_junk
