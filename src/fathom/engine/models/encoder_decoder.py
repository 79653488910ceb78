"""Encoder-decoders of `transformers`: log-probabilities of a target, given a source.

They have no single row of tokens that could hold a statement, so none of the methods on hidden states applies.
:mod:`fathom.engine.scoring.seq2seq` turns a statement into a source and a target.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.engine.models.base import Attention, Identity, Reply, log_softmax
from fathom.engine.models.generation import NOT_A_NUMBER, until
from fathom.engine.models.local import NOT_THIS_WAY, NetworkModel, StatesAlone, same, some_tokens


class EncoderDecoder(NetworkModel):
    """An encoder-decoder with its head, such as a T5ForConditionalGeneration.

    :raises BadInput: a network that does not state with which token its decoder starts.
    """

    stateless = "an encoder-decoder reads its statements in two parts"

    def __init__(self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, identity: Identity) -> None:
        super().__init__(network, tokenizer, Attention.SEQ2SEQ, identity)
        config = network.config.get_text_config(decoder=True)
        self.max_tokens = getattr(config, "max_position_embeddings", None)
        start = getattr(network.generation_config, "decoder_start_token_id", None)
        first = getattr(network.config, "decoder_start_token_id", None) if start is None else start
        if first is None:
            raise BadInput(f"'{identity.name}': its configuration lacks decoder_start_token_id")
        self.first = int(first)
        self._check_halves()

    def _check_halves(self) -> None:
        """:raises BadInput: encoder and decoder one after the other differ from the whole network."""
        name = type(self.network).__name__
        with torch.inference_mode():
            ids = some_tokens(self.network)
            try:
                started = torch.cat([ids.new_full((len(ids), 1), self.first), ids[:, :-1]], dim=1)
                logits = self.network(input_ids=ids, decoder_input_ids=started).logits.float()
                read = torch.ones_like(ids, dtype=torch.bool)
                log_probs = self.decode(self.encode(ids, read), read, ids)
            except NOT_THIS_WAY as error:
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                raise BadInput(f"a {name} cannot be run in two halves: {reason[:200]}") from error
        if not same(log_probs, log_softmax(logits)):
            raise BadInput(f"a {name} gives other scores if its encoder and its decoder are run one by one")

    def encode(self, sources: Tensor, read: Tensor) -> Tensor:
        """Return the encoder's states, shape (b, n, d).

        :param sources: token ids, shape (b, n).
        :param read: false for padding, shape (b, n).
        """
        encoder = self.network.get_encoder()
        return encoder(input_ids=sources, attention_mask=read.long())[0].to(self.device)  # type: ignore[no-any-return]

    def decode(self, states: Tensor, read: Tensor, targets: Tensor) -> Tensor:
        """Return log-probabilities over the vocabulary at each target token, given those before it.

        :param states: of the encoder, shape (b, n, d).
        :param read: false for padding, shape (b, n).
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
        return log_softmax(logits.to(self.device).float())

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = (), bos: int | None = None
    ) -> list[Reply]:
        """See :meth:`fathom.engine.models.base.Model.generate`; *bos* is ignored, the tokenizer decides."""
        return [self._reply(prompt, max_new_tokens, stop) for prompt in prompts]

    def _reply(self, prompt: str, max_new_tokens: int, stop: Sequence[str]) -> Reply:
        source = self.tokenizer(prompt, return_tensors="pt", verbose=False).input_ids.to(self.device)
        if self.max_tokens is not None and source.shape[1] > self.max_tokens:
            fault = f"a prompt of {source.shape[1]} tokens is longer than the model's window of {self.max_tokens}"
            return Reply("", 0, fault)
        with torch.inference_mode():
            output = self.network.generate(
                source,
                max_new_tokens=max_new_tokens,
                min_length=0,
                do_sample=False,
                num_beams=1,
                return_dict_in_generate=True,
                output_logits=True,
            )
        if any(scores.isnan().any() for scores in output.logits):
            return Reply("", 0, NOT_A_NUMBER)
        written = output.sequences[0, 1:]
        text = self.tokenizer.decode(written, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return Reply(until(text, stop), len(written), None)
