"""The command line: `natsel demo | select | evaluate | triage | methods | info | data | run | report | …`.

One file a command; what is heavy is imported inside the commands, so that `--help` is quick, and so that the settings
of threads are there before torch is. Bad input ends with exit code 2 and one sentence on stderr, an interruption with
130.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from natsel import threads
from natsel.cli import (
    bench,
    data,
    demo,
    evaluate,
    info,
    irreducible_loss,
    journal,
    methods,
    prune,
    report,
    run,
    select,
    triage,
)
from natsel.cli.idle_options import Command
from natsel.cli.output import say

app = typer.Typer(
    name="natsel",
    help="Select data by the nats they carry: an objective, read from a belief, maximised by a search.",
    epilog="Example: natsel demo   (each command shows one of its own: natsel select --help)",
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (demo, select, evaluate, triage, irreducible_loss, prune, methods, info, run, report, bench)
for module in COMMANDS:
    app.command(module.NAME, cls=Command, epilog=module.EXAMPLE)(module.command)
for group in (data, journal):
    app.add_typer(group.app, name=group.NAME, epilog=group.EXAMPLE)


def _version(wanted: bool) -> None:
    if wanted:
        from natsel import __version__

        print(f"natsel {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _natsel(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE", help="Import a module that brings methods of its own; may be given twice."),
    ] = None,
) -> None:
    if plugin:
        from natsel.plugins import load_for_this_command

        load_for_this_command(*plugin)
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; without arguments, that of the command line, in a process of its own.

    >>> main(["--version"])
    natsel ...
    0
    """
    if arguments is None and not {"-h", "--help", "--version"} & set(sys.argv):
        threads.settle()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a sign that the encoding lacks becomes ?, after hours of runs too
            stream.reconfigure(errors="replace")
    try:
        code = app(args=arguments, prog_name="natsel", standalone_mode=False)
    except (ValueError, ImportError, OSError, MemoryError, OverflowError, RecursionError) as refusal:
        return _refuse(_sentence(refusal))
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as failure:
        # typer's usage errors; the class behind them moved between versions of typer, their method did not.
        describe = getattr(failure, "format_message", None)
        if describe is None:
            raise
        command = getattr(getattr(failure, "ctx", None), "command_path", None) or _command_in(arguments)
        found = describe().rstrip(".").replace(". Did you mean", "; did you mean")
        return _refuse(f"{found}{'' if found.endswith('?') else ';'} {command} --help shows how")
    return code if isinstance(code, int) else 0


def _command_in(arguments: Sequence[str] | None) -> str:
    """The command that was called, for errors of options, which do not know it."""
    called = next((word for word in (sys.argv[1:] if arguments is None else arguments) if not word.startswith("-")), "")
    known = {module.NAME for module in (*COMMANDS, data, journal)}
    return f"natsel {called}" if called in known else "natsel"


def _refuse(sentence: str) -> int:
    say(f"natsel: {sentence}", err=True)
    return 2


def _sentence(refusal: Exception) -> str:
    if isinstance(refusal, OSError) and refusal.strerror:
        return f"{refusal.filename or 'file'}: {refusal.strerror}"
    return " ".join(str(refusal).split()) or "memory is full; give it less at a time, or use a larger machine"
