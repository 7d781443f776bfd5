"""An environment for the peers: their dependencies are their own affair and stay out of natsel's."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path


def setup(directory: str | Path) -> Path:
    """Make a virtual environment with batchbald-redux and baal in a folder; returns its interpreter.

    torch is installed in the version natsel runs on, so that both sides compute with the same library.
    torchvision comes along as a dependency and is taken out again: beside another build of torch it makes the
    peers fail to import.
    """
    directory = Path(directory).absolute()
    python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if directory.exists() and not python.exists() and any(directory.iterdir()):
        raise ValueError(f"setup: {directory} holds something else; name a new or empty folder")
    torch = importlib.metadata.version("torch").split("+")[0]
    for command in (
        [sys.executable, "-m", "venv", str(directory)],
        [str(python), "-m", "pip", "install", f"torch=={torch}", "batchbald-redux", "baal"],
        [str(python), "-m", "pip", "uninstall", "--yes", "torchvision"],
    ):
        # Progress goes to stderr, so that stdout stays free for a result.
        if subprocess.run(command, stdout=sys.stderr.fileno()).returncode:
            raise RuntimeError(f"setup: `{' '.join(command)}` failed; its messages above say why")
    return python
