"""Training on selected points: how many steps each method needs, and what it selects.

    pool and held-out part   disjoint random parts of a training set (`selection_tasks.py`, with all conditions)
    each step                `batch` points are trained on, chosen by a method from batch / keep candidates
    irreducible losses       of a network trained on the held-out part, at the epoch of least loss on the pool; without
                             such a part each half of the pool is scored by a network trained on the other half

    random                     uniform: what all are compared with
    rho-loss                   loss − irreducible loss
    loss, grad-norm            loss; ‖softmax(z) − e_y‖
    gradient-norm-importance   drawn in proportion to that norm, with weights that make gradients unbiased
    negative-irreducible-loss  −irreducible loss

In a trial all methods start from the same weights and see the same candidates in the same order. Measured after every
`evaluate_every` steps: test accuracy, seconds of training (evaluation left out), and how many of the points trained on
since had a wrong label, were of an irrelevant class, or had a label that the network predicted already.

`targets` are accuracies to which steps are counted, besides the best accuracy of uniform, which may take more steps
than the others (`uniform_steps`) so that one sees when it gets there. On a GPU, scoring and training use bfloat16.
Published runs on digits take 50,000 further ones (QMNIST) for the held-out part; here both parts come from MNIST.
docs/theory/training-selection.md; Mindermann et al. 2022.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import count, islice
from typing import Any

import numpy as np

from natsel.experiments.report.charts import line_chart
from natsel.experiments.report.page import table
from natsel.experiments.results.claims import ClaimVerdict
from natsel.experiments.studies.selection_tasks import NOISE, SelectionTask, selection_task
from natsel.experiments.studies.units import Array, Tell, Units
from natsel.seeds import derive

UNIFORM, RHO, LOSS, NORM = "random", "rho-loss", "loss", "grad-norm"
IMPORTANCE, NEGATIVE = "gradient-norm-importance", "negative-irreducible-loss"
METHODS = (UNIFORM, RHO, LOSS, NORM, IMPORTANCE, NEGATIVE)
_NEED_LOSSES = (RHO, NEGATIVE)
_ROWS = 2000  # that are predicted at a time

_PUBLISHED = [
    ["Clothing-1M", "69 %", "30", "2", "0.07"],
    ["CIFAR-10, half of it", "80 %", "79", "39", "0.49"],
    ["the same, 10 % noise", "75 %", "62", "27", "0.44"],
    ["CIFAR-100, half of it", "52.5 %", "133", "77", "0.58"],
    ["the same, 10 % noise", "47.5 %", "116", "65", "0.56"],
    ["CINIC-10", "77.5 %", "97", "38", "0.39"],
    ["the same, 10 % noise", "67.5 %", "38", "17", "0.45"],
    ["SST-2, half of it", "90 %", "6", "3", "0.50"],
    ["CoLA, half of it", "75 %", "34", "3", "0.09"],
]


def run(settings: Mapping[str, Any], units: Units, device: str | None = None) -> dict[str, Any]:
    """Accuracy over steps and what was selected, for each condition, trial and method."""
    if UNIFORM not in settings["methods"]:
        raise ValueError(f"methods: all are compared with {UNIFORM}, which is not among them; add it")
    rows = []
    for condition in settings["conditions"]:
        for trial in range(settings["trials"]):
            # Made once, and only where something is missing.
            task = cache(partial(selection_task, settings, condition, trial))
            for method in settings["methods"]:
                measure = partial(_trained, settings, condition, trial, method, task, units, device)
                rows.append(units.measured(f"{condition}-{trial}-{method}", measure))
    kept = ("set", "steps", "batch", "keep", "trials", "targets")
    return {"rows": rows, **{name: settings[name] for name in kept}}


def _trained(
    settings: Mapping[str, Any],
    condition: str,
    trial: int,
    method: str,
    task: Callable[[], SelectionTask],
    units: Units,
    device: str | None,
) -> dict[str, Any]:
    """One network trained on what one method selects."""
    import torch
    from torch.nn.functional import cross_entropy

    from natsel.models.networks.architectures import fresh, seeded
    from natsel.models.networks.inputs import as_device

    on, pool, test = as_device(device), task().pool, task().test
    row: dict[str, Any] = {"condition": condition, "trial": trial, "method": method}
    steps = settings["uniform_steps"] if method == UNIFORM else settings["steps"]
    table_N = None
    if method in _NEED_LOSSES:
        make = partial(_irreducible, settings, trial, task, device, units.tell)
        found = units.arrays(f"{condition}-{trial}-irreducible", make)
        table_N = found["loss_N"]
        row["irreducible"] = {name: float(found[name]) for name in ("seconds", "right", "wrong")}
    network = fresh(task().network, derive(settings["seed"], "network", trial)).to(on)
    batches = _batches(settings, trial, method, task(), network, table_N, on)
    optimiser = torch.optim.AdamW(
        network.parameters(),
        lr=settings["learning_rate"],
        weight_decay=settings["weight_decay"],
        fused=on.type == "cuda",
    )
    marks = {"noisy": _mask(pool, "noisy"), "irrelevant": _mask(pool, "irrelevant")}
    row["base"] = {name: float(mask_N.mean()) for name, mask_N in marks.items()}
    curve: dict[str, list[float]] = {name: [] for name in ("step", "accuracy", "seconds", "selected", "correct")}
    curve |= {name: [] for name in marks}
    since, right = dict.fromkeys(("selected", "correct", *marks), 0), torch.zeros((), device=on)
    seconds, began = 0.0, time.perf_counter()
    with seeded(derive(settings["seed"], "steps", trial), on):  # masks of dropout, where the network has some
        for step, (inputs, labels_B, weights_B, chosen_B) in enumerate(islice(batches, steps), 1):
            network.train()
            with _precision(on):
                logits_B_C = network(inputs)
                loss = (weights_B * cross_entropy(logits_B_C, labels_B, reduction="none")).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            since["selected"] += len(chosen_B)
            right += (logits_B_C.argmax(1) == labels_B).sum()  # stays on the device: to read it would wait for the step
            for name, mask_N in marks.items():
                since[name] += int(mask_N[chosen_B].sum())
            if step % settings["evaluate_every"] == 0 or step == steps:
                since["correct"] = int(right)
                seconds += time.perf_counter() - began
                accuracy = _accuracy(network, test, on)
                for name, value in {"step": step, "accuracy": accuracy, "seconds": seconds, **since}.items():
                    curve[name].append(value)
                since, right = dict.fromkeys(since, 0), torch.zeros((), device=on)
                began = time.perf_counter()
    shares = ", ".join(f"{name} {sum(curve[name]) / sum(curve['selected']):.3f}" for name in ("correct", *marks))
    units.tell(f"{condition}, trial {trial}, {method}: accuracy {curve['accuracy'][-1]:.3f}; selected {shares}")
    return row | {"curve": curve}


def _precision(on: Any) -> Any:
    """Bfloat16 on a GPU, nothing else elsewhere."""
    import torch

    return torch.autocast("cuda", torch.bfloat16, enabled=on.type == "cuda")


def _accuracy(network: Any, test: Any, on: Any) -> float:
    import torch

    from natsel.models.networks.inputs import conversion_of

    network.eval()
    convert, right = conversion_of(network, test.inputs, on), torch.zeros((), dtype=torch.int64, device=on)
    with torch.no_grad(), _precision(on):
        for start in range(0, len(test), _ROWS):
            part = test[start : start + _ROWS]
            labels_n = torch.as_tensor(part.labels).to(on)
            right += (network(convert(part.inputs)).argmax(1) == labels_n).sum()
    return int(right) / len(test)


def _batches(
    settings: Mapping[str, Any],
    trial: int,
    method: str,
    task: SelectionTask,
    network: Any,
    irreducible_N: Array | None,
    on: Any,
) -> Iterator[tuple[Any, Any, Any, Array]]:
    """Inputs, labels, weights and positions of what is trained on, step by step without end.

    Uniform takes the first of each batch of candidates, whose order is random, and spends no time on losses.
    """
    import torch

    from natsel.models.networks.inputs import conversion_of
    from natsel.sampling import SelectiveLoader
    from natsel.sampling.candidates import epoch_batches, n_candidates, n_selected

    seed, keep, batch = derive(settings["seed"], "candidates", trial), settings["keep"], settings["batch"]
    pool, augment = task.pool, task.augmentation
    if method != UNIFORM:
        loader = SelectiveLoader(
            pool,
            network,
            method=method,
            keep=keep,
            batch=batch,
            irreducible_loss=irreducible_N,
            augmentation=augment,
            precision="bfloat16" if on.type == "cuda" else None,
            seed=seed,
            device=on,
        )
        while True:
            yield from ((each.inputs, each.labels, each.weights, np.asarray(each.ids)) for each in loader)
    convert, generator = conversion_of(network, pool.inputs, on), torch.Generator(on).manual_seed(seed)
    for epoch in count():
        for positions in epoch_batches(len(pool), n_candidates(batch, keep), seed, epoch):
            chosen_B = positions[: n_selected(len(positions), keep)]
            inputs, labels_B = convert(pool.inputs[chosen_B]), torch.as_tensor(pool.labels[chosen_B]).to(on)
            if augment is not None:
                inputs = augment(inputs, generator)
            yield inputs, labels_B, torch.ones(len(chosen_B), device=on), chosen_B


def _irreducible(
    settings: Mapping[str, Any], trial: int, task: Callable[[], SelectionTask], device: str | None, tell: Tell
) -> dict[str, Array]:
    """Irreducible losses of the pool, the seconds they took, and their means over right and over wrong labels."""
    from natsel.models import Training
    from natsel.models.networks.inputs import as_device
    from natsel.sampling import IrreducibleLoss

    pool, held_out, *_, reference, augmentation = task()
    began = time.perf_counter()
    options: dict[str, Any] = {
        "training": Training(
            learning_rate=settings["learning_rate"],
            weight_decay=settings["weight_decay"],
            batch=settings["irreducible_batch"],
            max_epochs=settings["irreducible_epochs"],
            patience=2 if augmentation is None else 5,  # the loss goes up and down where pictures are changed at random
            optimiser="adamw",
            augmentation=augmentation,
            precision="bfloat16" if as_device(device).type == "cuda" else "float32",
        ),
        "seed": derive(settings["seed"], "irreducible", trial),
        "device": device,
        "progress": lambda done, total: None,
    }
    if held_out is None:
        found = IrreducibleLoss.cross_fitted(reference, _bare(pool), **options)
    else:
        found = IrreducibleLoss.fit(reference, _bare(held_out), _bare(pool), **options)
    seconds = time.perf_counter() - began
    tell(f"irreducible losses: {found.about}, {seconds:.0f} s")
    wrong_N = _mask(pool, "noisy")
    return {
        "loss_N": found.loss_N,
        "seconds": np.array(seconds),
        "right": np.array(found.loss_N[~wrong_N].mean(dtype=np.float64)),
        "wrong": np.array(found.loss_N[wrong_N].mean(dtype=np.float64) if wrong_N.any() else 0.0),
    }


def claims(findings: Mapping[str, Any]) -> list[ClaimVerdict]:
    """What Mindermann et al. 2022 found, judged by means and medians over trials; published numbers are of other data.

    >>> claims({"rows": []})
    []
    """
    rows, verdicts = findings["rows"], []
    for condition in _names(rows, "condition"):
        here = [row for row in rows if row["condition"] == condition]
        if here[0]["base"]["noisy"] > 0:
            verdicts += _claims_noise(here, condition)
        if here[0]["base"]["irrelevant"] > 0:
            verdicts += _claims_share("R3", here, condition, "irrelevant", "points of irrelevant classes")
        verdicts += _claims_accuracy(here, condition)
        verdicts += _claims_correct(here, condition)
        verdicts += _claims_steps(here, condition, findings.get("targets", ()))
        if findings.get("set") == "cola":
            verdicts += _claims_spread(here, condition)
    return sorted([*verdicts, *_claims_more_noise(rows)], key=lambda one: one.claim)


def _claims_noise(rows: list[dict[str, Any]], condition: str) -> list[ClaimVerdict]:
    verdicts = _claims_share("R1", rows, condition, "noisy", "wrong labels")
    if RHO in _names(rows, "method"):
        base, shares = _base(rows, "noisy"), _shares(rows, RHO, "noisy")
        early = [_share_until_target(rows, trial, RHO, "noisy") for trial in _trials(rows)]
        says = "of what RHO-LOSS selects, less than half as many labels are wrong as in the pool"
        evidence = f"{_listed(shares)}, pool {base:.3f}; up to the best accuracy of uniform {_listed(early)}"
        verdicts.append(ClaimVerdict("R1", says, float(np.mean(shares)) < base / 2, evidence, condition))
    return verdicts


def _claims_share(claim: str, rows: list[dict[str, Any]], condition: str, mark: str, words: str) -> list[ClaimVerdict]:
    """Loss and gradient norm select more of what is marked than the pool has, in every trial; RHO-LOSS less."""
    base, verdicts = _base(rows, mark), []
    for method in (LOSS, NORM, RHO):
        if method in _names(rows, "method"):
            shares = _shares(rows, method, mark)
            passed = float(np.mean(shares)) < base if method == RHO else min(shares) > base
            says = f"{method} selects {'fewer' if method == RHO else 'more'} {words} than uniform"
            verdicts.append(ClaimVerdict(claim, says, passed, f"{_listed(shares)}, pool {base:.3f}", condition))
    return verdicts


def _claims_accuracy(rows: list[dict[str, Any]], condition: str) -> list[ClaimVerdict]:
    """Loss and gradient norm: quicker than uniform on clean data, worse in the end under noise; RHO-LOSS is not."""
    verdicts, noisy = [], rows[0]["base"]["noisy"] > 0
    final = {method: _finals(rows, method) for method in _names(rows, "method")}
    for method in (LOSS, NORM):
        if method not in final or not (noisy or condition == "clean"):
            continue
        if noisy:
            passed = all(one < other for one, other in zip(final[method], final[UNIFORM], strict=True))
            says = f"with wrong labels, {method} ends below uniform"
            words = f"accuracy {_listed(final[method])}, uniform {_listed(final[UNIFORM])}"
        else:
            ratios = _ratios(rows, method)
            passed, says = float(np.median(ratios)) < 1, f"without noise, {method} is quicker than uniform"
            words = f"steps to the best accuracy of uniform, over those of uniform: {_listed(ratios)}"
        verdicts.append(ClaimVerdict("R2", says, passed, words, condition))
    if RHO in final and noisy:
        passed = all(one >= other for one, other in zip(final[RHO], final[UNIFORM], strict=True))
        words = f"accuracy {_listed(final[RHO])}, uniform {_listed(final[UNIFORM])}"
        verdicts.append(
            ClaimVerdict("R2", "with wrong labels, RHO-LOSS does not end below uniform", passed, words, condition)
        )
    return verdicts


def _claims_correct(rows: list[dict[str, Any]], condition: str) -> list[ClaimVerdict]:
    """Points already right, over the intervals that start below the final accuracy of the weakest method."""
    methods = _names(rows, "method")
    found = {method: _already_right(rows, method) for method in methods}
    words = "; ".join(f"{method} {share:.3f}" for method, share in found.items())
    by_loss = [method for method in methods if method not in (UNIFORM, NEGATIVE)]
    verdicts = []
    if by_loss:
        passed = all(found[method] < found[UNIFORM] for method in by_loss)
        says = "methods that look at the loss select fewer points that are right already than uniform does"
        verdicts.append(ClaimVerdict("R4", says, passed, words, condition))
    if NEGATIVE in methods:
        says = f"so does {NEGATIVE}, as all methods are said to"
        verdicts.append(ClaimVerdict("R4", says, found[NEGATIVE] < found[UNIFORM], words, condition))
    return verdicts


def _claims_steps(rows: list[dict[str, Any]], condition: str, targets: Sequence[float]) -> list[ClaimVerdict]:
    if RHO not in _names(rows, "method"):
        return []
    ratios = _ratios(rows, RHO)
    seconds = [_seconds_ratio(rows, trial, RHO) for trial in _trials(rows)]
    words = f"{_listed(ratios)} of uniform's steps, median {np.median(ratios):.2f}; of its seconds, with those of the"
    words += f" irreducible losses: {_listed(seconds)}"
    says = "RHO-LOSS reaches the best accuracy of uniform in a third of its steps or fewer"
    verdicts = [ClaimVerdict("R5", says, float(np.median(ratios)) <= 1 / 3, words, condition)]
    for target in targets:
        steps = {method: [_steps_to(row, target) for row in _of(rows, method)] for method in (RHO, UNIFORM)}
        # Where uniform never gets there, its last step stands in for it: the ratio is then at most that.
        last = [row["curve"]["step"][-1] for row in _of(rows, UNIFORM)]
        least = [min(one, most) for one, most in zip(steps[UNIFORM], last, strict=True)]
        found = [one / other for one, other in zip(steps[RHO], least, strict=True)]
        words = f"steps {_listed(steps[RHO], 0)}, uniform {_listed(steps[UNIFORM], 0)} of {last[0]}"
        says = f"RHO-LOSS reaches {100 * target:g} % in 0.6 of uniform's steps or fewer"
        verdicts.append(ClaimVerdict("R5", says, float(np.median(found)) <= 0.6, words, condition))
    return verdicts


def _claims_spread(rows: list[dict[str, Any]], condition: str) -> list[ClaimVerdict]:
    """Uniform differs from trial to trial more than RHO-LOSS does, by the largest less the least final accuracy."""
    if RHO not in _names(rows, "method") or len(_trials(rows)) < 2:
        return []
    final = {method: _finals(rows, method) for method in (RHO, UNIFORM)}
    spread = {method: max(found) - min(found) for method, found in final.items()}
    words = f"accuracy {_listed(final[RHO])}, uniform {_listed(final[UNIFORM])}"
    says = "RHO-LOSS ends less differently from trial to trial than uniform"
    return [ClaimVerdict("R11", says, spread[RHO] < spread[UNIFORM], words, condition)]


def _claims_more_noise(rows: list[dict[str, Any]]) -> list[ClaimVerdict]:
    """The more labels are wrong, the fewer of uniform's steps RHO-LOSS needs: uniform noise from least to most."""
    found = []
    for condition in _names(rows, "condition"):
        here = [row for row in rows if row["condition"] == condition]
        if RHO in _names(here, "method") and (condition == "clean" or condition in NOISE[:3]):
            found.append((_base(here, "noisy"), condition, float(np.median(_ratios(here, RHO)))))
    if len(found) < 2:
        return []
    found.sort()
    words = ", ".join(f"{condition} {ratio:.2f}" for _, condition, ratio in found)
    passed = found[-1][2] < found[0][2]
    says = "the more labels are wrong, the fewer of uniform's steps RHO-LOSS needs"
    return [ClaimVerdict("R5", says, passed, f"median ratio of steps: {words}", "least and most noise")]


