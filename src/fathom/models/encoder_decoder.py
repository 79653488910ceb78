"""An encoder-decoder of `transformers` behind its seam: what it says of a target, given a source.

It has no single row of tokens in which a statement could stand, so it is no
:class:`~fathom.models.local.LocalModel`; :mod:`fathom.scoring.seq2seq` says how a statement becomes a source and a
target.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from fathom.errors import BadInput
from fathom.models.base import Attention, Cache, Identity, LinearHead, Reply
from fathom.models.body import NOT_THIS_WAY, StatesAlone, embeddings, same, some_tokens
from fathom.models.generation import NOT_A_NUMBER, until
from fathom.models.placement import main_device, placement
from fathom.models.states import States

WHY_NOT = "an encoder-decoder reads its statements in two parts"


class EncoderDecoder:
    """See :class:`fathom.models.base.Model`, of which it has what needs no single row of tokens.

    :param network: with its head, such as a T5ForConditionalGeneration.
    :param tokenizer: a fast tokenizer.
    :raises BadInput: a network that does not say with which token its decoder starts.
    """

    attention = Attention.SEQ2SEQ
    takes_vectors = False

    def __init__(self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, identity: Identity) -> None:
        self.made_of: tuple[str, ...] = ()
        self.network = network.eval().requires_grad_(False)
        self.tokenizer, self.identity = tokenizer, identity
        self.device = main_device(network)
        config = network.config.get_text_config(decoder=True)
        self.max_tokens: int | None = getattr(config, "max_position_embeddings", None)
        self.placement = placement(network)
        self.vocabulary_size = embeddings(network)
        self.parameters = sum(weight.numel() for weight in network.parameters())
        start = getattr(network.generation_config, "decoder_start_token_id", None)
        first = getattr(network.config, "decoder_start_token_id", None) if start is None else start
        if first is None:
            raise BadInput(f"'{identity.name}': its configuration lacks decoder_start_token_id")
        self.first = int(first)
        self._check_halves()

    @property
    def dtype(self) -> torch.dtype:
        """Precision of its weights."""
        return self.network.dtype  # type: ignore[no-any-return]

    def _check_halves(self) -> None:
        """:raises BadInput: encoder and decoder, asked one after the other, say something else than together."""
        name = type(self.network).__name__
        with torch.inference_mode():
            ids = some_tokens(self.network)
            try:
                started = torch.cat([ids.new_full((len(ids), 1), self.first), ids[:, :-1]], dim=1)
                logits = self.network(input_ids=ids, decoder_input_ids=started).logits.float()
                read = torch.ones_like(ids, dtype=torch.bool)
                found = self.decode(self.encode(ids, read), read, ids)
            except NOT_THIS_WAY as error:
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                raise BadInput(f"a {name} cannot be asked in two halves: {reason[:200]}") from error
        if not same(found, torch.log_softmax(logits, dim=-1)):
            raise BadInput(f"a {name} says something else when its encoder and its decoder are asked one by one")

    def encode(self, sources: Tensor, read: Tensor) -> Tensor:
        """States of the encoder.

        :param sources: token ids, shape (b, n).
        :param read: which of them count, the others are padding, shape (b, n).
        :returns: shape (b, n, d).
        """
        encoder = self.network.get_encoder()
        return encoder(input_ids=sources, attention_mask=read.long())[0].to(self.device)  # type: ignore[no-any-return]

    def decode(self, states: Tensor, read: Tensor, targets: Tensor) -> Tensor:
        """Log-probabilities over the vocabulary at each token of some targets, given those before it.

        :param states: of the encoder, shape (b, n, d).
        :param read: which of them count, shape (b, n).
        :param targets: token ids without the one that the decoder starts with, shape (b, m).
        :returns: float32 in nats, shape (b, m, vocabulary).
        """
        starts = targets.new_full((len(targets), 1), self.first)
        logits = self.network(
            encoder_outputs=StatesAlone(last_hidden_state=states),
            attention_mask=read.long(),
            decoder_input_ids=torch.cat([starts, targets[:, :-1]], dim=1),
            use_cache=False,
        ).logits
        return torch.log_softmax(logits.to(self.device).float(), dim=-1)

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = (), bos: int | None = None
    ) -> list[Reply]:
        """Greedy replies, each the same as if its prompt were alone; *bos* is the tokenizer's own affair."""
        return [self._reply(prompt, max_new_tokens, stop) for prompt in prompts]

    def _reply(self, prompt: str, max_new_tokens: int, stop: Sequence[str]) -> Reply:
        source = self.tokenizer(prompt, return_tensors="pt", verbose=False).input_ids.to(self.device)
        if self.max_tokens is not None and source.shape[1] > self.max_tokens:
            fault = f"a prompt of {source.shape[1]} tokens is longer than the model's window of {self.max_tokens}"
            return Reply("", 0, fault)
        with torch.inference_mode():
            found = self.network.generate(
                source,
                max_new_tokens=max_new_tokens,
                min_length=0,
                do_sample=False,
                num_beams=1,
                return_dict_in_generate=True,
                output_logits=True,
            )
        if any(scores.isnan().any() for scores in found.logits):
            return Reply("", 0, NOT_A_NUMBER)
        written = found.sequences[0, 1:]
        text = self.tokenizer.decode(written, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return Reply(until(text, stop), len(written), None)

    def refuses_tree(self) -> str | None:
        """Always."""
        return WHY_NOT

    def refuses_cache(self) -> str | None:
        """Always."""
        return WHY_NOT

    def refuses_states(self) -> str | None:
        """Always."""
        return WHY_NOT

    def advance(self, past: States | None, vectors: Tensor) -> tuple[Tensor, States]:
        """:raises BadInput: always, as those below."""
        raise self._unable()

    def linear_head(self) -> LinearHead | None:
        """None: its head is run by :meth:`decode` alone."""
        return None

    def embed(self, ids: Tensor) -> Tensor:
        """:raises BadInput: always, as all below."""
        raise self._unable()

    def hidden(self, vectors: Tensor, positions: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
        raise self._unable()

    def hidden_at(self, vectors: Tensor, at: Tensor) -> Tensor:
        raise self._unable()

    def grow(
        self, past: Cache | None, vectors: Tensor, positions: Tensor, visible: Tensor | None = None
    ) -> tuple[Tensor, Cache]:
        raise self._unable()

    def logits(self, hidden: Tensor) -> Tensor:
        raise self._unable()

    def _unable(self) -> BadInput:
        return BadInput(f"'{self.identity.name}' is an encoder-decoder: use the statement or the generation probe")
