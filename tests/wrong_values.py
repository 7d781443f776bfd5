"""Every public function with wrong values in place of each of its arguments, by a program with a seed.

The examples of docstrings are run, and each call that they make of a public function is noted with its arguments. Each
argument is then replaced by twelve kinds of value, one at a time. What comes of it is one of

    refused    an error that natsel raises in a sentence of its own
    fits       the value may stand there, by what the function declares
    raw        any other error: whoever called cannot know which argument was wrong
    silent     the value cannot stand there, and was taken

    python tests/wrong_values.py 7 Pool        seed 7, names that contain "Pool"; prints what is raw and silent
"""

import copy
import doctest
import importlib
import inspect
import io
import linecache
import os
import pkgutil
import random
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import numpy as np

import natsel

ROOMS = (
    *("beliefs", "calculus", "causal", "choose", "data", "evaluation", "experiments", "information", "learning"),
    *("memory", "models", "objectives", "sampling", "search", "seeds", "store"),
)
DOORS = ["natsel", *(f"natsel.{room}" for room in ROOMS)]
MISS = ["bench", "conformance", "__main__", "studies"]


class Public(NamedTuple):
    name: str
    function: Any
    kind: str  # function, init, method or classmethod


class Outcome(NamedTuple):
    name: str
    argument: str
    value: str
    verdict: str
    said: str


def public():
    """Public functions, and methods of public classes, by the code that runs."""
    found = {}
    for door in DOORS:
        module = importlib.import_module(door)
        for name in getattr(module, "__all__", None) or dir(module):
            value = getattr(module, name)
            home = str(getattr(value, "__module__", ""))
            if name.startswith("_") or not home.startswith("natsel") or home == "natsel.options":
                continue
            if inspect.isfunction(value):
                found.setdefault(inspect.unwrap(value).__code__, Public(f"{door}.{name}", value, "function"))
            elif inspect.isclass(value) and not issubclass(value, BaseException):
                for part, member in vars(value).items():
                    inner = getattr(member, "__func__", member)
                    called = {"__call__"} if hasattr(value, "get_params") else {"__call__", "__init__"}
                    if inspect.isfunction(inner) and (not part.startswith("_") or part in called):
                        kind = {classmethod: "classmethod", staticmethod: "function"}.get(type(member), "method")
                        title = f"{door}.{name}" + ("" if part == "__init__" else f".{part}")
                        made = Public(title, inner, "init" if part == "__init__" else kind)
                        found.setdefault(inspect.unwrap(inner).__code__, made)
    return found


def calls_in_examples(found, modules=None):
    """The arguments of a call of each public function, from the examples of docstrings, run in a new folder."""
    calls = {}

    def note(frame, event, _):
        one = found.get(frame.f_code) if event == "call" else None
        shown = frame.f_back is not None and "<doctest" in frame.f_back.f_code.co_filename
        if one is not None and (shown or one.name not in calls):
            code = frame.f_code
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            more = inspect.getargvalues(frame)
            rest = frame.f_locals.get(more.varargs, ()), frame.f_locals.get(more.keywords, {})
            calls[one.name] = ({name: frame.f_locals[name] for name in names}, *rest)

    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    names = modules or [
        module.name
        for module in pkgutil.walk_packages(natsel.__path__, "natsel.")
        if not set(MISS) & set(module.name.split("."))
    ]
    with in_a_new_folder():
        for name in names:
            for test in doctest.DocTestFinder().find(importlib.import_module(name)):
                sys.setprofile(note)
                try:
                    runner.run(test, out=lambda text: None, clear_globs=False)
                finally:
                    sys.setprofile(None)
    return calls


