"""Attention of a rough copy on a CPU: bfloat16 in two products over all heads.

The fused kernel that torch ships for CPUs takes as long in bfloat16 as in float32, which makes it a quarter of a rough
pass. Two batched products take half of its time where sequences are short, as packed trees and statements are
(``python benchmarks/products.py --attention``). They hold every attention score at once, and round it to bfloat16: that
is for scores that are not final (:mod:`fathom.scoring.screening`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from fathom.models.kernels import ONEDNN

NAME = "fathom_rough"
"""What `transformers` knows it by."""
SCORES = 256 * 256
"""Of one head at most; with more the fused kernel is the faster one, which holds a part of them at a time."""
CHANGES = ("position_bias", "softcap", "s_aux", "cache")
"""Arguments with which scores are something else."""


def use_rough_attention(network: PreTrainedModel) -> None:
    """Let *network* compute its attention by :func:`rough_attention` where that is faster: in bfloat16 on a CPU that
    multiplies it, and where `transformers` would call torch's fused kernel."""
    first = next(network.parameters())
    if (
        first.device.type != "cpu"
        or first.dtype != torch.bfloat16
        or first.dtype not in ONEDNN
        or not _is_fused(network)
    ):
        return
    AttentionInterface.register(NAME, rough_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    network.set_attn_implementation(NAME)


def _is_fused(network: PreTrainedModel) -> bool:
    """Whether its attention is torch's fused kernel under a mask, and can be exchanged. Families that choose what to
    look at by an index (DeepSeek-V3.2, MiniMax-M3, …) put it into the mask of kernels that they know by name alone."""
    indexed = hasattr(network.config.get_text_config(), "index_head_dim")
    fused = getattr(network.config, "_attn_implementation", None) == "sdpa"
    return fused and not indexed and network._can_set_attn_implementation()


def rough_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """An attention function as `transformers` calls them.

    :param query: shape (b, heads, n, d).
    :param key: shape (b, heads or fewer, m, d), as *value*.
    :param attention_mask: added to the scores, shape (b, 1 or heads, n, m); None where each token sees all.
    :param more: what else it says; anything that changes the scores is left to torch's fused kernel.
    :returns: shape (b, n, heads, d), and None in place of the weights.
    """
    batch, heads, length, width = query.shape
    seen = key.shape[2]
    if length * seen > SCORES or len(key) != batch or not _is_plain(module, query, attention_mask, more):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **more)  # type: ignore[no-any-return]
    groups, factor = heads // key.shape[1], width**-0.5 if scaling is None else scaling
    asking = query.reshape(batch * heads, length, width)
    keys = repeat_kv(key, groups).reshape(batch * heads, seen, width).transpose(1, 2)
    if attention_mask is None:
        scores = torch.bmm(asking * factor, keys)
    else:
        added = attention_mask.expand(batch, heads, length, seen).reshape(batch * heads, length, seen)
        scores = torch.baddbmm(added, asking, keys, alpha=factor)
    found = torch.bmm(scores.softmax(dim=-1), repeat_kv(value, groups).reshape(batch * heads, seen, -1))
    return found.view(batch, heads, length, -1).transpose(1, 2).contiguous(), None


def _is_plain(module: nn.Module, query: Tensor, mask: Tensor | None, more: dict[str, Any]) -> bool:
    """Whether the scores are products and what *mask* adds, and nothing else."""
    if any(more.get(name) is not None for name in CHANGES):
        return False
    if mask is not None:
        return mask.dtype == query.dtype
    causal = more.get("is_causal")
    return not (getattr(module, "is_causal", True) if causal is None else causal)
