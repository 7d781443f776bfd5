"""The named methods of weight space: Fisher information of the last layer, gradients and their similarities.

Each is one of three quantities (EIG, EPIG, JEPIG) with a choice of labels, precision and search: docs/unification.md.
"""

from natsel.choose.method import Method
from natsel.objectives import (
    EGL,
    EIG,
    EL2N,
    EPIG,
    FLQMI,
    FLVMI,
    GCMI,
    JEPIG,
    EPIGJensen,
    FacilityLocation,
    GraNd,
    GraphCut,
    LogDet,
    LogDetCMI,
    LogDetMI,
    SetCover,
    SetCoverMI,
    TraceEIG,
    TraceEPIG,
    TraceJEPIG,
)
from natsel.search import KDPP, ForwardBackward, Greedy, KMeansPP, TopK

_BADGE = "Ash et al. 2020"
_BAIT = "Ash et al. 2021"
_SIMILAR = "Kothawade et al. 2021, 2022 (SIMILAR, PRISM)"
_SUBMODULAR = "Iyer et al. 2021"
_DIET = "Paul et al. 2021"

WEIGHTS: tuple[Method, ...] = (
    Method(LogDet(), KMeansPP(), "badge", source=_BADGE, note="k-means++ on gradients under the likeliest labels"),
    Method(LogDet(), KDPP(), "badge-dpp", source=_BADGE, note="its k-DPP, slower and no better in the paper"),
    Method(TraceEPIG(), ForwardBackward(), "bait", source=_BAIT, note="targets: the pool itself in the paper"),
    Method(
        EPIG(),
        ForwardBackward(),
        "fb-epig",
        source="Kirsch 2024",
        note="does dropping points help EPIG as it does BAIT?",
    ),
    Method(JEPIG(), ForwardBackward(), "fb-jepig", source="Kirsch 2024", note="BAIT's search for JEPIG"),
    Method(EIG(), ForwardBackward(), "bait-det", source=_BAIT, note="its ablation: without + I the targets drop out"),
    Method(
        TraceJEPIG(),
        Greedy(),
        "active-set-select",
        source="Chaudhuri et al. 2015",
        note="for a precision with hardly any prior",
    ),
    Method(TraceEIG(), TopK(), "trace-eig", source="Kirsch 2024", note="additive: picks copies"),
    Method(EPIGJensen(), TopK(), "epig-jensen", source="Kirsch 2024", note="about the average target"),
    Method(LogDet(), Greedy(), "logdet", source=_SIMILAR),
    Method(LogDetMI(), Greedy(), "logdet-mi", aliases=("logdetmi",), source=_SIMILAR),
    Method(LogDetCMI(), Greedy(), "logdet-cmi", aliases=("logdetcmi",), source=_SIMILAR),
    Method(FacilityLocation(cosine=True), Greedy(), "facility-location", source=_SUBMODULAR),
    Method(FLVMI(cosine=True), Greedy(), "flvmi", source=_SIMILAR),
    Method(FLQMI(cosine=True), Greedy(), "flqmi", source=_SIMILAR),
    Method(GraphCut(cosine=True), Greedy(), "graph-cut", source=_SUBMODULAR),
    Method(GCMI(cosine=True), TopK(), "gcmi", source=_SIMILAR),
    Method(SetCover(), Greedy(), "set-cover", source=_SUBMODULAR),
    Method(SetCoverMI(), Greedy(), "set-cover-mi", source=_SUBMODULAR),
    Method(
        EGL(), TopK(), "egl", aliases=("expected-gradient-length",), source="Settles et al. 2007; Huang et al. 2016"
    ),
    Method(GraNd(), TopK(), "grand", aliases=("gradient-norm",), source=_DIET),
    Method(EL2N(), TopK(), "el2n", source=_DIET),
)
