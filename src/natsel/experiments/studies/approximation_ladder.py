"""The approximations of RHO-LOSS one by one: how near to the gold ensemble each still ranks the candidates.

    score of a candidate (x, y) = L[y|x; D_train] − L[y|x; D_eval, D_train]        larger: train on it sooner

    rung                   target model                        irreducible-loss (IL) model
    gold-ensemble          five networks, to convergence       five networks, to convergence on D_eval and D_train
    one-network      1a    one network, to convergence         one network, to convergence on D_eval and D_train
    not-converged    1b    one gradient step per batch         converged on D_eval, then one gradient step per batch
    frozen-il        2     one gradient step per batch         converged on D_eval, never updated: RHO-LOSS
    small-il         3     one gradient step per batch         as above, with fewer hidden units

    L of an ensemble       −ln (mean_k p_k(y|x)), the loss of the mean prediction
    statistic              Spearman's correlation of a rung's scores with those of the gold ensemble on the candidates
                           B_t, averaged over the batches of the first epoch: one number per rung and trial

All rungs of a trial see the same candidates in the same order: random parts of the pool, of which the share `noise` has
wrong labels, and which hold each point once. Which points D_train holds is decided in two ways:

    own     each rung trains on the top of its own scores, as in published runs: networks drift apart because they are
            trained on different points
    gold    each rung trains on what the gold ensemble selected: what is left is due to the approximation alone

To convergence: networks go on from their last weights, with their optimiser, in mini-batches over all points selected
so far (IL: and D_eval), for at most `epochs` epochs after each B_t and until the mean loss of one is below `enough`.
One gradient step: published runs give these rungs each point five times, so that they take as many steps as five epochs
over what was selected last. Here they select from B_t and take a step `copies` times before they see the next batch, so
that no rung has been trained on a point that it has still to score.

IL models are first trained on D_eval, until an epoch would raise their loss on the pool. The rungs of one network share
the first weights of the target model and, but for the small one, the first IL model; no member of the ensemble is among
them.
docs/theory/training-selection.md, 3; Mindermann et al. 2022.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from natsel.evaluation.rank_correlations import rank_correlations
from natsel.experiments.report.charts import line_chart
from natsel.experiments.report.page import table
from natsel.experiments.results.claims import ClaimVerdict
from natsel.experiments.studies.units import Array, Tell, Units
from natsel.sampling.candidates import epoch_batches, n_selected
from natsel.seeds import derive

_MEAN, _DEVIATION = 0.1307, 0.3081  # of the pixels of MNIST's training set
_CLASSES = 10
OWN, BY_GOLD = "own", "gold"


@dataclass(frozen=True)
class Rung:
    """One row of the ladder; `published` is the correlation in Mindermann et al. 2022."""

    name: str
    converged: bool
    updated: bool  # whether the IL model learns from what was selected
    small: bool
    published: float
    says: str


GOLD = Rung("gold-ensemble", True, True, False, 1.0, "ensembles, to convergence")
RUNGS = (
    Rung("one-network", True, True, False, 0.75, "1a: one network instead of five"),
    Rung("not-converged", False, True, False, 0.76, "1b: and one gradient step instead of convergence"),
    Rung("frozen-il", False, False, False, 0.63, "2: and an IL model that is not updated (RHO-LOSS)"),
    Rung("small-il", False, False, True, 0.51, "3: and an IL model of fewer hidden units"),
)


class _Labelled(NamedTuple):
    """Inputs and labels on the device."""

    inputs_N_D: Any
    labels_N: Any

    def at(self, rows: Any) -> "_Labelled":
        return _Labelled(self.inputs_N_D[rows], self.labels_N[rows])

    def joined(self, other: "_Labelled") -> "_Labelled":
        import torch

        return _Labelled(*(torch.cat(both) for both in zip(self, other, strict=True)))


class _Data(NamedTuple):
    pool: _Labelled
    held_out: _Labelled
    noisy_N: Array


class _Networks:
    """Networks of one architecture, each with an optimiser and an order of the data of its own; a copy is whole."""

    def __init__(self, settings: Mapping[str, Any], like: _Labelled, count: int, width: int, seed: int) -> None:
        import torch

        from natsel.models import fresh, mlp

        self.batch, self.enough = settings["batch"], settings["enough"]
        features, device = like.inputs_N_D.shape[1], like.inputs_N_D.device
        make = partial(mlp, features, _CLASSES, (width, width), dropout=0.0)
        self.modules = [fresh(make, derive(seed, "network", member)).to(device) for member in range(count)]
        self.orders = [np.random.default_rng(derive(seed, "order", member)) for member in range(count)]
        self.optimisers = [
            torch.optim.AdamW(
                module.parameters(), lr=settings["learning_rate"], weight_decay=settings["weight_decay"], fused=True
            )
            for module in self.modules
        ]

    def step(self, points: _Labelled) -> None:
        """One gradient step of each network on all of the points."""
        for member in range(len(self.modules)):
            self._step(member, points)

    def converge(self, points: _Labelled, epochs: int) -> None:
        """Epochs over the points until the mean loss of one is below `enough`, for each network by itself."""
        for member in range(len(self.modules)):
            for _ in range(epochs):
                if self._epoch(member, points) < self.enough:
                    break

    def converge_for(self, judge: _Labelled, points: _Labelled, epochs: int) -> None:
        """Epochs over the points while the loss on the judge falls: the first that does not lower it is taken back."""
        for member, module in enumerate(self.modules):
            least = np.inf
            for _ in range(epochs):
                kept = copy.deepcopy((module.state_dict(), self.optimisers[member].state_dict()))
                self._epoch(member, points)
                loss = float(_losses([module], judge).mean())
                if loss >= least:
                    module.load_state_dict(kept[0])
                    self.optimisers[member].load_state_dict(kept[1])
                    break
                least = loss

    def losses(self, points: _Labelled) -> Array:
        """−ln of the mean probability of each label, in nats."""
        found: Array = _losses(self.modules, points).cpu().numpy()
        return found

    def _epoch(self, member: int, points: _Labelled) -> float:
        import torch

        n_points = len(points.labels_N)
        order = torch.from_numpy(self.orders[member].permutation(n_points)).to(points.labels_N.device)
        parts = order.tensor_split(-(-n_points // self.batch))
        return float(sum(self._step(member, points.at(part)) * len(part) for part in parts)) / n_points

    def _step(self, member: int, points: _Labelled) -> Any:
        from torch.nn.functional import cross_entropy

        loss = cross_entropy(self.modules[member](points.inputs_N_D), points.labels_N)
        self.optimisers[member].zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimisers[member].step()
        return loss.detach()


def _losses(modules: list[Any], points: _Labelled) -> Any:
    import torch

    from natsel.evaluation.joint import marginal_losses

    with torch.no_grad():
        log_probs_N_K_C = torch.stack([module(points.inputs_N_D).double().log_softmax(-1) for module in modules], 1)
    return marginal_losses(log_probs_N_K_C, points.labels_N)


def run(settings: Mapping[str, Any], units: Units, device: str | None = None) -> dict[str, Any]:
    """The rank correlations of each rung with the gold ensemble, batch by batch, for each trial and sequence."""
    if settings["candidates"] < 2 or settings["pool"] % settings["candidates"]:
        raise ValueError(
            f"candidates: expected 2 or more that divide the {settings['pool']} points of the pool, found"
            f" {settings['candidates']}; name another number"
        )
    rows, gold_rows, tell = [], [], units.tell
    for trial in range(settings["trials"]):
        data = cache(partial(_data, settings, trial, device))  # made once, and only where something is missing
        first = cache(partial(_first_models, settings, trial, data))
        gold = units.arrays(f"{trial}-{GOLD.name}", partial(_scored, settings, trial, GOLD, None, data, first, tell))
        gold_rows.append({"trial": trial, "noisy": gold["noisy_T"].tolist()})
        for sequence in settings["sequences"]:
            for rung in RUNGS:
                measure = partial(_measured, settings, trial, sequence, rung, gold, data, first, tell)
                rows.append(units.measured(f"{trial}-{sequence}-{rung.name}", measure))
    kept = ("candidates", "keep", "trials", "noise", "members")
    return {"rows": rows, "gold": gold_rows, **{name: settings[name] for name in kept}}


def _data(settings: Mapping[str, Any], trial: int, device: str | None) -> _Data:
    """Pool and held-out part, disjoint parts of MNIST's training set; labels are wrong in the pool alone."""
    import torch

    from natsel.data import load, noisy_labels, split
    from natsel.models.networks.inputs import as_device

    seed, on = derive(settings["seed"], "data", trial), as_device(device)
    pool, held_out = split(load("mnist").train, (settings["pool"], settings["held_out"]), seed)
    pool = noisy_labels(pool, settings["noise"], derive(seed, "pool"))

    def ready(examples: Any) -> _Labelled:
        pixels_N_D = torch.as_tensor(np.asarray(examples.inputs)).reshape(len(examples), -1).to(on) / 255
        return _Labelled((pixels_N_D - _MEAN) / _DEVIATION, torch.as_tensor(examples.labels).to(on))

    return _Data(ready(pool), ready(held_out), np.asarray(pool.masks["noisy"]))


