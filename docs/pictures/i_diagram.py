"""Draws docs/pictures/i-diagram.svg: what the labels of two points tell about the parameters, as an I-diagram.

Four draws of the parameters, two points of three classes. BALD would add I[Y1;Ω] and I[Y2;Ω]; the part that all three
circles share would be counted twice. BatchBALD counts it once: I[Y1,Y2;Ω], the region set off. Given the parameters the
labels are independent, so that I[Y1;Y2|Ω] is zero and the overlap of the labels lies inside Ω.

    python docs/pictures/i_diagram.py
"""

from pathlib import Path

import torch

from natsel.calculus import PredictiveJoint
from natsel.calculus.diagrams import IDiagram

PROBS_N_K_C = (
    ((0.65, 0.00, 0.35), (0.00, 0.00, 1.00), (0.00, 1.00, 0.00), (0.10, 0.75, 0.15)),
    ((0.00, 0.00, 1.00), (0.35, 0.55, 0.10), (0.90, 0.00, 0.10), (0.00, 0.00, 1.00)),
)


def diagram() -> IDiagram:
    """The diagram of the labels of both points and the parameters."""
    joint = PredictiveJoint(torch.tensor(PROBS_N_K_C, dtype=torch.float64).log())
    return IDiagram.from_joint(joint, ["Y1", "Y2", "Omega"])


if __name__ == "__main__":
    diagram().save(Path(__file__).with_name("i-diagram.svg"), highlight="I[Y1,Y2; Omega]")
