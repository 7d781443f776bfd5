"""Where to start: seven methods, when each is the one to use, and what was measured of it.

The figures are those of the files in results/ that are named beside them; tests/choose/test_recommended.py works each
sentence out from its file. docs/which-method.md shows the same table.
"""

from dataclasses import dataclass

DEFAULT = "power-bald"
"""The method of learners, programs and new recipes where none is named; this is the only place that says so."""
CONTENDERS = {False: ("random", "margin", DEFAULT), True: ("random", "batchbald", DEFAULT)}  # True: labels are numbers


@dataclass(frozen=True)
class Recommendation:
    """A method to start with.

    >>> RECOMMENDED[0].name
    'power-bald'
    """

    name: str
    when: str
    """When to use it, in one line."""
    needs: str
    """What it needs besides a pool."""
    measured: str
    """What a run of it found."""
    results: tuple[str, ...]
    """The files that say so."""


RECOMMENDED = (
    Recommendation(
        "power-bald",
        "batches of tens of labels; the default, quick, and safe where points are copies of each other",
        "a model with several draws: dropout, an ensemble, a forest, a Gaussian process",
        "Repeated-MNIST ×4, 10 labels per round: 90 % accuracy with 90 labels, where random needed 130; 2 of 4 runs of"
        " bald did not reach it with 300",
        ("results/repeated-mnist-published-validation.json",),
    ),
    Recommendation(
        "batchbald",
        "small batches (up to about 20) where each label is dear: picks that overlap least",
        "the same, and more time",
        "MNIST, 10 labels per round: 90 % accuracy with 100 labels, where random needed 180 and bald 135",
        ("results/mnist-full.json",),
    ),
    Recommendation(
        "epig",
        "only some predictions matter, or the pool is full of what nobody asks about; power-epig for batches",
        "the same, and the inputs that matter as targets",
        "MNIST with ten digits of which two matter, 40 to 70 labels: 92.4 % accuracy, random 79.2 %, bald 78.0 %",
        ("results/epig-mnist.json",),
    ),
    Recommendation(
        "badge",
        "a hundred labels per round and more, or a trained network without draws; bait instead where there are targets",
        "a last layer or gradients: natsel.models.LastLayer, or .around(your_network, labelled)",
        "letters and intents, batches of 100 and of 1,000: accuracy after the last batch 1.5 to 3.5 points above random"
        "; scores of a last layer rank points of MNIST as draws of dropout do: rank correlation 0.954",
        ("results/large-batches.json", "results/fisher-mnist.json"),
    ),
    Recommendation(
        "lcmd",
        "numbers in place of classes, in batches of tens to hundreds; bait instead for forests",
        "a regressor with several predictions per point: an ensemble, a forest, boosted trees, a Gaussian process",
        "eight tables, 50 labels per round: root mean squared errors below those of random by 12 % for ensembles of"
        " networks (95 % interval over seeds 10 to 13), 8 % for forests (6 to 9) and 2 % for boosted trees (1 to 3); on"
        " other tables it may be none for the last two, and is some for the first",
        ("results/regression-benchmark.json",),
    ),
    Recommendation(
        "entropy",
        "a model with a single prediction per point, nothing else; margin is another such score",
        "class probabilities",
        "Dirty-MNIST, one network, 20 labels per round: 70 % accuracy with 160 labels, where random needed 180; 65 %"
        " with 120, where random needed 100",
        ("results/dirty-mnist.json",),
    ),
    Recommendation(
        "random",
        "always, beside the method that you use: some models and data do not reward choosing",
        "nothing",
        "two of three small tables (magic, vowels) did not: over all labels the median difference of epig to random was"
        " −0.1 and −1.4 points, of five seeds that give −8.3 to +8.9 and −1.8 to +5.7",
        ("results/epig-claims.json",),
    ),
)
"""What `natsel methods` begins with."""
