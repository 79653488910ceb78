"""What entities may be called in texts: their names, their other names, and inflected forms of both.

Inflected forms are those of LemmInflect, a dictionary of English word forms (NIH's SPECIALIST Lexicon), of the last
and of the first word of a name: "family" gives "families", "tick off" gives "ticked off", "state of mind" gives "states
of mind". A last word that the dictionary has not gets the plural that the library makes of it; words of one or two
letters get none. Function words are no form of a name: "is" is a form of "be", and means no entity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.data.taking import is_blank

NAME, ALIAS, INFLECTION = 0, 1, 2
KINDS = ("name", "alias", "inflection")
"""What a mention can be, the best first: the name of one entity that is another name of a second means the first."""
Case = Literal["auto", "exact", "ignore"]
_FIRST_WORD, _LAST_WORD = re.compile(r"^[A-Za-z]+(?=[ -])"), re.compile(r"(?<!\w)[A-Za-z]+$")
_OF_FIRST = ("NNS", "VBZ", "VBD", "VBG", "VBN")
"""Forms that the first of several words takes (Penn Treebank): a plural, or those of a verb with a particle."""
_PLURAL = 3
"""Letters of a word that has a plural: "his" is not that of "hi" (an abbreviation of Hawaii)."""
_AUXILIARIES = ("am", "are", "been", "being", "could", "did", "do", "does", "doing", "done", "had", "has", "having")
_MORE_AUXILIARIES = ("is", "might", "should", "was", "were", "would")
FUNCTION_WORDS = frozenset((*_AUXILIARIES, *_MORE_AUXILIARIES, "least", "less", "more", "most", "ones", "others"))
"""Forms of auxiliary verbs, determiners and pronouns, which stand in texts for grammar's sake."""
_PART = 1 << 16
_WORDS = 1 << 16
"""Words whose forms are kept at hand."""


class Forms(NamedTuple):
    """:param texts: none of them blank, shape (forms,).
    :param entity: row of the entity that each is a form of.
    :param kind: :data:`NAME`, :data:`ALIAS` or :data:`INFLECTION`.
    """

    texts: pa.ChunkedArray
    entity: NDArray[np.int32]
    kind: NDArray[np.int8]

    def only(self, chosen: NDArray[np.bool_]) -> Forms:
        """Some of them. :param chosen: shape (forms,)."""
        return Forms(self.texts.filter(pa.array(chosen)), self.entity[chosen], self.kind[chosen])

    def have(self, characters: int) -> NDArray[np.bool_]:
        """Whether each has so many characters."""
        return np.asarray(pc.greater_equal(pc.utf8_length(self.texts), characters).to_numpy())

    def exact(self, case: Case) -> NDArray[np.bool_]:
        """Whether the case of each counts, A to Z being equal to a to z in the others.

        :param case: "exact", "ignore", or "auto": in those that have a capital letter.
        """
        if case == "auto":
            return np.asarray(pc.match_substring_regex(self.texts, r"\p{Lu}").to_numpy())
        return np.full(len(self.texts), case == "exact")


def names_of(entities: pa.Table) -> Forms:
    """The names of entities alone."""
    names = entities.column("name")
    every = Forms(names, np.arange(len(names), dtype=np.int32), np.full(len(names), NAME, dtype=np.int8))
    return every.only(~is_blank(names))


def forms_of(entities: pa.Table) -> Forms:
    """Names of entities, their other names, and inflected forms of both."""
    names = names_of(entities)
    aliases, bearers = _aliases(entities.column("aliases"))
    kinds = [(*names[:2], NAME), (aliases, bearers, ALIAS)]
    kinds += [(*_inflections(texts, entity), INFLECTION) for texts, entity, _ in tuple(kinds)]
    texts = pa.chunked_array([chunk for part, _, _ in kinds for chunk in part.chunks], pa.string())
    kind = np.repeat(np.array([kind for *_, kind in kinds], np.int8), [len(part) for part, _, _ in kinds])
    every = Forms(texts, np.concatenate([entity for _, entity, _ in kinds]), kind)
    return every.only(~is_blank(texts))


def _aliases(aliases: pa.ChunkedArray) -> tuple[pa.ChunkedArray, NDArray[np.int32]]:
    """Every other name, and the row of its entity."""
    texts = pc.list_flatten(aliases)
    lengths = pc.fill_null(pc.list_value_length(aliases), 0).to_numpy()
    return texts, np.repeat(np.arange(len(aliases), dtype=np.int32), lengths)


def _inflections(names: pa.ChunkedArray, entity: NDArray[np.int32]) -> tuple[pa.ChunkedArray, NDArray[np.int32]]:
    """Inflected forms of some names, and the row of each one's entity."""
    inflected, parts, rows = inflector(), [], []
    for start in range(0, len(names), _PART):
        made = [inflected(name) for name in names.slice(start, _PART).to_pylist()]
        parts.append(pa.array([form for forms in made for form in forms], pa.string()))
        rows.append(np.repeat(entity[start : start + _PART], [len(forms) for forms in made]))
    return pa.chunked_array(parts, pa.string()), np.concatenate([np.zeros(0, np.int32), *rows])


def inflector() -> Callable[[str], Sequence[str]]:
    """A function that gives the inflected forms of a name; the name is not among them, nor :data:`FUNCTION_WORDS`."""
    from lemminflect import getAllInflections, getAllInflectionsOOV

    known = lru_cache(_WORDS)(getAllInflections)
    unknown = lru_cache(_WORDS)(partial(getAllInflectionsOOV, upos="NOUN"))

    def forms(word: str, tags: Sequence[str] = ()) -> Iterator[str]:
        for tag, spelt in (known(word) or ({} if tags else unknown(word))).items():
            if (not tags or tag in tags) and (tag != "NNS" or len(word) >= _PLURAL):
                yield from spelt

    def inflected(name: str) -> Sequence[str]:
        found: dict[str, None] = {}
        if last := _LAST_WORD.search(name):
            found |= {name[: last.start()] + form: None for form in forms(last[0])}
        if first := _FIRST_WORD.search(name):
            found |= {form + name[first.end() :]: None for form in forms(first[0], _OF_FIRST)}
        found.pop(name, None)
        return tuple(form for form in found if form.lower() not in FUNCTION_WORDS)

    return inflected
