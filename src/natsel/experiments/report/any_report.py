"""The report of whatever can be reported on: a labelling campaign, a folder of runs, a triage, an evaluation,
a pruning.

a learner, its journal, or the file of it    the page of one run (`campaign_page`)
a folder that natsel run made                the page of the experiment (`publish`)
what natsel.triage found                     the page of the triage (`triage_page`)
what natsel.evaluate_uncertainty found       the page of the evaluation (`uncertainty_page`)
what natsel.prune found                      the page of the pruning (`pruning_page`)
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from natsel.beliefs.arrays import ArrayLike, Labels
from natsel.choose import Triage, UncertaintyEvaluation
from natsel.containers import write_text
from natsel.experiments.report.campaign import Campaign, read_campaign
from natsel.experiments.report.campaign_page import campaign_page, sentence
from natsel.experiments.report.pictures_in_array import PicturesInArray
from natsel.experiments.report.pictures_of_ids import PicturesOfIds
from natsel.experiments.report.pruning_page import pruning_page
from natsel.experiments.report.triage_page import triage_page
from natsel.experiments.report.uncertainty_page import uncertainty_page
from natsel.learning import ActiveLearner
from natsel.sampling import Pruning
from natsel.store import Journal

_SQLITE = b"SQLite format 3\x00"


@dataclass(frozen=True)
class CampaignReport:
    """A page that was written, and what it is about."""

    page: Path
    campaign: Campaign

    @property
    def sentence(self) -> str:
        """Where the campaign stands."""
        return sentence(self.campaign)


def report(
    source: ActiveLearner | Journal | Triage | UncertaintyEvaluation | Pruning | str | Path,
    page: str | Path | None = None,
    *,
    run: str | None = None,
    pictures: str | Path | ArrayLike | None = None,
    labels: Labels | None = None,
) -> Path:
    """Write one HTML page about a labelling campaign or a folder of runs; where it was written is returned.

    `source` is a learner, its journal, the file of the journal, or a folder that `natsel run` made. Without `page` it
    is written beside the journal, or into the folder. `run` names one of several runs in a journal. `pictures` is a
    folder: ids that are names of image files below it are shown as pictures. What `natsel.triage`,
    `natsel.evaluate_uncertainty` and `natsel.prune` found has a page too; `labels` of a triage add its costs and
    curves, and its `pictures` may be an array of images in the order of the points.

    >>> import tempfile
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from natsel import Pool
    >>> learner = ActiveLearner(RandomForestClassifier(5), Pool([[0.0], [1.0]], ids=["a", "b"]))
    >>> learner.tell(["a"], ["cat"], who="ann")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     "ann" in report(learner, f"{folder}/page.html").read_text(encoding="utf-8")
    True
    """
    if labels is not None and not isinstance(source, Triage):
        raise ValueError("labels: they are for the page of a triage; leave them out")
    if isinstance(source, Triage | UncertaintyEvaluation | Pruning):
        if page is None:
            raise ValueError("page: what was found has no folder of its own; pass a path")
        if not isinstance(source, Triage):
            if pictures is not None:
                raise ValueError("pictures: this page shows what its data hold and no others; leave them out")
            return write_text(page, pruning_page(source) if isinstance(source, Pruning) else uncertainty_page(source))
        return write_text(page, triage_page(source, labels, _pictures_of(source, pictures)))
    if pictures is not None and not isinstance(pictures, str | Path):
        found = type(pictures).__name__
        raise ValueError(f"pictures: expected a folder of images that ids name, found {found}; name the folder")
    if isinstance(source, str | Path) and not is_journal(source):
        for name, value in (("run", run), ("pictures", pictures)):
            if value is not None:
                raise ValueError(f"{name}: {source} is no journal of a learner; leave {name} out, or name the file")
        from natsel.experiments.results.publish import publish

        return publish(source, page).page
    return report_campaign(source, page, run=run, pictures=pictures).page


def _pictures_of(found: Triage, pictures: str | Path | ArrayLike | None) -> PicturesOfIds | PicturesInArray | None:
    if pictures is None or isinstance(pictures, str | Path):
        return None if pictures is None else PicturesOfIds(pictures)
    return PicturesInArray(np.asarray(pictures), found.ids)


def report_campaign(
    source: ActiveLearner | Journal | str | Path,
    page: str | Path | None = None,
    *,
    run: str | None = None,
    pictures: str | Path | None = None,
) -> CampaignReport:
    """The page of one run of a journal; see `report`."""
    folder = None if pictures is None else PicturesOfIds(pictures)
    if isinstance(source, ActiveLearner):
        campaign = read_campaign(source.journal, source.run_name if run is None else run)
    elif isinstance(source, Journal):
        campaign = read_campaign(source, run)
    else:
        with Journal(source, create=False) as journal:
            campaign = read_campaign(journal, run)
    if folder is not None and not any(folder.file_of(id) for ask in campaign.asks for id in ask.ids):
        raise ValueError(f"pictures: no id that was asked for names an image below {pictures}; leave it out")
    place = _beside(campaign.journal, run) if page is None else Path(page)
    return CampaignReport(write_text(place, campaign_page(campaign, folder)), campaign)


def is_journal(path: str | Path) -> bool:
    """Whether a path is a file of SQLite, in which journals are kept.

    >>> is_journal("none.db")
    False
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _beside(journal: str, run: str | None) -> Path:
    """Where the page of a journal goes: beside it, by its name and by that of the run where one was named."""
    if journal == ":memory:":
        raise ValueError("page: the journal is in memory, so the page has no place of its own; pass a path")
    path = Path(journal)
    of_run = "" if run is None else "-" + re.sub(r"[^\w.-]+", "-", run)
    return path.with_name(f"{path.stem}{of_run}.html")
