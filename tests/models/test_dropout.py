"""Consistent dropout against one draw at a time with explicit masks, whatever the module and however work is cut."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import natsel
from natsel.data.examples import Examples
from natsel.memory import memory_budget
from natsel.models.consistency import check_consistent
from natsel.models.dropout.dropout import Dropout
from natsel.models.dropout.lazy_convolutions import ChannelsLastMaps, MaskedMaps, SummedParts, max_pooled
from natsel.models.dropout.mask_plan import dropout_logits, outputs_of, plan_of
from natsel.models.dropout.masks import Draws, Masks
from natsel.models.networks.architectures import emnist_cnn, mlp, mnist_cnn
from natsel.models.networks.prediction import evaluating
from natsel.models.networks.training import Training
from natsel.seeds import derive

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def mask(seed: int, layer: int, draw: int, shape: tuple[int, ...], p: float = 0.5) -> Tensor:
    """The definition, written out."""
    generator = torch.Generator().manual_seed(derive(seed, "dropout", layer, draw))
    return (torch.rand(shape, generator=generator) >= p).float() / (1 - p)


def singly(module: nn.Module, inputs: Tensor, seed: int, draws) -> Tensor:
    """One draw and one point at a time: nothing is repeated, grown or factored."""
    masks = Masks(seed, 0)
    with evaluating(module), torch.no_grad():
        rows = []
        for row in inputs:
            outputs = []
            for draw in draws:
                with Draws(masks, [draw], 1, 1):
                    outputs.append(module(row[None])[0])
            rows.append(torch.stack(outputs))
        return torch.stack(rows)


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# ---- against masks written out by hand


def test_the_mnist_network_matches_explicit_masks():
    net, inputs, seed = mnist_cnn().eval(), torch.rand(5, 28, 28), 3
    found = dropout_logits(net, inputs, seed, range(7), "cpu")
    _, conv1, _, _, _, conv2, _, _, _, _, hidden, _, _, last = net
    for n in range(5):
        for k in range(7):
            with torch.no_grad():  # the published order: dropout, then pooling and ReLU
                x = (inputs[n : n + 1, None] - 0.1307) / 0.3081
                x = F.relu(F.max_pool2d(conv1(x) * mask(seed, 0, k, (32, 1, 1)), 2))
                x = F.relu(F.max_pool2d(conv2(x) * mask(seed, 1, k, (64, 1, 1)), 2))
                x = F.relu(hidden(x.flatten(1)) * mask(seed, 2, k, (128,)))
                close(found[n, k], last(x)[0])


def test_masks_of_a_seed_never_change():
    kept = Masks(0, 1 << 20)(0, [0, 1], 0.5, 1.0, (12,), torch.zeros(1))
    assert kept.int().tolist() == GOLDEN


GOLDEN = [[1, 1, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1]]


@given(
    p=st.floats(0.05, 0.95),
    points=st.integers(1, 5),
    draws=st.integers(1, 5),
    seed=st.integers(0, 2**40),
    hidden=st.integers(1, 6),
)
@settings(max_examples=30, deadline=None)
def test_any_perceptron_matches_explicit_masks(p, points, draws, seed, hidden):
    first, second, third = nn.Linear(3, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 2)
    net = nn.Sequential(first, nn.ReLU(), nn.Dropout(p), second, nn.Tanh(), nn.Dropout(p), third)
    inputs = torch.randn(points, 3)
    found = dropout_logits(net, inputs, seed, range(draws), "cpu")
    for k in range(draws):
        with torch.no_grad():
            x = first(inputs).relu() * mask(seed, 0, k, (hidden,), p)
            x = second(x).tanh() * mask(seed, 1, k, (hidden,), p)
            torch.testing.assert_close(found[:, k], third(x), rtol=1e-4, atol=1e-4)


def test_masks_keep_features_as_often_as_they_should():
    masks = torch.stack([Masks(0, 1 << 24)(0, range(200), p, 1.0, (500,), torch.zeros(1)).mean() for p in (0.1, 0.8)])
    torch.testing.assert_close(masks, torch.tensor([0.9, 0.2]), rtol=0, atol=5e-3)


def test_layers_draws_and_seeds_have_masks_of_their_own():
    found = [
        Masks(seed, 0)(layer, [draw], 0.5, 1.0, (64,), torch.zeros(1)) for seed, layer, draw in np.ndindex(2, 2, 2)
    ]
    assert len({tuple(each.flatten().tolist()) for each in found}) == 8


# ---- modules of every kind


class Functional(nn.Module):
    """Dropout that exists only as a call, with a flag that says no."""

    def __init__(self, drop, shape=(6,)):
        super().__init__()
        self.drop, self.shape = drop, shape
        self.first, self.last = nn.Linear(4, int(np.prod(shape))), nn.Linear(int(np.prod(shape)), 3)

    def forward(self, x):
        x = self.drop(self.first(x).view(-1, *self.shape))
        x = self.drop(torch.tanh(x))
        return self.last(x.flatten(1))


KINDS = {
    "F.dropout": Functional(lambda x: F.dropout(x, 0.3, training=False)),
    "in place": Functional(lambda x: F.dropout(x, 0.3, True, True)),
    "torch.dropout": Functional(lambda x: torch.dropout(x, 0.3, False)),
    "keyword": Functional(lambda x: F.dropout(input=x, p=0.4)),
    "dropout1d": Functional(lambda x: F.dropout1d(x, 0.4), (3, 5)),
    "dropout2d": Functional(lambda x: F.dropout2d(x, 0.4), (3, 2, 2)),
    "dropout3d": Functional(lambda x: F.dropout3d(x, 0.4), (3, 2, 2, 2)),
    "feature": Functional(lambda x: torch.feature_dropout(x, 0.4, False), (3, 2)),
    "alpha": Functional(lambda x: F.alpha_dropout(x, 0.4)),
    "feature alpha": Functional(lambda x: F.feature_alpha_dropout(x, 0.4), (3, 2, 2)),
    "layer": Functional(nn.AlphaDropout(0.2)),
    "everything dropped": Functional(lambda x: F.dropout(x, 1.0)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_dropout_is_caught(kind):
    module, inputs = KINDS[kind], torch.randn(4, 4)
    found = dropout_logits(module, inputs, 1, range(5), "cpu")
    close(found, singly(module, inputs, 1, range(5)))
    assert kind == "everything dropped" or float(found.std(1).max()) > 1e-3


@pytest.mark.parametrize("p", [0.2, 0.7])
@pytest.mark.parametrize("drop", [F.dropout, F.alpha_dropout, F.dropout2d, F.feature_alpha_dropout])
def test_what_is_kept_and_dropped_becomes_what_torch_makes_of_it(drop, p):
    x = torch.full((1, 64, 8, 8), 1.5)
    theirs = drop(x, p, training=True).unique()
    with Draws(Masks(0, 1 << 20), [0], 1, 1):
        ours = drop(x, p, training=False).unique()
    torch.testing.assert_close(ours, theirs)


class Blocks(nn.Module):
    """Channel dropout into something, and on to a linear layer."""

    def __init__(self, middle, size):
        super().__init__()
        self.first, self.drop, self.middle = nn.Conv2d(1, 4, 3), nn.Dropout2d(0.4), middle
        self.last = nn.Sequential(nn.Dropout2d(0.3), nn.Flatten(), nn.Linear(size, 3))

    def forward(self, x):
        return self.last(self.middle(self.drop(self.first(x))))


class ByName(nn.Module):
    """A convolution called with names alone."""

    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(5, 4, 3, 3))

    def forward(self, x):
        return F.conv2d(input=x, weight=self.kernel)


class Joined(nn.Module):
    """Masked values inside a list."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 5, 3)

    def forward(self, x):
        return self.conv(torch.cat([x, x * 2], 1))


