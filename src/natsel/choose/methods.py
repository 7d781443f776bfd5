"""Methods: an objective, read from a belief, maximised by a search; and the table of those that have a name.

Which pairs are legal follows from what the objective's state offers on the belief and what the search needs. Any point
of the grid without a name is a `Method` value, and is accepted wherever a name is. The methods of weight space are EIG,
EPIG and JEPIG with a choice of labels, precision and search: docs/unification.md.
"""

import difflib
import re
from dataclasses import dataclass

from natsel.beliefs import Belief
from natsel.beliefs.base import kinds
from natsel.beliefs.geometry import Geometry
from natsel.capabilities import Capability, Search
from natsel.objectives import (
    EIG,
    EPIG,
    FLQMI,
    FLVMI,
    GCMI,
    JEPIG,
    JPIG,
    PIG,
    Argument,
    CounterfactualPropensity,
    Density,
    Distance,
    EffectInformation,
    EffectRatio,
    EffectVariance,
    Energy,
    Entropy,
    EPIGChi2,
    EPIGJensen,
    ExpectedEntropy,
    FacilityLocation,
    Facts,
    GraphCut,
    InformationGain,
    LogDet,
    LogDetCMI,
    LogDetEIG,
    LogDetMI,
    Loss,
    LossMinusEntropy,
    Margin,
    MaxLogit,
    MeanStd,
    NegativeIrreducibleLoss,
    Objective,
    OutcomeEffectRatio,
    OutcomeOverlap,
    OutcomeVariance,
    PoolSum,
    Random,
    Reach,
    SetCover,
    SetCoverMI,
    SignErrorInformation,
    StdDev,
    Surprise,
    TaughtJEPIG,
    TraceEIG,
    TraceEPIG,
    TraceJEPIG,
    UncertaintyHerding,
    Variance,
    VariationRatio,
    needs_everywhere,
    objective_called,
    routes,
    usable_routes,
)
from natsel.plugins import load_installed
from natsel.search import (
    KDPP,
    Exhaustive,
    FarthestFirst,
    ForwardBackward,
    FrankWolfe,
    Greedy,
    ImportanceSampling,
    KMeansPP,
    LargestCluster,
    Power,
    Softmax,
    SoftmaxDraws,
    SoftRank,
    TopK,
)


@dataclass(frozen=True)
class Method:
    """An objective and a search, with where the pair comes from.

    >>> from natsel.objectives import EIG
    >>> from natsel.search import Power
    >>> Method(objective=EIG(), search=Power(beta=8)).facts.quantity
    'I[Y;W|x]'
    """

    objective: Objective
    search: Search
    name: str = "unnamed"
    aliases: tuple[str, ...] = ()
    source: str = ""
    note: str = ""
    starts_from_labelled: bool = False
    """Whether a loop passes the points labelled so far as `given=`: picks are to be far from these too."""

    def __post_init__(self) -> None:
        if not isinstance(self.objective, Objective):
            raise ValueError(f"objective: {_instead(self.objective, 'natsel.EIG()')}")
        if isinstance(self.search, type) or not isinstance(getattr(self.search, "needs", None), Capability):
            raise ValueError(f"search: {_instead(self.search, 'natsel.TopK()')}")

    @property
    def facts(self) -> Facts:
        """What the objective is."""
        return self.objective.facts

    @property
    def needs(self) -> Argument:
        """What has to be passed besides the belief, on whatever belief it is.

        >>> METHODS["epig"].needs
        <Argument.TARGETS: 2>
        """
        return needs_everywhere(self.objective)

    @property
    def reads_geometry(self) -> bool:
        """Whether it is read from how alike a model treats points alone, as reach is."""
        return all(issubclass(kind, Geometry) for kind in self.beliefs)

    @property
    def beliefs(self) -> tuple[type[Belief], ...]:
        """The kinds of belief the method runs on, as they are or along their views, by name."""
        return tuple(sorted((kind for kind in kinds() if not missing(self, kind)), key=lambda kind: kind.__name__))


def missing(method: Method, belief: type[Belief], passed: Argument | None = None) -> Capability:
    """What the search needs and no state of the objective on this belief offers; `passed` says with what it is read."""
    wanted = method.search.needs
    found = (
        routes(type(method.objective), belief) if passed is None else usable_routes(method.objective, belief, passed)
    )
    return min((wanted & ~route.reading.offers for route in found), key=lambda flags: len(flags), default=wanted)


def _instead(found: object, example: str) -> str:
    kind = f"the class {found.__name__}" if isinstance(found, type) else repr(found)
    return f"expected a value such as {example}, found {kind}; {'call it' if isinstance(found, type) else 'pass one'}"


