"""Descriptions as vectors: what a language model makes of a text that tells of one thing, to see which texts tell of
the same.

Encoders read the text as it is; causal models are asked for one word for it (PromptEOL, Jiang et al. 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.scoring.memory import Budget
from fathom.scoring.tokens import Bos, resolve_bos
from fathom.scoring.vectors import Ids, encode_texts, resolve_pooling, vectors

IN_ONE_WORD = ('This sentence: "', '" means in one word: "')
"""What stands before and behind a text that a causal model is asked of."""


def reader_of(model: Model, budget: Budget) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """A function that gives a vector of each text, shape (texts, d). Of what is longer than the model's window, tokens
    before the closing ones are left out.

    :raises BadInput: an encoder-decoder.
    """
    if model.attention is Attention.SEQ2SEQ:
        raise BadInput("descriptions are read by a causal model or an encoder; this one is an encoder-decoder")
    causal = model.attention is Attention.CAUSAL
    before, behind = IN_ONE_WORD if causal else ("", "")
    bos = resolve_bos(model.tokenizer, Bos.AUTO) if causal else None
    closing = 1 + (len(encode_texts(model, [behind], None)[0]) if causal else 0)
    pooling, window = resolve_pooling(model, "auto"), model.max_tokens

    def fitting(tokens: Ids) -> Ids:
        if window is None or len(tokens) <= window:
            return tokens
        return (*tokens[: max(0, window - closing)], *tokens[-closing:])

    def read(texts: Sequence[str]) -> NDArray[np.float32]:
        ids = encode_texts(model, [f"{before}{text}{behind}" if text.strip() else "" for text in texts], bos)
        found = vectors(model, [fitting(tokens) for tokens in ids], pooling, budget).float().cpu().numpy()
        return np.where([[bool(text.strip())] for text in texts], found, np.float32(np.nan))

    return read
