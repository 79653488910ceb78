"""Whether a model honours packed trees and caches: asked of the model itself, never looked up in a list of names.

The plain path, with which all faster ones are compared, is :func:`token_log_probs`.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from fathom.models.base import Model

CHECKED_BRANCHES = 32
"""Makes the tree of :func:`check_tree` as long as the blocks that scoring runs."""
REFUSED = (TypeError, ValueError, RuntimeError, AttributeError, KeyError, IndexError, AssertionError)
"""What a model raises that cannot do what it is asked."""
BEGINNINGS = (1, 2, 5)
"""Tokens before the first branch in :func:`check_states`: fewer than a convolution looks back at, and more. Mamba of
transformers 5.1 goes on wrongly from fewer."""


def token_log_probs(model: Model, ids: list[int]) -> Tensor:
    """The plain path for one causal sequence: log p(token | those before it), in nats.

    One forward pass with the model's own mask and nothing shared; the reference that every faster path is checked
    against.

    :param ids: n token ids.
    :returns: float32, shape (n,); the first is NaN, nothing stands before it.
    """
    return rows_log_probs(model, [ids])[0]


def rows_log_probs(model: Model, rows: list[list[int]]) -> Tensor:
    """:func:`token_log_probs` of b sequences of n tokens each, in one pass.

    :returns: float32, shape (b, n).
    """
    tokens = torch.tensor(rows, device=model.device)
    log_probs = torch.log_softmax(model.logits(model.hidden(model.embed(tokens))[:, :-1].flatten(0, 1)), dim=-1)
    scores = log_probs.gather(1, tokens[:, 1:].reshape(-1, 1)).view(len(rows), -1)
    return torch.cat([scores.new_full((len(rows), 1), torch.nan), scores], dim=1)


class Checked(Model, Protocol):
    """A model that has weights."""

    @property
    def dtype(self) -> torch.dtype:
        """Their precision."""
        ...


def check_tree(model: Checked) -> str | None:
    """Compare a packed tree (one prefix, many branches) with the plain path.

    :returns: what is wrong, or None.

    The tree is long because some models (GPT-Neo) keep a window by the place in the packed sequence instead of the
    position, which only shows beyond it. Full precision must agree within 1e-4 nats. In half precision rounding alone
    differs by more than that, so the tree must come twenty times nearer to the plain path than the same tokens do when
    the mask is left out. Before that, tokens behind the mask must not be seen at all (:func:`_leak`).
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
            if (leak := _leak(model)) is not None:
                return leak
            expected = rows_log_probs(model, [prefix + branches[i] for i in compared])[:, 8:]
            vectors = model.embed(torch.tensor([flat], device=model.device))
            found = _branch_scores(model, model.hidden(vectors, positions, visible), branches, compared)
            if model.dtype != torch.float32:
                unmasked = _branch_scores(model, model.hidden(vectors, positions, lower[None]), branches, compared)
    except REFUSED as error:
        return f"it refuses a custom attention mask ({type(error).__name__}: {_first_line(error)})"
    off = (found - expected).abs().max().item()
    allowed = 1e-4 + 1e-6 * expected.abs().max().item()
    if model.dtype != torch.float32:
        allowed = max(allowed, (unmasked - expected).abs().max().item() / 20)
    return None if off <= allowed else f"a packed tree is off by {off:.1e} nats from the plain path"


def _leak(model: Checked) -> str | None:
    """Whether a branch sees its neighbours through the mask, as a convolution over packed tokens does (LFM2).

    Small weights hide that in the scores, so it is looked for by itself: the states of a branch are to stay as they are
    where its neighbours become other tokens: they do to the last bit, but for what experts that are shared among tokens
    round, and what is quantised by all that stands in a batch. It is held against what another prefix changes.
    """
    token = (torch.arange(1, 40) * 104729 % model.vocabulary_size).tolist()
    own, neighbours, others = token[7:11], token[11:19], token[19:27]
    positions = torch.tensor([[*range(7), *range(7, 11), *range(7, 11), *range(7, 11)]], device=model.device)
    branch = torch.tensor([-1] * 7 + [0] * 4 + [1] * 4 + [2] * 4, device=model.device)
    order = torch.arange(len(branch), device=model.device)
    seen = (order[:, None] >= order) & ((branch == -1) | (branch[:, None] == branch))

    rows = [
        [*prefix, *beside[:4], *own, *beside[4:]]
        for prefix, beside in ((token[:7], neighbours), (token[:7], others), (token[27:34], neighbours))
    ]
    ids = torch.tensor(rows, device=model.device)
    usual, beside_others, behind_another = model.hidden(
        model.embed(ids), positions.expand(3, -1), seen.expand(3, -1, -1)
    )[:, 11:15].float()
    leaking = (beside_others - usual).abs().max().item()
    meant = (behind_another - usual).abs().max().item()
    rounding = 8 * torch.finfo(model.dtype).eps * usual.abs().max().item()
    share = 1e-5 if model.identity.dtype in ("float32", "bfloat16", "float16") else 0.05  # else quantised
    if leaking <= share * meant + rounding:
        return None
    return f"branches see each other through the mask ({leaking / max(meant, 1e-30):.0e} of what a prefix does)"


