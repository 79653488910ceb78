"""Which entity is this? How many entities of a world an attacker with the original texts tells from their descriptions.

Linkage by nearest neighbour, as in the evaluation of anonymised texts: the description of each entity in the world is
compared by cosine with every description of the graph as it is; the entity is re-identified if its own is the nearest.
Descriptions that are equally near stand in random order, so that a description that says nothing is worth a guess, one
in as many as there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fathom.errors import MissingExtra
from fathom.metrics.ranking import hits_at_k

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Vectors = NDArray[np.float32]
AMONG = (1, 10)
"""Hits@k that are told."""
MOST = 50_000
"""Entities that are attacked; of more, so many are drawn."""
COMMON = 0.02
"""Words in a larger share of the descriptions, such as "of", are looked at last: they tell next to nothing, and take
most of the time."""
CELLS = 1 << 24
"""Similarities held at a time."""
TIED = 1e-6
"""Cosines that differ by less are equal: rounding of float32."""


class Attack(Protocol):
    """An attacker that knows the descriptions of the graph as it is, shape (n,)."""

    name: str

    def places(self, texts: Sequence[str], own: Ints) -> Places:
        """Where the own description of each entity stands.

        :param texts: descriptions in the world, shape (asked,).
        :param own: number of each one's own description among the n.
        """


class Places(NamedTuple):
    """:param above: how many descriptions are nearer than the own one, shape (asked,).
    :param level: how many are as near, itself among them, shape (asked,).
    """

    above: Ints
    level: Ints

    def hits(self, k: int) -> Floats:
        """The chance that the own description is among the first k, ties in random order; shape (asked,)."""
        return hits_at_k(self.above + 1, self.above + self.level, k)


class TfIdf:
    """Words weighted by how rare they are, tf · (ln((1 + n) / (1 + df)) + 1), a vector of length 1 for each description
    (Salton and Buckley 1988, as scikit-learn has it).

    :param texts: descriptions of the graph as it is, shape (n,).
    :raises MissingExtra: scikit-learn is not installed.
    """

    name = "TF-IDF"

    def __init__(self, texts: Sequence[str]) -> None:
        vectorizer = _vectorizer()
        try:
            vectorizer.fit(texts)
        except ValueError:  # there is not a word in any of them
            vectorizer.fit(["nothing"])
        self.words: dict[str, int] = vectorizer.vocabulary_
        self._transform = vectorizer.transform
        self.vectors = self.vectors_of(texts)
        self.frequency: Ints = np.bincount(self.vectors.indices, minlength=len(self.words))
        is_common = scipy.sparse.diags_array((self.frequency > COMMON * len(texts)).astype(np.float32))
        self._common = (self.vectors @ is_common).tocsr()
        self._rare = (self.vectors - self._common).tocsr()
        self._rare.eliminate_zeros()
        self._is_common, self._by_word, self._by_rare = is_common, self.vectors.T.tocsr(), self._rare.T.tocsr()

    def vectors_of(self, texts: Sequence[str]) -> Any:
        """Sparse, rows of length 1, or 0 where there is no known word; shape (texts, words)."""
        return self._transform(texts) if len(texts) else scipy.sparse.csr_matrix((0, len(self.words)), dtype=np.float32)

    def places(self, texts: Sequence[str], own: Ints) -> Places:
        """See :class:`Attack`; ``above`` is exact up to ten, and beyond that ten or more."""
        asked = self.vectors_of(texts)
        return _joined(self._places(asked[part], own[part]) for part in _parts(len(own), self.vectors.shape[0]))

    def _places(self, asked: Any, own: Ints) -> Places:
        """Rare words first. A description that is nearer by them alone is nearer: ten of these settle it. By common
        words none gains more than the length of the common part, so that few are left to be looked at as a whole."""
        score = _dot(asked, self.vectors[own])
        common = (asked @ self._is_common).tocsr()
        may_gain = np.sqrt(_dot(common, common))
        near = (asked @ self._by_rare).tocoo()
        above = np.bincount(near.row[near.data > score[near.row] + TIED], minlength=len(score))
        level = np.ones_like(above)
        is_open = above < AMONG[-1]
        few = is_open & (score - may_gain > 2 * TIED)
        left = few[near.row] & (near.data >= (score - may_gain - 2 * TIED)[near.row])
        row, other = near.row[left], near.col[left]
        above[few], level[few] = (
            column[few] for column in _counted(near.data[left] + _dot(common[row], self._common[other]), row, score)
        )
        whole = np.flatnonzero(is_open & ~few)
        near = (asked[whole] @ self._by_word).tocoo()
        above[whole], level[whole] = _counted(near.data, near.row, score[whole])
        nothing = whole[score[whole] <= TIED]  # no word in common: as near as all that have none
        level[nothing] = self.vectors.shape[0] - above[nothing]
        return Places(above, level)


WORD = r"(?u)\b\w\w+\b"
"""What a word is."""


def _vectorizer() -> Any:
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise MissingExtra("sklearn", "kgc") from error
    return TfidfVectorizer(token_pattern=WORD, dtype=np.float32)


def _dot(one: Any, other: Any) -> NDArray[np.float32]:
    """Of each row with the same row of the other."""
    return np.asarray(one.multiply(other).sum(axis=1), dtype=np.float32).ravel()


def _counted(near: Vectors, row: Ints, own: Vectors) -> Places:
    """:param near: similarities, shape (pairs,). :param row: whose, shape (pairs,). :param own: shape (rows,)."""
    apart = near - own[row]
    above = np.bincount(row[apart > TIED], minlength=len(own))
    return Places(above, np.bincount(row[np.abs(apart) <= TIED], minlength=len(own)))


class ByVectors:
    """Descriptions as vectors that a language model makes of them.

    :param name: of the model.
    :param encode: gives a vector of each text, shape (texts, d); NaN for a text that it cannot read.
    :param texts: descriptions of the graph as it is, shape (n,).
    """

    def __init__(self, name: str, encode: Callable[[Sequence[str]], Vectors], texts: Sequence[str]) -> None:
        self.name, self._encode = name, encode
        self.vectors = _unit(encode(texts))

    def places(self, texts: Sequence[str], own: Ints) -> Places:
        """See :class:`Attack`."""
        asked = _unit(self._encode(texts))
        return _joined(self._places(asked[part], own[part]) for part in _parts(len(own), len(self.vectors)))

    def _places(self, asked: Vectors, own: Ints) -> Places:
        apart = asked @ self.vectors.T
        apart -= np.take_along_axis(apart, own[:, None], axis=1)
        return Places((apart > TIED).sum(axis=1), (np.abs(apart) <= TIED).sum(axis=1))


def _unit(vectors: Vectors) -> Vectors:
    """Of length 1; zero for one without a direction."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    fine = np.isfinite(length) & (length > 0)
    return np.where(fine, vectors / np.where(fine, length, 1), 0).astype(np.float32)


def _joined(parts: Iterator[Places]) -> Places:
    none = np.zeros(0, dtype=np.int64)
    return Places(*map(np.concatenate, zip(Places(none, none), *parts, strict=True)))


def _parts(asked: int, known: int) -> Iterator[slice]:
    size = max(1, CELLS // max(known, 1))
    return (slice(start, start + size) for start in range(0, asked, size))
