"""A race for the largest gain, where gains are sums over rows of samples and more rows cost more.

    gain_n = Σ_m g_nm,      Var(gain_a − gain_b) ≈ Σ_m q_m (d_m − d̄)²,   d_m = g_am − g_bm,  q: rejection probability

All candidates see the same rows, so the error of a difference is far smaller than that of a gain. Candidates run on
the few rows of the first level in the order of their bounds until the next bound cannot win; those within two
standard errors of the leader go on to more rows; what float32 cannot tell apart is decided in float64 on all rows.
docs/theory/batchbald.md, 10.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from natsel.capabilities import Choice, RacedState
from natsel.information.weighted_posteriors import lead_errors
from natsel.rounding import TIE
from natsel.ties import Order, order_of

_SIGMAS = 2.0
# float32 gains move by about 1e-6 with the order of summation, that is with chunk sizes, threads and devices.
_CLOSE = 1e-5
_LEAST = 4
# A candidate that can lead by no more than this is not worth more rows.
_IDLE = 5e-5
_MOST_TIED = 64
# A CPU gains from looking at few candidates, an accelerator from few looks.
_FIRST_BLOCK = {"cpu": 256}
_FIRST_BLOCK_ELSEWHERE = 1 << 15


@dataclass(frozen=True)
class _Field:
    """Candidates still in the race, with their terms on the rows of one level."""

    position_n: Tensor
    term_n_R: Tensor
    gain_n: Tensor

    def narrowed(self, rejection_prob_R: Tensor, order: Order) -> "_Field":
        """Those that may still win: within two standard errors of the leader, and never fewer than a handful."""
        leader = int(self.gain_n.argmax())
        lag_n = self.gain_n[leader] - self.gain_n
        upside_n = _SIGMAS * self.errors(leader, rejection_prob_R) - lag_n
        stay_n = upside_n > _IDLE
        stay_n[lag_n.topk(min(_LEAST, len(lag_n)), largest=False).indices] = True
        # Of the leader's equals only the first few can be taken: a pool of copies must not run to the end as a whole.
        equal = ((lag_n <= _CLOSE) & ~stay_n).nonzero().squeeze(1)
        stay_n[equal[order.argsort(self.position_n[equal])[:_MOST_TIED]]] = True
        stay = stay_n.nonzero().squeeze(1)
        return _Field(self.position_n[stay], self.term_n_R[stay], self.gain_n[stay])

    def errors(self, leader: int, rejection_prob_R: Tensor) -> Tensor:
        """Standard errors of the differences to the leader."""
        return lead_errors(self.term_n_R, self.term_n_R[leader], rejection_prob_R).double()

    def joined(self, other: "_Field") -> "_Field":
        """Both fields together."""
        return _Field(
            torch.cat([self.position_n, other.position_n]),
            torch.cat([self.term_n_R, other.term_n_R]),
            torch.cat([self.gain_n, other.gain_n]),
        )


def race(state: RacedState, bound_N: Tensor) -> Choice:
    """The candidate with the largest gain; every gain seen on the way is written to `bound_N`."""
    order = order_of(state)
    field = _first_level(state, bound_N, order)
    last = state.level_count - 1
    for level in range(1, last + 1):
        field = _run(state, field.position_n, level, bound_N)
        if level < last:
            field = field.narrowed(state.rejection_probs(level), order)
    return _finish(state, field, bound_N, order)


def _run(state: RacedState, position_n: Tensor, level: int, bound_N: Tensor) -> _Field:
    term_n_R = state.terms(position_n, level)
    gain_n = term_n_R.sum(1).double()
    bound_N[position_n] = gain_n
    return _Field(position_n, term_n_R, gain_n)


def _first_level(state: RacedState, bound_N: Tensor, order: Order) -> _Field:
    """The first level, in growing blocks, until no candidate that has not run can win."""
    order_M = bound_N.argsort(descending=True, stable=True)[: int((bound_N > -torch.inf).sum())]
    bound_M = bound_N[order_M]
    rejection_prob_R = state.rejection_probs(0)
    start, size = 0, _FIRST_BLOCK.get(bound_N.device.type, _FIRST_BLOCK_ELSEWHERE)
    field = _run(state, order_M[:size].sort().values, 0, bound_N).narrowed(rejection_prob_R, order)
    while (start := start + size) < len(order_M):
        reach = int((bound_M > field.gain_n.max() - _CLOSE).sum())  # bounds fall along the order
        if reach <= start:
            break
        size = min(2 * size, reach - start)
        more = _run(state, order_M[start : start + size].sort().values, 0, bound_N)  # read in the order of memory
        field = field.joined(more).narrowed(rejection_prob_R, order)
    return field


def _finish(state: RacedState, field: _Field, bound_N: Tensor, order: Order) -> Choice:
    """The winner among the finalists, its lead over the runner-up and the standard error of that lead."""
    error_n = field.errors(int(field.gain_n.argmax()), state.rejection_probs(state.level_count - 1))
    gain_n = field.gain_n.clone()
    close_n = (gain_n >= gain_n.max() - _CLOSE).nonzero().squeeze(1)
    if len(close_n) > 1:
        close_n = close_n[order.argsort(field.position_n[close_n])][:_MOST_TIED]
        gain_n[close_n] = state.gains(field.position_n[close_n])
        bound_N[field.position_n[close_n]] = gain_n[close_n]
        close_n = close_n[gain_n[close_n] >= gain_n[close_n].max() - TIE]
    leader = order.first(field.position_n[close_n])
    if len(gain_n) == 1:
        return Choice(leader, gap=torch.inf, error=0.0)
    winner = int(close_n[0])
    runner_up = int(gain_n.index_fill(0, close_n[:1], -torch.inf).argmax())
    error = max(float(error_n[runner_up]), float(error_n[winner]))
    return Choice(leader, gap=float(gain_n[winner] - gain_n[runner_up]), error=error)