def _first_models(
    settings: Mapping[str, Any], trial: int, data: Callable[[], _Data], ensemble: bool, small: bool
) -> tuple[_Networks, _Networks]:
    """The target model before training, and the IL model trained on held-out points alone."""
    pool, held_out, _ = data()
    count = settings["members"] if ensemble else 1
    seed = derive(settings["seed"], "ensemble" if ensemble else "one network", trial)
    width = settings["small_hidden"] if small else settings["hidden"]
    target = _Networks(settings, pool, count, settings["hidden"], derive(seed, "target"))
    irreducible = _Networks(settings, pool, count, width, derive(seed, "irreducible"))
    irreducible.converge_for(pool, held_out, settings["irreducible_epochs"])
    return target, irreducible


def _scored(
    settings: Mapping[str, Any],
    trial: int,
    rung: Rung,
    given_T_b: Array | None,
    data: Callable[[], _Data],
    first: Callable[[bool, bool], tuple[_Networks, _Networks]],
    tell: Tell,
) -> dict[str, Array]:
    """Scores of the candidates of each batch, which of them are on top, and the share of wrong labels among these.

    The rung trains on what is on top, or on the points that are given.
    """
    pool, held_out, noisy_N = data()
    target, irreducible = copy.deepcopy(first(rung is GOLD, rung.small))
    seed = derive(settings["seed"], "candidates", trial)
    batches_T = epoch_batches(len(noisy_N), settings["candidates"], seed, 0)
    n_top = n_selected(settings["candidates"], settings["keep"])
    score_T_B, top_T_b = np.zeros((len(batches_T), settings["candidates"])), np.zeros((len(batches_T), n_top), int)
    trained_on: list[Array] = []
    for step, positions_B in enumerate(batches_T):
        candidates = pool.at(positions_B)
        for repeat in range(1 if rung.converged else settings["copies"]):
            score_B = target.losses(candidates) - irreducible.losses(candidates)
            top_b = positions_B[np.argsort(-score_B, kind="stable")[:n_top]]
            if repeat == 0:
                score_T_B[step], top_T_b[step] = score_B, top_b
            chosen_b = top_b if given_T_b is None else given_T_b[step]
            if step + 1 == len(batches_T):
                break  # nothing is scored after the last batch
            if rung.converged:
                trained_on.append(chosen_b)
                points = pool.at(np.concatenate(trained_on))
                target.converge(points, settings["epochs"])
                irreducible.converge(held_out.joined(points), settings["epochs"])
            else:
                target.step(pool.at(chosen_b))
                if rung.updated:
                    irreducible.step(pool.at(chosen_b))
        if rung.converged:
            tell(f"trial {trial}, {rung.name}: batch {step + 1} of {len(batches_T)}")
    return {"score_T_B": score_T_B, "top_T_b": top_T_b, "noisy_T": noisy_N[top_T_b].mean(1)}