@contextmanager
def in_a_new_folder():
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def wrong_values(rng):
    return {
        "nothing": None,
        "text": rng.choice(["nonsense", "xyz", "7x"]),
        "negative": -rng.randint(1, 9),
        "fraction": rng.choice([0.5, 2.5, -1.5]) + rng.choice([0, 0.013]),
        "nan": float("nan"),
        "infinity": float("inf"),
        "too large": 2 ** rng.choice([63, 65, 70]),
        "empty": [],
        "truth": rng.choice([True, False]),
        "mapping": {"a": 1},
        "odd array": np.full((rng.choice([3, 5]), 2, 1, 2), np.nan),
        "object": object(),
    }


# What may stand for each kind; fields of results may hold NaN too. Options of estimators for scikit-learn are left out:
# they are to be checked when these are fitted.
FIT = {
    int: {"negative"},
    float: {"negative", "fraction", "infinity"},
    str: {"text"},
    bool: {"truth"},
    NoneType: {"nothing"},
}


def may_stand(kind, parameter, is_field=False):
    """Whether a kind of value may stand for an argument that declares numbers, words or truth values."""
    declared = parameter.annotation
    parts = get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)
    plain = all(part in FIT for part in parts)
    if is_field and float in parts and kind == "nan":
        return True
    return not plain or kind in set().union(*(FIT[part] for part in parts))


def verdict(one, call, argument, kind, value):
    arguments, more, keywords = call
    function = one.function
    parameters = inspect.signature(function).parameters
    places, named = [], dict(keywords)
    for name, parameter in parameters.items():
        if parameter.kind == parameter.VAR_POSITIONAL:
            places += more
        elif parameter.kind != parameter.VAR_KEYWORD:
            given = value if name == argument else copied(arguments[name])
            if parameter.kind == parameter.KEYWORD_ONLY:
                named[name] = given
            else:
                places.append(given)
    if one.kind == "init":
        function, places = type(arguments["self"]), places[1:]
    try:
        with quietly(), stopped_after(20):
            made = function(*places, **named)
            if inspect.isgenerator(made):
                next(made, None)
    except TimeoutError:
        return "fits", "more work than there is time for here"
    except Exception as error:
        return ("refused" if is_own(error) else "raw"), f"{type(error).__name__}: {error}"
    is_field = one.kind == "init" and is_dataclass(function)
    return ("fits" if may_stand(kind, parameters[argument], is_field) else "silent"), ""


def copied(value):
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


@contextmanager
def quietly():
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def stopped_after(seconds):
    def stop(*_):
        raise TimeoutError("took too long")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def is_own(error):
    """Whether natsel raised an error itself, in a sentence: the last line that ran is a `raise` in its source. What the
    system says of a file names that file.
    """
    if isinstance(error, OSError) and error.filename is not None:
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    inside = f"{os.sep}natsel{os.sep}" in last.filename or last.filename.startswith("<string>")
    return inside and linecache.getline(last.filename, last.lineno).strip().startswith("raise ")


def outcomes(seed=0, part="", modules=None):
    """What comes of each wrong value for each argument of each public function whose name contains `part`."""
    found = public()
    calls = calls_in_examples(found, modules)
    rng = random.Random(seed)
    with in_a_new_folder(), natsel.memory_budget(natsel.memory_budget()):  # which one of the calls sets for good
        for one in sorted(found.values(), key=lambda one: one.name):
            if part not in one.name or one.name not in calls:
                continue
            for name, parameter in inspect.signature(one.function).parameters.items():
                if name in ("self", "cls") or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    continue
                for kind, value in wrong_values(rng).items():
                    yield Outcome(one.name, name, kind, *verdict(one, calls[one.name], name, kind, value))


if __name__ == "__main__":
    counts = Counter()
    for outcome in outcomes(int((sys.argv[1:] or ["0"])[0]), (sys.argv[2:] or [""])[0]):
        counts[outcome.verdict] += 1
        if outcome.verdict in ("raw", "silent"):
            print(f"{outcome.verdict}: {outcome.name}({outcome.argument}={outcome.value}) {outcome.said[:120]}")
    print(dict(counts))
