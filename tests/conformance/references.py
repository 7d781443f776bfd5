"""The quantities that objectives declare, worked out a second time in NumPy: by enumeration, quadrature or closed form.

An objective is checked against the reference of its `quantity` on each belief it is read from; where there is none the
check fails, and the reference belongs here. The suite reads them where conftest.py in the root has entered them.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
from scipy.special import entr, loggamma, logsumexp
from scipy.stats import norm

from natsel.beliefs import (
    CategoricalSamples,
    ClassProbabilities,
    DirichletMembers,
    ExampleLosses,
    FeatureDensity,
    GaussianFeatures,
    GaussianPotentialOutcomes,
    GaussianSamples,
    IndependentSamples,
    PotentialOutcomes,
    YesOrNoOutcomes,
)
from natsel.beliefs.two_models import TwoModels
from natsel.conformance import REFERENCES, SET_REFERENCES, reference
from natsel.conformance.grid import Pool


def entropy(p: np.ndarray) -> np.ndarray:
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(-1)


def normal(variance: np.ndarray) -> np.ndarray:
    return 0.5 * np.log(2 * np.pi * np.e * variance)


def probs(pool: Pool) -> np.ndarray:
    return np.exp(pool.arrays["log_probs_N_K_C"])


def mean(pool: Pool) -> np.ndarray:
    if pool.kind is ClassProbabilities:
        return np.exp(pool.arrays["log_probs_N_C"])
    if pool.kind in (FeatureDensity, ExampleLosses):
        logits_N_C = pool.arrays["logits_N_C"]
        return np.exp(logits_N_C - logsumexp(logits_N_C, axis=1, keepdims=True))
    return np.einsum("k,nkc->nc", pool.weights_K, probs(pool))


def spread(pool: Pool) -> np.ndarray:
    return np.einsum("k,nkc->nc", pool.weights_K, (probs(pool) - mean(pool)[:, None]) ** 2)


def posterior(pool: Pool) -> np.ndarray:
    joint_N_K = probs(pool)[np.arange(len(pool)), :, pool.labels_N] * pool.weights_K
    return joint_N_K / joint_N_K.sum(1, keepdims=True)


def variance(pool: Pool) -> np.ndarray:
    return (pool.arrays["features_N_D"] ** 2).sum(1)


@reference("H[Y|x]", ClassProbabilities)
@reference("H[Y|x]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return entropy(mean(pool))


@reference("-log q(z)", FeatureDensity)
def _(pool: Pool) -> np.ndarray:
    return -pool.arrays["log_density_N"]


@reference("-log sum_y exp z_y", FeatureDensity)
def _(pool: Pool) -> np.ndarray:
    return -logsumexp(pool.arrays["logits_N_C"], axis=1)


@reference("-max z_y", FeatureDensity)
def _(pool: Pool) -> np.ndarray:
    return -pool.arrays["logits_N_C"].max(1)


@reference("H[y|x]", ExampleLosses)
def _(pool: Pool) -> np.ndarray:
    return pool.arrays["loss_N"]


@reference("H[y|x]", ClassProbabilities)
def _(pool: Pool) -> np.ndarray:
    return -pool.arrays["log_probs_N_C"][np.arange(len(pool)), pool.labels_N]


@reference("H[y|x] - H[Y|x,W]", IndependentSamples)
@reference("H[y|x] - H[Y|x,W]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return -np.log(mean(pool)[np.arange(len(pool)), pool.labels_N]) - entropy(probs(pool)) @ pool.weights_K


@reference("ln p(y|x) of a held-out model", ExampleLosses)
def _(pool: Pool) -> np.ndarray:
    return -pool.arrays["irreducible_loss_N"]


@reference("I[y*…;y|x*…,x]", ExampleLosses)
def _(pool: Pool) -> np.ndarray:
    return pool.arrays["loss_N"] - pool.arrays["irreducible_loss_N"]


@reference("H[Y|x,W]", FeatureDensity)
def _(pool: Pool) -> np.ndarray:
    return entropy(mean(pool))


@reference("H[Y|x,W]", IndependentSamples)
@reference("H[Y|x,W]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return entropy(probs(pool)) @ pool.weights_K


@reference("I[Y;W|x]", IndependentSamples)
@reference("I[Y;W|x]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return entropy(mean(pool)) - entropy(probs(pool)) @ pool.weights_K


@reference("H[Y|x,W]", DirichletMembers)
def members_entropy(pool: Pool) -> np.ndarray:
    """−Σ_c E[p_c] d/ds ln E[p_c^s] at s = 1, by a complex step, with E[p^s] = Γ(α+s) Γ(a0) / (Γ(α) Γ(a0+s))."""
    mean_N_C, total_N_1 = np.exp(pool.arrays["log_mean_N_C"]), pool.arrays["concentration_N"][:, None]
    step = 1e-20
    raised_N_C = loggamma(mean_N_C * total_N_1 + 1 + 1j * step) - loggamma(total_N_1 + 1 + 1j * step)
    return -(mean_N_C * raised_N_C.imag).sum(1) / step


@reference("I[Y;W|x]", DirichletMembers)
def _(pool: Pool) -> np.ndarray:
    return entropy(np.exp(pool.arrays["log_mean_N_C"])) - members_entropy(pool)


@reference("1 - max p(y|x)", ClassProbabilities)
@reference("1 - max p(y|x)", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return 1 - mean(pool).max(1)


@reference("1 - (p1 - p2)", ClassProbabilities)
@reference("1 - (p1 - p2)", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    ranked_N_C = np.sort(mean(pool), axis=1)
    return 1 - (ranked_N_C[:, -1] - ranked_N_C[:, -2])


@reference("sum_y sd p(y|x,W)", IndependentSamples)
@reference("sum_y sd p(y|x,W)", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return np.sqrt(spread(pool)).sum(1)


@reference("mean_y sd p(y|x,W)", IndependentSamples)
@reference("mean_y sd p(y|x,W)", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return np.sqrt(spread(pool)).mean(1)


@reference("Var E[Y|x,W]", IndependentSamples)
@reference("Var E[Y|x,W]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return spread(pool).sum(1)


@reference("I[W;y|x]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return entropy(pool.weights_K) - entropy(posterior(pool))


@reference("I[y;W|x]", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    after_N_K = posterior(pool)
    ratio_N_K = np.where(after_N_K > 0, after_N_K / pool.weights_K, 1.0)
    return (after_N_K * np.log(ratio_N_K)).sum(1)


def mixture_entropy(pool: Pool, points: tuple[int, ...], cells: int) -> float:
    """H[Y_points] of draws of independent normals, by quadrature on a grid of `cells` a point."""
    log_joint_K = np.log(pool.weights_K)
    log_density, volume = 0.0, 1.0
    for place, point in enumerate(points):
        mean_K, sd_K = pool.arrays["mean_N_K"][point], np.sqrt(pool.arrays["variance_N_K"][point])
        grid, step = np.linspace((mean_K - 9 * sd_K).min(), (mean_K + 9 * sd_K).max(), cells, retstep=True)
        log_normal = -0.5 * ((grid[:, None] - mean_K) / sd_K) ** 2 - np.log(sd_K * np.sqrt(2 * np.pi))
        shape = [1] * len(points) + [len(mean_K)]
        shape[place] = cells
        log_density = log_density + log_normal.reshape(shape)
        volume *= step
    top = (log_density + log_joint_K).max(-1, keepdims=True)
    log_density = np.log(np.exp(log_density + log_joint_K - top).sum(-1)) + top[..., 0]
    return float(-(np.exp(log_density) * log_density).sum() * volume)


@reference("H[Y|x]", GaussianSamples, exact=False)
def mixture_entropies(pool: Pool) -> np.ndarray:
    return np.array([mixture_entropy(pool, (point,), 20_000) for point in range(len(pool))])


@reference("H[Y|x,W]", GaussianSamples)
def mixture_noise(pool: Pool) -> np.ndarray:
    return normal(pool.arrays["variance_N_K"]) @ pool.weights_K


@reference("I[Y;W|x]", GaussianSamples, exact=False)
def _(pool: Pool) -> np.ndarray:
    return mixture_entropies(pool) - mixture_noise(pool)


@reference("Var E[Y|x,W]", GaussianSamples)
def _(pool: Pool) -> np.ndarray:
    mean_N_K = pool.arrays["mean_N_K"]
    return (mean_N_K - (mean_N_K @ pool.weights_K)[:, None]) ** 2 @ pool.weights_K


@reference("H[Y|x]", GaussianFeatures)
def _(pool: Pool) -> np.ndarray:
    return normal(variance(pool) + pool.arrays["noise"])


@reference("H[Y|x,W]", GaussianFeatures)
def _(pool: Pool) -> np.ndarray:
    return normal(pool.arrays["noise"])


@reference("I[Y;W|x]", GaussianFeatures)
def _(pool: Pool) -> np.ndarray:
    return 0.5 * np.log1p(variance(pool) / pool.arrays["noise"])


@reference("Var E[Y|x,W]", GaussianFeatures)
def _(pool: Pool) -> np.ndarray:
    return variance(pool)


@reference("I[Y;W|x]", CategoricalSamples, table=SET_REFERENCES)
def _(pool: Pool) -> float:
    """By enumeration of every label configuration of all points of the pool."""
    probs_N_K_C = probs(pool)
    chances = [
        pool.weights_K @ probs_N_K_C[np.arange(len(pool)), :, labels].prod(0)
        for labels in product(range(probs_N_K_C.shape[2]), repeat=len(pool))
    ]
    return float(entropy(np.array(chances)) - (entropy(probs_N_K_C) @ pool.weights_K).sum())


_BY_LOGDET = "I[Y;W|x], batches by log-determinant"


@reference(_BY_LOGDET, CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    return REFERENCES["I[Y;W|x]", CategoricalSamples][0](pool)


@reference(_BY_LOGDET, CategoricalSamples, table=SET_REFERENCES)
def _(pool: Pool) -> float:
    """Rows written out, each point scaled by bisection until it is worth its BALD."""
    probs_N_K_C, mean_N_C = probs(pool), mean(pool)
    information_K_K = np.eye(len(pool.weights_K))
    for probs_K_C, mean_C, worth in zip(
        probs_N_K_C, mean_N_C, REFERENCES[_BY_LOGDET, CategoricalSamples][0](pool), strict=True
    ):
        possible = mean_C > 0
        rows_K_C = (probs_K_C - mean_C)[:, possible] / np.sqrt(mean_C[possible]) * np.sqrt(pool.weights_K)[:, None]
        values_K = np.clip(np.linalg.eigvalsh(rows_K_C @ rows_K_C.T), 0, None)
        low, high = 0.0, 1e9
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if 0.5 * np.log1p(middle * values_K).sum() > worth else (middle, high)
        information_K_K += low * rows_K_C @ rows_K_C.T if values_K.max() > 1e-20 else 0.0
    return 0.5 * float(np.linalg.slogdet(information_K_K)[1])


@reference("I[Y;W|x]", GaussianFeatures, table=SET_REFERENCES)
def _(pool: Pool) -> float:
    scaled_N_D = pool.arrays["features_N_D"] / np.sqrt(pool.arrays["noise"])[:, None]
    return 0.5 * float(np.linalg.slogdet(np.eye(len(pool)) + scaled_N_D @ scaled_N_D.T)[1])


@reference("I[Y;W|x]", GaussianSamples, exact=False, table=SET_REFERENCES)
def _(pool: Pool) -> float:
    return mixture_entropy(pool, tuple(range(len(pool))), 20_000 if len(pool) < 2 else 400) - mixture_noise(pool).sum()


# What is learned about targets: the quantity of a set, and of each point as a set of one.


def about(quantity: str, kind: type) -> Callable:
    """Enter a reference for sets, and with it that for points."""

    def enter(work: Callable[[Pool], float]) -> Callable:
        SET_REFERENCES[quantity, kind] = (work, True)
        REFERENCES[quantity, kind] = (lambda pool: np.array([work(pool.take([n])) for n in range(len(pool))]), True)
        return work

    return enter


def labellings(pool: Pool) -> np.ndarray:
    """p(y_1..y_n|ω) of every labelling of all points: [C^n, K]."""
    likelihood_R_K = np.ones((1, pool.length("K")))
    for probs_K_C in probs(pool):
        likelihood_R_K = (likelihood_R_K[:, None] * probs_K_C.T).reshape(-1, likelihood_R_K.shape[1])
    return likelihood_R_K


def information(joint_A_B: np.ndarray) -> float:
    return float(entropy(joint_A_B.sum(0)) + entropy(joint_A_B.sum(1)) - entropy(joint_A_B.ravel()))


@about("I[Y;Y*|x,x*]", CategoricalSamples)
def _(pool: Pool) -> float:
    weighted_R_K = labellings(pool) * pool.weights_K
    return float(np.mean([information(weighted_R_K @ probs_K_C) for probs_K_C in probs(pool.about)]))


@about("I[Y;Y*…|x,x*…]", CategoricalSamples)
def _(pool: Pool) -> float:
    return information(labellings(pool) * pool.weights_K @ labellings(pool.about).T)


@reference("χ²(Y,Y*|x,x*)/2", CategoricalSamples)
def _(pool: Pool) -> np.ndarray:
    joint_N_C_M_D = np.einsum("nkc,mkd,k->ncmd", probs(pool), probs(pool.about), pool.weights_K)
    apart_N_C_M_D = joint_N_C_M_D.sum((3,), keepdims=True) * joint_N_C_M_D.sum((1,), keepdims=True)
    off_N_C_M_D = (joint_N_C_M_D - apart_N_C_M_D) ** 2 / np.where(apart_N_C_M_D > 0, apart_N_C_M_D, 1.0)
    return 0.5 * off_N_C_M_D.sum((1, 3)).mean(1)


def covariance(pool: Pool) -> np.ndarray:
    """Of all points and then all targets, noise included; draws by their moments."""
    if pool.kind is GaussianFeatures:
        features = np.concatenate([pool.arrays["features_N_D"], pool.about.arrays["features_N_D"]])
        noise = np.concatenate([pool.arrays["noise"], pool.about.arrays["noise"]])
    else:
        mean = np.concatenate([pool.arrays["mean_N_K"], pool.about.arrays["mean_N_K"]])
        variance = np.concatenate([pool.arrays["variance_N_K"], pool.about.arrays["variance_N_K"]])
        features = (mean - (mean @ pool.weights_K)[:, None]) * np.sqrt(pool.weights_K)
        noise = variance @ pool.weights_K
    return features @ features.T + np.diag(noise)


def gaussian_information(covariance: np.ndarray, a: list[int], b: list[int]) -> float:
    dets = [np.linalg.slogdet(covariance[np.ix_(part, part)])[1] for part in (a, b, [*a, *b])]
    return float(0.5 * (dets[0] + dets[1] - dets[2]))


def gaussian_epig(pool: Pool) -> float:
    joint, mine = covariance(pool), list(range(len(pool)))
    return float(np.mean([gaussian_information(joint, mine, [j]) for j in range(len(pool), len(joint))]))


def gaussian_jepig(pool: Pool) -> float:
    joint = covariance(pool)
    return gaussian_information(joint, list(range(len(pool))), list(range(len(pool), len(joint))))


for gaussian in (GaussianFeatures, GaussianSamples):
    about("I[Y;Y*|x,x*]", gaussian)(gaussian_epig)
    about("I[Y;Y*…|x,x*…]", gaussian)(gaussian_jepig)


def log_likelihoods(pool: Pool) -> np.ndarray:
    """ln p(y_n|x_n,ω_k) of the known labels: [N, K]."""
    if pool.kind is CategoricalSamples:
        return pool.arrays["log_probs_N_K_C"][np.arange(len(pool)), :, pool.labels_N]
    mean_N_K, variance_N_K = pool.arrays["mean_N_K"], pool.arrays["variance_N_K"]
    return -0.5 * ((pool.labels_N[:, None] - mean_N_K) ** 2 / variance_N_K + np.log(2 * np.pi * variance_N_K))


def log_chance(pool: Pool, *log_likelihoods_N_K: np.ndarray) -> float:
    return float(logsumexp(sum(each.sum(0) for each in log_likelihoods_N_K), b=pool.weights_K))


def known_alone(pool: Pool) -> float:
    mine, theirs = log_likelihoods(pool), log_likelihoods(pool.about)
    alone = [log_chance(pool, mine, one[None]) - log_chance(pool, one[None]) for one in theirs]
    return float(np.mean(alone)) - log_chance(pool, mine)


def known_together(pool: Pool) -> float:
    mine, theirs = log_likelihoods(pool), log_likelihoods(pool.about)
    return log_chance(pool, mine, theirs) - log_chance(pool, theirs) - log_chance(pool, mine)


for kind in (CategoricalSamples, GaussianSamples):
    about("I[y*;y|x*,x]", kind)(known_alone)
    about("I[y*…;y|x*…,x]", kind)(known_together)


def gaussian_known(pool: Pool, targets: list[int]) -> float:
    """ln p(y, y*) − ln p(y) − ln p(y*) of normals with mean 0."""
    joint, labels = covariance(pool), np.concatenate([pool.labels_N, pool.about.labels_N])
    theirs, mine = [len(pool) + target for target in targets], list(range(len(pool)))

    def log_density(part: list[int]) -> float:
        own = joint[np.ix_(part, part)]
        return -0.5 * float(labels[part] @ np.linalg.solve(own, labels[part]) + np.linalg.slogdet(2 * np.pi * own)[1])

    return log_density([*mine, *theirs]) - log_density(mine) - log_density(theirs)


@about("I[y*;y|x*,x]", GaussianFeatures)
def _(pool: Pool) -> float:
    return float(np.mean([gaussian_known(pool, [target]) for target in range(len(pool.about))]))


@about("I[y*…;y|x*…,x]", GaussianFeatures)
def _(pool: Pool) -> float:
    return gaussian_known(pool, list(range(len(pool.about))))


def taught(pool: Pool) -> tuple[Pool, list[Pool]]:
    """The model and its students as pools of categorical draws."""
    arrays = dict(pool.arrays)
    students_N_S_L_C = arrays.pop("students_N_S_L_C")
    students = [Pool(CategoricalSamples, {"log_probs_N_K_C": students_N_S_L_C[:, s]}, pool.labels_N) for s in (0, 1)]
    return Pool(CategoricalSamples, arrays, pool.labels_N), students


@reference("I[Y;W|x] − I[Y;W'|x]", TwoModels)
def _(pool: Pool) -> np.ndarray:
    model, students = taught(pool)
    work, _ = REFERENCES["I[Y;W|x]", CategoricalSamples]
    return work(model) - np.mean([work(student) for student in students], axis=0)


@reference("I[Y;W|x] − I[Y;W'|x]", TwoModels, table=SET_REFERENCES)
def _(pool: Pool) -> float:
    model, students = taught(pool)
    work, _ = SET_REFERENCES["I[Y;W|x]", CategoricalSamples]
    return work(model) - float(np.mean([work(student) for student in students]))


def arms(pool: Pool) -> tuple[np.ndarray, ...]:
    """Variances of the received arm, the other one and the effect; covariance of the received arm with the effect."""
    if pool.kind is GaussianPotentialOutcomes:
        rows = np.stack([pool.arrays["features0_N_D"], pool.arrays["features1_N_D"]], 1)
        cov_N_2_2 = np.einsum("nad,nbd->nab", rows, rows)
    else:
        rows = np.stack([pool.arrays["mean0_N_K"], pool.arrays["mean1_N_K"]], 1)
        rows = rows - (rows @ pool.weights_K)[:, :, None]
        cov_N_2_2 = np.einsum("k,nak,nbk->nab", pool.weights_K, rows, rows)
    own, at = pool.arrays["treatment_N"].astype(int), np.arange(len(pool))
    received_N, other_N = cov_N_2_2[at, own, own], cov_N_2_2[at, 1 - own, 1 - own]
    effect_N = cov_N_2_2[:, 0, 0] + cov_N_2_2[:, 1, 1] - 2 * cov_N_2_2[:, 0, 1]
    return received_N, other_N, effect_N, received_N - cov_N_2_2[:, 0, 1]


def other_treatment(pool: Pool) -> np.ndarray:
    return np.where(pool.arrays["treatment_N"] == 1, 1 - pool.arrays["propensity_N"], pool.arrays["propensity_N"])


_LEAST = 1e-7
_ARM_SCORES: dict[str, Callable[[Pool], np.ndarray]] = {
    "ln Var mu_t": lambda pool: np.log(arms(pool)[0] + _LEAST),
    "ln Var tau": lambda pool: np.log(arms(pool)[2] + _LEAST),
    "½ ln Var tau / Var mu_t'": lambda pool: 0.5 * np.log((arms(pool)[2] + _LEAST) / (arms(pool)[1] + _LEAST)),
    "ln Var mu_t Var tau / Var mu_t'": lambda pool: np.log(
        (arms(pool)[0] + _LEAST) * (arms(pool)[2] + _LEAST) / (arms(pool)[1] + _LEAST)
    ),
    "ln Var mu_t P(T=t'|x)": lambda pool: np.log((arms(pool)[0] + _LEAST) * (other_treatment(pool) + _LEAST)),
    "ln P(T=t'|x)": lambda pool: np.log(other_treatment(pool) + _LEAST),
}
for _quantity, _score in _ARM_SCORES.items():
    for _kind in (PotentialOutcomes, YesOrNoOutcomes, GaussianPotentialOutcomes):
        reference(_quantity, _kind)(_score)


@reference("I[Y_t;tau|x]", GaussianPotentialOutcomes)
def _(pool: Pool) -> np.ndarray:
    received_N, _, effect_N, both_N = arms(pool)
    noise_N = np.where(pool.arrays["treatment_N"] == 1, pool.arrays["noise1"], pool.arrays["noise0"])
    both_known_N = np.where(effect_N > 0, effect_N * (received_N + noise_N), 1.0)
    return 0.5 * np.log(both_known_N / (both_known_N - np.where(effect_N > 0, both_N, 0.0) ** 2))


def sign_errors(effect_N_K: np.ndarray, noise_N_K: np.ndarray, weights_K: np.ndarray) -> np.ndarray:
    wrong_N_K = norm.cdf(-np.abs(effect_N_K) / np.sqrt(noise_N_K + _LEAST))
    mean_N = wrong_N_K @ weights_K
    return entr(mean_N) + entr(1 - mean_N) - (entr(wrong_N_K) + entr(1 - wrong_N_K)) @ weights_K


@reference("I[Y_t;tau|x]", YesOrNoOutcomes)
def _(pool):
    scores, columns = [], (pool.arrays[name] for name in ("mean0_N_K", "mean1_N_K", "treatment_N"))
    for zero_K, one_K, treatment in zip(*columns, strict=True):
        effect_K, yes_K = (one_K - zero_K).round(9), one_K if treatment else zero_K
        same_T_K = np.unique(effect_K)[:, None] == effect_K
        joint_T_2 = (same_T_K * pool.weights_K) @ np.stack([1 - yes_K, yes_K], 1)
        scores.append(entr(joint_T_2.sum(0)).sum() + entr(joint_T_2.sum(1)).sum() - entr(joint_T_2).sum())
    return np.array(scores)


@reference("I[sign error;W|x]", PotentialOutcomes)
def _(pool: Pool) -> np.ndarray:
    found = pool.arrays
    noise_N_K = found["variance0_N_K"] + found["variance1_N_K"]
    return sign_errors(found["mean1_N_K"] - found["mean0_N_K"], noise_N_K, pool.weights_K)


@reference("I[sign error;W|x]", YesOrNoOutcomes)
def _(pool: Pool) -> np.ndarray:
    zero_N_K, one_N_K = pool.arrays["mean0_N_K"], pool.arrays["mean1_N_K"]
    noise_N_K = zero_N_K * (1 - zero_N_K) + one_N_K * (1 - one_N_K)
    return sign_errors(one_N_K - zero_N_K, noise_N_K, pool.weights_K)


@reference("I[sign error;W|x]", GaussianPotentialOutcomes)
def _(pool: Pool) -> np.ndarray:
    found = pool.arrays
    node_K = np.linspace(-9, 9, 400_001)  # the kink at 0 costs the square of a step
    effect_N_K = (found["mean1"] - found["mean0"])[:, None] + np.sqrt(np.maximum(arms(pool)[2], 0))[:, None] * node_K
    weights_K = norm.pdf(node_K) * (node_K[1] - node_K[0])
    return sign_errors(effect_N_K, (found["noise0"] + found["noise1"])[:, None], weights_K)
