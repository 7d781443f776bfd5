"""What made a result: versions, and the commit of the checkout that this code runs from.

Versions of a package under development do not tell one day's code from the next; a commit does.
"""

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

_PACKAGES = ("torch", "numpy", "scikit-learn")


def versions() -> dict[str, str]:
    """What a result was made with, for the file that keeps it.

    >>> {"natsel", "python", "torch"} <= versions().keys()
    True
    """
    made = commit()
    # The package itself is above everything in it; it is there, or this would not run.
    found = {"natsel": sys.modules["natsel"].__version__, **({"commit": made} if made else {})}
    found |= {"python": platform.python_version(), "machine": platform.machine()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """The commit, with "+changes" where sources differ from it; "" where nobody knows.

    `NATSEL_COMMIT` says it where code runs from a copy without its history.

    >>> commit() == commit()
    True
    """
    if given := os.environ.get("NATSEL_COMMIT"):
        return given
    source = Path(__file__).resolve().parent
    try:
        found = _git(source, "rev-parse", "HEAD")
        # An installed copy may lie inside somebody else's repository.
        tracked = found and _git(source, "ls-files", "--error-unmatch", "provenance.py")
        return found + ("+changes" if _git(source, "status", "--porcelain", "--", ".") else "") if tracked else ""
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()
