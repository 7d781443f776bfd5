"""The terms of a run: everything that decides its batches, in a form that another process can compare with its own.

    pool                a fingerprint of all that it held when the run began (`natsel.data.contents`)
    method, k, seed     and the objective and the search in full
    model               the fingerprint of what it is (`natsel.models.fingerprints`); its parts, in words, are a note
    validation, test    how many examples, and a fingerprint of their inputs and labels
    targets, junk, candidates
    resolve             the rule for labels of several people, by its name; not there where the last label counts

A run can be continued with the same model and seed only; other terms may change between rounds, and the journal
records the change.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from natsel import __version__
from natsel.choose import Method
from natsel.data.contents import Contents
from natsel.data.examples import Examples
from natsel.models.fingerprints import fingerprint, parts_of
from natsel.models.protocol import Model
from natsel.store import Terms
from natsel.store.state import RULES, Rule


def terms_of(
    method: Method,
    contents: Contents,
    k: int,
    seed: int,
    model: Model,
    examples: Mapping[str, Examples | None],
    config: Mapping[str, Any],
    went: Mapping[str, str],
) -> Terms:
    """The terms of a run: what decides its batches, and notes for people and for refusals. `examples` are those for
    validation and test.
    """
    parts = parts_of(model)
    decisive = {
        "objective": repr(method.objective),
        "search": repr(method.search),
        "model": parts[""],
        **{name: None if some is None else _fingerprint(some) for name, some in examples.items()},
        **config,
    }
    treatment = getattr(model, "treatment", None)  # of a model of effects, where it is a name
    notes = {
        "model": type(model).__name__ + (f" (treatment {treatment!r})" if isinstance(treatment, str | int) else ""),
        "parts": parts,
        "points": len(contents.ids),
        "classes": list(contents.classes),
        "inputs": contents.kind,
        **went,
    }
    return Terms(contents.fingerprint(), method.name, k, seed, decisive, notes, __version__)


def rule_for(resolve: str | Rule | None, known: Terms | None, regression: bool | None) -> tuple[str, Rule]:
    """The name of the rule for labels of several people, and the rule; None: that of the run or the default.

    >>> rule_for(None, None, regression=True)[0], rule_for(None, None, regression=False)[0]
    ('last', 'majority')
    """
    usual = "majority" if known is None and not regression else "last"
    rule: Any = ({} if known is None else known.config).get("resolve", usual) if resolve is None else resolve
    if isinstance(rule, str) and rule in RULES and not (regression and resolve == "majority"):
        return rule, RULES[rule]
    name = getattr(rule, "__name__", "")
    if not callable(rule) or not name.isidentifier() or name in RULES:
        choices = "'majority' (of classes), 'last' or a function with a name, which a run needs again"
        raise ValueError(f"resolve: expected {choices}, found {rule!r}")
    return name, rule


def _fingerprint(examples: Examples) -> str:
    """How many examples there are, and a digest of their inputs and labels."""
    contents = Contents(examples.inputs, np.arange(len(examples)), examples.classes)
    known = fingerprint(contents.fingerprint(), np.asarray(examples.labels), bytes_of_digest=8)
    return f"{len(examples)} examples {known}"
