"""Re-identification of entities by an attacker with the original texts.

Linkage by nearest neighbour, as in the evaluation of anonymised texts: each description in the world is compared by
cosine with all original descriptions. The entity is re-identified if its original description is the nearest. Equally
near descriptions are in random order, so that an uninformative description is worth a random guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fathom.errors import optional
from fathom.metrics.ranking import hits_at_k

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Vectors = NDArray[np.float32]
WORD = r"(?u)\b\w\w+\b"
CUTOFFS = (1, 10)
"""The k of reported Hits@k."""
MAX_ATTACKED = 50_000
"""Maximum number of attacked entities; of more, a sample is drawn."""
FEW_ATTACKED = 2_000
"""The same for attacks that take long."""
NEAREST = 50
"""Descriptions that share most words, with which a text is aligned."""
COMMON = 0.02
"""Words in a larger share of the descriptions, such as "of", are used last: they carry little information and take
most of the time."""
CELLS = 1 << 24
"""Similarities in memory at a time."""
TIED = 1e-6
"""Cosines that differ by less are equal: rounding of float32."""


class Attack(Protocol):
    """An attacker that knows the original descriptions, shape (n,)."""

    name: str
    most: int
    """Maximum number of entities to attack."""

    def places(self, texts: Sequence[str], original: Ints) -> Places:
        """Rank the original description of each entity.

        :param texts: descriptions in the world, shape (queries,).
        :param original: number of each one's original among the n.
        """


class Places(NamedTuple):
    """Numbers of nearer (``above``) and equally near (``level``, with the original) descriptions; shape (queries,)."""

    above: Ints
    level: Ints

    def hits(self, k: int) -> Floats:
        """Return the probability that the original is among the first k, ties in random order; shape (queries,)."""
        return hits_at_k(self.above + 1, self.above + self.level, k)


class TfIdf:
    """TF-IDF vectors of length 1, tf · (ln((1 + n) / (1 + df)) + 1) (Salton and Buckley 1988; scikit-learn).

    :param texts: original descriptions, shape (n,).
    :raises MissingExtra: scikit-learn is not installed.
    """

    name = "TF-IDF"
    most = MAX_ATTACKED
    _units: Mapping[str, Any] = {"token_pattern": WORD, "dtype": np.float32}

    def __init__(self, texts: Sequence[str]) -> None:
        library = optional("sklearn.feature_extraction.text", "kgc")
        vectorizer = library.TfidfVectorizer(**self._units)
        try:
            vectorizer.fit(texts)
        except ValueError:  # none of them has a word
            vectorizer.fit(["nothing"])
        self.words: dict[str, int] = vectorizer.vocabulary_
        self._transform = vectorizer.transform
        self.vectors = self.vectors_of(texts)
        frequency = np.bincount(self.vectors.indices, minlength=len(self.words))
        is_common = scipy.sparse.diags_array((frequency > COMMON * len(texts)).astype(np.float32))
        self._common = (self.vectors @ is_common).tocsr()
        self._rare = (self.vectors - self._common).tocsr()
        self._rare.eliminate_zeros()
        self._is_common, self._by_word, self._by_rare = is_common, self.vectors.T.tocsr(), self._rare.T.tocsr()

    def vectors_of(self, texts: Sequence[str]) -> Any:
        """Return sparse rows of length 1, or 0 without a known word; shape (texts, words)."""
        return self._transform(texts) if len(texts) else scipy.sparse.csr_matrix((0, len(self.words)), dtype=np.float32)

    def places(self, texts: Sequence[str], original: Ints) -> Places:
        """Return places, see :class:`Attack`; ``above`` is exact up to ten."""
        queries = self.vectors_of(texts)
        return _joined(
            self._places(queries[part], original[part]) for part in _parts(len(original), self.vectors.shape[0])
        )

    def _places(self, queries: Any, original: Ints) -> Places:
        """Compare rare words first. Ten descriptions nearer by them alone settle the rank. By common words none gains
        more than the length of the common part, so that few need a full comparison."""
        score = _dot(queries, self.vectors[original])
        common = (queries @ self._is_common).tocsr()
        may_gain = np.sqrt(_dot(common, common))
        near = (queries @ self._by_rare).tocoo()
        above = np.bincount(near.row[near.data > score[near.row] + TIED], minlength=len(score))
        level = np.ones_like(above)
        is_open = above < CUTOFFS[-1]
        few = is_open & (score - may_gain > 2 * TIED)
        remaining = few[near.row] & (near.data >= (score - may_gain - 2 * TIED)[near.row])
        row, other = near.row[remaining], near.col[remaining]
        above[few], level[few] = (
            column[few]
            for column in _counted(near.data[remaining] + _dot(common[row], self._common[other]), row, score)
        )
        whole = np.flatnonzero(is_open & ~few)
        near = (queries[whole] @ self._by_word).tocoo()
        above[whole], level[whole] = _counted(near.data, near.row, score[whole])
        unrelated = whole[score[whole] <= TIED]  # no common word: as near as all others without one
        level[unrelated] = self.vectors.shape[0] - above[unrelated]
        return Places(above, level)


def _dot(one: Any, other: Any) -> NDArray[np.float32]:
    return np.asarray(one.multiply(other).sum(axis=1)).ravel()


def _counted(near: Vectors, row: Ints, original: Vectors) -> Places:
    """:param near: similarities, shape (pairs,). :param row: whose, shape (pairs,). :param original: shape (rows,)."""
    apart = near - original[row]
    above = np.bincount(row[apart > TIED], minlength=len(original))
    return Places(above, np.bincount(row[np.abs(apart) <= TIED], minlength=len(original)))


class CharacterNgrams(TfIdf):
    """TF-IDF of runs of three to five characters within words, which finds parts of replaced words."""

    name = "character n-grams"
    most = FEW_ATTACKED
    _units: Mapping[str, Any] = {"analyzer": "char_wb", "ngram_range": (3, 5), "dtype": np.float64}


class Alignment:
    """The share of words in common runs (Ratcliff and Metzener 1988; difflib), which finds visible words in order.

    Each text is aligned with the descriptions that share most words with it.
    """

    name = "alignment of words"
    most = FEW_ATTACKED

    def __init__(self, texts: Sequence[str]) -> None:
        library = optional("sklearn.feature_extraction.text", "kgc")
        self._words = [_words(text) for text in texts]
        self._count = library.CountVectorizer(analyzer=_words, binary=True, dtype=np.float32)
        self._known = self._count.fit_transform([*texts, "nothing"])[: len(texts)].T.tocsr()

    def places(self, texts: Sequence[str], original: Ints) -> Places:
        """Return places, see :class:`Attack`; ``above`` is exact up to the nearest."""
        shared = self._count.transform(texts) @ self._known
        pairs = [
            self._place(shared[[row]], text, own) for row, (text, own) in enumerate(zip(texts, original, strict=True))
        ]
        return Places(*np.array(pairs, dtype=np.int64).reshape(-1, 2).T)

    def _place(self, shared: Any, text: str, own: int) -> tuple[int, int]:
        order = np.argsort(-shared.data, kind="stable")[:NEAREST]
        matcher = SequenceMatcher(None, autojunk=False)
        matcher.set_seq2(_words(text))

        def similarity(number: int) -> float:
            matcher.set_seq1(self._words[number])
            return matcher.ratio()

        wanted = similarity(own)
        others = np.array([similarity(other) for other in shared.indices[order].tolist() if other != own])
        above = int((others > wanted + TIED).sum())
        # Without a common word, it is as near as all others without one.
        return above, 1 + int((np.abs(others - wanted) <= TIED).sum()) if wanted else len(self._words) - above


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


class VectorAttack:
    """Description vectors by a language model, see :class:`fathom.building.worlds.audit.Reader`."""

    most = MAX_ATTACKED

    def __init__(self, name: str, encode: Callable[[Sequence[str]], Vectors], texts: Sequence[str]) -> None:
        self.name, self._encode = name, encode
        self.vectors = _unit(encode(texts))

    def places(self, texts: Sequence[str], original: Ints) -> Places:
        """Return places, see :class:`Attack`."""
        queries = _unit(self._encode(texts))
        return _joined(self._places(queries[part], original[part]) for part in _parts(len(original), len(self.vectors)))

    def _places(self, queries: Vectors, original: Ints) -> Places:
        apart = queries @ self.vectors.T
        apart -= np.take_along_axis(apart, original[:, None], axis=1)
        return Places((apart > TIED).sum(axis=1), (np.abs(apart) <= TIED).sum(axis=1))


def _unit(vectors: Vectors) -> Vectors:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    fine = np.isfinite(length) & (length > 0)
    return np.where(fine, vectors / np.where(fine, length, 1), 0).astype(np.float32)


def _joined(parts: Iterator[Places]) -> Places:
    none = np.zeros(0, dtype=np.int64)
    return Places(*map(np.concatenate, zip(Places(none, none), *parts, strict=True)))


def _parts(queries: int, known: int) -> Iterator[slice]:
    size = max(1, CELLS // max(known, 1))
    return (slice(start, start + size) for start in range(0, queries, size))
