"""What natsel's conformance suite has to know about the plug-in: a small pool, and its quantity worked out again."""

import numpy as np
from natsel_familiarity import InputDensity

from natsel.conformance import MAKERS, Maker, reference


def _arrays(rng, points, draws, classes):
    probs_N_C = rng.dirichlet(np.full(classes, 0.7), size=points)
    return {"log_density_N": 2 * rng.normal(size=points), "log_probs_N_C": np.log(probs_N_C)}


def _labels(rng, arrays):
    log_probs_N_C = arrays["log_probs_N_C"]
    return (log_probs_N_C + rng.gumbel(size=log_probs_N_C.shape)).argmax(1)


def _certain(arrays):
    log_density_N, log_probs_N_C = arrays["log_density_N"].copy(), arrays["log_probs_N_C"].copy()
    log_density_N[0] = log_density_N.max() + 1  # the most familiar point
    log_probs_N_C[0] = np.where(np.arange(log_probs_N_C.shape[1]) == 0, 0.0, -np.inf)
    return {"log_density_N": log_density_N, "log_probs_N_C": log_probs_N_C}


MAKERS[InputDensity] = Maker(_arrays, _labels, _certain)


@reference("−ln p(x)", InputDensity)
def _(pool):
    return -pool.arrays["log_density_N"]
