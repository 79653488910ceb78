"""Filtered ranks of a link predictor's scores, in both directions alike."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fathom.data.graph.links import Links
from fathom.scoring.ranks import Found, Ranks

NOT_A_NUMBER = "the model's score of the right answer is not a number"


def rank_links(scores: Tensor, links: Links, top: int, keep_scores: bool = False) -> list[Found]:
    """Rank each right answer among all entities, the other right answers left out (the filtered setting).

    An entity whose score is NaN is above nobody.

    :param scores: of every entity for each question, higher is better, shape (n, entities).
    :param top: how many of the best to list, known answers among them.
    """
    rows = torch.arange(len(links), device=scores.device)
    gold = torch.from_numpy(links.gold).to(scores.device)
    scores = scores.float()
    right = scores[rows, gold][:, None]
    unfiltered = (scores > right).sum(1), (scores == right).sum(1)
    best, place = torch.topk(torch.nan_to_num(scores, nan=-torch.inf), min(top, scores.shape[1]), dim=1)
    rivals = scores.clone()
    for row, known in enumerate(links.known):
        rivals[row, torch.from_numpy(known).to(scores.device)] = torch.nan
    above, level = (rivals > right).sum(1).tolist(), (rivals == right).sum(1).tolist()
    answers = right[:, 0].tolist()
    columns = zip(above, level, answers, *(count.tolist() for count in unfiltered), strict=True)
    listed = zip(place.tolist(), best.tolist(), strict=True)
    found = [
        Found(
            Ranks(higher + 1, higher + same) if np.isfinite(answer) else None,
            [answer],
            [(2 * all_higher + 1 + all_same) / 2],
            list(zip(*pairs, strict=True)),
            unscored=None if np.isfinite(answer) else NOT_A_NUMBER,
        )
        for (higher, same, answer, all_higher, all_same), pairs in zip(columns, listed, strict=True)
    ]
    if keep_scores:
        for one, row in zip(found, scores.cpu().numpy(), strict=True):
            one.scores = row
    return found
