"""A model whose answers can be worked out on paper: each token depends on the one before it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from fathom.engine.models.base import Attention, Identity, KeyValues, Model, Reply
from fathom.engine.models.generation import generate_greedily

BOS, UNKNOWN, MASK = "<s>", "<unk>", "<mask>"


class ScriptedModel(Model):
    """A bigram model over whole words (:class:`fathom.engine.models.base.Model`), causal or masked.

    The causal one says of the word after each word how likely it is; the masked one the same at the place of the word.

    :param weights: for a word, the unnormalised weights of the words that may follow; every other word has weight 1.
        With ``{"is": {"Paris": 8}}`` and ten words in all, p(Paris | is) = 8 / (8 + 9).
    :param words: the vocabulary; ``<s>`` and ``<unk>`` are added to it.
    :param max_tokens: the longest sequence it takes.
    :param masked: ``<mask>`` is in the vocabulary, too.
    :param name: by default "scripted"; models of different names have different identities.
    """

    device = torch.device("cpu")
    takes_vectors = True

    def __init__(
        self,
        words: list[str],
        weights: Mapping[str, Mapping[str, float]],
        max_tokens: int | None = None,
        *,
        masked: bool = False,
        name: str = "",
    ) -> None:
        special = [BOS, UNKNOWN, *([MASK] if masked else [])]
        vocabulary = {word: id_ for id_, word in enumerate(dict.fromkeys([*special, *words]))}
        self.attention = Attention.BIDIRECTIONAL if masked else Attention.CAUSAL
        self.tokenizer = word_tokenizer(vocabulary, MASK if masked else None)
        self.vocabulary_size = len(vocabulary)
        self.max_tokens = max_tokens
        content = name + str(sorted((word, sorted(next_.items())) for word, next_ in weights.items()))
        self.identity = Identity(name or "scripted", None, "float32", content)
        self.table = torch.zeros(len(vocabulary), len(vocabulary))
        for before, following in weights.items():
            for word, weight in following.items():
                self.table[vocabulary[before], vocabulary[word]] = torch.tensor(weight).log()
        self.parameters = self.table.numel()
        self.tokens_run = 0

    def embed(self, ids: Tensor) -> Tensor:
        """See :meth:`fathom.engine.models.base.Model.embed`."""
        return torch.nn.functional.one_hot(ids, self.vocabulary_size).float()

    def hidden(self, vectors: Tensor, positions: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
        """See :meth:`fathom.engine.models.base.Model.hidden`."""
        self.tokens_run += vectors.shape[0] * vectors.shape[1]
        if self.attention is Attention.CAUSAL:
            return vectors
        return torch.cat([torch.zeros_like(vectors[:, :1]), vectors[:, :-1]], dim=1)

    def hidden_at(self, vectors: Tensor, at: Tensor) -> Tensor:
        """See :meth:`fathom.engine.models.base.Model.hidden_at`."""
        return self.hidden(vectors)[torch.arange(len(at))[:, None], at]

    def grow(
        self, past: KeyValues | None, vectors: Tensor, positions: Tensor, visible: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """See :meth:`fathom.engine.models.base.Model.grow`."""
        return self.hidden(vectors), _Length((0 if past is None else len(past)) + vectors.shape[1])

    def logits(self, hidden: Tensor) -> Tensor:
        """See :meth:`fathom.engine.models.base.Model.logits`."""
        return hidden @ self.table

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = (), bos: int | None = None
    ) -> list[Reply]:
        """See :meth:`fathom.engine.models.base.Model.generate`."""
        return generate_greedily(self, prompts, max_new_tokens, stop, bos)

    def refuses_tree(self, longest: int = 0) -> str | None:
        return None

    def refuses_states(self, longest: int = 0) -> str | None:
        return "scripted"

    def refuses_cache(self, longest: int = 0) -> str | None:
        return None


class _Length:
    """The cache of a model that remembers nothing but the last token."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return self.tokens

    def keep(self, rows: Tensor) -> _Length:
        return _Length(len(rows))

    def repeat(self, times: int) -> _Length:
        return self


def word_tokenizer(vocabulary: dict[str, int], mask: str | None = None) -> PreTrainedTokenizerBase:
    """Splits at spaces and punctuation; what is not in the vocabulary is ``<unk>``."""
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS, unk_token=UNKNOWN, mask_token=mask)
