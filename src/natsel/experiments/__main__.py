"""`python -m natsel.experiments RECIPE --folder OUT`: the runner with plain lines, where only the core is installed.

It takes what `natsel run` takes. Exit code 0: all jobs are finished; 1: some failed or are left; 2: bad input.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from natsel.experiments.recipe.plan import load_plan
from natsel.experiments.recipe.recipe import recipe_names
from natsel.experiments.running.run import Outcome, Report
from natsel.experiments.running.suite import run_plan


def line(event: dict[str, Any], began: float) -> str:
    """An event as a line of text; empty for those that say nothing to people."""
    who = f"{event.get('method', '')} seed {event.get('seed', '')}"
    at = f"{time.monotonic() - began:7.1f} s  "
    match event["event"]:
        case "round":
            measured = "  ".join(f"{name} {value:.4f}" for name, value in event["metrics"].items())
            spent = " ".join(f"{stage} {seconds:.2f}" for stage, seconds in event["seconds"].items())
            return f"{at}{who}: {event['labels']} labels  {measured}  ({spent})"
        case "done":
            return f"{at}{who}: finished in {event['seconds']:.1f} s"
        case "skipped":
            return f"{at}{who}: was finished before"
        case "failed":
            return f"{at}{who}: FAILED: {event['error']}"
        case "said":
            return f"{at}{event['text']}"
        case _:
            return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a recipe and return the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m natsel.experiments", description=__doc__)
    parser.add_argument("recipe", help=f"{', '.join(recipe_names())}, or a .toml file")
    parser.add_argument("--folder", type=Path, help="where journals and results go (default: runs/RECIPE)")
    parser.add_argument("--methods", help="names with commas between, for example random,power-bald:beta=4")
    parser.add_argument("--seeds", help="for example 0-5")
    parser.add_argument("--variants", help="parts of the recipe with commas between, for example redundant")
    parser.add_argument("--budget", type=int, help="labels in all")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", help="cpu, cuda …")
    parser.add_argument("--minutes", type=float, help="stop after so many; run again to go on")
    parser.add_argument("--full", action="store_true", help="the published protocol")
    parser.add_argument("--fresh", action="store_true", help="throw away what the folder holds")
    given = parser.parse_args(arguments)
    began = time.monotonic()

    def showing(variant: str) -> Report:
        def show(event: dict[str, Any]) -> None:
            who = {"method": f"{variant} {event['method']}"} if variant and "method" in event else {}
            text = line(event | who, began)
            if text:
                print(text, flush=True)

        return show

    try:
        plan = load_plan(given.recipe, full=given.full, variants=given.variants)
        plan = plan.adjusted(methods=given.methods, seeds=given.seeds, budget=given.budget)
        ended = run_plan(
            plan,
            given.folder or Path("runs") / plan.name,
            processes=given.processes,
            device=given.device,
            fresh=given.fresh,
            minutes=given.minutes,
            progress=showing,
            command=["python", "-m", "natsel.experiments", *arguments],
        )
    except (ValueError, OSError) as refusal:
        print(f"natsel: {' '.join(str(refusal).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    for outcome in ended.outcomes.values():
        print(summary(outcome), flush=True)
    if plan.study or ended.finished or ended.left:
        from natsel.experiments.results.publish import publish

        try:
            print(publish(ended.folder).told(), flush=True)
        except ValueError as nothing:  # time was up before anything was measured
            print(f"natsel: {nothing}", file=sys.stderr)
    return 1 if ended.failed or ended.left else 0


def summary(outcome: Outcome) -> str:
    """How a run ended, in a sentence.

    >>> summary(Outcome(Path("out")))
    'out: 0 jobs finished'
    """
    text = f"{outcome.folder}: {len(outcome.done) + len(outcome.skipped)} jobs finished"
    text += f", {len(outcome.failed)} failed" if outcome.failed else ""
    return text + (f", {len(outcome.left)} left: run again to go on" if outcome.left else "")


if __name__ == "__main__":
    sys.exit(main())
