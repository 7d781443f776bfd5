"""`natsel info`: an information quantity written as in a paper: its name, its expansion, its value, its picture."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from natsel.cli.output import print_json, say, warn

if TYPE_CHECKING:
    from natsel.calculus import DiscreteJoint, Expression, Statement

NAME = "info"
EXAMPLE = 'Example: natsel info "I\\[X;Y|Z]" --table joint.csv --diagram out.svg'


def command(
    text: Annotated[
        str,
        typer.Argument(
            metavar="QUANTITY",
            help="A quantity, as in H\\[X|y], I\\[X;Y|Z], TC\\[X;Y;Z] or KL(p(X) || q(X)); capitals are variables,"
            " small letters their outcomes. Or a statement to decide: I\\[X;Y] = I\\[Y;X].",
            show_default=False,
        ),
    ],
    table: Annotated[
        Path | None,
        typer.Option(help="A CSV file: a column per variable and a column p or count (none: each row counts 1)."),
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="What a small letter stands for: y=1; y=* for every outcome. Repeatable.")
    ] = None,
    q: Annotated[
        list[str] | None, typer.Option(help="A CSV file of the model q; or NAME=FILE for another law. Repeatable.")
    ] = None,
    unit: Annotated[str, typer.Option(help="nats or bits.")] = "nats",
    diagram: Annotated[Path | None, typer.Option(help="Draw it: .svg, .png or .pdf. Needs --table.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Say what an information quantity is called, what it expands to, and what it is worth on a table.

    A statement (=, <=, >=, !=) is proved for all distributions, or refuted by a counter-example.
    Limits: 13 variables in an I, 12 on each side of a statement; 16 in a statement that is not proved by its form.
    """
    from natsel.calculus import ParseError, Statement, parse_statement
    from natsel.calculus.expressions import models_of

    try:
        parsed = parse_statement(text)
    except ParseError as error:  # more than the one line other refusals have: the caret shows where
        say(f"natsel: {error}", err=True)
        raise typer.Exit(2) from None
    joint = None if table is None else _table(table)
    if isinstance(parsed, Statement):
        if diagram is not None:
            raise ValueError("diagram: a statement has no picture; pass one of its sides")
        report = _decided(parsed, joint, at or [], q or [], unit)
    else:
        report = _described(parsed) | ({} if joint is None else _valued(parsed, joint, at or [], q or [], unit))
        if diagram is not None:
            from natsel.calculus.diagrams import diagram_of

            diagram_of(parsed, joint, _outcomes(at or []), diagram, unit)
            report["diagram"] = str(diagram)
    sides = (parsed.left, parsed.right) if isinstance(parsed, Statement) else (parsed,)
    for name in (name for name in _models(q or []) or {} if not any(name in models_of(side) for side in sides)):
        raise ValueError(f"q: {text} names no law {name}; leave --q out")
    if as_json:
        print_json(report)
    else:
        say("\n".join(_lines(report)))
        warn(report.get("warnings", []))


def _table(path: Path, measure: bool = False) -> "DiscreteJoint":
    from natsel.calculus import DiscreteJoint

    return DiscreteJoint.read_csv(path, measure=measure)


def _described(expression: "Expression") -> dict[str, Any]:
    """What can be said of a quantity without numbers."""
    from natsel.calculus import NotReducible, canonical, chain, expand, name_of
    from natsel.calculus.formatting import latex

    try:
        form = {str(key): str(factor) for key, factor in canonical(expression).items()}
    except NotReducible:
        form = None
    try:
        chained = str(chain(expression))
    except ValueError:  # nothing to chain, or it does not
        chained = str(expression)
    return {
        "expression": str(expression),
        "name": name_of(expression),
        "expansion": str(expand(expression)),
        "chain": None if chained == str(expression) else chained,
        "canonical": form,
        "latex": latex(expression),
    }


def _valued(expression: "Expression", joint: "DiscreteJoint", at: list[str], q: list[str], unit: Any) -> dict[str, Any]:
    """What a quantity is worth on a table."""
    from natsel.calculus import evaluate

    outcomes = _outcomes(at)
    result = evaluate(expression, joint, at=outcomes, q=_models(q), unit=unit)
    value = result.value if isinstance(result.value, float) else result.value.tolist()
    shown = {
        name: "*" if outcome is not None and not isinstance(outcome, str) else outcome
        for name, outcome in outcomes.items()
    }
    stars = [name for name, outcome in shown.items() if outcome == "*"]
    variable = stars[0][:1].upper() + stars[0][1:] if len(stars) == 1 else None
    labels = None if variable is None else [joint.label(variable, place) for place in range(joint.size(variable))]
    infinite = ["the value is infinite"] if value in (float("inf"), float("-inf")) else []
    return {
        "value": value,
        "unit": unit,
        "at": shown,
        "outcomes": labels,
        "warnings": [*result.warnings, *infinite],
    }


