"""A `transformers` model behind the seam."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

from fathom.models.base import Attention, Identity, LinearHead, token_log_probs
from fathom.models.kernels import use_fast_kernels


class LocalModel:
    """See :class:`fathom.models.base.Model`. Takes over *network*: eval mode, no gradients, fast kernels.

    :param network: a causal or masked language model with its head.
    :param tokenizer: a fast tokenizer (offsets and words are needed).
    """

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        attention: Attention,
        identity: Identity,
    ) -> None:
        network.eval().requires_grad_(False)
        use_fast_kernels(network)
        self.network = network
        self.tokenizer = tokenizer
        self.attention = attention
        self.identity = identity
        self.device = network.device
        self.max_tokens = _max_tokens(network)
        self.vocabulary_size: int = network.get_input_embeddings().num_embeddings
        self._body = _find_body(network)
        self._accepts = set(inspect.signature(self._body.forward).parameters)

    @property
    def dtype(self) -> torch.dtype:
        return self.network.dtype  # type: ignore[no-any-return]

    def embed(self, ids: Tensor) -> Tensor:
        return self.network.get_input_embeddings()(ids)  # type: ignore[no-any-return]

    def hidden(self, vectors: Tensor, positions: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
        inputs: dict[str, Any] = {"inputs_embeds": vectors}
        if "use_cache" in self._accepts:
            inputs["use_cache"] = False
        if positions is not None:
            inputs["position_ids"] = positions
        if visible is not None:
            assert positions is not None, "a custom mask needs positions"
            inputs["attention_mask"] = self._additive_mask(visible, positions)
        return self._body(**inputs)[0]  # type: ignore[no-any-return]

    def hidden_at(self, vectors: Tensor, at: Tensor) -> Tensor:
        rows = torch.arange(len(at), device=vectors.device)
        if self._last_mixing is None:
            return self.hidden(vectors)[rows, at]
        with _only_at(self._last_mixing, rows, at):
            return self.hidden(vectors)[:, 0]

    @cached_property
    def _last_mixing(self) -> nn.Module | None:
        """The last module that sees more than one position, where the rest of its layer can run at one position alone.

        BERT's family closes attention with ``output(mixed, residual)``: handed one position of both, everything behind
        it (three quarters of the layer) runs there alone. Believed only if a sample agrees.
        """
        try:
            found: nn.Module = self._body.encoder.layer[-1].attention.output  # type: ignore[union-attr, index]
            with torch.inference_mode():
                vectors = self.embed(torch.arange(6, device=self.device).view(2, 3))
                rows, at = torch.arange(2, device=self.device), torch.tensor([2, 1], device=self.device)
                expected = self.hidden(vectors)[rows, at]
                with _only_at(found, rows, at):
                    short = self.hidden(vectors)
                rounding = max(1e-4, 8 * torch.finfo(self.dtype).eps)
                same = short.shape[1] == 1 and torch.allclose(short[:, 0], expected, rtol=rounding, atol=rounding)
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError):
            return None
        return found if same else None

    def logits(self, hidden: Tensor) -> Tensor:
        return self._logits(hidden).float()

    def _logits(self, hidden: Tensor) -> Tensor:
        """The model's own forward pass with its body stubbed out."""
        ids = torch.zeros((1, len(hidden)), dtype=torch.long, device=self.device)
        with _returns_hidden(self._body, hidden[None]):
            return self.network(input_ids=ids).logits[0]  # type: ignore[no-any-return]

    def linear_head(self) -> LinearHead | None:
        return self._linear_head

    @cached_property
    def _linear_head(self) -> LinearHead | None:
        """Found by stubbing out the last layer, and believed only if both parts together give the model's logits."""
        layer = self.network.get_output_embeddings()
        if not isinstance(layer, nn.Linear):
            return None

        def transform(hidden: Tensor) -> Tensor:
            with _replaced_forward(layer, lambda states: states):
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

    def refuses_tree(self) -> str | None:
        return self._tree_refusal

    @cached_property
    def _tree_refusal(self) -> str | None:
        """Ask the model itself, with its attention kernel and then with the eager one."""
        refusal = check_tree(self)
        if refusal is not None and self.network.config._attn_implementation != "eager":
            kernel = self.network.config._attn_implementation
            try:
                self.network.set_attn_implementation("eager")
            except (ValueError, AttributeError):
                return refusal
            if check_tree(self) is None:
                return None
            self.network.set_attn_implementation(kernel)
        return refusal

    def _additive_mask(self, visible: Tensor, positions: Tensor) -> Tensor | dict[str, Tensor]:
        """The booleans as what is added to attention scores, one for each kind of layer."""
        config = self.network.config.get_text_config()
        window = getattr(config, "sliding_window", None)
        if not window or getattr(config, "use_sliding_window", True) is False:
            return self._additive(visible)
        distance = positions[:, :, None] - positions[:, None, :]
        near = self._additive(visible & (distance < window))
        kinds = set(getattr(config, "layer_types", None) or ())
        if "full_attention" in kinds and "sliding_attention" in kinds:
            return {"full_attention": self._additive(visible), "sliding_attention": near}
        return self._additive(visible) if kinds == {"full_attention"} else near

    def _additive(self, visible: Tensor) -> Tensor:
        hidden_from = torch.full((), torch.finfo(self.dtype).min, dtype=self.dtype, device=visible.device)
        return torch.where(visible[:, None], torch.zeros_like(hidden_from), hidden_from)


CHECKED_BRANCHES = 32
"""Makes the tree of :func:`check_tree` as long as the blocks that scoring runs."""