_BATCHBALD = "Kirsch, van Amersfoort & Gal 2019"
_JEPIG = "Kirsch et al. 2021, test distribution–aware active learning"
_PIG = "Mindermann et al. 2022; Kirsch 2024"
_EPIG = "Bickford Smith, Kirsch et al. 2023"
_STOCHASTIC = "Kirsch et al. 2023, stochastic batch acquisition"

_BADGE = "Ash et al. 2020"
_BAIT = "Ash et al. 2021"
_KERNELS = "Holzmüller et al. 2023; Kirsch 2023"
_SIMILAR = "Kothawade et al. 2021, 2022 (SIMILAR, PRISM)"
_SUBMODULAR = "Iyer et al. 2021"
_DIET = "Paul et al. 2021"
_DDU = "Mukhoti et al. 2023"
_CAUSAL = "Jesson et al. 2021"

_NAMED = (
    # of predictions: BALD and its kin, EPIG and JEPIG, uncertainty, chance
    Method(
        EIG(),
        TopK(),
        "bald",
        aliases=("eig", "expected-information-gain", "total-information-gain", "maxdiag"),
        source="Houlsby et al. 2011",
        note="picks copies of one informative point; for batches prefer batchbald or power-bald",
    ),
    Method(EIG(), Greedy(), "batchbald", aliases=("batch-bald", "maxdet"), source=_BATCHBALD),
    Method(
        LogDetEIG(),
        Greedy(),
        "logdet-bald",
        aliases=("gaussian-batchbald",),
        source="log-determinant of BatchBALD",
        note="for batches of hundreds from few draws, where batchbald has nothing left to tell points apart",
    ),
    Method(
        LogDetEIG(),
        KMeansPP(),
        "kmeans-bald",
        source="k-means++ on the kernel of logdet-bald",
        note="for batches of hundreds and thousands from few draws",
    ),
    Method(EIG(), Power(beta=8), "power-bald", source=_STOCHASTIC, note="beta = 8, the tuned value; 1 in the paper"),
    Method(EIG(), Softmax(beta=8), "softmax-bald", source=_STOCHASTIC, note="beta = 8; at 1 it is nearly uniform"),
    Method(EIG(), SoftRank(beta=1), "softrank-bald", source=_STOCHASTIC, note="beta = 1"),
    Method(EIG(), Exhaustive(), "best-bald", source="definition", note="tries every batch: tiny pools only"),
    Method(
        EPIG(),
        TopK(),
        "epig",
        aliases=("expected-predictive-information-gain", "mean-marginal-information-gain"),
        source=_EPIG,
        note="for one label at a time; in batches it picks copies",
    ),
    Method(EPIG(), Power(beta=8), "power-epig", source=_EPIG, note="beta = 8, as for BALD"),
    Method(EPIG(), Greedy(), "batch-epig", aliases=("batchepig",), source=_EPIG, note="no 1 − 1/e guarantee"),
    Method(EPIGChi2(), TopK(), "epig-chi2", source="second-order expansion", note="nearly EPIG, at BALD's price"),
    Method(
        JEPIG(),
        TopK(),
        "jepig",
        aliases=("joint-information-gain",),
        source="MacKay 1992; " + _JEPIG,
        note="with few draws and many targets it is BALD",
    ),
    Method(JEPIG(), Greedy(), "batch-jepig", aliases=("batchjepig",), source=_JEPIG),
    Method(
        TaughtJEPIG(),
        TopK(),
        "jepig-distil",
        source=_JEPIG,
        note="trains a student on the targets: for natsel.ActiveLearner with targets=",
    ),
    Method(TaughtJEPIG(), Greedy(), "batch-jepig-distil", source=_JEPIG, note="as jepig-distil, for batches"),
    Method(TaughtJEPIG("retrain", students=4), TopK(), "jepig-retrain", source=_JEPIG, note="four students"),
    Method(PIG(), TopK(), "pig", aliases=("predictive-information-gain",), source=_PIG),
    Method(
        JPIG(),
        TopK(),
        "jpig",
        aliases=("joint-predictive-information-gain", "rho-loss", "rho"),
        source=_PIG,
        note="RHO-LOSS where it is read from losses: the loss less the irreducible loss",
    ),
    Method(
        JPIG(),
        SoftmaxDraws(beta=4),
        "softmax-jpig",
        aliases=("softmax-rho-loss",),
        source=_PIG,
        note="with replacement; beta = 4 is the temperature 0.25 of stochastic RHO-LOSS",
    ),
    Method(Entropy(), TopK(), "entropy", aliases=("predictive-entropy",), source="Shannon 1948; Settles 2009"),
    Method(Entropy(), Power(beta=4), "power-entropy", source=_STOCHASTIC, note="beta = 4, the tuned value"),
    Method(Entropy(), Softmax(beta=4), "softmax-entropy", source=_STOCHASTIC, note="beta = 4"),
    Method(Entropy(), SoftRank(beta=1), "softrank-entropy", source=_STOCHASTIC, note="beta = 1"),
    Method(
        ExpectedEntropy(),
        TopK(),
        "aleatoric",
        aliases=("expected-entropy", "conditional-entropy"),
        source="definition",
        note="finds the noisiest points: a diagnostic, not a way to choose labels",
    ),
    Method(
        VariationRatio(),
        TopK(),
        "variation-ratios",
        aliases=("variation-ratio", "least-confidence", "var-ratios"),
        source="Freeman 1965; Gal et al. 2017",
    ),
    Method(VariationRatio(), Power(beta=4), "power-variation-ratios", source=_STOCHASTIC, note="beta = 4"),
    Method(Margin(), TopK(), "margin", aliases=("margin-sampling",), source="Scheffer et al. 2001"),
    Method(MeanStd(), TopK(), "mean-std", source="Kendall et al. 2015; Gal et al. 2017"),
    Method(StdDev(), TopK(), "std-dev", source="Kendall et al. 2015"),
    Method(StdDev(), Power(beta=4), "power-std-dev", source=_STOCHASTIC, note="beta = 4"),
    Method(Variance(), TopK(), "variance", source="Cohn et al. 1996"),
    Method(Random(), TopK(), "random", aliases=("uniform",), source="the baseline"),
    Method(InformationGain(), TopK(), "ig", aliases=("information-gain",), source="Lindley 1956"),
    Method(Surprise(), TopK(), "surprise", aliases=("bayesian-surprise",), source="Itti & Baldi 2005"),
    # of one deterministic network: densities of its features, and its logits
    Method(
        Density(),
        TopK(),
        "density",
        aliases=("ddu", "feature-density"),
        source=_DDU,
        note="labels what is unfamiliar; where the pool holds junk it labels that",
    ),
    Method(Density(), SoftRank(beta=1), "softrank-density", source=_STOCHASTIC, note="density in batches; beta = 1"),
    Method(Energy(), TopK(), "energy", source="Liu et al. 2020"),
    Method(MaxLogit(), TopK(), "max-logit", source="Hendrycks et al. 2022"),
    # of both potential outcomes: the effect of a treatment
    Method(
        OutcomeEffectRatio(),
        TopK(),
        "mu-rho-bald",
        aliases=("causal-bald",),
        source=_CAUSAL,
        note="unsure of the outcome, and where a label tells about the effect",
    ),
    Method(
        OutcomeEffectRatio(), Softmax(beta=4), "softmax-mu-rho-bald", source=_CAUSAL, note="beta = 4: temperature 0.25"
    ),
    Method(OutcomeVariance(), TopK(), "mu-bald", source=_CAUSAL, note="ignores the arm that was not received"),
    Method(OutcomeVariance(), Softmax(beta=4), "softmax-mu-bald", source=_CAUSAL, note="beta = 4: temperature 0.25"),
    Method(
        EffectVariance(), TopK(), "tau-bald", source=_CAUSAL, note="goes where treated and untreated do not overlap"
    ),
    Method(EffectRatio(), TopK(), "rho-bald", source=_CAUSAL, note="blind to how much is uncertain: use mu-rho-bald"),
    Method(EffectRatio(), Softmax(beta=8), "softmax-rho-bald", source=_CAUSAL, note="beta = 8: temperature 0.25"),
    Method(OutcomeOverlap(), TopK(), "mu-pi-bald", source=_CAUSAL, note="needs propensities"),
    Method(CounterfactualPropensity(), TopK(), "propensity", source=_CAUSAL, note="needs propensities"),
    Method(
        EffectInformation(),
        TopK(),
        "rho-exact",
        aliases=("effect-information",),
        source="Jesson et al. 2021, with noise and covariance",
    ),
    Method(SignErrorInformation(), TopK(), "sign-error", aliases=("gamma",), source="Sundin et al. 2019"),
    # of weight space: Fisher information of the last layer, gradients and their similarities
    Method(
        Distance(),
        KMeansPP(),
        "badge",
        aliases=("kmeanspp",),
        source=_BADGE,
        note="k-means++ on gradients under the likeliest labels",
    ),
    Method(
        Distance(),
        FarthestFirst(),
        "core-set",
        aliases=("coreset", "maxdist", "farthest-first"),
        source="Sener & Savarese 2018",
        note="farthest from what is labelled; follows outliers",
        starts_from_labelled=True,
    ),
    Method(
        Distance(),
        LargestCluster(),
        "lcmd",
        source=_KERNELS,
        note="the farthest point of the largest cluster: for large batches of regression",
        starts_from_labelled=True,
    ),
    Method(
        PoolSum(),
        FrankWolfe(),
        "acs-fw",
        aliases=("frank-wolfe",),
        source="Pinsler et al. 2019",
        note="a weighted subset that stands for the pool",
    ),
    Method(
        LogDet(),
        KDPP(),
        "badge-dpp",
        source=_BADGE,
        note="its k-DPP: exact, for pools of up to 2,000; no better in the paper",
    ),
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
    # of the geometry of a model: which points it treats alike, and how unsure it is of each
    Method(
        Reach(),
        Greedy(),
        "reach",
        source="Cohn et al. 1996, in the geometry of the model",
        note="labels that stand for the most unsure points which no label reaches",
        starts_from_labelled=True,
    ),
    Method(UncertaintyHerding(), Greedy(), "uherding", source="Bae et al. 2025", starts_from_labelled=True),
    Method(
        objective_called("EGL")(),
        TopK(),
        "egl",
        aliases=("expected-gradient-length",),
        source="Settles et al. 2007; Huang et al. 2016",
    ),
    Method(objective_called("GraNd")(), TopK(), "grand", aliases=("gradient-norm",), source=_DIET),
    Method(objective_called("EL2N")(), TopK(), "el2n", aliases=("grad-norm",), source=_DIET),
    # of known labels: which examples to train on
    Method(
        Loss(),
        TopK(),
        "loss",
        aliases=("training-loss",),
        source="Loshchilov & Hutter 2016",
        note="takes wrong labels first",
    ),
    Method(
        NegativeIrreducibleLoss(),
        TopK(),
        "negative-irreducible-loss",
        aliases=("negative-il",),
        source=_PIG,
        note="takes what is learnt already, again and again",
    ),
    Method(LossMinusEntropy(), TopK(), "loss-minus-entropy", aliases=("loss-minus-conditional-entropy",), source=_PIG),
    Method(
        objective_called("EL2N")(),
        ImportanceSampling(),
        "gradient-norm-importance",
        aliases=("grad-norm-is",),
        source="Katharopoulos & Fleuret 2018",
        note="with replacement, and with weights that keep the mean gradient",
    ),
)

