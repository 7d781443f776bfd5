"""A model and its students: draws of categorical predictions of one, and of models that were taught more.

    JEPIG(x) ≈ I[Y; Ω | x] − (1/S) Σ_s I[Y; Ω_s | x]

Students know the targets, by distillation or from pseudo-labels. Draws of a model and of its students are not the same
parameters: only what each says about information is compared, never draw by draw.
docs/theory/epig-jepig.md, 7.2 and 8; Kirsch, Rainforth & Gal 2021.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import torch
from torch import Tensor

from natsel.beliefs.arrays import ArrayLike, as_tensor
from natsel.beliefs.base import Belief, BeliefView
from natsel.beliefs.categorical import CategoricalSamples
from natsel.beliefs.draws import checked_log_weights
from natsel.ids import IdArray, ids_for


@dataclass(frozen=True, eq=False)
class TwoModels(Belief):
    """What K draws of a model and L draws of each of S students say about N points; students' draws weigh alike.

    >>> even, sure = [[[0.5, 0.5]] * 2], [[[1.0, 0.0], [0.0, 1.0]]]
    >>> belief = TwoModels.of(CategoricalSamples.from_probs(sure), [CategoricalSamples.from_probs(even)])
    >>> belief.shape
    (1, 2, 2)
    """

    log_probs_N_K_C: Tensor
    students_N_S_L_C: Tensor
    log_weights_K: Tensor = None  # type: ignore[assignment]
    draws_id: str | None = None
    ids: IdArray = None  # type: ignore[assignment]

    label_type: ClassVar[type[int]] = int
    points: ClassVar[tuple[str, ...]] = ("log_probs_N_K_C", "students_N_S_L_C")
    draws: ClassVar[tuple[str, ...]] = ("log_weights_K",)

    if TYPE_CHECKING:  # what the constructor takes; the fields hold tensors

        def __init__(
            self,
            log_probs_N_K_C: ArrayLike,
            students_N_S_L_C: ArrayLike,
            log_weights_K: ArrayLike | None = None,
            draws_id: str | None = None,
            ids: object = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        teacher = CategoricalSamples(self.log_probs_N_K_C)
        students = as_tensor(self.students_N_S_L_C, "students_N_S_L_C").to(teacher.device)
        if students.ndim != 4 or students.shape[0] != len(teacher) or students.shape[3] != teacher.shape[2]:
            raise ValueError(
                f"students_N_S_L_C: expected (points, students, draws, classes) for {len(teacher)} points and"
                f" {teacher.shape[2]} classes, found shape {tuple(students.shape)}"
            )
        if students.shape[1] == 0:
            raise ValueError("students_N_S_L_C: found no student; pass at least one, or use CategoricalSamples alone")
        given = self.students_N_S_L_C
        checked = [CategoricalSamples._own(given[:, student]).log_probs_N_K_C for student in range(students.shape[1])]
        self._set(
            log_probs_N_K_C=teacher.log_probs_N_K_C,
            students_N_S_L_C=torch.stack(checked, 1),
            log_weights_K=checked_log_weights(self.log_weights_K, teacher.shape[1], teacher.device),
            ids=ids_for(self.ids, len(teacher)),
        )

    @classmethod
    def of(cls, teacher: CategoricalSamples, students: list[CategoricalSamples]) -> Self:
        """From the beliefs of a model and of its students about the same points."""
        for student in students:
            if not isinstance(student, CategoricalSamples) or not student.uniform:
                raise ValueError("students: expected beliefs about classes, whose draws weigh alike")
        parts = [student.log_probs_N_K_C.to(teacher.log_probs_N_K_C) for student in students]
        sizes = {tuple(part.shape) for part in parts}
        if len(sizes) != 1:
            raise ValueError(f"students: expected beliefs of one shape, found {sorted(sizes)}")
        students_N_S_L_C = torch.stack(parts, 1)
        return cls._own(teacher.log_probs_N_K_C, students_N_S_L_C, teacher.log_weights_K, teacher.draws_id, teacher.ids)

    @classmethod
    def views(cls) -> tuple[BeliefView, ...]:
        """What the model itself says."""
        return (BeliefView(CategoricalSamples, lambda belief: belief.teacher),)

    @property
    def n_draws(self) -> int:
        """K."""
        return len(self.log_weights_K)

    def checked_labels(self, labels: ArrayLike, name: str) -> Tensor:
        """Class numbers of the points."""
        return self.teacher.checked_labels(labels, name)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(N points, K draws of the model, C classes)."""
        count, draws, classes = self.log_probs_N_K_C.shape
        return count, draws, classes

    @property
    def teacher(self) -> CategoricalSamples:
        """What the model itself says."""
        return CategoricalSamples._own(self.log_probs_N_K_C, self.log_weights_K, self.draws_id, self.ids)

    @property
    def students(self) -> list[CategoricalSamples]:
        """What each student says."""
        return [CategoricalSamples._own(part, ids=self.ids) for part in self.students_N_S_L_C.unbind(1)]
