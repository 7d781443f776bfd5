"""What a model is asked about is read as what it was fitted to: names and order of columns, the numbers of pictures,
tokens, and the names of classes in a validation set.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.multioutput import MultiOutputRegressor
from torch import nn
from torch.nn.utils import prune, weight_norm

import natsel
from natsel import Examples, Pool
from natsel.beliefs.kernel_transforms import Scale
from natsel.causal import SLearner, TLearner
from natsel.data.examples import InputForm
from natsel.data.frames import NamedColumns
from natsel.models import (
    DDU,
    AssumedNoise,
    Backbone,
    BayesianLinear,
    Deterministic,
    Dropout,
    Ensemble,
    Frozen,
    GaussianProcess,
    Gradients,
    LastLayer,
    PixelDDU,
    ProbitGP,
    Sklearn,
    Training,
    WithTransforms,
    inputs_of,
    mlp,
    pixel_network,
)
from natsel.sampling import IrreducibleLoss

pandas = pytest.importorskip("pandas", reason="needs the extra tables")
RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(60, 3)) * [1.0, 5.0, 0.2] + [0.0, 3.0, 1.0]
FRAME = pandas.DataFrame(TABLE, columns=["a", "b", "c"])
NUMBERS, CLASSES = TABLE @ [1.0, 2.0, 3.0], np.arange(60) % 2
SHORT = Training(max_epochs=2, epoch_samples=64)


def sums(frame):
    return np.cumsum(np.asarray(frame, dtype=np.float32), 1)


MODELS = {
    "BayesianLinear": (lambda: BayesianLinear(noise=1.0), NUMBERS),
    "GaussianProcess": (lambda: GaussianProcess(GaussianProcessRegressor(alpha=0.1, optimizer=None)), NUMBERS),
    "ProbitGP": (ProbitGP, CLASSES),
    "Sklearn": (lambda: Sklearn(LogisticRegression(), members=2), CLASSES),
    "Dropout": (lambda: Dropout(mlp(3, 2, (4,)), 2, SHORT, "cpu"), CLASSES),
    "Ensemble": (lambda: Ensemble(mlp(3, 1, (4,)), 2, SHORT, "cpu"), NUMBERS),
    "LastLayer": (lambda: LastLayer(mlp(3, 2, (4,)), training=SHORT, device="cpu"), CLASSES),
    "LastLayer of an estimator": (lambda: LastLayer(LogisticRegression(), device="cpu"), CLASSES),
    "Gradients": (lambda: Gradients(mlp(3, 2, (4,)), training=SHORT, device="cpu"), CLASSES),
    "DDU": (lambda: DDU(mlp(3, 2, (4,), 0.0), training=SHORT, device="cpu"), CLASSES),
    "WithTransforms": (lambda: WithTransforms(BayesianLinear(noise=1.0), Scale()), NUMBERS),
    "AssumedNoise": (lambda: AssumedNoise(LinearRegression(), 0.1), NUMBERS),
    "Frozen": (lambda: Frozen(Backbone("sums", 3, sums), LogisticRegression()), CLASSES),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    make, labels = MODELS[request.param]
    return make().fit(Examples(FRAME[:40], labels[:40]))


def test_columns_are_read_by_their_names(fitted):
    ours, theirs = (fitted.believe(some) for some in (FRAME[40:], FRAME[40:][["c", "a", "b"]]))
    assert all(torch.equal(getattr(ours, name), getattr(theirs, name)) for name in ours.points)
    for name in {"predictive", "draws"} & {name for name in dir(fitted) if callable(getattr(fitted, name))}:
        one, other = (getattr(fitted, name)(some) for some in (FRAME[40:], FRAME[40:][["b", "c", "a"]]))
        assert all(torch.equal(getattr(one, name), getattr(other, name)) for name in one.points)


def test_other_columns_and_arrays_are_refused(fitted):
    for wrong, said in (
        (FRAME[40:].rename(columns={"b": "width"}), "inputs: the column 'b' is missing"),
        (FRAME[40:].assign(d=1.0), "inputs: the column 'd' is new"),
        (TABLE[40:], "inputs: fitted to a data frame, found none; pass one with the columns a, b, c"),
    ):
        with pytest.raises(ValueError, match=f"^{said}"):
            fitted.believe(wrong)


def test_pool_and_targets_of_one_call_are_each_read_by_name():
    for make in (MODELS["GaussianProcess"][0], lambda: WithTransforms(MODELS["GaussianProcess"][0](), Scale())):
        model = make().fit(Examples(FRAME[:40], NUMBERS[:40]))
        ours, theirs = (model.believe_together(FRAME[40:], FRAME[50:][names]) for names in (list("abc"), list("cab")))
        assert torch.equal(ours[1].mean_N, theirs[1].mean_N)


def test_networks_trained_elsewhere_and_validation_sets_go_by_name_too():
    network, given = mlp(3, 2, (4,)), Examples(FRAME, CLASSES)
    for kind in (LastLayer, Gradients, DDU):
        model = kind.around(network, given, device="cpu")
        ours, theirs = model.believe(FRAME), model.believe(FRAME[["c", "b", "a"]])
        assert all(torch.equal(getattr(ours, name), getattr(theirs, name)) for name in ours.points)
    seen = []

    def train(module, labelled, validation):
        seen.append(validation.inputs.names)
        nn.init.ones_(module[1].weight)

    Ensemble(network, 1, train=train).fit(given, (FRAME[["c", "b", "a"]], CLASSES))
    assert seen == [("a", "b", "c")]


def test_a_learner_tests_and_predicts_by_name_with_a_model_of_anybody():
    class Own:
        def fit(self, labelled):
            self.inner = BayesianLinear(noise=1e-6).fit((np.asarray(labelled.inputs), labelled.labels))

        def believe(self, inputs):
            return self.inner.believe(np.asarray(inputs))

    for model in (BayesianLinear(), Own()):
        learner = natsel.ActiveLearner(model, Pool(FRAME[:40], labels=NUMBERS[:40]), test=(FRAME[list("cba")], NUMBERS))
        assert np.allclose(learner.predict(FRAME[list("bca")]), NUMBERS, atol=0.01)
        assert learner.history[-1].metrics["rmse"] < 0.01
        with pytest.raises(ValueError, match=r"^inputs: the column 'c' is missing"):
            learner.predict(FRAME[["a", "b"]])
    with pytest.raises(ValueError, match=r"^inputs: the column 'c' is missing"):
        natsel.ActiveLearner(Own(), Pool(FRAME, labels=NUMBERS), test=(FRAME[["a", "b"]], NUMBERS))


@pytest.mark.parametrize("kind", [SLearner, TLearner])
def test_models_of_treatments_read_columns_by_name(kind):
    table = np.c_[TABLE[:, :2], CLASSES]
    named, frame = (
        NamedColumns(table, ("a", "b", "treatment")),
        pandas.DataFrame(table, columns=["a", "b", "treatment"]),
    )
    shuffled = frame[["treatment", "b", "a"]]
    for given, other in (
        (named, shuffled),
        (named, NamedColumns(shuffled.to_numpy(), shuffled.columns)),
        (frame, shuffled),
    ):
        model = kind(BayesianLinear(noise=1.0)).fit(Examples(given, NUMBERS))
        right, found = model.believe(given), model.believe(other)
        assert torch.equal(right.mean0, found.mean0)
        assert torch.equal(right.mean1, found.mean1)


def test_pictures_of_which_every_pixel_is_labelled_keep_their_type():
    scenes = natsel.data.made_scenes(2, size=16)
    model = PixelDDU.around(pixel_network(4, width=4), scenes, device="cpu")
    with pytest.raises(ValueError, match=r"^inputs: fitted to pictures in bytes, found pictures in whole numbers"):
        model.maps(scenes.inputs.astype(int))


def test_tables_of_files_have_names_and_arrays_have_none():
    table, other = NamedColumns(TABLE, ("a", "b", "c")), NamedColumns(TABLE[:, ::-1], ("c", "b", "a"))
    model = BayesianLinear(noise=1.0).fit(Examples(table, NUMBERS))
    assert InputForm.of(table).read(other).tolist() == TABLE.tolist()
    for same in (other, TABLE, FRAME[["b", "a", "c"]]):
        assert torch.equal(model.believe(same).mean_N, model.believe(table).mean_N)


# Pictures and tables of bytes.


@pytest.mark.parametrize("kind", ["estimator", "process", "network"])
def test_bytes_of_tables_are_numbers_and_those_of_pictures_are_divided(kind):
    make = {
        "estimator": lambda: Sklearn(LogisticRegression()),
        "process": lambda: BayesianLinear(noise=1.0),
        "network": lambda: Deterministic(mlp(4, 1, (4,)), SHORT, "cpu"),
    }[kind]
    rows = RNG.integers(0, 16, (40, 4)).astype(np.uint8)
    labels = np.arange(40) % 2 if kind == "estimator" else rows.sum(1).astype(float)
    for inputs, scaled in ((rows, rows.astype(np.float32)), (rows.reshape(40, 2, 2), rows.reshape(40, 2, 2) / 255)):
        ours, theirs = (make().fit(Examples(one, labels)).believe(one) for one in (inputs, scaled))
        for name in ours.points:
            torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=1e-4, atol=1e-4)
    frame = pandas.DataFrame(rows, columns=list("abcd"))
    assert np.array_equal(np.asarray(Examples(frame).inputs), rows)


@pytest.mark.parametrize("kind", ["estimator", "network", "learner"])
def test_whole_numbers_of_another_type_than_the_pictures_of_the_fit_are_refused(kind):
    pictures, labels = RNG.integers(0, 256, (20, 2, 2)).astype(np.uint8), np.arange(20) % 2
    models = {"estimator": Sklearn(RandomForestClassifier(2)), "network": Deterministic(mlp(4, 2), SHORT, "cpu")}
    if kind == "learner":
        ask = natsel.ActiveLearner(RandomForestClassifier(2), Pool(pictures, labels=labels)).predict
        with pytest.raises(ValueError, match=r"^inputs: fitted to pictures in bytes, found pictures in whole numbers"):
            natsel.ActiveLearner(RandomForestClassifier(2), Pool(pictures), test=(pictures.astype(int), labels))
    else:
        ask = models[kind].fit(Examples(pictures, labels)).believe
    for other in (pictures.astype(int), pictures.tolist(), torch.from_numpy(pictures).int()):
        with pytest.raises(ValueError, match=r"^inputs: fitted to pictures in bytes, found pictures in whole numbers"):
            ask(other)
    assert len(ask(pictures / 255)) == 20  # as they are read


# Tokens.


class Words(nn.Module):
    def __init__(self, count=100_001, casts=True, late=False):
        super().__init__()
        parts = {"words": nn.Embedding(count, 4), "out": nn.Linear(4, 3)}
        for name in reversed(parts) if late else parts:
            setattr(self, name, parts[name])
        self.casts = casts

    def forward(self, tokens):
        return self.out(self.words(tokens.long() if self.casts else tokens).mean(1))


TOKENS = np.stack([np.arange(100_000 - 40, 100_000), np.arange(40), np.arange(40) + 250], 1)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("settings", [{}, {"casts": False}, {"late": True}])
def test_tokens_stay_what_they_are_in_every_precision(precision, settings):
    network = Words(**settings).to(precision)
    for dtype in (np.int64, np.int32, np.uint32):
        assert np.array_equal(inputs_of(network, TOKENS.astype(dtype)).long().numpy(), TOKENS)
    small = (TOKENS % 256).astype(np.uint8)
    for few in (small, small[:, None], torch.from_numpy(small)):  # bytes are no pictures here
        assert np.array_equal(np.asarray(inputs_of(network, few[:, 0] if few.ndim > 2 else few).long()), small)
    belief = Deterministic.around([network], device="cpu").believe(TOKENS)
    right = network(torch.from_numpy(TOKENS)).float().log_softmax(1)
    torch.testing.assert_close(belief.log_probs_N_K_C[:, 0].float(), right, rtol=0.02, atol=0.02)


def test_tokens_stay_what_they_are_where_no_layer_says_that_they_are_looked_up():
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.table_W_C = nn.Parameter(torch.randn(100_001, 3))

        def forward(self, tokens):
            return self.table_W_C[tokens.long()].mean(1)

    for precision in (torch.float32, torch.bfloat16, torch.float16):
        assert np.array_equal(inputs_of(Table().to(precision), TOKENS).long().numpy(), TOKENS)
    half = nn.Linear(3, 2).bfloat16()  # a table of whole numbers comes in the type that its layers take
    assert inputs_of(half, TOKENS).dtype == torch.bfloat16


def test_networks_that_look_up_words_are_trained_and_drop_out_on_whole_numbers():
    network = nn.Sequential(nn.Embedding(300, 4), nn.Flatten(), nn.Dropout(), nn.Linear(12, 2))
    tokens, state = TOKENS % 300, torch.get_rng_state()
    for model in (Dropout(network, 3, SHORT, "cpu"), Ensemble(network, 2, SHORT, "cpu")):
        found = model.fit(Examples(tokens, CLASSES[:40])).believe(tokens[:1])
        assert bool(found.log_probs_N_K_C.isfinite().all())
    assert torch.equal(torch.get_rng_state(), state)


# Names of classes.


def test_a_validation_set_that_lacks_a_class_is_numbered_as_the_labels_are():
    labels = np.arange(60) % 3
    rows = np.eye(3, dtype=np.float32)[labels] + RNG.normal(size=(60, 3)).astype(np.float32) / 10
    names, few = np.array(["ant", "bee", "cat"])[labels], labels > 0
    all_of, lacking = Examples(rows, names), Examples(rows[few], names[few])
    for validation in (lacking, replace(lacking, labels=lacking.labels + 1, classes=all_of.classes)):
        model = Deterministic(mlp(3, 3, (8,), 0.0), Training(max_epochs=8), "cpu").fit(all_of, validation)
        assert max(epoch.validation_accuracy for epoch in model.epochs[0]) > 0.9
        assert DDU.around(model.modules[0], all_of, validation, device="cpu").temperature < 1.0
    # The holdout knows two classes, and what is scored three, in other places.
    train, of = lacking, Examples(rows[labels != 1][:20] + 0.01, names[labels != 1][:20])
    with pytest.raises(ValueError, match=r"^of: the network has outputs for the classes 0..1"):
        IrreducibleLoss.fit(mlp(3, 2, (8,), 0.0), train, of, training=SHORT, device="cpu")
    table = IrreducibleLoss.fit(
        mlp(3, 3, (8,), 0.0), all_of, (rows[few] + 0.01, names[few]), training=Training(max_epochs=20), device="cpu"
    )
    assert table.loss_N.mean() < 0.7
    table.refuse_other(Examples(rows[few] + 0.01, names[few]))


# What was an error of somebody else's is one sentence.


@pytest.mark.parametrize("labels", [NUMBERS[:, None], np.stack([NUMBERS] * 2, 1), CLASSES[:, None], TABLE.astype(int)])
@pytest.mark.parametrize("name", ["BayesianLinear", "GaussianProcess", "Sklearn", "Dropout", "Ensemble", "LastLayer"])
def test_labels_in_columns_are_refused_in_one_sentence(name, labels):
    with pytest.raises(ValueError, match=r"^label(s|led): .*") as error:
        MODELS[name][0]().fit(Examples(TABLE, labels))
    assert "broadcast" not in str(error.value)
    if name == "Sklearn":
        for estimator in (RandomForestClassifier(2), LinearRegression(), MultiOutputRegressor(LinearRegression())):
            with pytest.raises(ValueError, match=r"^label(s|led): "):
                Sklearn(estimator).fit(Examples(TABLE, labels))


def test_sparse_matrices_are_refused_wherever_inputs_come_in():
    fitted = Sklearn(LogisticRegression()).fit(Examples(TABLE, CLASSES))
    sparse = (scipy.sparse.csr_matrix(TABLE), scipy.sparse.coo_array(TABLE), torch.from_numpy(TABLE).to_sparse())
    for one in sparse:
        for ask in (Examples, Pool, fitted.believe, MODELS["BayesianLinear"][0]().fit((TABLE, NUMBERS)).believe):
            with pytest.raises(ValueError, match=r"^inputs: found a sparse \w+; pass it as a dense one"):
                ask(one)


def test_estimators_read_tensors_in_bfloat16():
    half = torch.from_numpy(TABLE).bfloat16()
    found = natsel.ActiveLearner(LogisticRegression(), Pool(half, labels=CLASSES)).predict_proba(half)
    assert np.allclose(
        found,
        natsel.ActiveLearner(LogisticRegression(), Pool(half.float(), labels=CLASSES)).predict_proba(half.float()),
    )


def test_estimators_without_probabilities_make_no_last_layer_and_regressors_learn_whole_numbers():
    with pytest.raises(ValueError, match=r"^estimator: the probabilities of RidgeClassifier, if any, are no softmax"):
        LastLayer(RidgeClassifier(), device="cpu").fit(Examples(TABLE, CLASSES))
    ours, theirs = (
        LastLayer(LinearRegression(), device="cpu").fit(Examples(TABLE, some)).predictive(TABLE)
        for some in (np.arange(60), np.arange(60.0))
    )
    assert torch.equal(ours.mean_N_K, theirs.mean_N_K)


def hooked(how):
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 2))
    with torch.no_grad() if how == "evaluated" else torch.enable_grad():
        if how == "pruned":
            prune.l1_unstructured(network[0], "weight", amount=0.5)
        elif how == "parametrized":
            nn.utils.parametrizations.weight_norm(network[0])
        else:
            weight_norm(network[0])
        network(torch.zeros(1, 3))
    return network


@pytest.mark.filterwarnings("ignore:.*weight_norm")
@pytest.mark.parametrize("how", ["pruned", "normed", "evaluated", "parametrized"])
def test_weights_that_are_made_of_others_are_copied_and_never_said_to_start_afresh(how):
    network = hooked(how)
    belief = Deterministic.around([network], device="cpu").believe(TABLE)
    right = network.eval()(torch.from_numpy(TABLE).float()).detach().log_softmax(1)
    torch.testing.assert_close(belief.log_probs_N_K_C[:, 0], right)
    for kind in (Dropout, Ensemble):
        with pytest.raises(
            ValueError, match=r"^network: .* cannot start afresh; pass a function that makes the network"
        ):
            kind(network, 2, SHORT, "cpu").fit(Examples(TABLE, CLASSES))
        assert len(kind(lambda: hooked(how), 2, SHORT, "cpu").fit(Examples(TABLE, CLASSES)).believe(TABLE)) == 60


class Compiled(nn.Module):
    """As what torch.compile gives back, which takes seconds to load."""

    def __init__(self):
        super().__init__()
        self._orig_mod = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2))

    def forward(self, inputs):
        return self._orig_mod(inputs)


def in_place():
    network = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2))
    network._compiled_call_impl = network._call_impl
    return network


def test_compiled_networks_are_refused_where_masks_have_to_be_drawn():
    for network in (Compiled(), Compiled, in_place):
        with pytest.raises(ValueError, match=r"^network: it is compiled, .* pass the module before torch.compile"):
            Dropout(network, 2, SHORT, "cpu").fit(Examples(TABLE, CLASSES))
    with pytest.raises(ValueError, match=r"^network: it is compiled, .* pass the module before torch.compile"):
        Dropout.around(nn.Sequential(Compiled()), 2, device="cpu").believe(TABLE)
    assert len(Dropout.around(in_place(), 2, device="cpu").believe(TABLE)) == 60  # a copy is not compiled


def test_one_output_for_whole_numbers_is_told_to_take_floats():
    for model in (Ensemble(mlp(3, 1), 2, SHORT, "cpu"), LastLayer(mlp(3, 1), train=lambda module, labelled: None)):
        with pytest.raises(ValueError, match=r"found labels 50\.\.109; pass floats for numbers, or make it with 110"):
            model.fit(Examples(TABLE, np.arange(60) + 50))


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("kind", [Dropout, Ensemble, Gradients, LastLayer])
def test_probabilities_are_not_read_as_logits(kind, around):
    network = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2), nn.Softmax(1))
    given = Examples(TABLE, CLASSES)

    def ask():
        if not around:
            kind(network, training=SHORT, device="cpu").fit(given)
        elif kind in (Gradients, LastLayer):
            kind.around(network, given, device="cpu").believe(TABLE)
        else:
            kind.around(network if kind is Dropout else [network], device="cpu").believe(TABLE)

    with pytest.raises(ValueError, match=r"^network: its outputs (are probabilities|of shape .* are not those of)"):
        ask()
    fine = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2), nn.LogSoftmax(1))
    assert len(kind(fine, training=SHORT, device="cpu").fit(given).believe(TABLE)) == 60


def test_errors_name_the_type_of_pictures_once():
    form = InputForm.of(np.zeros((2, 2, 2), dtype=np.uint8))
    said = (
        "inputs: fitted to pictures in bytes, found pictures in whole numbers, and bytes alone are divided by 255; pass"
    )
    with pytest.raises(ValueError, match=re.escape(said)):
        form.read([[[1, 2], [3, 4]]])
