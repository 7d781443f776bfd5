"""Members of an ensemble summarised by a Dirichlet per point: their mean prediction, and how much they agree.

    p(y | x_n, ω) ~ Dir(a0_n m_n)          m_n the mean prediction, a0_n the concentration

Two numbers more than nothing: a mean and a mutual information per point are enough to have it, and BALD, the expected
entropy and members to look at come back from it. It keeps averages over members, not how single members vary, and it
says nothing about points together.  docs/theory/dirichlet-ensembles.md; Kirsch 2024.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self, get_args

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_integers, as_tensor, is_half
from natsel.beliefs.base import Belief, BeliefView
from natsel.beliefs.categorical import CategoricalSamples, normalised
from natsel.beliefs.class_probabilities import ClassProbabilities
from natsel.beliefs.independent_samples import IndependentSamples
from natsel.ids import IdArray, ids_for
from natsel.information.class_labels import class_labels
from natsel.information.mutual import (
    conditional_entropy,
    log_mean,
    mutual_information,
    normalised_log_weights,
    variance,
)
from natsel.memory import chunked

# Fits are imported where they are made: most who import beliefs need none.

FitMethod = Literal["mutual-information", "variance", "entropy-variance", "likelihood"]
"""Which property of the members the Dirichlet has too."""


@dataclass(frozen=True, eq=False)
class DirichletMembers(Belief):
    """What members of an ensemble say about N points, as a Dirichlet for each.

    `log_mean_N_C` are log probabilities, `concentration_N` positive numbers; `flag_N` says how each was found, as a
    position in `natsel.information.dirichlet_fits.FLAGS` (None: all "ok").

    >>> belief = DirichletMembers.from_mutual_information([[0.5, 0.5], [0.9, 0.1]], [0.1931471805599453, 0.1])
    >>> belief.concentration_N.round(decimals=4).tolist()
    [2.0, 3.1194]
    """

    log_mean_N_C: Tensor
    concentration_N: Tensor
    flag_N: Tensor = None  # type: ignore[assignment]
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]

    label_type: ClassVar[type[int]] = int
    points: ClassVar[tuple[str, ...]] = ("log_mean_N_C", "concentration_N", "flag_N")

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            log_mean_N_C: ArrayLike,
            concentration_N: ArrayLike,
            flag_N: ArrayLike | None = None,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        log_mean_N_C = as_tensor(self.log_mean_N_C, "log_mean_N_C")
        _check_shape(log_mean_N_C, "log_mean_N_C")
        count, device = len(log_mean_N_C), log_mean_N_C.device
        concentration_N = as_tensor(self.concentration_N, "concentration_N").to(device)
        if concentration_N.shape != (count,):
            found = tuple(concentration_N.shape)
            raise ValueError(f"concentration_N: expected one for each of {count} points, found shape {found}")
        if not bool((concentration_N > 0).all() & concentration_N.isfinite().all()):
            raise ValueError(
                "concentration_N: expected positive finite numbers, found others; 1e-10 stands for members that are all"
                " one-hot and 1e9 for members that all agree"
            )
        flag_N = torch.zeros(count, dtype=torch.int64, device=device)
        if self.flag_N is not None:
            from natsel.information.dirichlet_fits import FLAGS

            flag_N = as_integers(self.flag_N, "flag_N").to(device)
            if flag_N.shape != (count,) or (count and not 0 <= int(flag_N.min()) <= int(flag_N.max()) < len(FLAGS)):
                raise ValueError(f"flag_N: expected one of 0 … {len(FLAGS) - 1} per point; leave it out for all ok")
        self._set(
            log_mean_N_C=normalised(log_mean_N_C[:, None], is_half(self.log_mean_N_C), "log_mean_N_C")[:, 0],
            concentration_N=concentration_N,
            flag_N=flag_N,
            ids=ids_for(self.ids, count),
        )

    @classmethod
    def fit(cls, members: CategoricalSamples | IndependentSamples, method: FitMethod = "mutual-information") -> Self:
        """The Dirichlets of members that are there.

        mutual-information    the mean, and what members disagree in: BALD of both is the same
        variance              the mean, and Σ_c Var_k p_kc
        entropy-variance      the mean, and the variance of members' entropies: gives up the mutual information
        likelihood            the likeliest Dirichlet; its mean is not the members' mean

        K members tell less of their disagreement than all would: concentrations come out too large for small K.
        docs/theory/dirichlet-ensembles.md, 5 and 6.

        >>> members = CategoricalSamples.from_probs([[[0.9, 0.1], [0.1, 0.9]]])
        >>> DirichletMembers.fit(members, "variance").concentration_N.round(decimals=4).tolist()
        [0.5625]
        """
        if not isinstance(members, CategoricalSamples | IndependentSamples):
            raise ValueError(
                f"members: expected draws of class predictions, found {type(members).__name__}; wrap"
                " probabilities as natsel.CategoricalSamples.from_probs(probs_N_K_C)"
            )
        if method not in get_args(FitMethod):
            raise ValueError(f"method: expected {', '.join(get_args(FitMethod))}, found {method!r}; choose one of them")
        log_weights_K = members.log_weights_K if isinstance(members, CategoricalSamples) else None
        mean_N_C, concentration_N, flag_N = _fitted(members.log_probs_N_K_C, log_weights_K, method)
        found = cls(mean_N_C.log(), concentration_N, flag_N, members.draws_id)
        return found._trusted(ids=members.ids)  # of a slice they may repeat

    @classmethod
    def from_mutual_information(
        cls,
        mean_N_C: ArrayLike,
        mutual_information_N: ArrayLike,
        draws_id: str | None = None,
        ids: object = None,
    ) -> Self:
        """From the mean prediction of an ensemble and its mutual information (BALD), both kept from another run.

        >>> DirichletMembers.from_mutual_information([[0.5, 0.5]], [0.0]).flags
        ('point mass',)
        """
        from natsel.information.dirichlet_fits import dirichlet_concentration

        mean = ClassProbabilities.from_probs(mean_N_C)
        information_N = as_tensor(mutual_information_N, "mutual_information_N").to(mean.device)
        concentration_N, flag_N = dirichlet_concentration(mean.predict_proba(), information_N)
        return cls(mean.log_probs_N_C, concentration_N, flag_N, draws_id, ids)

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """The mean prediction."""
        return (BeliefView(ClassProbabilities, cls.mean_prediction),)

    def mean_prediction(self) -> ClassProbabilities:
        """p(y|x), the mean over the members.

        >>> DirichletMembers([[0.0, -float("inf")]], [3.0]).mean_prediction().log_probs_N_C.exp().tolist()
        [[1.0, 0.0]]
        """
        found = object.__new__(ClassProbabilities)  # what was checked needs no second check
        found._set(log_probs_N_C=self.log_mean_N_C, draws_id=self.draws_id, ids=self.ids)
        return found

    def draw(self, n_draws: int, seed: int | torch.Generator = 0) -> IndependentSamples:
        """Members drawn from the Dirichlets. Those of different points are independent: no objective that reads points
        together takes them.

        >>> belief = DirichletMembers.from_mutual_information([[0.5, 0.5]] * 3, [0.1] * 3)
        >>> belief.draw(5).shape
        (3, 5, 2)
        """
        from natsel.information.dirichlet import dirichlet_samples

        generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
        found = object.__new__(IndependentSamples)  # log-softmax is normalised, and ids were checked
        samples_N_K_C = dirichlet_samples(self.probs_N_C, self.concentration_N, n_draws, generator)
        found._set(log_probs_N_K_C=samples_N_K_C, draws_id=None, ids=self.ids)
        return found

    @property
    def probs_N_C(self) -> Tensor:
        """The mean prediction as probabilities in float64, rows summing to one."""
        return self.log_mean_N_C.double().softmax(-1)

    @property
    def flags(self) -> tuple[str, ...]:
        """How each concentration was found, one word per point: "ok", or why there was none to find.

        >>> DirichletMembers.from_mutual_information([[1.0, 0.0], [0.5, 0.5]], [0.0, 0.3]).flags
        ('certain', 'ok')
        """
        from natsel.information.dirichlet_fits import FLAGS

        return tuple(FLAGS[flag] for flag in self.flag_N.tolist())

    @property
    def warnings(self) -> tuple[str, ...]:
        """How many points have members whose entropies vary more than those of any Dirichlet with their mean."""
        if not bool(self.flag_N.any()):
            return ()
        count = self.flags.count("out of reach")
        if count == 0:
            return ()
        return (
            f"entropy variance: that of the members is out of reach of a Dirichlet at {count} of {len(self)} points;"
            ' use method="mutual-information"',
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(N points, C classes)."""
        count, classes = self.log_mean_N_C.shape
        return count, classes

    def checked_labels(self, labels: ArrayLike, name: str) -> Tensor:
        """Class numbers of the points."""
        return class_labels(as_integers(labels, name).to(self.device), len(self), self.shape[1], name)


