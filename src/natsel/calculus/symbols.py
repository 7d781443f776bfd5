"""Spelling: how the names of variables are written, and which atoms may stand together in one quantity.

    Ω, ω → Omega, omega      Y₁ → Y1      upper case: untied, lower case: tied to an outcome

Names are kept in ASCII where the alphabet is Greek, so that `Ω` and `Omega` are one variable.  Spec 01, 1 and A1.
"""

from collections.abc import Iterable

from natsel.calculus.expressions import Atom, tied_name

GREEK = {
    **{"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta", "θ": "theta"},
    **{"ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "ο": "omicron", "π": "pi"},
    **{"ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega"},
}
# Letters that look the same in print: final sigma, micro sign, Ohm sign, and the open forms of theta, phi and epsilon.
_TWINS = {"ς": "sigma", "µ": "mu", "\u2126": "Omega", "ϑ": "theta", "ϕ": "phi", "ϵ": "epsilon"}
_ASCII = str.maketrans(
    GREEK
    | {letter.upper(): name.capitalize() for letter, name in GREEK.items()}
    | _TWINS
    | {subscript: str(digit) for digit, subscript in enumerate("₀₁₂₃₄₅₆₇₈₉")}
)


def spelled(name: str) -> str:
    """A name in the library's spelling.

    >>> spelled("Ω"), spelled("y₁₂"), spelled("Y_acq")
    ('Omega', 'y12', 'Y_acq')
    """
    return name.translate(_ASCII)


def variable_of(name: str) -> str | None:
    """The variable that a name, upper or lower case, belongs to; None where its first letter has no two cases.

    >>> variable_of("ω"), variable_of("Y1"), variable_of("中")
    ('Omega', 'Y1', None)
    """
    name = spelled(name)
    upper = name[0].upper() + name[1:]
    there_and_back = len(name[0].upper()) == 1 and name in (upper, tied_name(upper)) and upper != tied_name(upper)
    return upper if there_and_back else None


def clash(atoms: Iterable[Atom]) -> str:
    """Why these atoms cannot stand in one quantity, or nothing: a variable is either untied or has one outcome.

    >>> clash([Atom("X"), Atom("X", tied=True)])
    'X stands both for the variable and for its outcome x; write one of the two'
    >>> clash([Atom("X"), Atom("Y", tied=True)])
    ''
    """
    seen: dict[str, Atom] = {}
    for atom in atoms:
        first = seen.setdefault(atom.name, atom)
        if first == atom:
            continue
        if first.tied and atom.tied:
            return f"{atom.name} has two outcomes, {first} and {atom}; write one of the two"
        outcome = first if first.tied else atom
        return f"{atom.name} stands both for the variable and for its outcome {outcome}; write one of the two"
    return ""
