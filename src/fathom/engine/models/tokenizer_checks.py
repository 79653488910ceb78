"""Checks that a tokenizer works, and that it belongs to the model whose embeddings it indexes."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.engine.models.base import Attention
from fathom.engine.models.hub import library_message
from fathom.engine.models.model_files import check_attributes

_UNUSUAL = "a \u1e9e \u6f22 \U0010fffd"
"""Characters that few vocabularies have."""
LEAST_SHARED = 0.99
"""Share of the original tokens that keep their ids in a tokenizer that merely adds or renames some."""
LEAST_COVERED = 0.9
"""Share of the embeddings that have a token."""
PADDING = 256
"""Embeddings without a token that any model may have, as numbers of rows are rounded up."""


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, attention: Attention, name: str) -> None:
    """:raises BadInput: a slow one (offsets and words are needed), one that fails, or no mask token where needed."""
    check_attributes(tokenizer, "tokenizer_config.json", name)
    if not tokenizer.is_fast:
        raise BadInput(f"the tokenizer of '{name}' has no fast version (tokenizer.json), which Fathom needs")
    if attention is Attention.BIDIRECTIONAL and tokenizer.mask_token_id is None:
        raise BadInput(
            f"the tokenizer of '{name}' has no mask token, which a masked model needs: "
            "set mask_token in its tokenizer_config.json"
        )
    try:
        tokenizer([_UNUSUAL], add_special_tokens=False, verbose=False)
        tokenizer.convert_tokens_to_ids(_UNUSUAL)
    except Exception as error:  # any error of the library
        raise BadInput(
            f"the tokenizer of '{name}' fails on unknown words: {library_message(error)}; its tokenizer.json needs an "
            "unknown token (unk_token) that is in its vocabulary"
        ) from error


def check_ids(rows: int, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Check the ids against the embeddings. Added tokens that are never used, such as one for padding, may exceed them.

    :param rows: number of embeddings.
    :raises BadInput: ids without an embedding, or too many embeddings without a token.
    """
    used = [getattr(tokenizer, f"{kind}_token_id", None) for kind in ("bos", "mask", "cls", "sep")]
    largest = max(_largest_id(tokenizer), *(id_ for id_ in used if id_ is not None), 0)
    if largest >= rows:
        raise BadInput(
            f"the tokenizer of '{name}' has tokens up to number {largest:,}, its model {rows:,} embeddings: they are "
            "not of one model"
        )
    tokens = len(tokenizer)
    if tokens < LEAST_COVERED * rows - PADDING:
        raise BadInput(
            f"the tokenizer of '{name}' has {tokens:,} tokens, its model {rows:,} embeddings: they are not of one model"
        )


def check_same_ids(
    tokenizer: PreTrainedTokenizerBase, original: PreTrainedTokenizerBase, name: str, model: str
) -> None:
    """:param original: the model's own tokenizer.
    :raises BadInput: tokens have other ids than in the model's own, so that they would take other embeddings.
    """
    ids, expected = tokenizer.get_vocab(), original.get_vocab()
    moved = [token for token, id_ in expected.items() if ids.get(token) != id_]
    if len(moved) > (1 - LEAST_SHARED) * len(expected):
        token = next((token for token in moved if token in ids), moved[0])
        raise BadInput(
            f"the tokenizer of '{name}' has other ids than that of '{model}' for {len(moved):,} of {len(expected):,} "
            f"tokens ({token!r} is {ids.get(token, 'missing')}, expected {expected[token]}): they are not of one model"
        )


def _largest_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the largest id of the vocabulary. If it has no gaps, counting is five times as fast as listing it."""
    size, backend = int(tokenizer.vocab_size), tokenizer.backend_tokenizer
    if None not in map(backend.id_to_token, range(size)):
        return size - 1
    return int(max(backend.get_vocab(with_added_tokens=False).values(), default=0))