def _fitted(log_probs_N_K_C: Tensor, log_weights_K: Tensor | None, method: FitMethod) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, concentration and flag of each point."""
    count, draws, classes = log_probs_N_K_C.shape

    def work(part: slice) -> Tensor:
        mean_n_C, *found = _fitted_chunk(log_probs_N_K_C[part].double(), log_weights_K, method)
        return torch.cat([mean_n_C, *(each[:, None].double() for each in found)], -1)

    found_N_D = chunked(work, count, (64 * draws + 240) * classes, log_probs_N_K_C.device)
    return found_N_D[:, :classes], found_N_D[:, classes], found_N_D[:, classes + 1].long()


def _fitted_chunk(
    log_probs_n_K_C: Tensor, log_weights_K: Tensor | None, method: FitMethod
) -> tuple[Tensor, Tensor, Tensor]:
    from natsel.information import dirichlet_fits as fits
    from natsel.information.member_entropies import entropy_variance

    members = (log_probs_n_K_C, log_weights_K)
    if method == "likelihood":
        return fits.dirichlet_maximum_likelihood(_mean_logs(*members))
    mean_n_C = log_mean(*members).exp()
    if method == "variance":
        return mean_n_C, *fits.dirichlet_concentration_by_variance(mean_n_C, variance(*members))
    information_n, noise_n = mutual_information(*members), conditional_entropy(*members)
    found = fits.dirichlet_concentration(mean_n_C, information_n, noise_n)
    if method == "entropy-variance":
        found = fits.dirichlet_concentration_by_entropy_variance(mean_n_C, entropy_variance(*members), found[0])
    return mean_n_C, *found


def _mean_logs(log_probs_n_K_C: Tensor, log_weights_K: Tensor | None) -> Tensor:
    """Σ_k w_k ln p_kc, −inf where no member allows a class."""
    weights_K = normalised_log_weights(log_probs_n_K_C, log_weights_K).exp()
    log_n_L_C = log_probs_n_K_C[:, weights_K > 0]
    allowed_n_C = (log_n_L_C > -torch.inf).sum(1)
    if bool(((allowed_n_C > 0) & (allowed_n_C < log_n_L_C.shape[1])).any()):
        raise ValueError(
            "members: some give probability 0 to a class that others allow, which no Dirichlet does; use"
            ' method="mutual-information", or smooth the predictions'
        )
    never_n_C = allowed_n_C == 0
    finite_n_L_C = log_n_L_C.masked_fill(never_n_C[:, None], 0.0)
    return torch.einsum("nkc,k->nc", finite_n_L_C, weights_K[weights_K > 0]).masked_fill(never_n_C, -torch.inf)


def _check_shape(values: Tensor, name: str) -> None:
    if values.ndim != 2 or values.shape[1] == 0:
        found = tuple(values.shape)
        raise ValueError(f"{name}: expected two axes (points, classes), found shape {found}; pass N x C numbers")
