"""Labels of classes: one whole number from 0 to C − 1 for each point, or a sentence that says what is wrong."""

import torch
from torch import Tensor


def class_labels(labels_N: Tensor, count: int, classes: int, name: str = "labels") -> Tensor:
    """The labels as int64, if there is one for each of `count` points and each is a class.

    >>> class_labels(torch.tensor([2, 0]), count=2, classes=3).tolist()
    [2, 0]
    >>> class_labels(torch.tensor([3]), count=1, classes=3)
    Traceback (most recent call last):
    ValueError: labels: classes run from 0 to 2, found 3 at point 0; number the classes from 0
    """
    if labels_N.shape != (count,):
        shape = tuple(labels_N.shape)
        raise ValueError(f"{name}: expected one for each of {count} points, found shape {shape}; pass one per point")
    classes_N = labels_N.to(torch.int64)
    if count == 0:
        return classes_N
    if labels_N.is_floating_point() and not bool((classes_N == labels_N).all()):
        raise ValueError(f"{name}: expected class numbers, found fractions; pass whole numbers from 0")
    wrong_N = (classes_N < 0) | (classes_N >= classes)
    if bool(wrong_N.any()):
        point = int(wrong_N.nonzero()[0])
        found = f"{int(classes_N[point])} at point {point}"
        raise ValueError(f"{name}: classes run from 0 to {classes - 1}, found {found}; number the classes from 0")
    return classes_N
