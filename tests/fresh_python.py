"""Programs in processes of their own that do not each wait for torch: they are forked from a process that has imported
torch and scikit-learn and nothing of natsel.

What a program finds of natsel, of its arguments, folder, environment and `PYTHONPATH` is what a new interpreter would
find; only other people's libraries are there already. What is about them needs `subprocess`: which libraries an import
brings, or settings that must come before torch.
"""

import atexit
import functools
import json
import os
import runpy
import select
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path


def run(arguments, cwd=None, env=None, timeout=300):
    """As `subprocess.run([sys.executable, *arguments], capture_output=True, text=True)`; `-c`, `-m` or a file first."""
    arguments = [str(one) for one in arguments]
    env = dict(os.environ if env is None else env)
    if not hasattr(os, "fork"):
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=cwd, env=env, timeout=timeout, capture_output=True, encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        job = {"arguments": arguments, "cwd": str(cwd or os.getcwd()), "env": env, "out": str(out), "err": str(err)}
        server = _server()
        print(json.dumps(job), file=server.stdin, flush=True)
        if not select.select([server.stdout], [], [], timeout)[0]:
            server.kill()
            _server.cache_clear()
            raise TimeoutError(f"{arguments} did not end within {timeout} s: {err.read_text(encoding='utf-8')}")
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(
            arguments, code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")
        )


@functools.cache
def _server():
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, __file__], env=environment, text=True, **pipes)
    atexit.register(process.communicate)  # it ends with its input
    return process


def _serve():
    import sklearn.ensemble  # noqa: F401  these are what takes time
    import torch._dynamo  # noqa: F401  the first optimiser asks for it

    assert not [name for name in sys.modules if name.partition(".")[0] == "natsel"]
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(arguments, cwd, env, out, err):
    """Run the program in this process and end."""
    for number, path in enumerate((os.devnull, out, err)):
        os.dup2(os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    kind, *rest = arguments
    first = {"-c": "", "-m": cwd}.get(kind, str(Path(kind).resolve().parent))
    paths = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [first, *paths, *sys.path[1:]]
    code = 1
    try:
        if kind == "-c":
            sys.argv = ["-c", *rest[1:]]
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        elif kind == "-m":
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            runpy.run_path(kind, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
