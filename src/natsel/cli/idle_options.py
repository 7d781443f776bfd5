"""Options that would change nothing are refused: each changes what its command says, or is named in an error.

What hangs on other options stands here, what hangs on the data in the commands. `refuse_idle` is for both.
"""

from typing import Any

from typer.core import TyperCommand

NEEDS: dict[str, dict[str, tuple[str, ...]]] = {
    "evaluate": {"bins": ("labels",), "classes": ("labels", "held_out_labels")},
    "triage": {
        "pictures": ("page",),
        "level": ("reference",),
        **dict.fromkeys(("classes", "error", "defer", "label"), ("labels",)),
    },
    "info": dict.fromkeys(("at", "q", "unit", "diagram"), ("table",)),
    "report": {"formats": ("figures",)},
    "bench": {"seeds": ("quality",)},
}
"""Options that are of use only with one of others."""
ALONE: dict[str, dict[str, tuple[str, ...]]] = {
    "methods": {"markdown": ()},
    "run": {"listed": ("as_json",), "new": ("data", "labels", "inputs")},
    "bench": {"setup": ()},
}
"""Options after which a command looks at nothing but these."""


def refuse_idle(context: Any, why: str, *names: str) -> None:
    """Refuse the first of these parameters that the command line gives; `why` says what makes it useless."""
    for option in (option for name, option in given(context).items() if name in names):
        raise ValueError(f"{option.lstrip('-')}: {why}; leave {option} out")


def given(context: Any) -> dict[str, str]:
    """The parameters that the command line gives, each as it is called there."""
    sources = {one.name: context.get_parameter_source(one.name) for one in context.command.params}
    return {
        name: _called(context)[name] for name, source in sources.items() if getattr(source, "name", "") == "COMMANDLINE"
    }


def _called(context: Any) -> dict[str, str]:
    return {one.name: max(one.opts, key=len) for one in context.command.params}


class Command(TyperCommand):
    """A command that looks at its options before it does anything."""

    def invoke(self, ctx: Any) -> Any:
        said = given(ctx)
        for name, others in NEEDS.get(self.name or "", {}).items():
            if not set(others) & set(said):
                needed = " or ".join(_called(ctx)[other] for other in others)
                refuse_idle(ctx, f"it changes nothing without {needed}; pass {needed} too", name)
        for name, others in ALONE.get(self.name or "", {}).items():
            if name in said:
                idle = [other for other in said if other not in (name, *others)]
                refuse_idle(ctx, f"it changes nothing beside {said[name]}", *idle)
        return super().invoke(ctx)
