"""Texts, simply: TF-IDF of words and pairs of words under a dropout perceptron; no download, no large model.

    feature(text, w) ∝ (1 + ln count of w in text) · (1 + ln (1 + texts) / (1 + texts with w)),   rows of length one

Which words count, and how much, may be learnt from texts without labels: pass the pool's as `texts`, and the features
are the same in every round. Where `natsel[pretrained]` can be installed, `Frozen(minilm())` needs far fewer labels.
"""

from typing import Any

import numpy as np

from natsel.data.examples import Examples
from natsel.data.frames import FrameRows, by_position
from natsel.models.features.heads import Head, ModelOnFeatures, dropout_head
from natsel.models.protocol import Progress
from natsel.models.rows import Array
from natsel.options import Rows


class TextModel(ModelOnFeatures):
    """A classifier (or regressor) of texts that believes.

    `texts` without labels decide the vocabulary (None: the labelled ones of each fit), of at most `words` words and
    pairs of words. `head` makes the model on top of them.

    >>> from natsel.models.networks.training import Training
    >>> labelled = Examples(["good film", "bad film"], np.array([1, 0]))
    >>> model = TextModel(head=dropout_head(draws=5, training=Training(max_epochs=2), device="cpu"))
    >>> model.fit(labelled).believe(np.array(["a film"], dtype=object)).shape
    (1, 5, 2)
    """

    def __init__(self, texts: Rows = None, *, words: int = 5_000, head: Head | Any = None) -> None:
        if words < 1:
            raise ValueError(f"words: the vocabulary needs at least one word, found {words}; 5,000 is usual")
        self.texts = None if texts is None else _checked(texts, "texts")
        self.words = words
        self.head = dropout_head() if head is None else head
        self._vectoriser: Any = None

    def check_inputs(self, inputs: Rows) -> None:
        """Raise where inputs are no list of texts."""
        _checked(inputs)

    def features(self, inputs: Rows, *, progress: Progress | None = None) -> "_Dense":
        """TF-IDF of texts, made dense where rows are asked for."""
        return _Dense(self._vectoriser.transform(_checked(inputs)))

    def _width(self, labelled: Examples) -> int:
        texts = _checked(labelled.inputs, "labelled")
        if self._vectoriser is None or self.texts is None:
            self._vectoriser = _vectoriser(texts if self.texts is None else self.texts, self.words)
        return len(self._vectoriser.vocabulary_)


class _Dense:
    """Sparse rows that become dense where they are asked for: a pool of them would not fit into memory."""

    def __init__(self, sparse_N_D: Any) -> None:
        self.sparse_N_D = sparse_N_D
        # Rows of length one have entries of about 1/√D; a network learns from numbers of about one.
        self.scale = np.float32(np.sqrt(sparse_N_D.shape[1]))

    def __len__(self) -> int:
        return int(self.sparse_N_D.shape[0])

    def __getitem__(self, rows: Any) -> Array:
        dense_n_D: Array = self.sparse_N_D[rows].toarray()
        return np.multiply(dense_n_D, self.scale, out=dense_n_D)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)


def _vectoriser(texts: Array, words: int) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer  # here, because it takes a second to import

    vectoriser = TfidfVectorizer(
        max_features=words, ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b", dtype=np.float32
    )
    try:
        return vectoriser.fit(texts)
    except ValueError as reason:
        raise ValueError(f"texts: found no word in {len(texts)} texts ({reason}); pass texts with words") from None


def _checked(texts: Any, name: str = "inputs") -> Array:
    if isinstance(by_position(texts), FrameRows):
        raise ValueError(
            f"{name}: expected a list of texts, found a data frame; pass the column of texts, frame['text']"
        )
    array = np.asarray(texts, dtype=object)
    strangers = [type(text).__name__ for text in array[:100].ravel() if not isinstance(text, str)]
    if array.ndim != 1 or strangers:
        found = f"{strangers[0]} among them" if strangers else f"shape {array.shape}"
        raise ValueError(
            f"{name}: expected a list of texts, found {found}; numbers go to natsel.models.Dropout(mlp(…))"
        )
    return array