def check_cache(model: Checked) -> str | None:
    """Grow a tree level by level, drop a branch on the way, and compare the rest with the plain path.

    :returns: what is wrong, or None. Allowed differences are those of :func:`check_tree`.
    """
    token = iter((torch.arange(1, 14) * 7919 % model.vocabulary_size).tolist())
    prefix = [next(token) for _ in range(7)]
    branches = [[next(token), next(token)] for _ in range(3)]

    def tensor(values: Any) -> Tensor:
        return torch.tensor(values, device=model.device)

    def level(depth: int, chosen: list[int]) -> Tensor:
        return model.embed(tensor([[branches[i][depth] for i in chosen]]))

    try:
        with torch.inference_mode():
            expected = rows_log_probs(model, [[*prefix, *branches[i], 0] for i in (0, 2)])[:, 8:].T.flatten()
            hidden, cache = model.grow(None, model.embed(tensor([prefix])), tensor([range(7)]))
            itself = torch.eye(3, dtype=torch.bool, device=model.device)
            sees_prefix = torch.ones(1, 3, 7, dtype=torch.bool, device=model.device)
            hidden, cache = model.grow(
                cache, level(0, [0, 1, 2]), tensor([[7, 7, 7]]), torch.cat([sees_prefix, itself[None]], dim=2)
            )
            first = torch.log_softmax(model.logits(hidden[0]), dim=-1)
            found = first[[0, 2], [branches[0][1], branches[2][1]]]
            cache = cache.keep(tensor([*range(7), 7, 9]))
            own = itself[None, :2, :2]
            hidden, cache = model.grow(
                cache, level(1, [0, 2]), tensor([[8, 8]]), torch.cat([sees_prefix[:, :2], own, own], dim=2)
            )
            second = torch.log_softmax(model.logits(hidden[0]), dim=-1)[:, 0]
            found = torch.cat([found, second])
    except REFUSED as error:
        return f"it refuses a cache ({type(error).__name__}: {_first_line(error)})"
    off = (found - expected).abs().max().item()
    # In half precision rounding alone makes this much: the branches differ by whole nats.
    allowed = 1e-4 + 1e-6 * expected.abs().max().item() if model.dtype == torch.float32 else 0.25
    return None if off <= allowed else f"a cached tree is off by {off:.1e} nats from the plain path"


def check_states(model: Checked) -> str | None:
    """Run a beginning once, three branches from copies of its state, drop one and go on, and compare with the plain
    path; for beginnings of several lengths.

    :returns: what is wrong, or None. Allowed differences are those of :func:`check_tree`.
    """
    found = (_check_states(model, length) for length in BEGINNINGS)
    return next((refusal for refusal in found if refusal is not None), None)


def _check_states(model: Checked, length: int) -> str | None:
    """:func:`check_states` with a beginning of *length* tokens."""
    token = iter((torch.arange(1, 14) * 7919 % model.vocabulary_size).tolist())
    prefix = [next(token) for _ in range(length)]
    branches = [[next(token), next(token), next(token)] for _ in range(2)]
    try:
        with torch.inference_mode():
            expected = rows_log_probs(model, [prefix + branch for branch in branches])[:, length + 1 :]
            _, states = model.advance(None, model.embed(torch.tensor([prefix], device=model.device)))
            found, kept = [], [1, 0, 0]  # branch 1, and branch 0 twice
            states = states.select(torch.tensor([0, 0, 0], device=model.device))
            for depth in range(2):
                ids = torch.tensor([[branches[number][depth]] for number in kept], device=model.device)
                hidden, states = model.advance(states, model.embed(ids))
                log_probs = torch.log_softmax(model.logits(hidden[:, 0]), dim=-1)
                found.append(torch.stack([log_probs[kept.index(i), branches[i][depth + 1]] for i in range(2)]))
                if depth == 0:
                    states, kept = states.select(torch.tensor([2, 0], device=model.device)), [0, 1]
    except (*REFUSED, StopIteration) as error:
        return f"it keeps no states to go on from ({type(error).__name__}: {_first_line(error)})"
    off = (torch.stack(found, dim=1) - expected).abs().max().item()
    allowed = 1e-4 + 1e-6 * expected.abs().max().item() if model.dtype == torch.float32 else 0.25
    return None if off <= allowed else f"branches from a kept state are off by {off:.1e} nats from the plain path"


def _branch_scores(model: Checked, hidden: Tensor, branches: list[list[int]], compared: list[int]) -> Tensor:
    """log p of tokens 2 to 4 of some branches of :func:`check_tree`.

    :returns: shape (compared, 3).
    """
    rows = torch.stack([hidden[0, 7 + 4 * i : 10 + 4 * i] for i in compared])
    log_probs = torch.log_softmax(model.logits(rows.flatten(0, 1)), dim=-1).view(len(compared), 3, -1)
    wanted = torch.tensor([branches[i][1:] for i in compared], device=hidden.device)
    return log_probs.gather(2, wanted[:, :, None])[:, :, 0]


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")[:100]