def _decided(
    statement: "Statement", joint: "DiscreteJoint | None", at: list[str], q: list[str], unit: Any
) -> dict[str, Any]:
    """Whether a statement holds for all distributions; and its sides on a table."""
    from natsel.calculus import verify

    verdict = verify(statement)
    found = verdict.counterexample
    report: dict[str, Any] = {"statement": str(statement), "verdict": verdict.verdict, "reason": verdict.reason}
    report["counterexample"] = None
    if found is not None:
        tables = {name: list(_records(table)) for name, table in {"p": found.joint, **found.q}.items()}
        sides = {"left": found.left, "right": found.right}
        report["counterexample"] = {"at": dict(found.at), **sides, "tables": tables, "text": str(found)}
    if joint is not None:
        for side in ("left", "right"):
            report[side] = _valued(getattr(statement, side), joint, at, q, unit)["value"]
        report |= {"unit": unit, "warnings": []}
    return report


def _records(joint: Any) -> Iterator[dict[str, Any]]:
    """The cells of a table that can happen, as rows of a CSV file would hold them."""
    for cell in (joint.log_p > -float("inf")).nonzero().tolist():
        labels = {name: joint.label(name, place) for name, place in zip(joint.names, cell, strict=True)}
        yield labels | {"p": float(joint.log_p[tuple(cell)].exp())}


def _outcomes(at: list[str]) -> dict[str, Any]:
    from natsel.calculus import ALL

    outcomes: dict[str, Any] = {}
    for text in at:
        name, sign, outcome = (part.strip() for part in text.partition("="))
        if not name or not sign or not outcome:
            raise ValueError(f"at: expected an outcome such as y=1, found {text!r}; write NAME=OUTCOME")
        outcomes[name] = ALL if outcome == "*" else outcome
    return outcomes


def _models(q: list[str]) -> Any:
    models = {}
    for text in q:
        name, sign, file = text.partition("=")
        named = bool(sign) and name.isidentifier()
        models[name if named else "q"] = _table(Path(file if named else text), measure=True)
    return models or None


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """A report for people: one thing per line."""
    if "verdict" in report:
        yield report["statement"]
        yield from _fields({"verdict": report["verdict"], "reason": report["reason"]})
        found = report["counterexample"]
        if found is not None:
            yield from _fields({"counter-example": found["text"].replace("\n", "\n  ")})
        if "left" in report:
            sides = ", ".join(f"{side} {_number(report[side])}" for side in ("left", "right"))
            yield from _fields({"on the table": f"{sides} {report['unit']}"})
        return
    yield report["expression"]
    if "value" in report:
        if report["outcomes"] is None:
            yield from _fields({"value": f"{_number(report['value'])} {report['unit']}"})
        else:
            star = next(name for name, outcome in report["at"].items() if outcome == "*")
            for outcome, value in zip(report["outcomes"], report["value"], strict=True):
                yield from _fields({f"at {star}={outcome}": f"{_number(value)} {report['unit']}"})
    form = report["canonical"]
    shown = {name: report[name] for name in ("name", "expansion", "chain") if report[name]}
    if "value" not in report and form is not None:
        shown["canonical"] = _sum(form)
    yield from _fields(shown | ({"written to": report["diagram"]} if "diagram" in report else {}))


def _fields(values: dict[str, str]) -> Iterator[str]:
    for name, value in values.items():
        yield f"  {name:<16}{value}"


def _number(value: Any) -> str:
    return f"{value:.6f}" if isinstance(value, float) else f"[{', '.join(map(_number, value))}]"


def _sum(form: dict[str, str]) -> str:
    parts = [(factor.startswith("-"), factor.lstrip("-"), key) for key, factor in form.items()]
    text = " ".join(f"{'-' if minus else '+'} {'' if size == '1' else size + ' '}{key}" for minus, size, key in parts)
    return text.removeprefix("+ ") or "0"
