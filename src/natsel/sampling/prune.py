"""Pruning: keep the part of a labelled data set that is worth training on.

    n = ⌊keep · N + 10⁻⁹⌋       the n examples with the highest mean score over runs; the seed decides among ties,
                                since data often come class by class, and a warning says where they are at the edge

`easiest` keeps the lowest scores instead, which was published as better where examples are few. `balanced` keeps the
same share of each class: examples are taken in the order of (rank within the class + ½) / (size of the class), so that
a larger `keep` always keeps a superset.
docs/theory/data-pruning.md; Paul et al. 2021; Sorscher et al. 2022; Kirsch 2023.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from natsel.beliefs import CategoricalSamples
from natsel.beliefs.arrays import ArrayLike, as_tensor
from natsel.choose import resolve
from natsel.choose import score as score_by
from natsel.data.examples import Examples
from natsel.ids import ids_for
from natsel.models.networks.architectures import Network
from natsel.models.networks.batches import samples_per_epoch
from natsel.models.networks.inputs import as_device
from natsel.models.networks.prediction import predict
from natsel.models.networks.training import Training
from natsel.models.protocol import Progress
from natsel.objectives import Argument
from natsel.objectives.reading import needs_everywhere, pair_facts
from natsel.options import warn
from natsel.provenance import versions
from natsel.sampling import example_scores
from natsel.sampling.forgetting import ForgettingEvents
from natsel.sampling.irreducible_loss import examples_fingerprint
from natsel.sampling.labelled_data import examples_of
from natsel.sampling.network_runs import looks_at_training, network_for
from natsel.sampling.pruning import Pruning
from natsel.seeds import derive

Positions = np.ndarray[Any, Any]


class _Asked(NamedTuple):
    """What a method scores: a network, its log-probabilities, and the examples on its device."""

    module: nn.Module
    log_probs_N_C: Tensor
    examples: Examples
    device: torch.device


_BY_NETWORK: Mapping[str, Callable[[_Asked], Tensor]] = {
    "el2n": lambda asked: example_scores.el2n(asked.log_probs_N_C, asked.examples.labels),
    "el2n-squared": lambda asked: example_scores.el2n(asked.log_probs_N_C, asked.examples.labels, squared=True),
    "grand": lambda asked: example_scores.grand(asked.module, *asked.examples, device=asked.device),
    "grand-last-layer": lambda asked: example_scores.grand_last_layer(
        asked.module, *asked.examples, device=asked.device
    ),
    "loss": lambda asked: example_scores.loss(asked.log_probs_N_C, asked.examples.labels),
    "entropy": lambda asked: example_scores.entropy(asked.log_probs_N_C),
    "margin": lambda asked: example_scores.margin(asked.log_probs_N_C),
}
METHODS = (*_BY_NETWORK, "forgetting", "input-norm", "random")
"""The methods of pruning itself; others are methods of the grid, read from the networks of all runs as draws."""

_SAMPLES = 10_000
"""How many samples a network has learnt from, at least, before it is asked; an epoch of a small set teaches little."""

_TRAINING = Training(max_epochs=20, patience=None, enough=0.0, keep="last")


def prune(
    dataset: Any,
    method: str = "el2n",
    keep: float = 0.5,
    *,
    labels: Any = None,
    ids: Any = None,
    network: Network | str | None = None,
    training: Training | None = None,
    runs: int = 3,
    at_epoch: int | Sequence[int] | None = None,
    balanced: bool = False,
    easiest: bool = False,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> Pruning:
    """Score labelled examples and keep the share `keep` of them.

    `dataset`: `natsel.Examples`, (inputs, labels), or anything a pool takes, with `labels` and `ids` as a pool takes
    them: a column of a table by its name, or one for each example. `method`: el2n, el2n-squared, grand,
    grand-last-layer, forgetting, loss, entropy, margin, input-norm or random; or a method of the grid that scores
    single points, such as bald, for which the networks of all runs are the draws of one belief. `network`: a module
    (re-initialised), a function that makes one, or its name in recipes; trained `runs` times with `training`.
    `at_epoch`: after how many epochs scores are taken, 0 for the untrained network; of several epochs the mean counts.
    By default it is a tenth of the epochs of training, more where these are under 10,000 samples; for forgetting all.

    >>> inputs = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.1], [0.9, 0.0]], dtype=np.float32)
    >>> prune((inputs, [0, 1, 1, 1]), keep=0.25, at_epoch=2, runs=2, device="cpu")
    Pruning(1 of 4 examples kept by el2n)
    """
    examples, ids = examples_of(dataset, labels=labels, ids=ids)
    count, labels_N = len(examples), examples.labels
    n_kept(keep, count)
    if not isinstance(runs, int | np.integer) or runs < 1:
        raise ValueError(f"runs: expected a whole number from 1 on, found {runs!r}; 3 is usual")
    if balanced and labels_N is None:
        raise ValueError("balanced: found no labels to balance; label the examples or leave it out")
    provenance: dict[str, Any] = {"seed": int(seed), "balanced": bool(balanced), "easiest": bool(easiest)}
    predicted_N = None
    if method == "input-norm":
        score_R_N = example_scores.input_norm(examples.inputs)[None]
    elif method == "random":
        generator = torch.Generator().manual_seed(derive(seed, "random"))
        score_R_N = torch.rand(1, count, generator=generator, dtype=torch.float64)
    else:
        training = training or _TRAINING
        epochs = _epochs(at_epoch, training, method, count)
        _check_labels(examples, method, int(runs))
        made = network_for(examples, network) if network is None or isinstance(network, str) else network
        seeds = [derive(seed, "run", run) for run in range(int(runs))]
        score_R_N, predicted_N = _by_networks(
            method, examples, made, training, epochs, seeds, as_device(device), progress, seed
        )
        settings = {name: repr(value) for name, value in vars(training).items() if name != "checkpoint"}
        provenance |= {"seeds": seeds, "at_epoch": list(epochs), "training": settings}
        described = " ".join(re.sub(" at 0x[0-9a-f]+", "", repr(made)).split())[:500]  # addresses say nothing
        provenance |= {"network": network if isinstance(network, str) else described}
    score_N = mean_over_runs(score_R_N)
    alike_N = labels_N if balanced else None
    positions_n = kept_positions(score_N, keep, labels_N=alike_N, easiest=easiest, seed=seed)
    if tied := _tied_at_the_edge(score_N.numpy(), positions_n, alike_N):
        provenance["ties"] = tied
        warn(f"keep: {tied}")
    return Pruning(
        *(method, float(keep), positions_n, score_R_N, score_N, ids_for(ids, count), labels_N, predicted_N),
        classes=examples.classes,
        provenance=provenance | {"data": examples_fingerprint(examples), "versions": versions()},
        data=examples,
    )


def n_kept(keep: float, count: int) -> int:
    """How many of `count` examples a share keeps: ⌊keep · N + 10⁻⁹⌋, at least one.

    >>> n_kept(0.29, 100), n_kept(1 - 0.9, 10)
    (29, 1)
    """
    if not isinstance(keep, int | float | np.number) or not 0 < keep <= 1:
        raise ValueError(f"keep: expected a share above 0 and up to 1, found {keep}; 0.5 keeps half")
    kept = math.floor(keep * count + 1e-9)
    if kept == 0:
        raise ValueError(f"keep: {keep} of {count} examples keeps none; raise it to at least 1/{max(1, count)}")
    return kept


def kept_positions(
    score_N: ArrayLike, keep: float, *, labels_N: ArrayLike | None = None, easiest: bool = False, seed: Any = None
) -> Positions:
    """Positions of the examples that a share keeps, highest score first (+∞ before all), lowest first for `easiest`.

    `labels_N`: the same share of each class is kept. `seed` decides the order of equal scores (None: as they stand).

    >>> kept_positions([0.3, 0.9, 0.9, float("inf")], 0.5).tolist()
    [3, 1]
    >>> kept_positions([0.3, 0.9, 0.8, 0.1], 0.5, labels_N=[0, 1, 1, 0]).tolist()
    [1, 0]
    """
    scores = as_tensor(score_N, "score_N").double().cpu().numpy()
    if scores.ndim != 1:
        raise ValueError(f"score_N: expected one number per example, found shape {list(scores.shape)}")
    if np.isnan(scores).any():
        raise ValueError(f"score_N: found NaN at example {int(np.isnan(scores).argmax())}; check inputs and training")
    kept = n_kept(keep, len(scores))
    drawn_N = np.arange(len(scores))
    if seed is not None:
        np.random.default_rng(derive(seed, "ties")).shuffle(drawn_N)
    order_N = drawn_N[np.argsort((scores if easiest else -scores)[drawn_N], kind="stable")]
    if labels_N is None:
        return order_N[:kept]
    labels = as_tensor(labels_N, "labels_N").cpu().numpy()
    if labels.shape != scores.shape:
        raise ValueError(f"labels_N: expected one for each of {len(scores)} examples, found shape {list(labels.shape)}")
    place_N = np.empty(len(scores))
    for label in np.unique(labels):
        own = order_N[labels[order_N] == label]
        place_N[own] = (np.arange(len(own)) + 0.5) / len(own)
    return order_N[np.argsort(place_N[order_N], kind="stable")][:kept]


def _tied_at_the_edge(score_N: Positions, positions_n: Positions, labels_N: Any) -> str:
    """Of how many equal scores (of a class, where classes are kept alike) a part is kept, in words; empty for none."""
    keys_N_2 = np.stack([np.zeros(len(score_N)) if labels_N is None else labels_N, score_N], 1)
    group_N = np.unique(keys_N_2, axis=0, return_inverse=True)[1].reshape(-1)
    size_G, kept_G = np.bincount(group_N), np.bincount(group_N[positions_n], minlength=group_N.max() + 1)
    torn_G = (kept_G > 0) & (kept_G < size_G)
    words = f"{size_G[torn_G].sum():,} of {len(score_N):,} examples have equal scores at the edge of what is kept"
    return f"{words}; the seed drew the {kept_G[torn_G].sum():,} of them that are kept" if torn_G.any() else ""


def mean_over_runs(score_R_N: Tensor) -> Tensor:
    """The mean of the runs. +∞ in some runs counts as one more than the largest finite score; in all runs it stays.

    >>> mean_over_runs(torch.tensor([[0.0, float("inf"), float("inf")], [2.0, 1.0, float("inf")]])).tolist()
    [1.0, 2.0, inf]
    """
    endless_R_N = score_R_N == math.inf
    if not bool(endless_R_N.any()):
        return score_R_N.mean(0)
    largest = score_R_N[score_R_N.isfinite()].max() if bool(score_R_N.isfinite().any()) else score_R_N.new_zeros(())
    mean_N = torch.where(endless_R_N, largest + 1, score_R_N).mean(0)
    return mean_N.masked_fill(endless_R_N.all(0), math.inf)


def _epochs(at_epoch: int | Sequence[int] | None, training: Training, method: str, count: int) -> tuple[int, ...]:
    """After which epochs scores are taken, each once; 0 is an epoch like any other."""
    if at_epoch is None:
        enough = -(-_SAMPLES // samples_per_epoch(count, training.epoch_samples))
        early = min(training.max_epochs, max(1, training.max_epochs // 10, enough))
        at_epoch = training.max_epochs if method == "forgetting" else early
    given = (at_epoch,) if isinstance(at_epoch, int | np.integer) else at_epoch
    given = tuple(given) if isinstance(given, Sequence | np.ndarray) else ()
    if not given or not all(isinstance(epoch, int | np.integer) and not isinstance(epoch, bool) for epoch in given):
        raise ValueError(f"at_epoch: expected whole numbers of epochs, found {at_epoch!r}; 0 is the untrained network")
    epochs = tuple(sorted({int(epoch) for epoch in given}))
    if method == "forgetting" and (len(epochs) > 1 or epochs[0] == 0):
        raise ValueError(
            f"at_epoch: forgetting counts over all epochs up to one from 1 on, found {at_epoch!r}; pass one"
        )
    return epochs


def _check_labels(examples: Examples, method: str, runs: int) -> None:
    """Refuse, before anything is trained, what cannot be scored."""
    if examples.labels is None:
        raise ValueError(
            f"labels: found none, and {method} needs them; label the examples, or use input-norm or random"
        )
    if examples.labels.dtype.kind not in "biu":
        raise ValueError("labels: expected classes, found real numbers; pruning by networks is for classes")
    if examples.labels.min() < 0:
        place = int((examples.labels < 0).argmax())
        raise ValueError(f"labels: that of example {place} is not known; leave out examples without a label")
    if method in METHODS:
        return
    try:
        chosen = resolve(method)
    except ValueError as reason:
        raise ValueError(f"{str(reason).split(';')[0]}; pruning has {', '.join(METHODS)}, and the grid") from None
    if Argument.TARGETS in needs_everywhere(chosen.objective):
        raise ValueError(f"method: {method} asks about targets, and pruning has none; use one of {', '.join(METHODS)}")
    classes = max(2, examples.n_classes)
    drawn = torch.randn(8, runs, classes, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels_n = None if _labels_for(method, examples) is None else torch.arange(8) % classes
    score_n = score_by(chosen, CategoricalSamples(drawn.log_softmax(2)), labels=labels_n)
    if runs == 1 and float(score_n.max() - score_n.min()) < 1e-9:
        raise ValueError(
            f"runs: {method} asks where runs disagree, found 1 run, with which all score alike; use 2 or more"
        )


def _labels_for(method: str, examples: Examples) -> Any:
    """The labels where a method of the grid takes them; others refuse what they have no use for."""
    facts = pair_facts(type(resolve(method).objective), CategoricalSamples)
    return examples.labels if facts is not None and Argument.LABELS in facts.needs else None


def _by_networks(
    method: str,
    examples: Examples,
    network: Network,
    training: Training,
    epochs: tuple[int, ...],
    seeds: list[int],
    device: torch.device,
    progress: Progress | None,
    seed: int,
) -> tuple[Tensor, Positions]:
    """score_R_N (one row for methods that need all runs), and what the networks predict together."""
    scored = _BY_NETWORK.get(method)
    scores, tables = [], []  # by run: score_N; by run and epoch: log_probs_N_C
    each = epochs[-1] + 1
    for run, run_seed in enumerate(seeds):
        events = ForgettingEvents(len(examples)) if method == "forgetting" else None

        def look(module: nn.Module) -> tuple[Tensor | None, Tensor]:
            outputs_N_C = predict([module], examples.inputs, device)[:, 0].double()
            asked = _Asked(module, outputs_N_C.log_softmax(1), examples, device)
            return None if scored is None else scored(asked).double().cpu(), asked.log_probs_N_C.cpu()

        seen = looks_at_training(
            *(network, examples, training, epochs, look),
            seed=run_seed,
            device=device,
            forgetting=events,
            progress=progress and (lambda done, run=run: progress(run * each + done + 1, len(seeds) * each)),
        )
        if events is not None:
            scores.append(events.scores())
        elif scored is not None:
            scores.append(torch.stack([score_N for score_N, _ in seen if score_N is not None]).mean(0))
        tables.append(torch.stack([table_N_C for _, table_N_C in seen], 1))
    log_probs_N_E_K_C = torch.stack(tables, 2)
    predicted_N = log_probs_N_E_K_C.exp().mean((1, 2)).argmax(1).numpy()
    if scores:
        return torch.stack(scores), predicted_N
    beliefs = [CategoricalSamples(log_probs_N_E_K_C[:, place]) for place in range(len(epochs))]
    labels_N = _labels_for(method, examples)
    found = [score_by(method, belief, labels=labels_N, seed=derive(seed, "method")).cpu() for belief in beliefs]
    return torch.stack(found).mean(0)[None], predicted_N
