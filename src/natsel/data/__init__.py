"""Data: where examples come from, what has been done to them, and which of them have labels.

Examples and pools
    Examples            inputs with their labels
    Pool                inputs, some of which have labels, for a learner to ask about

Data of your own
    read_examples       a table in a .csv or .parquet file
    image_folder        pictures in folders, one folder per class
    from_torch          a torch data set
    from_huggingface    a Hugging Face data set

Data sets by name (docs/data.md)
    load                a data set, from files on this machine
    fetch               its files, downloaded from its public home if they are not on this machine
    names               every name with a line about the set
    catalogue           every data set with its size, licence, home and files; each is a CatalogueEntry
    CatalogueEntry      what is known of one data set
    DataSet             what load gives: examples to train on, to test on and perhaps to validate with
    AbsentData          the error for a data set that is not on this machine
    two_moons           two interleaved half circles, as many points as wanted
    two_bells           heavy tails and a curved boundary, as many points as wanted
    gp_line             noisy values of a random smooth function

Labels that are uncertain, and inputs from outside (docs/data.md)
    ambiguous_mnist     digits that may be read as two, with the true distribution of their labels
    dirty_mnist         MNIST and as many ambiguous digits
    PUBLISHED_PIXEL_NOISE  the noise on pixels 0..1 in published runs on Dirty-MNIST
    ambiguous_digits    ambiguous digits made from other pictures
    AmbiguousDigitsSettings  how they are made
    ambiguous_line      two classes on a line with ambiguous bands and a gap
    overlapping_gaussians  three classes in the plane with some wrong labels
    made_scenes         pictures with a class per pixel, uncertain borders and unknown objects
    human_votes         how many people chose each class for the pictures of CIFAR-10
    human_label_probs   the same as shares
    human_labels        one label of people per training picture, some of them wrong
    outside_sets        what lies outside a data set, near and far
    outside_pictures    pictures from outside, of the shape of the set
    changed_pictures    given pictures blurred, noisy, turned or scrambled, in their order
    leave_out_classes   a data set without some classes, and the examples of those

Changed data, for experiments
    split               disjoint random parts of given sizes
    subsampled          so many of the examples, at random
    balanced_start      positions of so many examples of each class
    counted             random parts with given numbers of each class
    imbalanced          only a share of each class
    regrouped           new classes made of old ones
    repeated            every input several times, with noise
    relevance           all of some classes, a share of the others
    noisy_labels        a share of the labels replaced by wrong ones
    confused_labels     a share of the labels of some classes replaced by a class like theirs
    with_junk           the examples, then inputs that belong to no class
    junk_classes        some classes declared junk
    MNIST_INITIAL       the 20 images of MNIST that the published BatchBALD runs start from
"""

from natsel import options as _options
from natsel.data.ambiguous_digits import AmbiguousDigitsSettings as AmbiguousDigitsSettings
from natsel.data.ambiguous_digits import ambiguous_digits as ambiguous_digits
from natsel.data.catalogue import CatalogueEntry as CatalogueEntry
from natsel.data.catalogue import catalogue as catalogue
from natsel.data.dataset import DataSet as DataSet
from natsel.data.dirty_mnist import PUBLISHED_PIXEL_NOISE as PUBLISHED_PIXEL_NOISE
from natsel.data.dirty_mnist import ambiguous_mnist as ambiguous_mnist
from natsel.data.dirty_mnist import dirty_mnist as dirty_mnist
from natsel.data.examples import Examples as Examples
from natsel.data.fetching import fetch as fetch
from natsel.data.folders import AbsentData as AbsentData
from natsel.data.groups import counted as counted
from natsel.data.groups import regrouped as regrouped
from natsel.data.human_labels import human_label_probs as human_label_probs
from natsel.data.human_labels import human_labels as human_labels
from natsel.data.human_labels import human_votes as human_votes
from natsel.data.images import image_folder as image_folder
from natsel.data.load import load as load
from natsel.data.load import names as names
from natsel.data.made import ambiguous_line as ambiguous_line
from natsel.data.made import gp_line as gp_line
from natsel.data.made import overlapping_gaussians as overlapping_gaussians
from natsel.data.made import two_bells as two_bells
from natsel.data.made import two_moons as two_moons
from natsel.data.made_scenes import made_scenes as made_scenes
from natsel.data.outside_sets import changed_pictures as changed_pictures
from natsel.data.outside_sets import leave_out_classes as leave_out_classes
from natsel.data.outside_sets import outside_pictures as outside_pictures
from natsel.data.outside_sets import outside_sets as outside_sets
from natsel.data.pool import Pool as Pool
from natsel.data.sources import from_huggingface as from_huggingface
from natsel.data.sources import from_torch as from_torch
from natsel.data.sources import read_examples as read_examples
from natsel.data.transforms import MNIST_INITIAL as MNIST_INITIAL
from natsel.data.transforms import balanced_start as balanced_start
from natsel.data.transforms import confused_labels as confused_labels
from natsel.data.transforms import imbalanced as imbalanced
from natsel.data.transforms import junk_classes as junk_classes
from natsel.data.transforms import noisy_labels as noisy_labels
from natsel.data.transforms import relevance as relevance
from natsel.data.transforms import repeated as repeated
from natsel.data.transforms import split as split
from natsel.data.transforms import subsampled as subsampled
from natsel.data.transforms import with_junk as with_junk

_options.checked_names(globals())
