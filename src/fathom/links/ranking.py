"""Filtered ranks of a link predictor's scores, in both directions alike."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from fathom.data.graph.links import Links
from fathom.scoring.rows import RankResult, Ranks

NOT_A_NUMBER = "the model's score of the right answer is not a number"


def blocks(links: Links, size: int) -> Iterator[Links]:
    """Split queries into blocks of *size*, in order."""
    size = max(1, size)
    for start in range(0, len(links), size):
        yield links.take(np.arange(start, min(start + size, len(links))))


def rank_links(scores: Tensor, links: Links, top: int, keep_scores: bool = False) -> list[RankResult]:
    """Rank each gold answer among all entities, without the other known answers (the filtered setting).

    NaN scores rank below all others.

    :param scores: of every entity for each query, higher is better, shape (n, entities).
    :param top: how many of the best to list, known answers included.
    :param keep_scores: also return the scores of all entities.
    """
    rows, gold = torch.arange(len(links)), torch.from_numpy(links.gold)
    scores = scores.float()
    right = scores[rows, gold][:, None]
    among_all = _ranks(scores, right)
    best, place = torch.topk(torch.nan_to_num(scores, nan=-torch.inf), min(top, scores.shape[1]), dim=1)
    rivals = scores.clone()
    for row, known in enumerate(links.known):
        rivals[row, torch.from_numpy(known).to(scores.device)] = torch.nan
    kept = list(scores.cpu().numpy()) if keep_scores else [None] * len(links)
    ranked = zip(right[:, 0].tolist(), _ranks(rivals, right), among_all, kept, strict=True)
    listed = zip(place.tolist(), best.tolist(), strict=True)
    return [
        RankResult(
            ranks if np.isfinite(answer) else None,
            [answer],
            [unfiltered.realistic],
            list(zip(*best_ones, strict=True)),
            own,
            unscored=None if np.isfinite(answer) else NOT_A_NUMBER,
        )
        for (answer, ranks, unfiltered, own), best_ones in zip(ranked, listed, strict=True)
    ]


def _ranks(scores: Tensor, right: Tensor) -> list[Ranks]:
    """Rank the gold answer in each row. :param scores: shape (n, m). :param right: its score, shape (n, 1)."""
    counts = (scores > right).sum(1).tolist(), (scores == right).sum(1).tolist()
    return [Ranks.below(above, level - 1) for above, level in zip(*counts, strict=True)]
