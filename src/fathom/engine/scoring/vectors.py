"""Texts as vectors, and ranks by cosine among many candidates, counted in blocked matrix products.

Causal models: the state that the head sees at the last token (PromptEOL, Jiang et al. 2024). Prompts that share most of
their tokens run as a trie over a cache. Encoders: the mean of all states or the first one, in batches of one length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.base.errors import BadInput
from fathom.data.templates import Prompt
from fathom.engine.models.base import Attention, Model
from fathom.engine.scoring.causal import over_cache
from fathom.engine.scoring.memory import Budget, some_of
from fathom.engine.scoring.rows import RankResult, Ranks
from fathom.engine.scoring.tokens import encode_causal, encode_masked
from fathom.engine.scoring.trie import Lookup, Trie, build_trie, padded

WORTH_SHARING = 0.5
"""Least share of all tokens that is run once instead of again: passes over a cache are short."""

Ids = tuple[int, ...]


class Pooling(StrEnum):
    """The states that form the vector: of the last token, the mean over all tokens, or of the first one."""

    LAST = "last"
    MEAN = "mean"
    CLS = "cls"


def resolve_pooling(model: Model, option: str) -> Pooling:
    """Return the pooling; ``auto``: as the model was trained, else ``last`` for causal models, ``mean`` for encoders.

    :raises BadInput: ``cls`` for a causal model, whose first token sees nothing of the text; or a pooling that is none.
    """
    causal = model.attention is Attention.CAUSAL
    if option == "auto":
        option = model.pooling or (Pooling.LAST if causal else Pooling.MEAN)
    if option not in list(Pooling):
        raise BadInput(
            f"'{model.identity.name}' was trained with the pooling {option}, which Fathom lacks: type --pooling "
            f"{', '.join(Pooling)}"
        )
    if option == Pooling.CLS and causal:
        raise BadInput("--pooling cls: the first token of a causal model sees nothing of the text; use last or mean")
    return Pooling(option)


def encode_texts(model: Model, texts: Sequence[str], bos: int | None) -> list[Ids]:
    """Return token ids of each text, with *bos* first for causal models, else the encoder's special tokens."""
    prompts = [Prompt(text, (), ()) for text in texts]
    if model.attention is Attention.CAUSAL:
        tokens = encode_causal(model.tokenizer, prompts, bos)
    else:
        tokens = encode_masked(model.tokenizer, prompts)
    return [tuple(item.ids.tolist()) for item in tokens]


class TextVectors(NamedTuple):
    """Texts as vectors.

    :param vectors: shape (texts, d), in the model's precision; NaN in rows with a fault.
    :param faults: why a text has no vector, None if it has one.
    """

    vectors: Tensor
    faults: list[str | None]


def text_vectors(model: Model, texts: Sequence[str], bos: int | None, pooling: Pooling, budget: Budget) -> TextVectors:
    """Return a vector for each text, or the reason why there is none. :param bos: first token for causal models."""
    ids = encode_texts(model, texts, bos)
    rows = vectors(model, ids, pooling, budget)
    finite = torch.isfinite(rows).all(dim=1).tolist()
    return TextVectors(rows, [_fault(model, tokens, good) for tokens, good in zip(ids, finite, strict=True)])


def _fault(model: Model, ids: Ids, finite: bool) -> str | None:
    if finite:
        return None
    if not ids:
        return "a prompt without any token"
    if len(ids) > (model.max_tokens or len(ids)):
        return f"a prompt of {len(ids)} tokens is longer than the model's window of {model.max_tokens}"
    return "the model gave the prompt a vector that is not a number"


def vectors(model: Model, sequences: Sequence[Ids], pooling: Pooling, budget: Budget) -> Tensor:
    """Return one vector for each sequence, identical to the bit for equal ones.

    :param sequences: token ids. An empty one, or one longer than the model's window, has a vector of NaN.
    :returns: shape (sequences, d), in the model's precision, on its device.
    """
    runnable = [ids for ids in dict.fromkeys(sequences) if 0 < len(ids) <= (model.max_tokens or len(ids))]
    with torch.inference_mode():
        rows = _gathered(model, sequences, _by_passes(model, runnable, pooling, budget))
        if model.attention is Attention.CAUSAL and pooling is Pooling.LAST and len(runnable) > 1:
            _compare(model, "shared prefixes and padded batches", sequences, [-1] * len(sequences), rows, budget)
        return rows


