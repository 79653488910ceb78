"""Documents that nearly repeat one above: another deposit of an article, an abstract sent in twice.

Two documents are alike by the share of their runs of five words that both have (Jaccard's index), which MinHash
estimates (Broder, "On the resemblance and containment of documents", 1997; datasketch). Only documents of which a
sentence would be kept are compared, so that the rest costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fathom.errors import MissingExtra

WORDS, PERMUTATIONS = 5, 128
_WEIGHTS = (0.1, 0.9)
"""Of what the index finds for nothing, which is compared and passed over, and of what it misses."""
_WORD = re.compile(r"\w+")


class NearDuplicates:
    """:param share: from which on two documents are taken for one, 0 to 1."""

    def __init__(self, share: float) -> None:
        try:
            from datasketch import MinHash, MinHashLSH
        except ImportError as error:
            raise MissingExtra("datasketch", "text") from error
        self._share = share
        self._make: Any = MinHash
        self._index: Any = MinHashLSH(threshold=share, num_perm=PERMUTATIONS, weights=_WEIGHTS)
        self._known: dict[str, Any] = {}
        self._of: dict[str, str] = {}

    def repeats(self, id_: str, text: str) -> str:
        """The document above that this one nearly repeats; "" where it is the first of its kind, and is remembered."""
        made = self._signature(text)
        alike = next(self._alike(made), "")
        if not alike:
            self._remember(id_, made)
        return alike

    def link(self, id_: str, text: str) -> None:
        """The document, and all above that it nearly repeats, are of one cluster."""
        made = self._signature(text)
        for other in self._alike(made):
            self._of[self.cluster(id_)] = self.cluster(other)
        self._remember(id_, made)

    def cluster(self, id_: str) -> str:
        """A document that stands for all that :meth:`link` found to be like *id_*, or like one that is."""
        while (other := self._of.get(id_, id_)) != id_:
            id_ = other
        return id_

    def _signature(self, text: str) -> Any:
        words = _WORD.findall(text.casefold())
        runs = {" ".join(words[at : at + WORDS]).encode() for at in range(max(1, len(words) - WORDS + 1))}
        made = self._make(num_perm=PERMUTATIONS, seed=1)
        made.update_batch(sorted(runs))
        return made

    def _alike(self, made: Any) -> Iterator[str]:
        """Documents above, in their order."""
        for other in sorted(self._index.query(made)):
            if made.jaccard(self._known[other]) >= self._share:
                yield str(other).partition("\n")[2]

    def _remember(self, id_: str, made: Any) -> None:
        key = f"{len(self._known):012}\n{id_}"  # two documents may have one name
        self._index.insert(key, made)
        self._known[key] = made
