"""Options that would change nothing are refused: each changes what its command says, or is named in an error.

What hangs on other options stands here, what hangs on the data in the commands.
"""

from typing import Any

from typer.core import TyperCommand

_Options = dict[str | None, dict[str, tuple[str, ...]]]
NEEDS: _Options = {
    "select": {"target_labels": ("labels",)},  # methods that look at labels of targets want both
    "evaluate": {"bins": ("labels",), "classes": ("labels", "held_out_labels")},
    "triage": {
        **{"pictures": ("page",), "level": ("reference",)},
        **dict.fromkeys(("classes", "error", "defer", "label"), ("labels",)),
    },
    "info": dict.fromkeys(("at", "q", "unit", "diagram"), ("table",)),
    "report": {"formats": ("figures",)},
    "bench": {"seeds": ("quality",)},
}
"""Options that are of use only with one of others."""
ALONE: _Options = {
    "methods": {"markdown": ()},
    "run": {"listed": ("as_json",), "new": ("data", "labels", "inputs")},
    "bench": {"setup": ()},
}
"""Options after which a command looks at nothing but these."""


def refuse_idle(context: Any, why: str, *names: str) -> None:
    """Refuse the first of these parameters that the command line gives; `why` says what makes it useless."""
    for one in context.command.params:
        if one.name in names and getattr(context.get_parameter_source(one.name), "name", "") == "COMMANDLINE":
            option = max(one.opts, key=len)
            raise ValueError(f"{option.lstrip('-')}: {why}; leave {option} out")


class Command(TyperCommand):
    """A command that looks at its options before it does anything."""

    def invoke(self, ctx: Any) -> Any:
        called = {str(one.name): max(one.opts, key=len) for one in self.params}
        given = [name for name, value in ctx.params.items() if value is not None and value is not False]
        for name, others in NEEDS.get(self.name, {}).items():
            if not set(others) & set(given):
                needed = " or ".join(called[other] for other in others)
                refuse_idle(ctx, f"it changes nothing without {needed}; pass {needed} too", name)
        for name, others in ALONE.get(self.name, {}).items():
            if name in given:
                refuse_idle(ctx, f"it changes nothing beside {called[name]}", *(set(called) - {name, *others}))
        return super().invoke(ctx)