def states_at(model: Model, sequences: Sequence[Ids], places: Sequence[int], budget: Budget) -> Tensor:
    """Return the state of a masked model at one place of each sequence, in batches of one length.

    :returns: shape (sequences, d), in the model's precision.
    """

    def run(keys: Tensor, _: Tensor) -> Tensor:
        return model.hidden_at(model.embed(keys[:, :-1]), keys[:, -1:])[:, 0]

    # The place is appended to the ids, so that a sequence with two places runs twice.
    keys = [(*ids, place) for ids, place in zip(sequences, places, strict=True)]
    with torch.inference_mode():
        rows = _gathered(model, keys, _by_batches(model, list(dict.fromkeys(keys)), budget, run, equal=True))
        _compare(model, "batches of states", sequences, places, rows, budget)
        return rows


def _compare(
    model: Model, path: str, sequences: Sequence[Ids], places: Sequence[int], rows: Tensor, budget: Budget
) -> None:
    """Compare the states at *places* of some sequences with the sequences alone."""
    runnable = [number for number, ids in enumerate(sequences) if 0 < len(ids) <= (model.max_tokens or len(ids))]
    if runnable and budget.evidence.begins(model, path):
        for number in (runnable[some] for some in some_of([len(sequences[place]) for place in runnable])):
            ids = torch.tensor([sequences[number]], device=model.device)
            with model.original_layers():
                alone = model.hidden(model.embed(ids))[0, places[number]]
            budget.evidence.add_states(model, path, rows[[number]], alone[None])


_Batch = tuple[Sequence[Ids], Tensor]


def _gathered(model: Model, sequences: Sequence[Ids], passes: Iterable[_Batch]) -> Tensor:
    """Return the vector of each sequence from the passes; NaN if there is none."""
    place: dict[Ids, int] = {}
    parts = []
    for batch, states in passes:
        place |= {ids: len(place) + number for number, ids in enumerate(batch)}
        parts.append(states)
    if not parts:
        parts.append(model.embed(torch.zeros((1,), dtype=torch.long, device=model.device))[:0])
    missing = parts[0].new_full((1, parts[0].shape[1]), torch.nan)
    rows = torch.tensor([place.get(ids, len(place)) for ids in sequences], dtype=torch.long, device=model.device)
    return torch.cat([*parts, missing])[rows]


def _by_passes(model: Model, sequences: Sequence[Ids], pooling: Pooling, budget: Budget) -> Iterator[_Batch]:
    """Yield sequences and their vectors, pass by pass."""
    if model.attention is not Attention.CAUSAL or pooling is not Pooling.LAST:
        yield from _by_equal_lengths(model, sequences, pooling, budget)
        return
    trie, total = build_trie(sequences), sum(map(len, sequences))
    longest = max(map(len, sequences), default=0)
    if total - len(trie.tokens) >= WORTH_SHARING * total and model.refuses_cache(longest) is None:
        yield from _by_shared_prefixes(model, sequences, trie, budget)
    else:
        yield from _by_padded_batches(model, sequences, budget)


def _by_shared_prefixes(model: Model, sequences: Sequence[Ids], trie: Trie, budget: Budget) -> Iterator[_Batch]:
    """Run each node of the trie of all sequences once."""
    ending = Lookup(trie.paths.max(axis=1))  # preorder: the last node is the highest

    def last(nodes: NDArray[np.int64], hidden: Tensor) -> _Batch:
        row, number = ending.find(nodes)
        return [sequences[place] for place in number.tolist()], hidden[torch.from_numpy(row).to(model.device)]

    return over_cache(model, trie, np.arange(len(trie.tokens)), budget, None, last)


def _by_padded_batches(model: Model, sequences: Sequence[Ids], budget: Budget) -> Iterator[_Batch]:
    def run(ids: Tensor, at: Tensor) -> Tensor:
        return model.hidden(model.embed(ids))[torch.arange(len(at), device=at.device), at]

    equal = bool(sequences) and model.refuses_padding(max(map(len, sequences))) is not None
    return _by_batches(model, sequences, budget, run, equal=equal)


def _by_equal_lengths(model: Model, sequences: Sequence[Ids], pooling: Pooling, budget: Budget) -> Iterator[_Batch]:
    def run(ids: Tensor, at: Tensor) -> Tensor:
        if pooling is Pooling.MEAN:
            return model.hidden(model.embed(ids)).float().mean(dim=1)
        place = torch.zeros_like(at) if pooling is Pooling.CLS else at
        return model.hidden_at(model.embed(ids), place[:, None])[:, 0]

    return _by_batches(model, sequences, budget, run, equal=True)