FACTORED = {
    "plain": lambda: Blocks(nn.Conv2d(4, 5, 3), 5 * 8 * 8),
    "no bias": lambda: Blocks(nn.Conv2d(4, 5, 3, bias=False), 5 * 8 * 8),
    "stride and padding in two sizes": lambda: Blocks(nn.Conv2d(4, 5, (3, 2), (2, 1), (1, 0)), 5 * 5 * 9),
    "pooled": lambda: Blocks(nn.Sequential(nn.Conv2d(4, 5, 3), nn.MaxPool2d(2), nn.ReLU()), 5 * 4 * 4),
    "pooled, odd": lambda: Blocks(nn.Sequential(nn.Conv2d(4, 5, (2, 4)), nn.MaxPool2d(2)), 5 * 4 * 3),
    "pooled otherwise": lambda: Blocks(nn.Sequential(nn.Conv2d(4, 5, 3), nn.MaxPool2d(2, 1)), 5 * 7 * 7),
    "pooled to the brim": lambda: Blocks(nn.Sequential(nn.Conv2d(4, 5, 2), nn.MaxPool2d(2, ceil_mode=True)), 5 * 5 * 5),
    "published order": lambda: Blocks(nn.Sequential(nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(4, 5, 3)), 5 * 3 * 3),
    "ReLU in place": lambda: Blocks(nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(4, 5, 3)), 5 * 8 * 8),
    "mean pooling": lambda: Blocks(nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(4, 5, 3)), 5 * 3 * 3),
}
MULTIPLIED = {
    "stride, padding, dilation": lambda: Blocks(nn.Conv2d(4, 5, 3, 2, 1, 2), 5 * 4 * 4),
    "same": lambda: Blocks(nn.Conv2d(4, 5, 3, padding="same"), 5 * 10 * 10),
    "window of one": lambda: Blocks(nn.Conv2d(4, 5, 1), 5 * 10 * 10),
    "groups": lambda: Blocks(nn.Conv2d(4, 6, 3, groups=2), 6 * 8 * 8),
    "by name": lambda: Blocks(ByName(), 5 * 8 * 8),
    "joined": lambda: Blocks(Joined(), 5 * 8 * 8),
    "reflected": lambda: Blocks(nn.Conv2d(4, 5, 3, padding=1, padding_mode="reflect"), 5 * 10 * 10),
    "changed in place": lambda: Blocks(nn.Sequential(nn.ELU(inplace=True), nn.Conv2d(4, 5, 3)), 5 * 8 * 8),
    "ELU": lambda: Blocks(nn.Sequential(nn.ELU(), nn.Conv2d(4, 5, 3)), 5 * 8 * 8),
    "norm": lambda: Blocks(nn.Sequential(nn.BatchNorm2d(4), nn.Conv2d(4, 5, 3)), 5 * 8 * 8),
    "transposed": lambda: Blocks(nn.ConvTranspose2d(4, 5, 3), 5 * 12 * 12),
    "flattened": lambda: Blocks(nn.Sequential(nn.Flatten(2), nn.Unflatten(2, (10, 10))), 4 * 10 * 10),
}


