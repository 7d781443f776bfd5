"""Texts by TF-IDF: a fixed vocabulary, features as the formula says, beliefs that know which words matter."""

import math

import numpy as np
import pytest
import torch
from sklearn.naive_bayes import MultinomialNB

import natsel
from natsel.data import Examples
from natsel.models.features.heads import dropout_head
from natsel.models.features.text import TextModel, _Dense, _vectoriser
from natsel.models.networks.training import Training

GOOD = ["a lovely film", "lovely and warm", "warm story", "a fine lovely story", "fine film", "warm fine acting"]
BAD = ["a dreadful film", "dreadful and cold", "cold story", "a dull dreadful story", "dull film", "cold dull acting"]
LABELLED = Examples(GOOD + BAD, np.array([1] * 6 + [0] * 6), classes=("bad", "good"))
QUICK = dropout_head((32,), draws=10, training=Training(max_epochs=10), device="cpu")


def texts(*some):
    return np.array(some, dtype=object)


def test_it_learns_which_words_matter():
    model = TextModel(head=QUICK).fit(LABELLED, seed=1)
    belief = model.believe(texts("lovely warm fine", "dull cold dreadful", "zebra"))
    assert belief.shape == (3, 10, 2)
    good = belief.log_probs_N_K_C.exp().mean(1)[:, 1]
    assert good[0] > 0.65
    assert good[1] < 0.35
    assert 0.2 < good[2] < 0.8  # no word of it is known
    again = TextModel(head=QUICK).fit(LABELLED, seed=1).believe(texts("lovely warm fine"))
    torch.testing.assert_close(again.log_probs_N_K_C, belief.log_probs_N_K_C[:1])  # one text here, three there


def test_features_follow_the_formula():
    corpus = texts("b b a", "a c")
    dense = np.asarray(_Dense(_vectoriser(corpus, 100).transform(corpus)))
    names = ["a", "a c", "b", "b a", "b b", "c"]
    common, rare = 1 + math.log(3 / 3), 1 + math.log(3 / 2)
    row = {"a": common, "b": (1 + math.log(2)) * rare, "b a": rare, "b b": rare}
    expected = np.array([row.get(name, 0.0) for name in names])
    np.testing.assert_allclose(dense[0], expected / np.linalg.norm(expected) * math.sqrt(6), rtol=1e-6)


def test_texts_without_labels_decide_the_vocabulary_once():
    pool = texts(*GOOD, *BAD, "an umbrella", "the umbrella")
    model = TextModel(pool, head=QUICK).fit(LABELLED[[0, 6]])
    assert "umbrella" in model._vectoriser.vocabulary_
    before = model._vectoriser
    assert model.fit(LABELLED)._vectoriser is before
    alone = TextModel(head=QUICK).fit(LABELLED[[0, 6]])
    assert "umbrella" not in alone._vectoriser.vocabulary_
    assert len(TextModel(pool, words=4, head=QUICK).fit(LABELLED)._vectoriser.vocabulary_) == 4


def test_any_estimator_may_be_the_head():
    belief = TextModel(head=MultinomialNB()).fit(LABELLED).believe(texts("lovely", "dull"))
    assert belief.shape == (2, 20, 2)  # bagged: one estimator alone has nothing to disagree with
    assert belief.log_probs_N_K_C.exp().mean(1).argmax(1).tolist() == [1, 0]


def test_rows_are_made_dense_in_parts_and_all_parts_agree():
    model = TextModel(head=QUICK).fit(LABELLED)
    many = texts(*(GOOD + BAD) * 4)
    whole = model.believe(many).log_probs_N_K_C
    with natsel.memory_budget(200_000):
        parts = model.believe(many).log_probs_N_K_C
    torch.testing.assert_close(whole, parts)
    torch.testing.assert_close(whole[:12], whole[12:24])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TextModel(words=0), "^words: .*at least one word, found 0"),
        (lambda: TextModel(np.zeros((2, 3))), "^texts: expected a list of texts, found float among them"),
        (lambda: TextModel(np.full((2, 3), "a", dtype=object)), r"^texts: .*found shape \(2, 3\)"),
        (lambda: TextModel().believe(texts("a")), "^model: .*fit the model first"),
        (lambda: TextModel().fit(Examples(np.zeros((2, 3)), np.array([0, 1]))), "^labelled: expected a list of texts"),
        (lambda: TextModel().fit(Examples(["a", "b"])), "^labelled: found no labels"),
        (lambda: TextModel().fit(Examples(["?", "!"], np.array([0, 1]))), "^texts: found no word in 2 texts"),
        (lambda: TextModel(head=QUICK).fit(LABELLED).believe(np.zeros(3)), "^inputs: .*found float among them"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