def _measured(
    settings: Mapping[str, Any],
    trial: int,
    sequence: str,
    rung: Rung,
    gold: Mapping[str, Array],
    data: Callable[[], _Data],
    first: Callable[[bool, bool], tuple[_Networks, _Networks]],
    tell: Tell,
) -> dict[str, Any]:
    """One rung beside the gold ensemble, batch by batch."""
    given_T_b = gold["top_T_b"] if sequence == BY_GOLD else None
    found = _scored(settings, trial, rung, given_T_b, data, first, tell)
    correlations = [
        rank_correlations({"gold": gold_B, "rung": score_B}).between("gold", "rung")
        for gold_B, score_B in zip(gold["score_T_B"], found["score_T_B"], strict=True)
    ]
    both = zip(gold["top_T_b"], found["top_T_b"], strict=True)
    common = [len(np.intersect1d(*tops)) / len(tops[0]) for tops in both]
    tell(f"trial {trial}, {rung.name}, trained on {sequence} points: rank correlation {np.mean(correlations):.3f}")
    row = {"trial": trial, "sequence": sequence, "rung": rung.name, "correlation": correlations}
    return row | {"common": common, "noisy": found["noisy_T"].tolist()}


_NEAR = 0.1  # of a published correlation, which has two digits and is the mean of three seeds


