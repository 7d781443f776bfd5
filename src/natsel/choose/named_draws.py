"""The named methods that read predictions: BALD and its kin, EPIG and JEPIG, uncertainty, chance."""

from natsel.choose.method import Method
from natsel.objectives import (
    EIG,
    EPIG,
    JEPIG,
    JPIG,
    PIG,
    Entropy,
    EPIGChi2,
    ExpectedEntropy,
    InformationGain,
    Margin,
    MeanStd,
    Random,
    StdDev,
    Surprise,
    TaughtJEPIG,
    Variance,
    VariationRatio,
)
from natsel.search import Exhaustive, Greedy, Power, Softmax, SoftRank, TopK

_BATCHBALD = "Kirsch, van Amersfoort & Gal 2019"
_JEPIG = "Kirsch et al. 2021, test distribution–aware active learning"
_PIG = "Mindermann et al. 2022; Kirsch 2024"
_EPIG = "Bickford Smith, Kirsch et al. 2023"
_STOCHASTIC = "Kirsch et al. 2023, stochastic batch acquisition"

DRAWS: tuple[Method, ...] = (
    Method(
        EIG(),
        TopK(),
        "bald",
        aliases=("eig", "expected-information-gain", "total-information-gain", "maxdiag"),
        source="Houlsby et al. 2011",
        note="picks copies of one informative point; for batches prefer batchbald or power-bald",
    ),
    Method(EIG(), Greedy(), "batchbald", aliases=("batch-bald", "maxdet"), source=_BATCHBALD),
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
    Method(JPIG(), TopK(), "jpig", aliases=("joint-predictive-information-gain",), source=_PIG),
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
)
