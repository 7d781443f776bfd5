"""What happened in a run as tables: every label that was told, and every round.

labels    id, value, class, who, at, ask, superseded             a row for every label ever told, corrections too
history   round, n_labelled, metrics, n_picks, mean_gain, seconds of each stage           a row for every round

mean_gain    what a label of the batch was expected to tell about the parameters, in nats: the mean over its picks
"""

from collections.abc import Iterable

from natsel.choose import METHODS
from natsel.data.as_table import Row, Tabular
from natsel.store import Ask, Round

LABEL_COLUMNS = ("id", "value", "class", "who", "at", "ask", "superseded")


class ToldLabels(list[Row], Tabular):
    """Labels as rows, in the order told. `class` is the name of the class where it has one, `at` the time, `ask` the
    number of the batch that the label answers; all labels of an id but the one that counts are superseded.

    >>> told = ToldLabels([{"id": "a", "value": 1, "class": "cat", "who": "", "at": "", "ask": 1, "superseded": False}])
    >>> told[0]["class"], told.columns()[:3]
    ('cat', ('id', 'value', 'class'))
    """

    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return LABEL_COLUMNS

    def rows(self) -> list[Row]:
        """The labels."""
        return list(self)


class History(list[Round], Tabular):
    """The rounds of a run, and the same as a table.

    >>> history = History([Round(0, 5, 5, {"accuracy": 0.5}, {"fit": 0.1})])
    >>> history.rows()
    [{'round': 0, 'n_labelled': 5, 'accuracy': 0.5, 'n_picks': 0, 'mean_gain': None, 'fit_seconds': 0.1}]
    """

    def columns(self) -> tuple[str, ...]:
        """The names of the columns: those of all metrics and stages that any round has."""
        metrics, stages = self._names()
        return ("round", "n_labelled", *metrics, "n_picks", "mean_gain", *(f"{stage}_seconds" for stage in stages))

    def rows(self) -> list[Row]:
        """A row per round."""
        metrics, stages = self._names()
        return [
            {"round": one.number, "n_labelled": one.n_labelled}
            | {name: one.metrics.get(name) for name in metrics}
            | {"n_picks": len(one.ids), "mean_gain": mean_gain(one.asks)}
            | {f"{stage}_seconds": one.seconds.get(stage) for stage in stages}
            for one in self
        ]

    def _names(self) -> tuple[list[str], list[str]]:
        metrics = dict.fromkeys(name for one in self for name in one.metrics)
        stages = dict.fromkeys(name for one in self for name in one.seconds)
        return list(metrics), list(stages)


def mean_gain(asks: Iterable[Ask]) -> float | None:
    """What a label of these batches was expected to tell about the parameters, in nats, on average; None where nothing
    was believed when they were asked for.

    It is the score of a pick where a named method scores by that, which counts what earlier picks of the batch tell
    already; else the pick's epistemic uncertainty, each pick taken alone.

    >>> from natsel.store import Acquisition
    >>> picks = (Acquisition(1, 0.4, 0.5), Acquisition(2, 0.2, 0.5))
    >>> round(mean_gain([Ask(picks, "batchbald", 0, 9)]), 6), mean_gain([Ask(picks, "entropy", 0, 9)]), mean_gain([])
    (0.3, 0.5, None)
    """
    gains = [gain for ask in asks for gain in _gains(ask) if gain is not None]
    return sum(gains) / len(gains) if gains else None


def _gains(ask: Ask) -> list[float | None]:
    method = METHODS.get(ask.method)
    is_gain = method is not None and method.facts.about_parameters
    return [pick.score if is_gain else pick.epistemic for pick in ask.picks]
