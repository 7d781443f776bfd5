"""JEPIG, the joint expected predictive information gain: what a label would tell about all target labels together.

    JEPIG(x) = I[Y; Y*_1..Y*_M | x, x*_1..x*_M] = I[Y; Ω | x] − I[Y; Ω | x, Y*_1..Y*_M]

BALD now, less what BALD would be left if the targets were labelled. Never more than BALD, never less than EPIG. With K
draws many targets pin the draws down, and JEPIG becomes BALD whatever they are worth: a warning says so.
docs/theory/epig-jepig.md, 7; MacKay 1992; Kirsch, Rainforth & Gal 2021.

    TaughtJEPIG(x) = I[Y; Ω | x] − (1/S) Σ_s I[Y; Ω_s | x]               BALD now, less BALD of the students
    TaughtJEPIG(B) = I[Y_B; Ω | x_B] − (1/S) Σ_s I[Y_B; Ω_s | x_B]       BatchBALD now, less that of the students

A student by self-distillation learns the model's own mean predictions on training inputs and targets; one by
retraining learns labels of the targets that the model made up. Draws never degenerate as they do when many target
labels re-weight them. The exact quantity is never negative; the difference may be.
docs/theory/epig-jepig.md, 7.2 and 8.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from natsel.objectives.objective import Facts, Objective, Teaching
from natsel.options import check_options


@dataclass(frozen=True)
class JEPIG(Objective):
    """Joint expected predictive information gain about targets, from draws that candidates and targets share.

    `rows` is how many labellings of the targets are followed, as weighted posteriors; exact where all of them fit.

    >>> JEPIG().facts.expression
    'I[Y;Ystars|x,xstars,D]'
    """

    rows: int = 4096

    facts: ClassVar[Facts] = Facts(
        "I[Y;Y*…|x,x*…]", expression="I[Y;Ystars|x,xstars,D]", jointly=True, joint_targets=True
    )

    def __post_init__(self) -> None:
        check_options(self, rows=1)


@dataclass(frozen=True)
class TaughtJEPIG(Objective):
    """JEPIG as what a student no longer has to learn; a learner makes the students, by `distil` or `retrain`.

    `students` is how many are made; self-distillation needs one. `rows` are those of EIG, for batches.

    >>> TaughtJEPIG("retrain", students=3).students
    3
    """

    by: Literal["distil", "retrain"] = "distil"
    students: int = 1
    rows: int = 4096

    facts: ClassVar[Facts] = Facts(
        "I[Y;W|x] − I[Y;W'|x]",
        reason="a difference between two models that estimates I[Y;Ystars|x,xstars,D]; it may be negative",
        joint_targets=True,
    )

    def __post_init__(self) -> None:
        check_options(self, students=1, rows=1)

    @property
    def teaching(self) -> Teaching:
        """The students that the model is compared with."""
        return Teaching(self.by, self.students)
