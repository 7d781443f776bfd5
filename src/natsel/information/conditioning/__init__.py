"""Conditioning: what labels at some points leave to learn at others. One step, one tolerance, four forms of it.

    take        w = c / √(v + s)        left ← left − w²        c: covariances with the point, v: what was left of it
    give back   w = c / √(s − v)        left ← left + w²        s: its noise
    nats        ½ ln(1 + left / s)

Whatever rounding says, nobody keeps less than the share s/(v + s) that the point itself keeps (Cauchy & Schwarz), and a
point of which less than rounding is left has no direction of its own (`one_step`).

    settled                 labels at many points at once: directions, and how much of each is known
    conditioned_features    points with features: only the D numbers of w are kept, in place of N for each point taken
    conditioned_kernel      points with similarities: rows are made on demand, for the points that a search looks at
    conditioned_blocks      points with R × R blocks under a precision of the weights; points can be given back

EIG (so MaxDet), EPIG, JEPIG, LogDet, the k-DPP and the conditioning of Gaussian beliefs are read from these.
docs/theory/weight-space.md, 6 and 7; docs/theory/epig-jepig.md, 6.
"""
