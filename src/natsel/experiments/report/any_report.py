"""The report of whatever can be reported on: a labelling campaign, or a folder of runs.

a learner, its journal, or the file of it    the page of one run (`campaign_page`)
a folder that natsel run made                the page of the experiment (`publish`)
"""

import re
from dataclasses import dataclass
from pathlib import Path

from natsel.containers import atomically
from natsel.experiments.report.campaign import Campaign, read_campaign
from natsel.experiments.report.campaign_page import campaign_page, sentence
from natsel.experiments.report.pictures_of_ids import PicturesOfIds
from natsel.learning import ActiveLearner
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
    source: ActiveLearner | Journal | str | Path,
    page: str | Path | None = None,
    *,
    run: str | None = None,
    pictures: str | Path | None = None,
) -> Path:
    """Write one HTML page about a labelling campaign or a folder of runs; where it was written is returned.

    `source` is a learner, its journal, the file of the journal, or a folder that `natsel run` made. Without `page` it
    is written beside the journal, or into the folder. `run` names one of several runs in a journal. `pictures` is a
    folder: ids that are names of image files below it are shown as pictures.

    >>> import tempfile
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from natsel import Pool
    >>> learner = ActiveLearner(RandomForestClassifier(5), Pool([[0.0], [1.0]], ids=["a", "b"]))
    >>> learner.tell(["a"], ["cat"], who="ann")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     "ann" in report(learner, f"{folder}/page.html").read_text(encoding="utf-8")
    True
    """
    if isinstance(source, str | Path) and not is_journal(source):
        for name, value in (("run", run), ("pictures", pictures)):
            if value is not None:
                raise ValueError(f"{name}: {source} is no journal of a learner; leave {name} out, or name the file")
        from natsel.experiments.results.publish import publish

        return publish(source, page).page
    return report_campaign(source, page, run=run, pictures=pictures).page


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
    content = campaign_page(campaign, folder)
    with atomically(place) as draft:
        draft.write_text(content, encoding="utf-8")
    return CampaignReport(place, campaign)


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