@pytest.mark.parametrize("kind", FACTORED)
def test_factored_convolutions_are_convolutions(kind, monkeypatch):
    module, inputs = FACTORED[kind](), torch.randn(3, 1, 12, 12)
    expected = singly(module, inputs, 2, range(6))
    monkeypatch.setattr(MaskedMaps, "compute", None)  # nothing may need the numbers
    plan = plan_of(module.eval(), inputs, 2, 6, CPU)
    assert plan.route == "together"
    close(dropout_logits(module, inputs, 2, range(6), "cpu"), expected)


@pytest.mark.parametrize("kind", MULTIPLIED)
def test_what_cannot_be_factored_is_multiplied_out(kind):
    module, inputs = MULTIPLIED[kind](), torch.randn(3, 1, 12, 12)
    plan = plan_of(module.eval(), inputs, 2, 6, CPU)
    assert plan.route == "together"
    close(dropout_logits(module, inputs, 2, range(6), "cpu"), singly(module, inputs, 2, range(6)))


@pytest.mark.parametrize("shape", [(2, 3, 8, 6), (2, 3, 7, 5), (1, 1, 2, 2)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "settings", [{"kernel_size": 2}, {"kernel_size": (2, 2), "stride": 2}, {"kernel_size": 2, "stride": 1},
                 {"kernel_size": 2, "padding": 1}, {"kernel_size": 2, "ceil_mode": True}, {"kernel_size": 1}],
    ids=str,
)  # fmt: skip
def test_pooling_is_max_pooling(shape, layout, settings):
    maps = torch.randn(shape, generator=torch.Generator().manual_seed(1)).contiguous(memory_format=layout)
    assert torch.equal(max_pooled(maps, **settings), F.max_pool2d(maps, **settings))


class Seen:
    bytes = 0


@pytest.mark.parametrize("sides", [(8, 6, 3), (5, 7, 2), (2, 2, 1)])
def test_sums_pooled_one_point_after_another_are_sums_pooled(sides):
    parts, mask_K_C = torch.randn(3, 4, int(np.prod(sides))), torch.rand(5, 4)
    expected = (mask_K_C @ parts).view(15, *sides).permute(0, 3, 1, 2)
    sums, seen = SummedParts(parts, mask_K_C, sides, Seen()), Seen()
    assert sums.stride() == expected.stride()
    close(max_pooled(sums, 2), F.max_pool2d(expected, 2))
    assert not sums.computed
    close(max_pooled(sums, 2, 1), F.max_pool2d(expected, 2, 1))
    assert sums.computed
    sums.relu_()
    close(max_pooled(sums, 2), F.max_pool2d(expected.relu(), 2))
    close(SummedParts(parts, mask_K_C, sides, seen).flatten(1), expected.flatten(1))
    assert seen.bytes == expected.nbytes


FLATTENED = {
    "flatten": lambda x: x.flatten(1),
    "view": lambda x: x.view(6, -1),
    "rows as they come": lambda x: x.view(-1, 24),
    "reshape": lambda x: x.reshape(len(x), 24),
}
NOT_FLATTENED = {
    "relu": lambda x: x.relu().view(6, -1),
    "other rows": lambda x: x.view(3, 48)[:, :24],
    "changed in place": lambda x: x.mul_(2).flatten(1),
    "changed in place, and the result not used": lambda x: (x.mul_(2), x.flatten(1))[1],
    "convolved": lambda x: F.conv2d(x, torch.ones(24, 3, 4, 2)).flatten(1),
    "channels last after all": lambda x: x.permute(0, 2, 3, 1).reshape(6, -1),
}


@pytest.mark.parametrize("kind", FLATTENED | NOT_FLATTENED)
def test_flat_maps_pass_for_maps_with_channels_first(kind):
    maps, weight, bias = torch.randn(6, 3, 4, 2), torch.randn(5, 24), torch.randn(5)
    lazy = ChannelsLastMaps(maps.permute(0, 2, 3, 1).contiguous(), maps.shape, Seen())
    way = (FLATTENED | NOT_FLATTENED)[kind]
    flat = way(lazy)
    assert isinstance(flat, ChannelsLastMaps) == (kind in FLATTENED)
    expected = way(maps)
    found = flat.linear(weight, bias) if isinstance(flat, ChannelsLastMaps) else F.linear(flat, weight, bias)
    close(found, F.linear(expected, weight, bias))
    close(flat + 0, expected)


def test_flat_maps_changed_in_place_stay_changed():
    flat = ChannelsLastMaps(torch.ones(2, 1, 2, 3), (2, 6), Seen())
    flat.add_(1)
    close(flat.linear(torch.ones(1, 6)), torch.full((2, 1), 12.0))


def test_many_channels_for_few_draws_are_not_factored():
    module = nn.Sequential(nn.Dropout2d(), nn.Conv2d(40, 2, 3), nn.Flatten())
    inputs = torch.randn(2, 40, 3, 3)
    few, many = (plan_of(module.eval(), inputs, 0, draws, CPU) for draws in (3, 10))
    assert many.point_bytes - few.point_bytes == 41 * (9 + 2) * 4  # windows and parts of each channel, and of the bias
    assert few.draw_bytes - many.draw_bytes == 40 * 9 * 4  # the inputs multiplied out
    close(dropout_logits(module, inputs, 0, range(3), "cpu"), singly(module, inputs, 0, range(3)))


class Skip(nn.Module):
    """A connection around the first dropout: its two ends no longer fit when the batch has grown."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        x = self.first(x)
        return self.last(x + F.dropout(x.relu(), 0.5))


class KnowsItsBatch(nn.Module):
    """A mean over the batch's own size, which no error gives away."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(F.dropout(x).reshape(-1, len(x), 4).transpose(0, 1).reshape(-1, 4))


class Folded(nn.Module):
    """Steps of a sequence folded into the batch."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(2, 5), nn.Linear(10, 3)

    def forward(self, x):
        steps = F.dropout(self.first(x.reshape(-1, 2)).relu())
        return self.last(steps.reshape(len(x), -1))


class Branches(nn.Module):
    """Two parts that both begin before the first dropout."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(F.dropout(self.one(x)) + F.dropout(self.two(x).relu()))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.layer(x.reshape(len(x), -1, 4)).mean(1))


@pytest.mark.parametrize(
    ("module", "route"),
    [
        (Skip(), "one by one"),
        (KnowsItsBatch(), "one by one"),
        (Folded(), "one by one"),
        (Attention(), "one by one"),
        (Branches(), "together"),
        (nn.Sequential(nn.Dropout(0.3), nn.Linear(4, 3), nn.Dropout(0.2)), "together"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_modules_take_the_route_they_bear(module, route):
    inputs = torch.randn(6, 4)
    plan = plan_of(module.eval(), inputs, 0, 9, CPU)
    assert plan.route == route
    close(dropout_logits(module, inputs, 0, range(9), "cpu"), singly(module, inputs, 0, range(9)))


def test_a_batch_on_another_axis_is_refused():
    class Sideways(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(4, 3)

        def forward(self, x):
            return self.last(F.dropout(x.T).T)

    with pytest.raises(ValueError, match="depends on the other points"):
        dropout_logits(Sideways(), torch.randn(5, 4), 0, range(4), "cpu")


@pytest.mark.parametrize("module", [nn.Linear(4, 3), nn.Sequential(nn.Dropout(0.0), nn.Linear(4, 3))])
def test_a_module_without_dropout_is_refused_with_the_remedy(module):
    with pytest.raises(ValueError, match=r"no dropout.*nn\.Dropout.*Ensemble"):
        dropout_logits(module, torch.randn(5, 4), 0, range(4), "cpu")
    with pytest.raises(ValueError, match="no dropout"):  # before any training
        Dropout(module, training=Training(max_epochs=10**9), device="cpu").fit(examples(4, 3))


def test_outputs_that_are_no_table_are_refused():
    with pytest.raises(ValueError, match="expected outputs"):
        dropout_logits(nn.Dropout(), torch.randn(2, 3, 4), 0, range(2), "cpu")
    with pytest.raises(ValueError, match="NaN"):
        dropout_logits(nn.Sequential(nn.Dropout(), Nan()), torch.randn(2, 3), 0, range(2), "cpu")


class Nan(nn.Module):
    def forward(self, x):
        return x / 0 * 0


# ---- however the work is cut


@pytest.mark.parametrize(
    "module", [mnist_cnn(), emnist_cnn(10), mlp(784, 10, (20, 10)), Skip()], ids=lambda m: type(m).__name__
)
def test_chunks_of_points_and_draws_change_nothing(module):
    shape = (4,) if isinstance(module, Skip) else (28, 28)
    inputs = torch.rand(9, *shape)
    whole = dropout_logits(module, inputs, 5, range(12), "cpu")
    for budget in (1, 1 << 19, 1 << 22, 1 << 40):
        with memory_budget(budget):
            found = dropout_logits(module, inputs, 5, range(12), "cpu")
        torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-6, msg=lambda m, b=budget: f"budget {b}: {m}")
    parts = [dropout_logits(module, inputs, 5, draws, "cpu") for draws in (range(5), [5], list(range(6, 12)))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-5, atol=1e-6)
    back = dropout_logits(module, inputs.flip(0), 5, range(12), "cpu").flip(0)
    torch.testing.assert_close(back, whole, rtol=1e-5, atol=1e-6)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_threads_share_the_points_and_change_nothing(two_threads):
    net, inputs, seen = mnist_cnn().eval(), torch.rand(41, 28, 28), []
    with torch.no_grad():
        plan = plan_of(net, inputs, 5, 12, CPU)
        whole = outputs_of(
            plan, net, inputs, 5, range(12), CPU, progress=lambda done, total: seen.append((done, total))
        )
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
        alone = outputs_of(plan, net, inputs, 5, range(12), CPU)
    torch.testing.assert_close(whole, alone, rtol=1e-5, atol=1e-6)
    assert seen == sorted(seen)
    assert seen[-1] == (41, 41)


def test_what_fails_in_a_thread_is_told_and_the_number_of_threads_comes_back(two_threads):
    class Picky(nn.Module):
        def forward(self, x):
            if bool((x > 2).any()):
                raise ArithmeticError("more than two")
            return F.dropout(x, 0.5)

    inputs = torch.rand(9, 4)
    inputs[8] = 3
    with pytest.raises(ArithmeticError, match="more than two"):
        dropout_logits(Picky(), inputs, 0, range(3), "cpu")
    assert torch.get_num_threads() == 2


def test_small_budgets_really_cut():
    net, inputs = mnist_cnn().eval(), torch.rand(3, 28, 28)
    plan = plan_of(net, inputs, 0, 100, CPU)
    assert 700_000 < plan.point_bytes < 1_200_000  # 33 × 64 × 8 × 8 parts of a convolution, and what comes before
    assert 25_000 < plan.draw_bytes < 60_000
    rows: list[int] = []
    with memory_budget(2 << 20), torch.no_grad():
        assert 10 < plan.draws_at_once(100) < 60
        outputs_of(plan, net, inputs, 0, range(100), CPU, progress=lambda done, total: rows.append(done))
    assert rows == [1, 2, 3]


def test_nothing_is_left_changed():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout2d(), nn.Flatten(), nn.Linear(72, 2))
    net.train()
    net[1].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    inputs = torch.randn(4, 1, 8, 8)
    copy, state = inputs.clone(), torch.get_rng_state()
    dropout_logits(net, inputs, 0, range(3), "cpu")
    assert [part.training for part in net.modules()] == [True, True, False, True, True, True]
    assert all(bool((value == before[name]).all()) for name, value in net.state_dict().items())
    assert bool((inputs == copy).all())
    assert bool((torch.get_rng_state() == state).all())
    assert all(value.grad is None for value in net.parameters())


@pytest.mark.parametrize("rest", [nn.Sequential(nn.Linear(4, 3), nn.Dropout()), Skip()], ids=["together", "one by one"])
def test_modules_that_work_in_place_do_not_spoil_the_inputs(rest):
    class Doubling(nn.Module):
        def forward(self, x):
            return x.mul_(2)

    inputs = torch.randn(5, 4)
    copy = inputs.clone()
    found = dropout_logits(nn.Sequential(Doubling(), rest), inputs, 0, range(5), "cpu")
    assert bool((inputs == copy).all())
    close(found, dropout_logits(rest, 2 * inputs, 0, range(5), "cpu"))


# ---- the model


def examples(features: int, classes: int, count: int = 40) -> Examples:
    numbers = np.random.default_rng(0)
    labels = numbers.integers(classes, size=count)
    inputs = numbers.normal(size=(count, features)) + 2 * np.eye(classes, features)[labels]
    return Examples(inputs.astype(np.float32), labels)


@pytest.fixture(scope="module")
def data() -> Examples:
    return examples(6, 3, 200)


@pytest.fixture(scope="module")
def model(data) -> Dropout:
    return Dropout(mlp(6, 3), draws=20, training=Training(max_epochs=10), device="cpu").fit(
        data[:60], data[60:90], seed=4
    )


def test_a_model_learns_and_believes(model, data):
    belief = model.believe(data.inputs[90:])
    assert belief.shape == (110, 20, 3)
    assert belief.ids.tolist() == list(range(110))
    right = belief.log_probs_N_K_C.exp().mean(1).argmax(-1).numpy() == data.labels[90:]
    assert right.mean() > 0.8
    assert float(natsel.score("bald", belief).max()) > 0.01
    assert model.route == "together"


def test_beliefs_are_a_pure_function_of_the_fit(model, data):
    pool = data.inputs[90:]
    belief = model.believe(pool)
    again = model.believe(pool)
    assert bool((belief.log_probs_N_K_C == again.log_probs_N_K_C).all())
    same = Dropout(mlp(6, 3), 20, Training(max_epochs=10), "cpu").fit(data[:60], data[60:90], seed=4)
    assert bool((same.believe(pool).log_probs_N_K_C == belief.log_probs_N_K_C).all())
    assert belief.draws_id == again.draws_id == same.believe(pool).draws_id
    other = same.fit(data[:60], data[60:90], seed=5).believe(pool)
    assert other.draws_id != belief.draws_id
    assert bool((other.log_probs_N_K_C != belief.log_probs_N_K_C).any())


def test_copies_agree_and_picks_do_not_depend_on_chunks(model, data):
    pool = np.concatenate([data.inputs[90:], data.inputs[90:]])
    check_consistent(model.believe, pool)
    with memory_budget(1 << 12):
        small = natsel.select("batchbald", model.believe(pool), k=5)
    assert small.ids.tolist() == natsel.select("batchbald", model.believe(pool), k=5).ids.tolist()


def test_weights_come_back(model, data):
    weights = model.weights()
    other = Dropout(mlp(6, 3), 20, device="cpu").load_weights(weights)
    first, second = model.believe(data.inputs[:9]), other.believe(data.inputs[:9])
    assert bool((first.log_probs_N_K_C == second.log_probs_N_K_C).all())
    assert first.draws_id == second.draws_id
    fewer = Dropout(mlp(6, 3), 19, device="cpu").load_weights(weights).believe(data.inputs[:9])
    other_masks = Dropout(mlp(6, 3), 20, device="cpu").load_weights({**weights, "natsel.seed": torch.tensor(99)})
    assert len({first.draws_id, fewer.draws_id, other_masks.believe(data.inputs[:9]).draws_id}) == 3
    with pytest.raises(ValueError, match="weights: they do not fit"):
        Dropout(mlp(7, 3), 20, device="cpu").load_weights(weights)
    with pytest.raises(ValueError, match="weights: they do not fit"):
        Dropout(mlp(6, 3), 20, device="cpu").load_weights({})


def test_numbers_are_believed_as_gaussians():
    numbers = np.random.default_rng(0)
    inputs = numbers.normal(size=(120, 3)).astype(np.float32)
    labelled = Examples(inputs, 50 + 10 * inputs[:, 0] + numbers.normal(size=120))
    model = Dropout(mlp(3, 1, dropout=0.2), draws=8, training=Training(max_epochs=40), device="cpu").fit(labelled)
    belief = model.believe(inputs)
    assert isinstance(belief, natsel.GaussianSamples)
    assert belief.mean_N_K.shape == (120, 8)
    assert float(np.corrcoef(belief.mean_N_K.mean(1).numpy(), labelled.labels)[0, 1]) > 0.9
    check_consistent(model.believe, inputs)


def test_bad_calls_are_refused(model):
    with pytest.raises(ValueError, match="fit the model first"):
        Dropout(mlp(6, 3), device="cpu").believe(np.zeros((1, 6)))
    with pytest.raises(ValueError, match="inputs: found none"):
        model.believe(np.zeros((0, 6), dtype=np.float32))
    for draws in (0, 2.5, True):
        with pytest.raises(ValueError, match="draws"):
            Dropout(mlp(6, 3), draws=draws)


def test_one_point_and_one_draw_are_enough(model, data):
    alone = model.believe(data.inputs[:1]).log_probs_N_K_C
    close(alone, model.believe(data.inputs[:7]).log_probs_N_K_C[:1])
    single = Dropout(mlp(6, 3), 1, Training(max_epochs=1), "cpu").fit(data[:20])
    assert single.believe(data.inputs).shape == (200, 1, 3)


def test_spilled_beliefs_are_the_same_and_go_on_where_they_were_killed(model, data, tmp_path, monkeypatch):
    whole = model.believe(data.inputs)
    done: list[int] = []

    def progress(count: int, total: int) -> None:
        assert total == 200
        done.append(count)
        if count > 120 and not resumed:
            raise KeyboardInterrupt

    resumed: list[bool] = []
    with memory_budget(4 * 20 * 12 * 50):  # shards of 50 points
        with pytest.raises(KeyboardInterrupt):
            model.believe(data.inputs, spill=tmp_path / "beliefs", progress=progress)
        resumed.append(True)
        done.clear()
        spilled = model.believe(data.inputs, spill=tmp_path / "beliefs", progress=progress)
        assert min(done) > 100  # two shards were finished
        assert done[-1] == 200
        torch.testing.assert_close(spilled.log_probs_N_K_C, whole.log_probs_N_K_C, rtol=1e-5, atol=1e-6)
        assert spilled.ids.tolist() == list(range(200))
        assert spilled.draws_id == whole.draws_id
        with pytest.raises(ValueError, match="another model"):
            model.believe(data.inputs[:150], spill=tmp_path / "beliefs")
        done.clear()
        model.believe(data.inputs, spill=tmp_path / "beliefs", progress=progress)
        assert not done
    with memory_budget(4 * 20 * 12 * 40), pytest.raises(ValueError, match="in other shards"):
        model.believe(data.inputs, spill=tmp_path / "beliefs")


def test_spilled_beliefs_about_inputs_that_changed_are_refused(model, data, tmp_path):
    model.believe(data.inputs, spill=tmp_path / "beliefs")
    for row in range(200):
        changed = np.array(data.inputs)
        changed[row] += 1
        with pytest.raises(ValueError, match="of other inputs"):
            model.believe(changed, spill=tmp_path / "beliefs")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_an_accelerator_draws_the_same_functions():
    net, inputs = mnist_cnn(), torch.rand(50, 28, 28)
    here = dropout_logits(net, inputs, 0, range(20), "cpu")
    there = dropout_logits(net.cuda(), inputs, 0, range(20), "cuda").cpu()
    torch.testing.assert_close(there, here, rtol=1e-2, atol=1e-2)


def test_pools_of_other_lengths_have_draws_of_their_own_where_masks_have_places():
    """Elementwise dropout of channels × length: other lengths have other masks; whole channels have the same."""
    made = {"places": nn.Dropout(0.5), "channels": nn.Dropout1d(0.5)}
    names = {}
    for kind, dropout in made.items():
        net = nn.Sequential(nn.Conv1d(2, 4, 1), dropout, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 2))
        model = Dropout.around(net, draws=4, device="cpu")
        names[kind] = [model.believe(np.ones((3, 2, length), dtype=np.float32)).draws_id for length in (5, 5, 7)]
    assert names["places"][0] == names["places"][1] != names["places"][2]
    assert len(set(names["channels"])) == 1
