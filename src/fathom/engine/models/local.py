"""Models of `transformers` loaded in this process.

Their *body* is the part whose states the head sees: stubbed out with its own states, it leaves the logits unchanged.
The search for it also checks what all scores rely on: a causal model must not see later tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

from fathom.base.errors import BadInput
from fathom.engine.models.base import NAMES, Attention, Identity, KeyValues, LinearHead, Model, Reply, States
from fathom.engine.models.checks import CACHE, PADDING, SHORT_STATES, STATES, TREE, CheckedLengths, FastPath, check
from fathom.engine.models.generation import generate_greedily
from fathom.engine.models.weights import main_device, original_layers, placement, use_fast_kernels

NOT_THIS_WAY = (AttributeError, TypeError, ValueError, RuntimeError, IndexError, KeyError, AssertionError)
"""Errors of a module that cannot be called like this."""
BASE = ("get_decoder", "", "encoder")
WHOLE = ("get_decoder", "model.language_model", "model", "language_model")
"""Places of the body below what the class calls its base, and below the whole network, the likeliest first."""


@dataclass
class StatesAlone(BaseModelOutputWithPastAndCrossAttentions):  # type: ignore[misc]
    """Hidden states, and None for any other attribute (Mamba's ``cache_params``, RWKV's ``state``, …)."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "to":  # accelerate would call the latter
            raise AttributeError(name)
        return None


@contextmanager
def replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    previous = vars(module).get("forward")  # that of accelerate, which fetches weights from other devices
    module.forward = forward
    try:
        yield
    finally:
        if previous is None:
            del module.forward
        else:
            module.forward = previous


def returns_hidden(body: nn.Module, hidden: Tensor) -> AbstractContextManager[None]:
    """Let *body* return *hidden* without computing anything while inside."""
    output = StatesAlone(last_hidden_state=hidden)
    return replaced_forward(
        body, lambda *args, **kwargs: output if kwargs.get("return_dict", True) else output.to_tuple()
    )


def find_body(network: PreTrainedModel, attention: Attention) -> tuple[nn.Module, bool]:
    """Find the sub-module whose output the head sees.

    :returns: it, and whether it takes vectors (else only token ids).
    :raises BadInput: there is none, the network does not run, or a causal one sees later tokens.
    """
    ids = some_tokens(network)
    with torch.inference_mode():
        expected = _own_logits(network, ids)
        if attention is Attention.CAUSAL:
            _check_causal(network, ids, expected)
        for takes_vectors in (True, False):
            for body in _candidates(network):
                logits = _logits_through(network, body, ids, takes_vectors)
                if logits is not None and same(logits, expected):
                    return body, takes_vectors
    raise BadInput(
        f"a {type(network).__name__} cannot be evaluated: no part of it gives exactly the states that its head takes "
        "(in a class of your own, let a module self.model take input_ids and return these states first)"
    )


def embeddings(network: PreTrainedModel) -> int:
    """Return the number of input embeddings.

    :raises BadInput: there are none: the network does not read tokens.
    """
    weight = getattr(network.get_input_embeddings(), "weight", None)
    if not isinstance(weight, Tensor):
        raise BadInput(f"a {type(network).__name__} has no embeddings of tokens, so it cannot read texts")
    return weight.shape[0]


def some_tokens(network: PreTrainedModel) -> Tensor:
    """Return ids of two rows of six tokens, without padding, at which some models (RoBERTa) count no position."""
    config = network.config.get_text_config()
    padding, vocabulary = getattr(config, "pad_token_id", None), embeddings(network)
    usable = [id_ for id_ in range(min(vocabulary, 16)) if id_ != padding]
    rows = [[usable[place % len(usable)] for place in places] for places in (range(6), range(9, 3, -1))]
    return torch.tensor(rows, device=main_device(network))


def _own_logits(network: PreTrainedModel, ids: Tensor) -> Tensor:
    try:
        return network(input_ids=ids).logits  # type: ignore[no-any-return]
    except Exception as error:  # any error of foreign code
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise BadInput(f"a {type(network).__name__} does not run on token ids alone: {reason[:200]}") from error


def _check_causal(network: PreTrainedModel, ids: Tensor, whole: Tensor) -> None:
    """:raises BadInput: logits at the first tokens depend on later ones."""
    prefix = _own_logits(network, ids[:, :3]).float()
    # Eight-bit products separate outliers by the whole batch, so that they are not quite causal.
    least = 0.1 if getattr(network.config, "quantization_config", None) is not None else 1e-3
    rounding = max(least, 8 * torch.finfo(whole.dtype).eps)
    if (prefix - whole[:, :3].float()).abs().max() > rounding * max(1.0, float(prefix.abs().max())):
        undecided = getattr(network.config, "is_decoder", None) is False
        decoder = "; set is_decoder in its config.json" if undecided else ""
        raise BadInput(
            f"a {type(network).__name__} looks at later tokens, as no causal model does: its likelihoods would be "
            f"meaningless{decoder}"
        )


