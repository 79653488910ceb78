"""Models of `transformers` loaded in this process."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from fathom.engine.models.base import Attention, Identity, LinearHead, Model, Reply
from fathom.engine.models.body import embeddings, find_body, replaced_forward, returns_hidden
from fathom.engine.models.cache import NAMES, KeyValues, States
from fathom.engine.models.checks import CACHE, PADDING, SHORT_STATES, STATES, TREE, CheckedLengths, Path, check
from fathom.engine.models.generation import generate_greedily
from fathom.engine.models.kernels import original_layers, use_fast_kernels
from fathom.engine.models.last_layer import PartialPass, find_partial_passes
from fathom.engine.models.placement import main_device, placement

POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_target_positions")
"""Names of the number of positions in configurations; MPT has the third, Whisper the last."""


class NetworkModel(Model):
    """A network of `transformers` with its tokenizer; the network is set to eval mode without gradients.

    :param tokenizer: a fast tokenizer (offsets and words are needed).
    """

    parameters: int

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        attention: Attention,
        identity: Identity,
    ) -> None:
        self.network = network.eval().requires_grad_(False)
        self.tokenizer, self.attention, self.identity = tokenizer, attention, identity
        self.placement = placement(network)
        """Number of modules on each device; None if all are on one."""
        self.device = main_device(network)
        self.vocabulary_size = embeddings(network)
        self.parameters = sum(weight.numel() for weight in network.parameters())

    @property
    def dtype(self) -> torch.dtype:
        return self.network.dtype  # type: ignore[no-any-return]

    def circumstances(self) -> Mapping[str, Any]:
        return {} if self.placement is None else {"placement": self.placement}


class LocalModel(NetworkModel):
    """A causal or masked language model with its head; fast kernels replace layers of the network in place.

    If a network needs the token ids themselves (say, to choose experts), :meth:`embed` returns the ids, shape (…, 1).

    :raises BadInput: a network whose scores would not be meaningful, see :mod:`fathom.engine.models.body`.

    >>> model = fathom.load_model("gpt2", device="cpu")
    >>> str(model.attention)
    'causal'
    """

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        attention: Attention,
        identity: Identity,
    ) -> None:
        super().__init__(network, tokenizer, attention, identity)
        self._exchanges = use_fast_kernels(network) if self.placement is None else []
        self.max_tokens = _max_tokens(network)
        self._body, self.takes_vectors = self._find_body()
        self._accepts = set(inspect.signature(self._body.forward).parameters)

    def _find_body(self) -> tuple[nn.Module, bool]:
        return find_body(self.network, self.attention)

    @property
    def attention_kernel(self) -> str | None:
        return getattr(self.network.config, "_attn_implementation", None)

    def __repr__(self) -> str:
        about = f"{self.attention} {type(self.network).__name__}, {self.identity.dtype}"
        return f"<LocalModel {self.identity.name!r}: {about}, {self.parameters:,} parameters, {self.device}>"

    def original_layers(self) -> AbstractContextManager[None]:
        return original_layers(self._exchanges)

    def embed(self, ids: Tensor) -> Tensor:
        if not self.takes_vectors:
            return ids[..., None].float()
        return self.network.get_input_embeddings()(ids).to(self.device)  # type: ignore[no-any-return]

    def hidden(self, vectors: Tensor, positions: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
        inputs = self._inputs(vectors)
        if "use_cache" in self._accepts:
            inputs["use_cache"] = False
        if positions is not None:
            inputs["position_ids"] = positions
        if visible is not None:
            assert positions is not None, "a custom mask needs positions"
            inputs["attention_mask"] = self._additive_mask(visible, positions, positions)
        return self._body(**inputs)[0].to(self.device)  # type: ignore[no-any-return]

    def _inputs(self, vectors: Tensor) -> dict[str, Any]:
        """Pass the output of :meth:`embed` as the body takes it."""
        return {"inputs_embeds": vectors} if self.takes_vectors else {"input_ids": vectors[..., 0].long()}

    def grow(
        self, past: KeyValues | None, vectors: Tensor, positions: Tensor, visible: Tensor | None = None
    ) -> tuple[Tensor, KeyValues]:
        before = KeyValues([], positions[:, :0]) if past is None else past
        known = torch.cat([before.positions, positions], dim=1)
        if visible is None:
            order = torch.arange(known.shape[1], device=known.device)
            visible = (order[None, :] <= order[len(before) :, None]).expand(len(vectors), -1, -1)
        memory = before.to_transformers()
        hidden = self._body(
            **self._inputs(vectors),
            position_ids=positions,
            attention_mask=self._additive_mask(visible, positions, known),
            use_cache=True,
            **{self._memory_name(): memory},
        )[0]
        return hidden.to(self.device), KeyValues.from_transformers(memory, known)

    def _memory_name(self) -> str:
        """:raises StopIteration: the network takes no memory."""
        return next(name for name in NAMES if name in self._accepts)

    def advance(self, past: States | None, vectors: Tensor) -> tuple[Tensor, States]:
        before = 0 if past is None else past.length
        rows, length = vectors.shape[0], before + vectors.shape[1]
        place = torch.arange(before, length, device=vectors.device)
        inputs = self._inputs(vectors) | {"use_cache": True}
        if "position_ids" in self._accepts:
            inputs["position_ids"] = place.expand(rows, -1)
        if "cache_position" in self._accepts:
            inputs["cache_position"] = place
        name = self._memory_name()
        if past is not None:
            inputs[name] = past.memory
        output = self._body(**inputs)
        return output[0].to(self.device), States(getattr(output, name), rows, length)

    def hidden_at(self, vectors: Tensor, at: Tensor) -> Tensor:
        rows = torch.arange(len(at), device=vectors.device)[:, None]
        if not self._partial_passes:
            return self.hidden(vectors)[rows, at]
        few = 2 * at.shape[1] <= vectors.shape[1]
        with self._partial_passes[0 if few else -1](rows, at):
            return self.hidden(vectors)

    @cached_property
    def _partial_passes(self) -> list[PartialPass]:
        """Start with the pass that is fastest for few positions, end with the one for any number."""
        return find_partial_passes(self._body, self.hidden, self.embed(torch.arange(6, device=self.device).view(2, 3)))

    def logits(self, hidden: Tensor) -> Tensor:
        return self._logits(hidden).float()

    def _logits(self, hidden: Tensor) -> Tensor:
        """Run the network's own forward pass with its body stubbed out."""
        ids = torch.zeros((1, len(hidden)), dtype=torch.long, device=self.device)
        with returns_hidden(self._body, hidden[None]):
            return self.network(input_ids=ids).logits[0].to(self.device)  # type: ignore[no-any-return]

    def generate(
        self, prompts: Sequence[str], max_new_tokens: int, stop: Sequence[str] = (), bos: int | None = None
    ) -> list[Reply]:
        return generate_greedily(self, prompts, max_new_tokens, stop, bos, self._end_tokens)

    @cached_property
    def _end_tokens(self) -> frozenset[int]:
        eos = getattr(self.network.generation_config, "eos_token_id", None)
        tokens = (self.tokenizer.eos_token_id, *(eos if isinstance(eos, list) else [eos]))
        return frozenset(token for token in tokens if token is not None)

    def linear_head(self) -> LinearHead | None:
        return self._linear_head

    @cached_property
    def _linear_head(self) -> LinearHead | None:
        """Stub out the last layer; accept the result only if both parts together reproduce the model's logits."""
        layer = self.network.get_output_embeddings()
        if not isinstance(layer, nn.Linear) or self.placement is not None:
            return None  # accelerate may hold the weight on another device

        def transform(hidden: Tensor) -> Tensor:
            with replaced_forward(layer, lambda states: states):
                return self._logits(hidden)

        try:
            with torch.inference_mode():
                ids = torch.arange(2, device=self.device)[None]
                sample = self.hidden(self.embed(ids))[0]
                split = layer(transform(sample))
                same = torch.allclose(split.float(), self.logits(sample), rtol=1e-4, atol=1e-5)
        except (RuntimeError, TypeError, ValueError, AttributeError):
            return None
        return LinearHead(transform, layer.weight, layer.bias) if same else None

    @cached_property
    def _checks(self) -> dict[Path, CheckedLengths]:
        checks = {path: partial(check, self, path) for path in (CACHE, STATES, PADDING)} | {TREE: self._check_tree}
        short = {STATES: SHORT_STATES}
        return {path: CheckedLengths(run, self.max_tokens, short.get(path, ())) for path, run in checks.items()}

    def _check_tree(self, lengths: Sequence[int]) -> str | None:
        """Check the model with its attention kernel and then with the eager one."""
        refusal = check(self, TREE, lengths)
        if refusal is not None and self.network.config._attn_implementation != "eager":
            kernel = self.network.config._attn_implementation
            try:
                self.network.set_attn_implementation("eager")
            except (ValueError, AttributeError):
                return refusal
            if check(self, TREE, lengths) is None:
                return None
            self.network.set_attn_implementation(kernel)
        return refusal

    def refuses_tree(self, longest: int = 0) -> str | None:
        return self._checks[TREE].refusal(longest)

    def refuses_cache(self, longest: int = 0) -> str | None:
        return self.refuses_tree(longest) or self._checks[CACHE].refusal(longest)

    def refuses_states(self, longest: int = 0) -> str | None:
        return self._checks[STATES].refusal(longest)

    def refuses_padding(self, longest: int = 0) -> str | None:
        return self._checks[PADDING].refusal(longest)

    def refusals(self) -> list[str]:
        reasons = (self._checks[path].why for path in (TREE, CACHE, STATES, PADDING))
        return list(dict.fromkeys(reason for reason in reasons if reason is not None))

    def _additive_mask(self, visible: Tensor, positions: Tensor, known: Tensor) -> Tensor | dict[str, Tensor]:
        """Turn booleans into what is added to attention scores, one mask for each kind of layer.

        :param positions: of the tokens that attend, shape (b, n).
        :param known: of the tokens attended to, shape (b, m).
        """
        config = self.network.config.get_text_config()
        window = getattr(config, "sliding_window", None)
        if not window or getattr(config, "use_sliding_window", True) is False:
            return self._additive(visible)
        distance = positions[:, :, None] - known[:, None, :]
        near = self._additive(visible & (distance < window))
        kinds = set(getattr(config, "layer_types", None) or ())
        if "full_attention" in kinds and "sliding_attention" in kinds:
            return {"full_attention": self._additive(visible), "sliding_attention": near}
        return self._additive(visible) if kinds == {"full_attention"} else near

    def _additive(self, visible: Tensor) -> Tensor:
        lowest = torch.full((), torch.finfo(self.dtype).min, dtype=self.dtype, device=visible.device)
        return torch.where(visible[:, None], torch.zeros_like(lowest), lowest)


def _max_tokens(network: PreTrainedModel) -> int | None:
    """Return the longest sequence the positions allow. RoBERTa counts its positions from after the padding id."""
    config = network.config.get_text_config()
    limit = next((value for name in POSITIONS if (value := getattr(config, name, None))), None)
    if limit is None:
        return None
    for module in network.modules():
        if isinstance(module, nn.Embedding) and module.num_embeddings == limit and module.padding_idx is not None:
            return int(limit) - module.padding_idx - 1
    return int(limit)
