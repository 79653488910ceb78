"""Ranks by cosine among many candidates: counted in blocked matrix products, without sorting all candidates.

Memory holds some queries × some candidates at a time, regardless of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.engine.scoring.rows import RankResult, Ranks

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


class _RankCounts(NamedTuple):
    """Numbers of candidates above each gold answer and equal to it (itself included)."""

    above: Places
    level: Places


def rank_by_cosine(
    queries: Tensor,
    space: VectorSpace,
    gold: Sequence[Sequence[int]],
    known: Sequence[Sequence[int]],
    *,
    top: int,
    keep_scores: bool = False,
) -> list[RankResult]:
    """Rank the gold answers of each query among all candidates; candidates without a vector come last.

    :param queries: finite vectors, shape (queries, d).
    :param gold: places of each query's gold answers.
    :param known: places to exclude from the ranking of the best gold answer.
    :param top: length of the top list.
    :param keep_scores: return all cosines, too; for small spaces.
    """
    step = max(1, min(len(queries), CELLS // min(CANDIDATES, len(space.distinct))))
    rankings = []
    for start in range(0, len(queries), step):
        some = slice(start, start + step)
        rankings += _Pass(unit(queries[some]), space, gold[some], known[some], top, keep_scores).run()
    return rankings


class _Pass:
    """Some queries against all candidates, block by block."""

    def __init__(
        self,
        queries: Tensor,
        space: VectorSpace,
        gold: Sequence[Sequence[int]],
        known: Sequence[Sequence[int]],
        top: int,
        keep_scores: bool,
    ) -> None:
        self.queries, self.space, self.gold, self.top = queries, space, gold, top
        self.best = torch.full((len(queries), 0), -torch.inf, device=queries.device)
        self.best_column = torch.zeros((len(queries), 0), dtype=torch.long, device=queries.device)
        self.kept: list[Tensor] | None = [] if keep_scores else None
        # Watched: the gold answers of each query in turn, followed by other filtered answers.
        watched = [list(dict.fromkeys([*right, *others])) for right, others in zip(gold, known, strict=True)]
        self.starts = np.cumsum([0, *(len(places) for places in watched)])
        self.watcher = np.repeat(np.arange(len(queries)), np.diff(self.starts))
        self.watched = space.column[np.array([place for places in watched for place in places], dtype=np.int64)]
        golds = [np.arange(len(right)) + start for right, start in zip(gold, self.starts, strict=False)]
        self.counted = np.concatenate(golds)

    def run(self) -> list[RankResult]:
        width = len(self.space.distinct)
        scores = self._watched_scores()
        counts = _RankCounts(np.zeros(len(scores), np.int64), np.zeros(len(scores), np.int64))
        for start in range(0, width, CANDIDATES):
            columns = np.arange(start, min(start + CANDIDATES, width))
            block = self._cosines(columns, scores)
            self._count(block, columns, scores, counts)
            self._remember_best(block, start)
            if self.kept is not None:
                self.kept.append(block)
        return [self._result(query, scores, counts) for query in range(len(self.queries))]

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

    def _cosines(self, columns: Places, watched_scores: Tensor) -> Tensor:
        """Return cosines, shape (queries, columns); -inf for candidates without a vector."""
        block = self.queries @ self.space.vectors(columns, self.queries.device).T
        block.nan_to_num_(nan=-torch.inf)
        inside = np.flatnonzero((self.watched >= columns[0]) & (self.watched <= columns[-1]))
        where = (self._on_device(self.watcher[inside]), self._on_device(self.watched[inside] - columns[0]))
        block[where] = watched_scores[self._on_device(inside)]
        return block

    def _count(self, block: Tensor, columns: Places, watched_scores: Tensor, counts: _RankCounts) -> None:
        weight = self.space.weight[columns]
        weights = None if (weight == 1).all() else self._on_device(weight)
        for first in range(0, len(self.counted), len(block)):
            some = self.counted[first : first + len(block)]
            watchers = self.watcher[some]
            one_each = len(watchers) == len(block) and (watchers == np.arange(len(block))).all()
            rows = block if one_each else block[self._on_device(watchers)]
            threshold = watched_scores[self._on_device(some), None]
            counts.above[some] += _how_many(rows > threshold, weights)
            counts.level[some] += _how_many(rows == threshold, weights)

    def _remember_best(self, block: Tensor, first: int) -> None:
        best, column = torch.topk(block, min(self.top, block.shape[1]), dim=1)
        best, column = torch.cat([self.best, best], dim=1), torch.cat([self.best_column, column + first], dim=1)
        self.best, order = torch.topk(best, min(self.top, best.shape[1]), dim=1)
        self.best_column = column.gather(1, order)

    def _result(self, query: int, watched_scores: Tensor, counts: _RankCounts) -> RankResult:
        part = slice(self.starts[query], self.starts[query + 1])
        scores, above, level = watched_scores[part].cpu().numpy(), counts.above[part], counts.level[part]
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
