"""Documents that nearly repeat an earlier one, such as another deposit of an article, and splits that respect them.

Documents are compared by the share of common runs of five words (Jaccard index). MinHash estimates it (Broder, "On the
resemblance and containment of documents", 1997; datasketch). Only documents with a sentence to keep
are compared, so that the rest costs nothing.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fathom.errors import BadInput, optional

SPLITS = ("train", "dev", "test")
SPLIT_THRESHOLD = 0.8
"""Share of common runs of five words from which two documents belong in the same split."""
WORDS, PERMUTATIONS = 5, 128
_WEIGHTS = (0.1, 0.9)
"""Of false positives of the index, which are compared and dropped, and of false negatives."""
_WORD = re.compile(r"\w+")


class NearDuplicates:
    """:param share: of common runs from which two documents are one, 0 to 1."""

    def __init__(self, share: float) -> None:
        library = optional("datasketch", "text")
        self._share = share
        self._new_signature: Any = library.MinHash
        self._index: Any = library.MinHashLSH(threshold=share, num_perm=PERMUTATIONS, weights=_WEIGHTS)
        self._signatures: dict[str, Any] = {}
        self._linked: dict[str, str] = {}

    def repeats(self, id_: str, text: str) -> str:
        """Return the earlier document that this one nearly repeats; if there is none, remember this one, return ""."""
        signature = self._signature(text)
        repeated = next(self._alike(signature), "")
        if not repeated:
            self._remember(id_, signature)
        return repeated

    def link(self, id_: str, text: str) -> None:
        """Put a document and all that it nearly repeats into one cluster."""
        signature = self._signature(text)
        for other in self._alike(signature):
            self._linked[self.cluster(id_)] = self.cluster(other)
        self._remember(id_, signature)

    def cluster(self, id_: str) -> str:
        """Return the document that represents the cluster of *id_*."""
        while (other := self._linked.get(id_, id_)) != id_:
            id_ = other
        return id_

    def _signature(self, text: str) -> Any:
        words = _WORD.findall(text.casefold())
        runs = {" ".join(words[at : at + WORDS]).encode() for at in range(max(1, len(words) - WORDS + 1))}
        signature = self._new_signature(num_perm=PERMUTATIONS, seed=1)
        signature.update_batch(sorted(runs))
        return signature

    def _alike(self, signature: Any) -> Iterator[str]:
        for other in sorted(self._index.query(signature)):
            if signature.jaccard(self._signatures[other]) >= self._share:
                yield str(other).partition("\n")[2]

    def _remember(self, id_: str, signature: Any) -> None:
        key = f"{len(self._signatures):012}\n{id_}"  # two documents may have one name
        self._index.insert(key, signature)
        self._signatures[key] = signature


def split_clusters(clusters: Iterable[str], shares: Sequence[float], seed: int) -> Mapping[str, str]:
    """Assign the cluster of each query to a split: the largest first, each to the split that lacks most.

    :param shares: of the queries, for each of :data:`SPLITS`.
    :raises BadInput: a split would stay empty.
    """
    sizes = Counter(clusters)
    order = sorted(sizes)
    random.Random(seed).shuffle(order)
    order.sort(key=sizes.__getitem__, reverse=True)
    lacking = {name: share * sizes.total() / sum(shares) for name, share in zip(SPLITS, shares, strict=True) if share}
    splits = {}
    for cluster in order:
        splits[cluster] = max(lacking, key=lacking.__getitem__)
        lacking[splits[cluster]] -= sizes[cluster]
    if empty := [name for name in lacking if name not in splits.values()]:
        raise BadInput(
            f"--splits: nothing is left for {', '.join(empty)}, as sentences of a document and of its near-duplicates "
            f"stay together: {sizes.total():,} queries are of {len(sizes):,} such groups"
        )
    return splits