METHODS: dict[str, Method] = {}

_ALIASES: dict[str, str] = {}


def register(method: Method) -> Method:
    """Give a method its name, everywhere names are accepted: `select`, learners, recipes and the command line.

    >>> from natsel.objectives import EIG
    >>> from natsel.search import Power
    >>> register(Method(EIG(), Power(beta=2), "my-power-bald", source="an example")).name
    'my-power-bald'
    >>> unregister("my-power-bald")
    """
    if not isinstance(method, Method):
        raise ValueError(f"method: expected a natsel.Method, found {type(method).__name__}; make one first")
    for name in (method.name, *method.aliases):
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) or name == "unnamed":
            raise ValueError(f"name: found {name!r}; names are lower-case words and numbers with dashes between")
        taken = METHODS.get(_ALIASES.get(name, name))
        if taken is not None:
            raise ValueError(f"name: {name!r} is the method {taken.name!r} already; choose another name")
    if not method.beliefs:
        raise ValueError(
            f"method: {method.name} runs on no belief; enter a reading of {type(method.objective).__name__}"
            f" (natsel.objectives.serves) that offers {method.search.needs.words}"
        )
    METHODS[method.name] = method
    _ALIASES.update(dict.fromkeys(method.aliases, method.name))
    return method


def unregister(name: str) -> None:
    """Take a name away again.

    >>> unregister("no-such-method")
    Traceback (most recent call last):
    ValueError: method: no method is called 'no-such-method'; natsel.methods() lists the names
    """
    method = resolve(name)
    del METHODS[method.name]
    for alias in method.aliases:
        del _ALIASES[alias]


for _method in _NAMED:
    register(_method)


def methods() -> dict[str, Method]:
    """The grid: every named method with its objective, search, facts and source, those of plug-ins too.

    >>> methods()["batchbald"].facts.quantity
    'I[Y;W|x]'
    """
    load_installed()
    return dict(METHODS)


def resolve(method: str | Method) -> Method:
    """The method behind a name or alias; a `Method` passes through.

    >>> resolve("EIG").name
    'bald'
    """
    if isinstance(method, Method):
        return method
    if not isinstance(method, str):
        raise ValueError(f"method: expected a name or a natsel.Method, found {type(method).__name__}")
    name = method.strip().lower().replace("_", "-").replace(" ", "-")
    if _ALIASES.get(name, name) not in METHODS:
        load_installed()
    name = _ALIASES.get(name, name)
    if name in METHODS:
        return METHODS[name]
    close = difflib.get_close_matches(name, [*METHODS, *_ALIASES], n=1)
    hint = f"did you mean {close[0]!r}?" if close else "natsel.methods() lists the names"
    raise ValueError(f"method: no method is called {method!r}; {hint}")