def claims(findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    """The published ladder, judged by means over trials, and whether training on the same points brings rungs nearer.

    Published runs are on other data (QMNIST, five times as large) and in the sequence "own".

    >>> claims({"rows": []})
    []
    """
    rows, verdicts = findings["rows"], []
    for sequence in _sequences(rows):
        found = {rung.name: _per_trial(rows, sequence, rung.name, "correlation") for rung in RUNGS}
        mean = {name: float(np.mean(values)) for name, values in found.items()}
        for rung in RUNGS:
            words, numbers = f"{_listed(found[rung.name])}; mean {mean[rung.name]:.3f}", {"mean": mean[rung.name]}
            if sequence == OWN:
                words, numbers = f"{words}, published {rung.published}", numbers | {"published": rung.published}
            says = f"{rung.name}: the rank correlation with the gold ensemble is positive in every trial"
            verdicts.append(ClaimVerdict("R6", says, min(found[rung.name]) > 0, words, sequence, numbers))
            if sequence == OWN:
                near = abs(mean[rung.name] - rung.published) <= _NEAR
                says = f"{rung.name}: it is within {_NEAR} of the published one"
                verdicts.append(ClaimVerdict("R6", says, near, words, sequence, numbers))
        one, step, frozen, small = (mean[rung.name] for rung in RUNGS)
        words = ", ".join(f"{name} {value:.3f}" for name, value in mean.items())
        for says, passed in (
            (
                "an IL model that is not updated is further from the gold ensemble than those that are",
                frozen < min(one, step),
            ),
            ("a small IL model is further from it than a large one", small < frozen),
            (f"one gradient step instead of convergence changes little: less than {_NEAR}", abs(one - step) < _NEAR),
        ):
            verdicts.append(ClaimVerdict("R6", says, passed, words, sequence, mean))
    if {OWN, BY_GOLD} <= set(_sequences(rows)):
        verdicts += [_claim_divergence(rows, rung) for rung in RUNGS]
    return verdicts


def _claim_divergence(rows: list[dict[str, Any]], rung: Rung) -> ClaimVerdict:
    """Published runs suspect that some of the difference comes from the points that each rung was trained on."""
    own, same = (_per_trial(rows, sequence, rung.name, "correlation") for sequence in (OWN, BY_GOLD))
    says = f"{rung.name} is nearer to the gold ensemble where both are trained on the same points, in every trial"
    passed = all(one < other for one, other in zip(own, same, strict=True))
    words = f"own points {_listed(own)}; those of the gold ensemble {_listed(same)}"
    return ClaimVerdict("R6", says, passed, words, f"{OWN}, {BY_GOLD}")


def sections(findings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """For each sequence a table of rungs, published numbers beside, and correlations over the batches."""
    rows, parts = findings["rows"], []
    words = {OWN: "each trained on its own picks", BY_GOLD: "all trained on the picks of the gold ensemble"}
    gold = np.mean([one["noisy"] for one in findings["gold"]])
    for sequence in _sequences(rows):
        cells = []
        for rung in RUNGS:
            values = _per_trial(rows, sequence, rung.name, "correlation")
            common, noisy = (np.mean(_per_trial(rows, sequence, rung.name, name)) for name in ("common", "noisy"))
            published = f"{rung.published:.2f}" if sequence == OWN else ""
            cells.append([rung.says, f"{np.mean(values):.3f}", _listed(values), published])
            cells[-1] += [f"{common:.3f}", f"{noisy:.3f}"]
        head = ["rung", "rank correlation", "trials", "published", "picks in common", "wrong labels picked"]
        caption = (
            f"Means over {findings['trials']} trials and the first epoch, {findings['candidates']:,} candidates per"
            f" batch. Of the pool {100 * findings['noise']:g} % have wrong labels, of the picks of the gold ensemble"
            f" ({findings['members']} networks) {100 * gold:.1f} %. Published: QMNIST, Mindermann et al. 2022"
        )
        lines = {}
        for rung in RUNGS:
            curves = [row["correlation"] for row in _of(rows, sequence, rung.name)]
            lines[rung.name] = list(enumerate(np.mean(curves, axis=0).tolist(), 1))
        drawn = line_chart(lines, "batch of candidates", "rank correlation with the gold ensemble, mean of trials")
        body = f'<div class="card">{table(head, cells, caption)}</div>{drawn}'
        parts.append((f"sequence-{sequence}", f"The ladder, {words[sequence]}", body))
    return parts


def _sequences(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["sequence"] for row in rows))


def _of(rows: list[dict[str, Any]], sequence: str, rung: str) -> list[dict[str, Any]]:
    """The rows of a rung, by trial."""
    found = [row for row in rows if (row["sequence"], row["rung"]) == (sequence, rung)]
    return sorted(found, key=lambda row: int(row["trial"]))


def _per_trial(rows: list[dict[str, Any]], sequence: str, rung: str, name: str) -> list[float]:
    """The mean over the batches of the epoch, one number per trial."""
    return [float(np.mean(row[name])) for row in _of(rows, sequence, rung)]


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)