def _by_batches(
    model: Model, sequences: Sequence[Ids], budget: Budget, run: Callable[[Tensor, Tensor], Tensor], *, equal: bool
) -> Iterator[_Batch]:
    """:param run: gets ids, shape (b, n), padded on the right unless of *equal* lengths, and the last place of each."""
    sequences = sorted(sequences, key=len)
    lengths = [len(ids) for ids in sequences]

    def pack(start: int) -> tuple[Sequence[Ids], int]:
        stop = budget.fitting(lengths, start, equal=equal)
        return sequences[start:stop], stop

    def states(batch: Sequence[Ids]) -> Tensor:
        at = torch.tensor([len(sequence) - 1 for sequence in batch], device=model.device)
        return run(torch.from_numpy(padded(batch, 0)).to(model.device), at)

    return budget.batches(len(sequences), pack, states)


CANDIDATES = 8192
"""Candidates per matrix product."""
CELLS = 16 * 1024 * 1024
"""Cosines held at a time: 64 MiB of float32."""

Places = NDArray[np.int64]


class VectorSpace:
    """The vectors of a candidate set. Candidates whose vectors have one origin share a row, hence all scores.

    :param rows: the row of each candidate, shape (candidates,).
    :param take: returns vectors of some rows, float32, shape (rows, d); NaN for candidates without one.
    """

    def __init__(self, rows: Places, take: Callable[[Places], NDArray[np.float32]]) -> None:
        self.distinct, self.column, self.weight = np.unique(rows, return_inverse=True, return_counts=True)
        self.column = self.column.reshape(-1)
        self.take = take
        self._by_column = np.argsort(self.column, kind="stable")
        self._ends = np.cumsum(self.weight)

    def __len__(self) -> int:
        return len(self.column)

    def vectors(self, columns: Places, device: torch.device) -> Tensor:
        """Return vectors of length 1, or NaN."""
        return unit(torch.from_numpy(self.take(self.distinct[columns])).to(device))

    def candidates_of(self, column: int) -> Places:
        end = self._ends[column]
        return self._by_column[end - self.weight[column] : end]


def unit(vectors: Tensor) -> Tensor:
    """Scale vectors to length 1 in float32; NaN for a vector without direction (zero, or not finite)."""
    vectors = vectors.float()
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return torch.where(torch.isfinite(length) & (length > 0), vectors / length, torch.nan)


