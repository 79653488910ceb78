"""Does a model give the same answer however it is asked? (after Elazar et al. 2021)"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from math import prod

import numpy as np
import numpy.typing as npt


def consistency(tops: Sequence[Sequence[AbstractSet[str]]]) -> npt.NDArray[np.float64]:
    """Per fact: the chance that all templates give one and the same answer; the mean is the share of such facts.

    Where several answers share the best score, one of them is drawn at random, for each template on its own. An answer
    in every template's set is then given by all of them with chance ∏ 1/|set|; the sum over such answers is the value:
    1 or 0 without ties.

    :param tops: per fact, per template: ids of the best-scored answers. :returns: shape [facts], each in [0, 1].
    :raises ValueError: a fact without templates, or a template without an answer.
    """
    values = np.zeros(len(tops))
    for place, sets in enumerate(tops):
        if not sets or not all(sets):
            raise ValueError(f"fact {place} lacks an answer; take unscored facts out first")
        shared = reduce(lambda left, right: left & right, sets)
        values[place] = len(shared) / prod(len(answers) for answers in sets)
    return values
