"""The rows from which states of class draws start: what labels at the points given leave of the draws, exactly.

    rows_0 = Σ_m v_m δ(r_m) after the labels of the points given, whatever these turn out to be

Points that tell least are added last, and those that tell nothing not at all: a row for each of their labels would be a
copy. K draws tell no more than H[Ω] ≤ ln K. Where all but 0.1 nats of that are told, what is left is an accident of the
draws, and another reading goes on that has no such end.
docs/theory/batchbald.md, 8; docs/theory/epig-jepig.md, 8.
"""

import torch

from natsel import information as info
from natsel.beliefs import CategoricalSamples, Targets
from natsel.information.weighted_posteriors import WeightedPosteriors, expand, grow, prior_rows
from natsel.objectives.objective import Objective
from natsel.objectives.reading import GoesOn

_SPENT = 0.1  # nats
_NOTHING = 1e-12


def rows_given(
    belief: CategoricalSamples,
    given: Targets[CategoricalSamples] | None,
    limit: int,
    generator: torch.Generator,
    instead: Objective | None = None,
) -> WeightedPosteriors:
    """Posteriors of the draws before the first pick; raises GoesOn where labels at the points given use the draws up.

    >>> belief = CategoricalSamples.from_probs([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]]])
    >>> [rows_given(belief, Targets(belief[[place]]), 9, torch.Generator()).count for place in (0, 1)]
    [2, 1]
    """
    rows = prior_rows(belief.log_weights_K)
    if given is None or rows.left <= _NOTHING:
        return rows
    all_nats, held = rows.left, given.belief.to(belief.device)
    told_T = info.mutual_information(held.log_probs_N_K_C, belief.log_weights_K)
    for position in told_T.argsort(descending=True, stable=True)[: int((told_T > _NOTHING).sum())]:
        offset = float(torch.rand((), generator=generator, dtype=torch.float64))
        children = expand(rows, held.log_probs_N_K_C[position].double().softmax(-1))
        if children.left <= min(_SPENT, all_nats / 2):
            raise GoesOn(
                f"points given: their labels carry {all_nats - children.left:.2f} of the {all_nats:.2f} nats these"
                f" {belief.n_draws} draws can tell, so that a log-determinant stands for exact information; use more"
                " draws, or give fewer points",
                instead,
            )
        rows = grow(children, limit, offset)
    return rows
