"""Which queries go into train, dev and test: those of a document, and of its like, into one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fathom.errors import BadInput

SPLITS = ("train", "dev", "test")
ALIKE = 0.8
"""Share of their runs of five words from which on two documents are not to stand in two splits."""


def splits_of(clusters: Iterable[str], shares: Sequence[float], seed: int) -> Mapping[str, str]:
    """The split of each cluster. The largest are given first, each to the split that lacks most.

    :param clusters: that of each query.
    :param shares: of the queries, for each of :data:`SPLITS`.
    :raises BadInput: a split would stay empty.
    """
    sizes = Counter(clusters)
    order = sorted(sizes)
    random.Random(seed).shuffle(order)
    order.sort(key=sizes.__getitem__, reverse=True)
    lacking = {name: share * sizes.total() / sum(shares) for name, share in zip(SPLITS, shares, strict=True) if share}
    found = {}
    for cluster in order:
        found[cluster] = max(lacking, key=lacking.__getitem__)
        lacking[found[cluster]] -= sizes[cluster]
    if empty := [name for name in lacking if name not in found.values()]:
        raise BadInput(
            f"--splits: nothing is left for {', '.join(empty)}, as sentences of a document and of all that nearly "
            f"repeat it stay together: {sizes.total():,} queries are of {len(sizes):,} such groups"
        )
    return found
