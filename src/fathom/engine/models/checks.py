"""Self-checks of packed trees, caches, states and padding, run on the model itself instead of a list of model names.

:func:`check` compares a fast path with the plain one, :func:`token_log_probs`, in sequences of several lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fathom.engine.models.base import Model, log_softmax

PREFIX = 7
"""Tokens before the branches of the shortest check."""
SHORTEST = PREFIX + 4
"""Tokens of the longest sequence in the shortest check."""
CHECKED_BRANCHES = 32
"""Makes the tree of :func:`_compare_tree` as long as the blocks that scoring runs."""
COMPARED = 32
"""Most positions of a sequence that :func:`_compare_padding` and :func:`_compare_states` compare."""
REFUSED = (*(TypeError, ValueError, RuntimeError, AttributeError, KeyError, IndexError, AssertionError), StopIteration)
"""Errors of a model that cannot run what is requested."""
PRECISION = 1e-4
"""Nats per token by which scores in float32 may differ from those of single passes: the promise."""
HALF = 0.25
"""Nats that rounding in half precision may change; branches differ by whole nats."""


def token_log_probs(model: Model, ids: list[int]) -> Tensor:
    """Return log p(token | those before it) of one causal sequence, in nats: the plain path.

    One forward pass of the model's own layers with its own mask and nothing shared.

    :param ids: n token ids.
    :returns: float32, shape (n,); the first is NaN.
    """
    return plain_log_probs(model, [ids])[0]


def plain_log_probs(model: Model, rows: list[list[int]], start: int = 1) -> Tensor:
    """Return :func:`token_log_probs` of b sequences of n tokens each, from one pass.

    :param start: position of the first token that is scored.
    :returns: shape (b, n); NaN before *start*.
    """
    with model.original_layers():
        return _log_probs(model, rows, start)


def _log_probs(model: Model, rows: list[list[int]], start: int) -> Tensor:
    tokens = torch.tensor(rows, device=model.device)
    hidden = model.hidden(model.embed(tokens))[:, start - 1 : -1].flatten(0, 1)
    log_probs = log_softmax(model.logits(hidden))
    scores = log_probs.gather(1, tokens[:, start:].reshape(-1, 1)).view(len(rows), -1)
    return torch.cat([scores.new_full((len(rows), start), torch.nan), scores], dim=1)


_Compared = tuple[Tensor, Tensor, float]
"""Scores, those of the plain path, and the difference allowed in half precision, in nats."""


def check(model: Model, path: FastPath, lengths: Sequence[int] = (SHORTEST,)) -> str | None:
    """Compare a fast path with the plain one in sequences of each of *lengths*.

    Full precision must agree within :data:`PRECISION`.

    :returns: what is wrong at the first length at which they differ, or None.
    """
    for length in lengths:
        try:
            with torch.inference_mode():
                outcome = path.compare(model, length)
        except REFUSED as error:
            return f"{path.refusal} ({type(error).__name__}: {next(iter(str(error).splitlines()), '')[:100]})"
        if isinstance(outcome, str):
            return outcome
        scores, expected, half = outcome
        off = (scores - expected).abs().max().item()
        allowed = PRECISION + 1e-6 * expected.abs().max().item()
        if model.dtype != torch.float32:
            allowed = max(allowed, half)
        if not off <= allowed:  # also a NaN
            return f"{path.what} off by {off:.1e} nats from the plain path"
    return None


def _some_tokens(model: Model, count: int, factor: int = 7919) -> list[int]:
    return (torch.arange(1, count + 1) * factor % model.vocabulary_size).tolist()


class CheckedLengths:
    """A self-check of sequences of any length, repeated for longer ones than before.

    A model may have limits that only longer sequences reach: a window, an attention chunk, a number of tokens that it
    attends to. What agrees at one length is taken to agree at shorter ones; what differs, to differ at longer ones.

    :param check: called with the lengths to check; returns what is wrong, or None.
    :param most: tokens of the longest sequence that the model takes; None without a limit.
    :param short: lengths to check in addition, once.
    """

    def __init__(
        self, check: Callable[[Sequence[int]], str | None], most: int | None, short: Sequence[int] = ()
    ) -> None:
        self._check, self._most, self._short, self._agrees = check, most, short, 0
        self._refusal: tuple[int, str] | None = None

    @property
    def why(self) -> str | None:
        return None if self._refusal is None else self._refusal[1]

    def refusal(self, longest: int) -> str | None:
        """Return what is wrong with sequences of up to *longest* tokens, or None."""
        longest = max(SHORTEST, longest if self._most is None else min(longest, self._most))
        if longest <= self._agrees:
            return None
        # Half as long again, so that texts that become longer little by little are not checked each time.
        ahead = min(self._agrees * 3 // 2, self._most or longest)
        for length in dict.fromkeys((max(longest, ahead), longest, SHORTEST)):
            if length > self._agrees and not self._refuses(length):
                self._try(length)
        return self.why if self._refuses(longest) else None

    def _refuses(self, length: int) -> bool:
        return self._refusal is not None and length >= self._refusal[0]

    def _try(self, length: int) -> None:
        why = self._check((*(() if self._agrees else self._short), length))
        if why is None:
            self._agrees = length
        else:
            self._refusal = length, why if length == SHORTEST else f"{why}, in texts of {length} tokens"


def _compare_tree(model: Model, longest: int) -> _Compared | str:
    """Compare a packed tree: one prefix, many branches."""
    if model.max_tokens is not None and model.max_tokens < 12:
        return f"its window of {model.max_tokens} tokens is too short to check it"
    if (leak := _leak(model)) is not None:
        return leak
    size = longest - 4
    tokens = _some_tokens(model, size + 4 * CHECKED_BRANCHES)
    prefix, branches = tokens[:size], [tokens[start : start + 4] for start in range(size, len(tokens), 4)]
    owner = torch.tensor([-1] * size + [i for i in range(CHECKED_BRANCHES) for _ in range(4)], device=model.device)
    positions = torch.tensor([[*range(size)] + [*range(size, size + 4)] * CHECKED_BRANCHES], device=model.device)
    order = torch.arange(len(tokens), device=model.device)
    lower = order[:, None] >= order[None, :]
    visible = (lower & ((owner[None, :] == -1) | (owner[:, None] == owner[None, :])))[None]
    # Three branches suffice: the first one, one amid others, and the one farthest from the prefix.
    compared = [0, CHECKED_BRANCHES // 2, CHECKED_BRANCHES - 1]

    def scores(vectors: Tensor, mask: Tensor) -> Tensor:
        return _branch_scores(model, model.hidden(vectors, positions, mask)[0, size:], branches, compared)

    expected = plain_log_probs(model, [prefix + branches[i] for i in compared], size + 1)[:, size + 1 :]
    vectors = model.embed(torch.tensor([tokens], device=model.device))
    packed, half = scores(vectors, visible), 0.0
    if model.dtype != torch.float32:
        half = (scores(vectors, lower[None]) - expected).abs().max().item() / 20
    return packed, expected, half


def _leak(model: Model) -> str | None:
    """Check whether a branch sees its neighbours through the mask, as a convolution over packed tokens does (LFM2)."""
    token = _some_tokens(model, 39, 104729)
    branch_ids, neighbours, others = token[7:11], token[11:19], token[19:27]
    positions = torch.tensor([[*range(7), *range(7, 11), *range(7, 11), *range(7, 11)]], device=model.device)
    branch = torch.tensor([-1] * 7 + [0] * 4 + [1] * 4 + [2] * 4, device=model.device)
    order = torch.arange(len(branch), device=model.device)
    seen = (order[:, None] >= order) & ((branch == -1) | (branch[:, None] == branch))
    rows = [
        [*prefix, *around[:4], *branch_ids, *around[4:]]
        for prefix, around in ((token[:7], neighbours), (token[:7], others), (token[27:34], neighbours))
    ]
    ids = torch.tensor(rows, device=model.device)
    states = model.hidden(model.embed(ids), positions.expand(3, -1), seen.expand(3, -1, -1))
    usual, other_neighbours, other_prefix = states[:, 11:15].float()
    leaking = (other_neighbours - usual).abs().max().item()
    meant = (other_prefix - usual).abs().max().item()
    rounding = 8 * torch.finfo(model.dtype).eps * usual.abs().max().item()
    share = 1e-5 if model.identity.dtype in ("float32", "bfloat16", "float16") else 0.05  # else quantised
    if leaking <= share * meant + rounding:
        return None
    return f"branches see each other through the mask ({leaking / max(meant, 1e-30):.0e} of what a prefix does)"


def _compare_cache(model: Model, longest: int) -> _Compared:
    """Grow a tree level by level, drop a branch on the way, and compare the rest."""
    size = longest - 3
    tokens = _some_tokens(model, size + 6)
    prefix, branches = tokens[:size], [tokens[start : start + 2] for start in range(size, size + 6, 2)]

    def tensor(values: Any) -> Tensor:
        return torch.tensor(values, device=model.device)

    def level(depth: int, numbers: list[int]) -> Tensor:
        return model.embed(tensor([[branches[i][depth] for i in numbers]]))

    rows = [[*prefix, *branches[i], 0] for i in (0, 2)]
    expected = plain_log_probs(model, rows, size + 1)[:, size + 1 :].T.flatten()
    hidden, cache = model.grow(None, model.embed(tensor([prefix])), tensor([range(size)]))
    itself = torch.eye(3, dtype=torch.bool, device=model.device)
    sees_prefix = torch.ones(1, 3, size, dtype=torch.bool, device=model.device)
    hidden, cache = model.grow(
        cache, level(0, [0, 1, 2]), tensor([[size] * 3]), torch.cat([sees_prefix, itself[None]], dim=2)
    )
    first = log_softmax(model.logits(hidden[0]))
    cache = cache.keep(tensor([*range(size), size, size + 2]))
    pair = itself[None, :2, :2]
    hidden, cache = model.grow(
        cache, level(1, [0, 2]), tensor([[size + 1] * 2]), torch.cat([sees_prefix[:, :2], pair, pair], dim=2)
    )
    second = log_softmax(model.logits(hidden[0]))[:, 0]
    return torch.cat([first[[0, 2], [branches[0][1], branches[2][1]]], second]), expected, HALF


def _compare_states(model: Model, longest: int) -> _Compared:
    """Run a prefix once and three branches from copies of its state, drop one, continue, and compare."""
    steps = 2 if longest <= SHORTEST else min(COMPARED, longest // 2)
    length = longest - steps - 1
    tokens = _some_tokens(model, length + 2 * (steps + 1))
    prefix, branches = tokens[:length], [tokens[length:longest], tokens[longest:]]

    def tensor(values: Any) -> Tensor:
        return torch.tensor(values, device=model.device)

    start = length + 1
    expected = plain_log_probs(model, [prefix + branch for branch in branches], start)[:, start:]
    _, states = model.advance(None, model.embed(tensor([prefix])))
    states, rows = states.select(tensor([0, 0, 0])), [1, 0, 0]  # branch 1, and branch 0 twice
    scores = []
    for depth in range(steps):
        hidden, states = model.advance(states, model.embed(tensor([[branches[row][depth]] for row in rows])))
        log_probs = log_softmax(model.logits(hidden[:, 0]))
        scores.append(torch.stack([log_probs[rows.index(i), branches[i][depth + 1]] for i in range(2)]))
        if depth == 0:
            states, rows = states.select(tensor([2, 0])), [0, 1]
    return torch.stack(scores, dim=1), expected, HALF


def _compare_padding(model: Model, longest: int) -> _Compared:
    """Compare short sequences, padded on the right to the length of a long one, with the same sequences alone."""
    long = _some_tokens(model, longest)
    shorts = [long[:length] for length in dict.fromkeys((longest - 1, longest * 3 // 4, longest // 2))]

    first = max(1, len(shorts[-1]) - COMPARED)
    rows = [*(short + [0] * (longest - len(short)) for short in shorts), long]
    together = _log_probs(model, rows, first)
    starts = [max(1, len(short) - COMPARED) for short in shorts]
    pairs = list(zip(starts, shorts, strict=True))
    padded = [row[start : len(short)] for row, (start, short) in zip(together[:-1], pairs, strict=True)]
    alone = [plain_log_probs(model, [short], start)[0, start:] for start, short in pairs]
    return torch.cat(padded), torch.cat(alone), HALF


def _branch_scores(model: Model, hidden: Tensor, branches: list[list[int]], compared: list[int]) -> Tensor:
    """Return log p of tokens 2 to 4 of some branches of :func:`_compare_tree`, shape (compared, 3)."""
    rows = torch.stack([hidden[4 * i : 4 * i + 3] for i in compared])
    log_probs = log_softmax(model.logits(rows.flatten(0, 1))).view(len(compared), 3, -1)
    wanted = torch.tensor([branches[i][1:] for i in compared], device=hidden.device)
    return log_probs.gather(2, wanted[:, :, None])[:, :, 0]


class FastPath(NamedTuple):
    """A fast path.

    :param compare: runs it in sequences of a length, and the plain path.
    :param refusal: what an error of the model means.
    :param what: what is compared.
    """

    compare: Callable[[Model, int], _Compared | str]
    refusal: str
    what: str


TREE = FastPath(_compare_tree, "it refuses a custom attention mask", "a packed tree is")
CACHE = FastPath(_compare_cache, "it refuses a cache", "a cached tree is")
STATES = FastPath(_compare_states, "it keeps no states to continue from", "branches from a kept state are")
PADDING = FastPath(_compare_padding, "it refuses a batch", "padded sequences are")
SHORT_STATES = (4, 5, 8)
"""Lengths for :data:`STATES`: prefixes shorter than a convolution looks back at. Mamba of transformers 5.1 continues
wrongly from them."""