def rank_by_cosine(
    queries: Tensor,
    space: VectorSpace,
    gold: Sequence[Sequence[int]],
    filtered: Sequence[Sequence[int]],
    *,
    top: int,
    keep_scores: bool = False,
) -> list[RankResult]:
    """Rank the gold answers of each query among all candidates; candidates without a vector come last.

    :param queries: finite vectors, shape (queries, d).
    :param gold: places of each query's gold answers.
    :param filtered: places to exclude from the ranking of the best gold answer.
    :param top: length of the top list.
    :param keep_scores: return all cosines, too; for small spaces.
    """
    step = max(1, min(len(queries), CELLS // min(CANDIDATES, len(space.distinct))))
    rankings = []
    for start in range(0, len(queries), step):
        some = slice(start, start + step)
        rankings += _Pass(unit(queries[some]), space, gold[some], filtered[some], top, keep_scores).run()
    return rankings


class _Pass:
    """Some queries against all candidates, block by block."""

    def __init__(
        self,
        queries: Tensor,
        space: VectorSpace,
        gold: Sequence[Sequence[int]],
        filtered: Sequence[Sequence[int]],
        top: int,
        keep_scores: bool,
    ) -> None:
        self.queries, self.space, self.gold, self.top = queries, space, gold, top
        self.best = torch.full((len(queries), 0), -torch.inf, device=queries.device)
        self.best_column = torch.zeros((len(queries), 0), dtype=torch.long, device=queries.device)
        self.kept: list[Tensor] | None = [] if keep_scores else None
        # Watched: the gold answers of each query in turn, followed by other filtered answers.
        watched = [list(dict.fromkeys([*right, *others])) for right, others in zip(gold, filtered, strict=True)]
        self.starts = np.cumsum([0, *(len(places) for places in watched)])
        self.watcher = np.repeat(np.arange(len(queries)), np.diff(self.starts))
        self.watched = space.column[np.array([place for places in watched for place in places], dtype=np.int64)]
        golds = [np.arange(len(right)) + start for right, start in zip(gold, self.starts[:-1], strict=True)]
        self.counted = np.concatenate(golds)

    def run(self) -> list[RankResult]:
        width = len(self.space.distinct)
        self.scores = self._watched_scores()
        # Numbers of candidates above each watched one and equal to it (itself included).
        self.above, self.level = np.zeros((2, len(self.scores)), np.int64)
        for start in range(0, width, CANDIDATES):
            columns = np.arange(start, min(start + CANDIDATES, width))
            block = self._cosines(columns)
            self._count(block, columns)
            self._remember_best(block, start)
            if self.kept is not None:
                self.kept.append(block)
        return [self._result(query) for query in range(len(self.queries))]

    def _watched_scores(self) -> Tensor:
        """Return their cosines, -inf for none; the matrix products reuse them, so that equal scores stay equal."""
        columns, at = np.unique(self.watched, return_inverse=True)
        scores = torch.empty(len(self.watched), device=self.queries.device)
        watcher = self._on_device(self.watcher)
        for start in range(0, len(columns), CANDIDATES):
            vectors = self.space.vectors(columns[start : start + CANDIDATES], self.queries.device)
            inside = np.flatnonzero((at >= start) & (at < start + CANDIDATES))
            for piece in np.array_split(inside, max(1, len(inside) // 4096)):
                candidates = vectors[self._on_device(at[piece] - start)]
                scores[self._on_device(piece)] = (self.queries[watcher[self._on_device(piece)]] * candidates).sum(dim=1)
        return torch.nan_to_num(scores, nan=-torch.inf)

    def _cosines(self, columns: Places) -> Tensor:
        """Return cosines, shape (queries, columns); -inf for candidates without a vector."""
        block = self.queries @ self.space.vectors(columns, self.queries.device).T
        block.nan_to_num_(nan=-torch.inf)
        inside = np.flatnonzero((self.watched >= columns[0]) & (self.watched <= columns[-1]))
        where = (self._on_device(self.watcher[inside]), self._on_device(self.watched[inside] - columns[0]))
        block[where] = self.scores[self._on_device(inside)]
        return block

    def _count(self, block: Tensor, columns: Places) -> None:
        weight = self.space.weight[columns]
        weights = None if (weight == 1).all() else self._on_device(weight)
        for first in range(0, len(self.counted), len(block)):
            some = self.counted[first : first + len(block)]
            watchers = self.watcher[some]
            one_each = len(watchers) == len(block) and (watchers == np.arange(len(block))).all()
            rows = block if one_each else block[self._on_device(watchers)]
            threshold = self.scores[self._on_device(some), None]
            self.above[some] += _how_many(rows > threshold, weights)
            self.level[some] += _how_many(rows == threshold, weights)

    def _remember_best(self, block: Tensor, first: int) -> None:
        best, column = torch.topk(block, min(self.top, block.shape[1]), dim=1)
        best, column = torch.cat([self.best, best], dim=1), torch.cat([self.best_column, column + first], dim=1)
        self.best, order = torch.topk(best, min(self.top, best.shape[1]), dim=1)
        self.best_column = column.gather(1, order)

    def _result(self, query: int) -> RankResult:
        part = slice(self.starts[query], self.starts[query + 1])
        scores, above, level = self.scores[part].cpu().numpy(), self.above[part], self.level[part]
        golds = range(len(self.gold[query]))
        has = [number for number in golds if scores[number] > -np.inf]
        result = RankResult(
            None,
            [float(scores[number]) if number in has else float("nan") for number in golds],
            [Ranks.below(int(above[n]), int(level[n]) - 1).realistic if n in has else float("nan") for n in golds],
            self._best_of(query),
        )
        if has:
            best = max(has, key=lambda number: scores[number])
            higher = int(above[best] - (scores > scores[best]).sum())
            result.ranks = Ranks.below(higher, int(level[best] - (scores == scores[best]).sum()))
        if self.kept is not None:
            row = torch.cat([block[query] for block in self.kept]).cpu().numpy()
            result.scores = row[self.space.column]
        return result

    def _best_of(self, query: int) -> list[tuple[int, float]]:
        pairs = zip(self.best_column[query].tolist(), self.best[query].tolist(), strict=True)
        return [
            (int(place), score)
            for column, score in pairs
            if score > -np.inf
            for place in self.space.candidates_of(column)
        ]

    def _on_device(self, array: Places) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.queries.device)


def _how_many(which: Tensor, weights: Tensor | None) -> Places:
    """Sum the *weights* of true columns in each row; None for weights of 1."""
    counted = torch.count_nonzero(which, dim=1) if weights is None else (which * weights).sum(dim=1)
    return counted.cpu().numpy()
