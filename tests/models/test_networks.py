"""Networks: the published functions, whatever the order of their layers, and new weights for every seed."""

import re

import pytest
import torch
from torch import nn

from natsel.models.fingerprints import weights_fingerprint
from natsel.models.networks.architectures import emnist_cnn, fresh, mlp, mnist_cnn, seeded


def published_mnist(ours):
    """The BatchBALD network with its layers in the published order, sharing the weights of ours."""
    convolutions = [part for part in ours if isinstance(part, nn.Conv2d)]
    linear = [part for part in ours if isinstance(part, nn.Linear)]
    blocks = [layer for part in convolutions for layer in (part, nn.Dropout2d(), nn.MaxPool2d(2), nn.ReLU())]
    return nn.Sequential(*blocks, nn.Flatten(), linear[0], nn.Dropout(), nn.ReLU(), linear[1])


def published_emnist(ours):
    first, second, third = (part for part in ours if isinstance(part, nn.Conv2d))
    linear = [part for part in ours if isinstance(part, nn.Linear)]
    return nn.Sequential(
        *(first, nn.Dropout2d(), nn.MaxPool2d(2), nn.ReLU()),
        *(second, nn.Dropout2d(), nn.ReLU()),
        *(third, nn.Dropout2d(), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), linear[0], nn.Dropout(), nn.ReLU(), linear[1]),
    )


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("make", "published", "mean", "std"),
    [(mnist_cnn, published_mnist, 0.1307, 0.3081), (emnist_cnn, published_emnist, 0.1751, 0.3332)],
)
def test_dropout_last_is_the_published_function(make, published, mean, std, training):
    ours = fresh(make, 3)
    theirs = published(ours)
    pictures = torch.rand(5, 28, 28, generator=torch.Generator().manual_seed(0))
    ours.train(training)
    theirs.train(training)
    with seeded(7):
        found = ours(pictures)
    with seeded(7):  # the same masks: as many numbers are drawn in both orders
        expected = theirs((pictures[:, None] - mean) / std)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    found.square().sum().backward()
    gradients = [parameter.grad.clone() for parameter in ours.parameters()]
    ours.zero_grad()
    expected.square().sum().backward()
    for ours_grad, parameter in zip(gradients, ours.parameters(), strict=True):
        torch.testing.assert_close(ours_grad, parameter.grad, rtol=1e-3, atol=1e-3)


def test_sizes_are_the_published_ones():
    def shapes(network):
        return [tuple(weights.shape) for weights in network.parameters() if weights.ndim > 1]

    assert shapes(mnist_cnn()) == [(32, 1, 5, 5), (64, 32, 5, 5), (128, 1024), (10, 128)]
    assert shapes(emnist_cnn()) == [(32, 1, 3, 3), (64, 32, 3, 3), (128, 64, 3, 3), (512, 2048), (47, 512)]
    assert all(part.p == 0.5 for part in mnist_cnn() if isinstance(part, nn.Dropout | nn.Dropout2d))


def test_pictures_with_and_without_a_channel_are_the_same():
    network = fresh(mnist_cnn, 0).eval()
    pictures = torch.rand(3, 28, 28)
    for shape in [(3, 1, 28, 28), (3, 28, 28, 1)]:
        torch.testing.assert_close(network(pictures), network(pictures.reshape(shape)))


@pytest.mark.parametrize("shape", [(28, 28), (16, 8), (14, 14), (13, 20), (4, 4), (32, 17)])
def test_letters_of_other_sizes_fit(shape):
    assert emnist_cnn(26, shape=shape)(torch.rand(2, *shape)).shape == (2, 26)


def test_pictures_that_do_not_fit_are_refused():
    for wrong in [(2, 28, 27), (2, 3, 28, 28), (2, 784)]:
        with pytest.raises(
            ValueError, match=rf"^inputs: expected pictures of 28×28 .* found shape {re.escape(str(wrong))}"
        ):
            mnist_cnn()(torch.rand(wrong))
    with pytest.raises(ValueError, match=r"^shape: pictures must be at least 4×4"):
        emnist_cnn(shape=(3, 9))


def test_perceptron_has_the_layers_asked_for():
    kinds = [type(part).__name__ for part in mlp(6, 3, hidden=(5, 4), dropout=0.25)]
    assert kinds == ["Flatten", "Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear"]
    assert mlp(6, 3, hidden=())(torch.zeros(2, 2, 3)).shape == (2, 3)


class WithBuffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.attention = nn.MultiheadAttention(4, 2)
        self.out = nn.Linear(4, 2)


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Module()
        self.inner.scale = nn.Parameter(torch.ones(3))


@pytest.mark.parametrize("network", [mlp(3, 2), WithBuffers(), mnist_cnn, lambda: mlp(3, 2)])
def test_fresh_weights_are_decided_by_the_seed_alone(network):
    before = torch.get_rng_state()
    one, same, other = (weights_fingerprint(fresh(network, seed)) for seed in (0, 0, 1))
    assert one == same != other
    assert torch.equal(before, torch.get_rng_state())


def test_a_trained_module_forgets_and_the_given_one_stays():
    network = WithBuffers()
    expected = weights_fingerprint(fresh(network, 5))
    with torch.no_grad():
        for tensor in network.state_dict().values():
            tensor.add_(1)
    kept = weights_fingerprint(network)
    again = fresh(network, 5)
    assert weights_fingerprint(again) == expected
    assert int(again.norm.num_batches_tracked) == 0
    assert weights_fingerprint(network) == kept


def test_networks_that_cannot_start_afresh_are_refused():
    with pytest.raises(ValueError, match=r"^network: Module \(inner\) has parameters but no reset_parameters"):
        fresh(Bare(), 0)
    kept = mlp(2, 2)
    fresh(lambda: kept, 0)
    with pytest.raises(ValueError, match=r"^network: the function returned the same module twice"):
        fresh(lambda: kept, 1)
    for wrong in (lambda: 3, "mnist_cnn", None):
        with pytest.raises(ValueError, match=r"^network: expected a torch module or a function that makes one, found"):
            fresh(wrong, 0)


def test_fingerprints_see_every_number():
    network = fresh(WithBuffers(), 0)
    seen = {weights_fingerprint(network)}
    for tensor in network.state_dict().values():
        with torch.no_grad():
            tensor.view(-1)[0] += 1
        seen.add(weights_fingerprint(network))
    assert len(seen) == 1 + len(network.state_dict())
    assert weights_fingerprint(network, network) not in seen


def test_borrowed_randomness_is_given_back_even_after_a_failure():
    def fail():
        torch.rand(5)
        raise KeyError("on purpose")

    before = torch.get_rng_state()
    with pytest.raises(KeyError), seeded(3):
        fail()
    assert torch.equal(before, torch.get_rng_state())
