"""`natsel demo`: ten digits chosen from a pool by a committee of logistic regressions, and why these.

A bagged committee is consistent: member k is the same model at every point, so what labels tell together is known.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.output import COLUMNS, picks_table, print_json, rows, warn

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from natsel import CategoricalSamples, Explanation

NAME = "demo"
EXAMPLE = "Example: natsel demo --method power-bald -k 5 --seed 1"

EACH = 3
"""Labelled digits of each class."""
MEMBERS = 100


@dataclass(frozen=True)
class Digits:
    """scikit-learn's digits, a few of them labelled, and a committee's belief about the others."""

    images: "np.ndarray[Any, Any]"
    labels: "np.ndarray[Any, Any]"
    belief: "CategoricalSamples"
    accuracy: float


def command(
    method: Annotated[str, typer.Option("--method", "-m", help="The method to show.")] = "batchbald",
    k: Annotated[int, typer.Option("-k", "--k", help="How many digits to pick.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other labelled digits.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Choose digits to label with a committee of models, and see what the choice is worth. No download."""
    import sklearn.linear_model  # noqa: F401  the limit below holds for libraries that are loaded by then
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    from natsel.choose import resolve

    chosen = resolve(method).name

    with threadpool_limits(1):  # the models are tiny: threads would only wait for each other
        digits = make_digits(seed)
        batches = {
            name: _batch(name, digits, k, seed) for name in dict.fromkeys((chosen, "batchbald", "bald", "random"))
        }
    if as_json:
        print_json(_report(digits, batches, chosen, k, seed))
    else:
        _show(digits, batches, chosen)


def make_digits(seed: int) -> Digits:
    """Label a few digits of each class, train a committee on bootstrap samples of them, predict the others."""
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    import natsel

    data = load_digits()
    inputs = data.data / 16
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(inputs))
    labelled = np.concatenate([order[data.target[order] == digit][:EACH] for digit in range(10)])
    pool = np.setdiff1d(order, labelled)
    probs_N_K_C = np.zeros((len(pool), MEMBERS, 10))
    for member in range(MEMBERS):
        bag = rng.choice(labelled, len(labelled))
        model = LogisticRegression(C=10, max_iter=200, tol=1e-3).fit(inputs[bag], data.target[bag])
        # A bag need not hold every class: the columns go where the model says they belong.
        probs_N_K_C[:, member, model.classes_] = model.predict_proba(inputs[pool])
    accuracy = float((probs_N_K_C.mean(1).argmax(1) == data.target[pool]).mean())
    belief = natsel.CategoricalSamples.from_probs(probs_N_K_C, ids_N=pool, draws_id=f"demo-{seed}")
    return Digits(data.images / 16, data.target, belief, accuracy)


def _batch(name: str, digits: Digits, k: int, seed: int) -> "Explanation":
    import natsel

    needs_labels = natsel.methods()[name].facts.needs_labels
    labels = digits.labels[digits.belief.ids_N.numpy()] if needs_labels else None
    return natsel.select(name, digits.belief, k, labels=labels, seed=seed).explain()


def _report(digits: Digits, batches: "dict[str, Explanation]", chosen: str, k: int, seed: int) -> dict[str, Any]:
    return {
        "method": chosen,
        "k": k,
        "seed": seed,
        "labelled": 10 * EACH,
        "members": MEMBERS,
        "pool": len(digits.belief),
        "accuracy": digits.accuracy,
        "picks": [row | {"label": int(digits.labels[row["id"]])} for row in rows(batches[chosen])],
        "batches": {
            name: {"indices": [pick.id for pick in batch.picks], "information": batch.information}
            for name, batch in batches.items()
        },
        "warnings": list(batches[chosen].warnings),
    }


def _show(digits: Digits, batches: "dict[str, Explanation]", chosen: str) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    picked = [pick.id for pick in batches[chosen].picks]
    console.print(
        f"\n[bold]Which {len(picked)} digits should be labelled next?[/bold]\n\n"
        f"{10 * EACH} digits have labels, {EACH} of each. {MEMBERS} logistic regressions, each trained on its own"
        f" bootstrap sample of them, make the belief about the other {len(digits.belief):,};"
        f" together they get {digits.accuracy:.0%} right.\n"
    )
    console.print(picks_table(rows(batches[chosen]), COLUMNS, f"[bold]{chosen}[/bold] picks, in nats"))
    _draw(console, digits, picked)
    console.print("What the labels of a batch are expected to tell about the model:\n")
    _bars(console, {name: batch.information for name, batch in batches.items()}, chosen)
    console.print(f"\n{_moral(batches, chosen, len(picked))}\n")
    warn(batches[chosen].warnings)


def _draw(console: "Console", digits: Digits, picked: list[int]) -> None:
    from natsel.cli.pictures import gallery, picture

    unicode = console.encoding.startswith("utf")
    colour = unicode and console.is_terminal and console.color_system not in (None, "standard")
    mean_N_C = digits.belief.log_probs_N_K_C.exp().mean(1)
    positions = {id: position for position, id in enumerate(digits.belief.ids_N.tolist())}
    guesses = [mean_N_C[positions[id]].topk(2).indices.tolist() for id in picked]
    captions = [
        f"{first} or {second}? {digits.labels[id]}" for id, (first, second) in zip(picked, guesses, strict=True)
    ]
    pictures = [picture(digits.images[id], colour, unicode) for id in picked]
    for line in gallery(pictures, captions, console.width):
        console.print(line, no_wrap=True, crop=False)
    console.print("Below each: the committee's two best guesses, then what it is.\n", style="dim")


def _bars(console: "Console", information: dict[str, float], chosen: str) -> None:
    from rich.bar import Bar
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=12)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(width=40)
    most = max(*information.values(), 1e-12)
    for name, nats in sorted(information.items(), key=lambda item: -item[1]):
        style = "bold" if name == chosen else ""
        table.add_row(f"[{style}]{name}[/{style}]" if style else name, f"{nats:.3f} nats", Bar(most, 0, nats))
    console.print(table)


def _moral(batches: "dict[str, Explanation]", chosen: str, k: int) -> str:
    others = ", ".join(
        f"{'one taken at random' if name == 'random' else name + chr(39) + 's'} {batch.information:.2f}"
        for name, batch in batches.items()
        if name != chosen
    )
    alone = sum(pick.epistemic for pick in batches[chosen].picks)
    ceiling = math.log(MEMBERS)
    return (
        f"The {k} labels of {chosen}'s batch carry {batches[chosen].information:.2f} nats together"
        f" ({alone:.2f} if they did not overlap; {MEMBERS} members can tell at most {ceiling:.2f}), {others}."
    )