def same(logits: Tensor, expected: Tensor) -> bool:
    """Compare up to rounding, which is larger in half precision."""
    rounding = max(1e-4, torch.finfo(expected.dtype).eps)
    return logits.shape == expected.shape and torch.allclose(
        logits, expected, rtol=rounding, atol=0.1 * rounding, equal_nan=True
    )


def _candidates(network: PreTrainedModel) -> Iterator[nn.Module]:
    """Yield each sub-module that may be the body once, the likeliest first."""
    seen: list[Any] = [network]
    places = [(network.base_model, path) for path in BASE] + [(network, path) for path in WHOLE]
    for owner, path in places:
        try:
            module: Any = attrgetter(path)(owner) if path else owner
            module = module() if path == "get_decoder" else module
        except NOT_THIS_WAY:
            continue
        if isinstance(module, nn.Module) and not any(module is seen_module for seen_module in seen):
            seen.append(module)
            yield module


def _logits_through(network: PreTrainedModel, body: nn.Module, ids: Tensor, takes_vectors: bool) -> Tensor | None:
    """Run *body* alone and return the network's logits given its states."""
    try:
        inputs = {"inputs_embeds": network.get_input_embeddings()(ids)} if takes_vectors else {"input_ids": ids}
        hidden = body(**inputs)[0]
        with returns_hidden(body, hidden):
            logits = network(input_ids=ids).logits
        with returns_hidden(body, torch.zeros_like(hidden)):
            if torch.equal(network(input_ids=ids).logits, logits):
                return None
    except NOT_THIS_WAY:
        return None
    return logits if isinstance(logits, Tensor) and logits.shape[:2] == ids.shape else None


POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_target_positions")
"""Names of the number of positions in configurations; MPT has the third, Whisper the last."""


class NetworkModel(Model):
    """A network of `transformers` with its tokenizer; the network is set to eval mode without gradients.

    :param tokenizer: a fast tokenizer (offsets and words are needed).
    """

    parameters: int

    def __init__(
        self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, attention: Attention, identity: Identity
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

    :raises BadInput: a network whose scores would not be meaningful, see :mod:`fathom.engine.models.local`.

    >>> model = fathom.load_model("gpt2", device="cpu")
    >>> str(model.attention)
    'causal'
    """

    def __init__(
        self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, attention: Attention, identity: Identity
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
        places = torch.cat([before.positions, positions], dim=1)
        if visible is None:
            order = torch.arange(places.shape[1], device=places.device)
            visible = (order[None, :] <= order[len(before) :, None]).expand(len(vectors), -1, -1)
        memory = before.to_transformers()
        hidden = self._body(
            **self._inputs(vectors),
            position_ids=positions,
            attention_mask=self._additive_mask(visible, positions, places),
            use_cache=True,
            **{self._memory_name(): memory},
        )[0]
        return hidden.to(self.device), KeyValues.from_transformers(memory, places)

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
    def _checks(self) -> dict[FastPath, CheckedLengths]:
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

    def _additive_mask(self, visible: Tensor, positions: Tensor, attended: Tensor) -> Tensor | dict[str, Tensor]:
        """Turn booleans into what is added to attention scores, one mask for each kind of layer."""
        config = self.network.config.get_text_config()
        window = getattr(config, "sliding_window", None)
        if not window or getattr(config, "use_sliding_window", True) is False:
            return self._additive(visible)
        distance = positions[:, :, None] - attended[:, None, :]
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


class Encoder(LocalModel):
    """A bidirectional body without a head."""

    has_head = False
    stateless = "it has no language-model head (a classifier or a bare encoder?); only the embedding probe needs none"

    def _find_body(self) -> tuple[nn.Module, bool]:
        ids = some_tokens(self.network)
        with torch.inference_mode():
            expected = self.network(input_ids=ids)[0]
            try:
                states = self.network(inputs_embeds=self.network.get_input_embeddings()(ids))[0]
            except NOT_THIS_WAY:
                return self.network, False
        return self.network, same(states, expected)

    def logits(self, hidden: Tensor) -> Tensor:
        raise BadInput(f"'{self.identity.name}': {self.stateless}")

    def refuses_tree(self, longest: int = 0) -> str | None:
        return self.stateless

    def refuses_states(self, longest: int = 0) -> str | None:
        return self.stateless


def lacks_head(network: PreTrainedModel, missing: set[str]) -> bool:
    """Check whether the checkpoint has all weights of the body of *network*, and none of its head."""
    prefix = f"{network.base_model_prefix}."
    inside = {id(weight) for weight in network.base_model.parameters()}
    head = {name for name, weight in network.named_parameters() if id(weight) not in inside}
    return bool(head) and head <= missing and not any(name.startswith(prefix) for name in missing)
