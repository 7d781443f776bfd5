"""Votes of people: read in the order of the pictures, and refused where there are none."""

import numpy as np
import pytest

from natsel.data import AbsentData, human_label_probs, human_votes


def test_votes_are_counted_and_shared_out(tmp_path):
    counts = np.zeros((2, 10), np.uint8)
    counts[0, 3], counts[1, [3, 5]] = 50, [10, 40]
    np.savez(tmp_path / "cifar10_human_labels.npz", cifar10h_counts=counts, annotators=np.array([[1, 1, 9]], np.uint8))
    assert human_votes(folder=tmp_path).tolist() == counts.tolist()
    assert human_label_probs(folder=tmp_path)[1, [3, 5]].tolist() == [0.2, 0.8]
    assert human_votes(part="train", folder=tmp_path).tolist() == [[0, 2, 0, 0, 0, 0, 0, 0, 0, 1]]
    assert human_label_probs(part="train", folder=tmp_path)[0, 1] == pytest.approx(2 / 3)


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(AbsentData, match=r"cifar10_human_labels\.npz is not on this machine .*cifar-10h"):
        human_votes(folder=tmp_path)


@pytest.mark.needs_data("cifar10_human_labels.npz")
def test_people_agree_with_the_published_labels():
    test, train = human_label_probs(), human_label_probs(part="train")
    assert test.shape == (10_000, 10)
    assert train.shape == (50_000, 10)
    np.testing.assert_allclose(test.sum(1), 1)
    assert test[:5].argmax(1).tolist() == [3, 8, 8, 0, 6]  # cat, ship, ship, airplane, frog: the order of the test part
    assert train[:5].argmax(1).tolist() == [6, 9, 9, 4, 1]
    assert 0.9 < test.max(1).mean() < 0.97