def check_tree(model: LocalModel) -> str | None:
    """Compare a packed tree (one prefix, many branches) with the plain path. :returns: what is wrong, or None.

    The tree is long because some models (GPT-Neo) keep a window by the place in the packed sequence instead of the
    position, which only shows beyond it. Full precision must agree within 1e-4 nats. In half precision rounding alone
    differs by more than that, so the tree must come twenty times nearer to the plain path than the same tokens do when
    the mask is left out.
    """
    if model.max_tokens is not None and model.max_tokens < 12:
        return f"its window of {model.max_tokens} tokens is too short to check it"
    token = iter((torch.arange(1, 8 + 4 * CHECKED_BRANCHES) * 7919 % model.vocabulary_size).tolist())
    prefix = [next(token) for _ in range(7)]
    branches = [[next(token) for _ in range(4)] for _ in range(CHECKED_BRANCHES)]
    flat = prefix + [t for branch in branches for t in branch]
    owner = torch.tensor([-1] * 7 + [i for i in range(CHECKED_BRANCHES) for _ in range(4)], device=model.device)
    positions = torch.tensor([[*range(7)] + [*range(7, 11)] * CHECKED_BRANCHES], device=model.device)
    order = torch.arange(len(flat), device=model.device)
    lower = order[:, None] >= order[None, :]
    visible = (lower & ((owner[None, :] == -1) | (owner[:, None] == owner[None, :])))[None]
    try:
        with torch.inference_mode():
            # Three branches tell: the first one, one amid others, and the one farthest from the prefix.
            compared = [0, CHECKED_BRANCHES // 2, CHECKED_BRANCHES - 1]
            expected = torch.stack([token_log_probs(model, prefix + branches[i])[8:] for i in compared])
            vectors = model.embed(torch.tensor([flat], device=model.device))
            found = _branch_scores(model, model.hidden(vectors, positions, visible), branches, compared)
            unmasked = _branch_scores(model, model.hidden(vectors, positions, lower[None]), branches, compared)
    except (TypeError, ValueError, RuntimeError, AttributeError, KeyError) as error:
        return f"it refuses a custom attention mask ({type(error).__name__}: {str(error).splitlines()[0][:100]})"
    off = (found - expected).abs().max().item()
    allowed = 1e-4 + 1e-6 * expected.abs().max().item()
    if model.dtype != torch.float32:
        allowed = max(allowed, (unmasked - expected).abs().max().item() / 20)
    return None if off <= allowed else f"a packed tree is off by {off:.1e} nats from the plain path"


def _branch_scores(model: LocalModel, hidden: Tensor, branches: list[list[int]], compared: list[int]) -> Tensor:
    """log p of tokens 2 to 4 of some branches of :func:`check_tree`. :returns: shape (compared, 3)."""
    rows = torch.stack([hidden[0, 7 + 4 * i : 10 + 4 * i] for i in compared])
    log_probs = torch.log_softmax(model.logits(rows.flatten(0, 1)), dim=-1).view(len(compared), 3, -1)
    wanted = torch.tensor([branches[i][1:] for i in compared], device=hidden.device)
    return log_probs.gather(2, wanted[:, :, None])[:, :, 0]


@dataclass
class _Output(BaseModelOutputWithPastAndCrossAttentions):  # type: ignore[misc]
    """Hidden states, and None for whatever else a head passes on (Mamba's ``cache_params``, RWKV's ``state``, …)."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return None


@contextmanager
def _only_at(module: nn.Module, rows: Tensor, at: Tensor) -> Iterator[None]:
    """While inside, *module* is handed one position of each of its inputs: (b, n, d) becomes (b, 1, d)."""
    hook = module.register_forward_pre_hook(lambda _, inputs: tuple(states[rows, at][:, None] for states in inputs))
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _replaced_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """While inside, *module* does what *forward* does."""
    module.forward = forward
    try:
        yield
    finally:
        del module.forward


def _returns_hidden(body: nn.Module, hidden: Tensor) -> AbstractContextManager[None]:
    """While inside, *body* computes nothing and returns *hidden*."""
    output = _Output(last_hidden_state=hidden)
    return _replaced_forward(
        body, lambda *args, **kwargs: output if kwargs.get("return_dict", True) else output.to_tuple()
    )


def _find_body(network: PreTrainedModel) -> nn.Module:
    """The sub-module whose output is what the head sees: the one that, stubbed out, leaves the logits as they are."""
    ids = torch.zeros((1, 2), dtype=torch.long, device=network.device)
    base = network.base_model
    inner = base.get_decoder() if hasattr(base, "get_decoder") else base
    getters: list[Callable[[], nn.Module]] = [lambda: inner, lambda: base, lambda: base.encoder]
    with torch.inference_mode():
        expected = network(input_ids=ids).logits
        for getter in getters:
            try:
                body = getter()
                hidden = body(inputs_embeds=network.get_input_embeddings()(ids))[0]
                with _returns_hidden(body, hidden):
                    found = network(input_ids=ids).logits
            except (AttributeError, TypeError, ValueError, RuntimeError, IndexError):
                continue
            if torch.allclose(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True):
                return body
    raise TypeError(f"cannot find the body of {type(network).__name__}: its head takes more than hidden states")


def _max_tokens(network: PreTrainedModel) -> int | None:
    """Longest sequence the position embeddings hold. RoBERTa counts its positions from after the padding id."""
    config = network.config.get_text_config()
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if limit is None:
        return None
    for module in network.modules():
        if isinstance(module, nn.Embedding) and module.num_embeddings == limit and module.padding_idx is not None:
            return int(limit) - module.padding_idx - 1
    return int(limit)