def sections(findings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """For each condition accuracy and wrong labels over steps with a table of methods; published ratios at the end."""
    rows, parts = findings["rows"], []
    for condition in _names(rows, "condition"):
        here = [row for row in rows if row["condition"] == condition]
        methods = _names(here, "method")
        marks = [mark for mark in ("noisy", "irrelevant") if here[0]["base"][mark] > 0]
        drawings = [_chart(here, "accuracy", "test accuracy, mean of trials")]
        drawings += [_chart(here, mark, f"share of selected points: {mark}") for mark in marks]
        drawings.append(_chart(here, "correct", "share of selected points: right already"))
        targets = findings.get("targets", ())
        head = ["method", "best", "final", *(f"steps to {100 * one:g} %" for one in targets)]
        head += ["steps to uniform's best", "ratio", "seconds", "ratio", *marks, "right already"]
        cells = [_line(here, method, marks, targets) for method in methods]
        caption = (
            f"{findings['trials']} trials; medians of steps and seconds, means of all else. Uniform's best accuracy:"
            f" {_listed([_uniform(here, trial)[0] for trial in _trials(here)])} at steps"
            f" {_listed([_uniform(here, trial)[1] for trial in _trials(here)], 0)}. Seconds hold selection, training"
            " and the training for irreducible losses, but no evaluation."
        )
        base = "".join(f"<p>Of the pool, {100 * _base(here, mark):.1f} % are {mark}.</p>" for mark in marks)
        known = [row["irreducible"] for row in here if "irreducible" in row]
        if known:
            mean = {name: float(np.mean([one[name] for one in known])) for name in known[0]}
            base += f"<p>Irreducible losses: mean {mean['right']:.2f} nats for right labels"
            base += f", {mean['wrong']:.2f} for wrong ones" if "noisy" in marks else ""
            base += f"; {mean['seconds']:.1f} s to make.</p>"
        body = f'{base}<div class="card">{table(head, cells, caption)}</div>{"".join(drawings)}'
        parts.append((f"condition-{condition.replace('.', '-')}", condition, body))
    head = ["data", "target", "uniform", "RHO-LOSS", "ratio"]
    caption = "Published (Mindermann et al. 2022): epochs of candidates to a test accuracy; none for MNIST"
    parts.append(("published", "Published", f'<div class="card">{table(head, _PUBLISHED, caption)}</div>'))
    return parts


def _line(rows: list[dict[str, Any]], method: str, marks: list[str], targets: Sequence[float]) -> list[str]:
    """The cells of one method."""
    needed, ratios = [_needed(rows, trial, method) for trial in _trials(rows)], _ratios(rows, method)
    seconds = [_seconds(rows, trial, method) for trial in _trials(rows)]
    of_uniform = [_seconds_ratio(rows, trial, method) for trial in _trials(rows)]
    best = [max(row["curve"]["accuracy"]) for row in _of(rows, method)]
    return [
        method,
        f"{np.mean(best):.4f}",
        f"{np.mean(_finals(rows, method)):.4f}",
        *(_number(float(np.median([_steps_to(row, one) for row in _of(rows, method)])), 0) for one in targets),
        _number(np.median([math.inf if one is None else one for one in needed]), 0),
        _number(np.median(ratios)),
        _number(np.median(seconds), 1),
        _number(np.median(of_uniform)),
        *(f"{np.mean(_shares(rows, method, mark)):.3f}" for mark in marks),
        f"{np.mean(_shares(rows, method, 'correct')):.3f}",
    ]


def _chart(rows: list[dict[str, Any]], name: str, words: str) -> str:
    """A line per method, mean of trials: the accuracy after each interval, or a share of what was selected in it."""
    lines = {}
    for method in _names(rows, "method"):
        curves = [row["curve"] for row in _of(rows, method)]
        values = [np.array(one[name]) / (1 if name == "accuracy" else np.maximum(1, one["selected"])) for one in curves]
        lines[method] = list(zip(curves[0]["step"], np.mean(values, axis=0).tolist(), strict=True))
    return line_chart(lines, "steps", words)


def _names(rows: list[dict[str, Any]], key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))


