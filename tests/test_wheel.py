"""The wheel in a fresh environment: what README.md shows runs there as written, with nothing of the checkout."""

import importlib.util
import subprocess
import sys
import venv
from pathlib import Path

import numpy
import pytest

from test_pages import ROOT, blocks, lines_of

pytestmark = pytest.mark.slow


def call(*command, cwd):
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, encoding="utf-8", timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of an environment with natsel from its wheel; what natsel needs is taken from where it is."""
    for package in ("hatchling", "pip"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs the package {package}")
    folder = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    wheel = next(folder.glob("*.whl"))
    venv.create(folder / "venv", with_pip=False)
    found = folder / "venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    call(sys.executable, "-m", "pip", "-q", "--python", found, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    packages = call(found, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    # A folder named in a .pth file is searched, but .pth files in it are not read: an editable natsel stays unseen.
    Path(packages, "needed.pth").write_text(str(Path(numpy.__file__).parents[1]))
    return found


def test_readme_runs_as_written_from_the_wheel(python, tmp_path):
    found = blocks(ROOT / "README.md")
    script = tmp_path / "readme.py"
    script.write_text("\n".join(block.text for block in found if block.language == "python"), encoding="utf-8")
    printed = call(python, "-X", "utf8", script, cwd=tmp_path)
    assert lines_of(printed) == lines_of("".join(block.text for block in found if block.language == "text"))
    assert printed


def test_wheel_is_what_runs(python, tmp_path):
    where = call(python, "-c", "import natsel; print(natsel.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(python.parents[1])
    assert call(python.with_name("natsel"), "--version", cwd=tmp_path).startswith("natsel ")
    assert "Pool" in call(python, "-c", "import natsel; print(natsel.__doc__)", cwd=tmp_path)
