"""Small honest models for tests: milliseconds to fit, and the same for the same seed."""

import numpy as np
import torch

from natsel.beliefs import CategoricalSamples, GaussianSamples
from natsel.data.examples import Examples
from natsel.data.pool import Pool


class Committee:
    """K draws: the centres of each class among a bootstrap sample of the labelled examples."""

    def __init__(self, draws=6):
        self.draws = draws
        self.fits = []

    def fit(self, labelled, validation=None, *, seed=0):
        self.fits.append((labelled.labels.tolist(), seed))
        rng = np.random.default_rng(seed)
        inputs_N_D = np.asarray(labelled.inputs, dtype=np.float64)
        self.centres_K_C_D = np.full((self.draws, labelled.n_classes, inputs_N_D.shape[1]), np.nan)
        for draw in range(self.draws):
            sample = rng.integers(len(labelled), size=len(labelled))
            for label in np.unique(labelled.labels[sample]):
                self.centres_K_C_D[draw, label] = inputs_N_D[sample][labelled.labels[sample] == label].mean(0)
        return self

    def believe(self, inputs):
        gaps_N_K_C_D = np.asarray(inputs, dtype=np.float64)[:, None, None] - self.centres_K_C_D
        far_N_K_C = np.square(gaps_N_K_C_D).sum(-1)
        return CategoricalSamples.from_logits(-np.where(np.isnan(far_N_K_C), 9.0, far_N_K_C))

    def weights(self):
        return {"centres": torch.from_numpy(self.centres_K_C_D)}

    def load_weights(self, weights):
        self.centres_K_C_D = weights["centres"].numpy()
        return self


class Lines:
    """For numbers: K least-squares lines through resampled examples."""

    def fit(self, labelled, validation=None, *, seed=0):
        rng = np.random.default_rng(seed)
        design_N_D = np.column_stack([np.ones(len(labelled)), labelled.inputs])
        samples = [rng.integers(len(labelled), size=len(labelled)) for _ in range(6)]
        self.slopes = [np.linalg.lstsq(design_N_D[s], labelled.labels[s], rcond=None)[0] for s in samples]

    def believe(self, inputs):
        mean_N_K = np.column_stack([np.ones(len(inputs)), inputs]) @ np.stack(self.slopes, 1)
        return GaussianSamples(mean_N_K, np.full_like(mean_N_K, 0.1))


def blobs(count=60, classes=3, seed=0):
    """Clouds in the plane, one a class, that overlap a little."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    angles = 2 * np.pi * labels / classes
    inputs = 1.5 * np.stack([np.cos(angles), np.sin(angles)], 1) + rng.normal(size=(count, 2))
    return Examples(inputs, labels)


def pool(count=60, classes=3, seed=0, ids=None):
    return Pool.with_answers(blobs(count, classes, seed), ids=ids)
