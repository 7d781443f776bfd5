"""Jointly Gaussian variables: differential entropies with tied outcomes, and averages of them, in closed form.

    E[−ln q(S)] = ½ ln det(2π Σ_S) + ½ (m−μ_S)ᵀ Σ_S⁻¹ (m−μ_S) + ½ tr(Σ_S⁻¹ V)     Σ, μ of q; m, V of S as drawn
    H_q[A | C]  = E[−ln q(A, C)] − E[−ln q(C)]

What is drawn is a list of values that are jointly Gaussian themselves: outcomes are constants, and the variables of an
expectation or of a term are drawn given values that are there already, mean and covariance carried along. So nested
expectations stay exact, the ones that the symbols cannot reduce too.

Differential entropies may be negative, and H[A | C] is −∞ where A has a variable of C.
docs/theory/information-quantities.md, 6 and 10.3.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from natsel.calculus.discrete_joint import ZeroProbabilityOutcome, checked_names
from natsel.calculus.expansion import leaves, with_bare_laws_filled
from natsel.calculus.expressions import (
    Atom,
    Content,
    CrossEntropy,
    Expectation,
    Expression,
    Group,
    H,
    Law,
    Number,
    atoms_of,
    conflict_between,
    free_symbols,
    tied_name,
)
from natsel.calculus.leaf_values import ALL, Errors, content_of, names_of

_LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True, eq=False, repr=False)
class GaussianJoint:
    """A normal distribution over named variables, from its mean and covariance.

    >>> joint = GaussianJoint(mean=[0.0, 0.0], cov=[[1.0, 0.6], [0.6, 1.0]], names="XY")
    >>> joint
    GaussianJoint(X, Y)
    """

    mean: Tensor
    cov: Tensor
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        mean = torch.as_tensor(self.mean, dtype=torch.float64).detach().cpu()
        cov = torch.as_tensor(self.cov, dtype=torch.float64).detach().cpu()
        names = checked_names(self.names, (1,) * mean.numel(), "variables")
        size = len(names)
        if mean.shape != (size,) or cov.shape != (size, size):
            found = f"shapes {tuple(mean.shape)} and {tuple(cov.shape)}"
            raise ValueError(f"cov: found {found} for mean and cov; pass one mean a variable and a square matrix")
        if not bool(mean.isfinite().all() & cov.isfinite().all()):
            raise ValueError("cov: found NaN or inf in mean or cov; pass finite numbers")
        if not torch.allclose(cov, cov.T, rtol=1e-8, atol=1e-12):
            raise ValueError("cov: found a matrix that is not symmetric; pass (cov + cov.T) / 2 if that is rounding")
        if bool((cov.diagonal() <= 0).any()):
            name = names[int((cov.diagonal() <= 0).nonzero()[0])]
            raise ValueError(f"cov: found a variance of {name} that is not positive; leave constants out")
        if size and float(torch.linalg.eigvalsh(_correlation(cov)).min()) < -1e-8:
            raise ValueError("cov: found a negative eigenvalue; pass the covariance of something")
        for attribute, value in [("mean", mean), ("cov", (cov + cov.T) / 2), ("names", names)]:
            object.__setattr__(self, attribute, value)

    def axes(self, names: Sequence[str]) -> list[int]:
        """Where variables stand."""
        for name in names:
            if name not in self.names:
                raise ValueError(f"{name}: no such variable; the joint has {', '.join(self.names)}")
        return [self.names.index(name) for name in names]

    def inverse(self, axes: Sequence[int]) -> tuple[Tensor, float]:
        """Σ⁻¹ and ln det Σ of some variables."""
        block = self.cov[axes][:, axes]
        scale = block.diagonal().rsqrt()
        factor, failed = torch.linalg.cholesky_ex(_correlation(block))
        if int(failed) or bool((factor.diagonal().square() < 8 * len(axes) * torch.finfo(torch.float64).eps).any()):
            found = ", ".join(self.names[axis] for axis in axes)
            raise ValueError(f"cov: singular over {found}, hence no density; leave out what the others determine")
        log_det = 2 * float(factor.diagonal().log().sum() - scale.log().sum())
        return torch.cholesky_inverse(factor) * scale[:, None] * scale, log_det

    def __repr__(self) -> str:
        return f"GaussianJoint({', '.join(self.names)})"


@dataclass(frozen=True)
class _Drawn:
    """Values that are jointly Gaussian, a mean for each entry of a batch and one covariance; symbols stand for them."""

    mean_V_B: Tensor
    cov_V_V: Tensor
    symbols: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.cov_V_V)

    def full(self, value: float) -> Tensor:
        return self.mean_V_B.new_full(self.mean_V_B.shape[1:], value)

    def with_constant(self, value: float) -> "_Drawn":
        """With one more value, which is known."""
        mean_V_B = torch.cat([self.mean_V_B, self.full(value)[None]])
        return replace(self, mean_V_B=mean_V_B, cov_V_V=torch.nn.functional.pad(self.cov_V_V, (0, 1, 0, 1)))

    def with_draws(self, joint: GaussianJoint, names: Sequence[str], given: Mapping[str, int]) -> "_Drawn":
        """With variables drawn given values that are there: S = μ_S + G (c − μ_C) + noise."""
        new, old, there = joint.axes(names), joint.axes(list(given)), list(given.values())
        gain = joint.cov[new][:, old] @ joint.inverse(old)[0]
        noise = joint.cov[new][:, new] - gain @ joint.cov[old][:, new]
        mean = joint.mean[new][:, None] + gain @ (self.mean_V_B[there] - joint.mean[old][:, None])
        shared = gain @ self.cov_V_V[there]
        corner = gain @ self.cov_V_V[there][:, there] @ gain.T + noise
        cov_V_V = torch.cat([torch.cat([self.cov_V_V, shared.T], 1), torch.cat([shared, corner], 1)])
        return replace(self, mean_V_B=torch.cat([self.mean_V_B, mean]), cov_V_V=cov_V_V)

    def tied(self, atoms: Group) -> tuple[dict[str, int], "_Drawn"]:
        """Which value each tied variable among the atoms has."""
        if why := conflict_between(atoms):
            raise ValueError(why)
        drawn, ties = self, {}
        for atom in atoms:
            if atom.outcome is not None:
                drawn, ties[atom.name] = (
                    drawn.with_constant(float(_checked_outcomes(atom.name, atom.outcome))),
                    len(drawn),
                )
            elif atom.tied:
                if atom.name not in self.symbols:
                    raise ValueError(f'at: {atom} has no outcome; pass at={{"{atom}": ...}}, or write {atom.name}=...')
                ties[atom.name] = self.symbols[atom.name]
        return ties, drawn


def evaluate_on_gaussian(
    tree: Expression, joint: GaussianJoint, asked: Mapping[str, Any], models: Mapping[str, Any], errors: Errors
) -> Tensor:
    """The value of an expression on a GaussianJoint."""
    laws = {"p": joint}
    for name, q in models.items():
        if not isinstance(q, GaussianJoint):
            raise ValueError(f"{name}: found {type(q).__name__}; beside a GaussianJoint pass another one")
        laws[name] = q
    joint.axes([*asked, *(atom.name for atom in atoms_of(tree))])
    tree = with_bare_laws_filled(tree, lambda: tuple(Atom(name) for name in joint.names))
    outcomes = {name: _checked_outcomes(name, asked[name]) for name in free_symbols(tree) if name in asked}
    lengths = {len(value) for value in outcomes.values() if value.dim()}
    if len(lengths) > 1:
        raise ValueError(f"at: found {sorted(lengths)} outcomes; give as many of each, they are taken together")
    count = max(lengths, default=1)
    drawn = _Drawn(torch.zeros(0, count, dtype=torch.float64), torch.zeros(0, 0, dtype=torch.float64), {})
    for name, value in outcomes.items():
        more = drawn.with_constant(0.0)
        more.mean_V_B[-1] = value
        drawn = replace(more, symbols={**drawn.symbols, name: len(drawn)})
    value_B = drawn.full(0.0)
    for leaf, factor in leaves(tree).items():
        value_B = value_B + float(factor) * _leaf_value(leaf, laws, drawn)
    if errors == "raise" and bool(value_B.isnan().any()):
        raise ZeroProbabilityOutcome("at: the value is inf - inf, which is undefined; pass errors='nan' for NaN")
    return value_B if lengths else value_B[0]


def _checked_outcomes(name: str, outcome: Any) -> Tensor:
    symbol = tied_name(name)
    if outcome is ALL or isinstance(outcome, str):
        raise ValueError(f"at: found {outcome!r} for {symbol}; {name} is continuous, pass numbers")
    value = torch.as_tensor(outcome, dtype=torch.float64).detach().cpu()
    if value.dim() > 1 or not bool(value.isfinite().all()):
        raise ValueError(f"at: found {outcome!r} for {symbol}; pass a finite number, or a list of them")
    return value


def _leaf_value(leaf: Expression, laws: Mapping[str, GaussianJoint], drawn: _Drawn) -> Tensor:
    match leaf:
        case H(of, given, model):
            return _cross_entropy(Law("p", of, given), Law(model or "p", of, given), laws, drawn)
        case CrossEntropy(p, q):
            return _cross_entropy(p, q, laws, drawn)
        case Expectation(law, body):
            ties, drawn = drawn.tied(law.given)
            names = names_of(law.of)
            symbols = {**drawn.symbols, **{name: len(drawn) + place for place, name in enumerate(names)}}
            return _leaf_value(body, laws, replace(drawn.with_draws(laws[law.name], names, ties), symbols=symbols))
        case Number(number):
            return drawn.full(float(number))
        case Content(number):
            return drawn.full(content_of(number))
    raise TypeError(f"expression: {type(leaf).__name__} is no leaf; expand it first")


def _cross_entropy(law: Law, inside: Law, laws: Mapping[str, GaussianJoint], drawn: _Drawn) -> Tensor:
    """E_law[−ln inside]; both speak of one value of each variable, tied if either ties it."""
    q, targets, given = laws[inside.name], names_of(inside.of), names_of(inside.given)
    if set(targets) & set(given):
        return drawn.full(-math.inf)
    ties, drawn = drawn.tied((*law.of, *law.given))
    own, drawn = drawn.tied((*inside.of, *inside.given))
    untied = [name for name in names_of((*law.of, *law.given)) if name not in ties]
    values = {**{name: len(drawn) + place for place, name in enumerate(untied)}, **ties, **own}
    drawn = drawn.with_draws(laws[law.name], untied, ties)
    for name in (*targets, *given):
        if name not in values:
            raise ValueError(f"{name}: {inside.name} speaks of it and {law.name} does not average over it; tie it")

    def expected(names: list[str]) -> Tensor:
        """E[−ln q(names)]."""
        axes, there = q.axes(names), [values[name] for name in names]
        inverse, log_det = q.inverse(axes)
        shift_S_B = drawn.mean_V_B[there] - q.mean[axes][:, None]
        spread = (inverse * drawn.cov_V_V[there][:, there]).sum()
        return 0.5 * (log_det + len(axes) * _LOG_2PI + (shift_S_B * (inverse @ shift_S_B)).sum(0) + spread)

    return expected([*targets, *given]) - expected(given)


def _correlation(cov: Tensor) -> Tensor:
    scale = cov.diagonal().rsqrt()
    return cov * scale[:, None] * scale