def _trials(rows: list[dict[str, Any]]) -> list[int]:
    return sorted({row["trial"] for row in rows})


def _of(rows: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    """The rows of a method, by trial."""
    return sorted((row for row in rows if row["method"] == method), key=lambda row: int(row["trial"]))


def _base(rows: list[dict[str, Any]], mark: str) -> float:
    return float(np.mean([row["base"][mark] for row in rows]))


def _finals(rows: list[dict[str, Any]], method: str) -> list[float]:
    return [row["curve"]["accuracy"][-1] for row in _of(rows, method)]


def _shares(rows: list[dict[str, Any]], method: str, mark: str) -> list[float]:
    """Of all points that a method selected, the share that is marked: one number per trial."""
    return [sum(row["curve"][mark]) / sum(row["curve"]["selected"]) for row in _of(rows, method)]


def _uniform(rows: list[dict[str, Any]], trial: int) -> tuple[float, int]:
    """The best accuracy of uniform in a trial, and the first step that has it."""
    curve = _of(rows, UNIFORM)[trial]["curve"]
    at = int(np.argmax(curve["accuracy"]))
    return curve["accuracy"][at], curve["step"][at]


def _steps_to(row: dict[str, Any], target: float) -> float:
    """The steps of a row to an accuracy; infinite where it is not reached."""
    from natsel.evaluation import steps_to_accuracy

    found = steps_to_accuracy(row["curve"]["step"], row["curve"]["accuracy"], target)
    return math.inf if found is None else found


def _needed(rows: list[dict[str, Any]], trial: int, method: str) -> int | None:
    """The steps of a method to the best accuracy of uniform."""
    from natsel.evaluation import steps_to_accuracy

    curve = _of(rows, method)[trial]["curve"]
    return steps_to_accuracy(curve["step"], curve["accuracy"], _uniform(rows, trial)[0])


def _ratios(rows: list[dict[str, Any]], method: str) -> list[float]:
    """Steps to the best accuracy of uniform over those of uniform, one per trial; infinite where it is not reached."""
    from natsel.evaluation import steps_ratio

    found = [steps_ratio(_needed(rows, trial, method), _uniform(rows, trial)[1]) for trial in _trials(rows)]
    return [one for one in found if one is not None]


def _seconds(rows: list[dict[str, Any]], trial: int, method: str) -> float:
    """Seconds to the best accuracy of uniform, with those that irreducible losses took."""
    row, needed = _of(rows, method)[trial], _needed(rows, trial, method)
    if needed is None:
        return math.inf
    seconds = row["curve"]["seconds"][row["curve"]["step"].index(needed)]
    return float(seconds + row.get("irreducible", {}).get("seconds", 0.0))


def _seconds_ratio(rows: list[dict[str, Any]], trial: int, method: str) -> float:
    return _seconds(rows, trial, method) / _seconds(rows, trial, UNIFORM)


def _share_until_target(rows: list[dict[str, Any]], trial: int, method: str, mark: str) -> float:
    """The share marked of what was selected up to the best accuracy of uniform, or to the end."""
    curve, needed = _of(rows, method)[trial]["curve"], _needed(rows, trial, method)
    end = len(curve["step"]) if needed is None else curve["step"].index(needed) + 1
    return float(sum(curve[mark][:end]) / sum(curve["selected"][:end]))


def _already_right(rows: list[dict[str, Any]], method: str) -> float:
    """The share of points that were right already, while the network was below the weakest final accuracy.

    An accurate network finds more of all points right; only networks that are no better are compared.
    """
    weakest = min(accuracy for name in _names(rows, "method") for accuracy in _finals(rows, name))
    right = selected = 0
    for row in _of(rows, method):
        curve = row["curve"]
        before = [0.0, *curve["accuracy"][:-1]]  # at the start of each interval
        for number in [number for number, accuracy in enumerate(before) if accuracy < weakest]:
            right, selected = right + curve["correct"][number], selected + curve["selected"][number]
    return right / max(1, selected)


def _listed(values: list[float], digits: int = 3) -> str:
    return ", ".join(_number(value, digits) for value in values)


def _number(value: float, digits: int = 2) -> str:
    return "never" if math.isinf(value) else f"{value:.{digits}f}"


def _mask(examples: Any, name: str) -> Array:
    found: Array = np.asarray(examples.masks.get(name, np.zeros(len(examples), dtype=bool)))
    return found


def _bare(examples: Any) -> Any:
    """Examples without their masks, which no model sees."""
    return replace(examples, masks={})
