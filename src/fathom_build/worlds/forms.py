"""Forms of entities in texts: their names, their other names, and inflected forms of both.

LemmInflect, a dictionary of English word forms (NIH's SPECIALIST Lexicon), inflects the last and the first word of a
name: "family" gives "families", "tick off" gives "ticked off", "state of mind" gives "states of mind". For an unknown
last word the library derives a plural; words of one or two letters get none. Function words are no form of a name:
"is" is a form of "be", and means no entity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fathom.base.reading import read_text
from fathom.data.columns import is_blank

NAME, ALIAS, INFLECTION = 0, 1, 2
KINDS = ("name", "alias", "inflection")
"""Kinds of mentions, the best first: the name of one entity that is an alias of a second means the first."""
Case = Literal["auto", "exact", "ignore"]
_FIRST_WORD, _LAST_WORD = re.compile(r"^[A-Za-z]+(?=[ -])"), re.compile(r"(?<!\w)[A-Za-z]+$")
_OF_FIRST = ("NNS", "VBZ", "VBD", "VBG", "VBN")
"""Inflections of the first of several words (Penn Treebank): a plural, or those of a verb with a particle."""
_PLURAL = 3
"""Minimum letters of a word with a plural: "his" is not that of "hi" (Hawaii)."""
_WORDS_FILE = read_text(Path(__file__).with_name("function_words.txt"))
FUNCTION_WORDS = frozenset(word for line in _WORDS_FILE.splitlines() if line[0] != "#" for word in line.split())
_PART = 1 << 16
_CACHED = 1 << 16
"""Words whose forms are cached."""


class Forms(NamedTuple):
    """Texts of entities, none blank; arrays (row of the entity, kind such as :data:`NAME`) have the shape (forms,)."""

    texts: pa.ChunkedArray
    entity: NDArray[np.int32]
    kind: NDArray[np.int8]

    def only(self, chosen: NDArray[np.bool_]) -> Forms:
        """Select forms by a mask."""
        return Forms(self.texts.filter(pa.array(chosen)), self.entity[chosen], self.kind[chosen])

    def have(self, characters: int) -> NDArray[np.bool_]:
        """Return whether each has at least so many characters."""
        return np.asarray(pc.greater_equal(pc.utf8_length(self.texts), characters).to_numpy())

    def exact(self, case: Case) -> NDArray[np.bool_]:
        """Return whether the case of each counts; in the others A to Z equal a to z.

        :param case: "exact", "ignore", or "auto": in those with a capital letter.
        """
        if case == "auto":
            return np.asarray(pc.match_substring_regex(self.texts, r"\p{Lu}").to_numpy())
        return np.full(len(self.texts), case == "exact")


def names_of(entities: pa.Table) -> Forms:
    """Return the names of entities."""
    names = entities.column("name")
    forms = Forms(names, np.arange(len(names), dtype=np.int32), np.full(len(names), NAME, dtype=np.int8))
    return forms.only(~is_blank(names))


def forms_of(entities: pa.Table) -> Forms:
    """Return the names of entities, their other names, and inflected forms of both."""
    names = names_of(entities)
    aliases = entities.column("aliases")
    lengths = pc.fill_null(pc.list_value_length(aliases), 0).to_numpy()
    bearers = np.repeat(np.arange(len(aliases), dtype=np.int32), lengths)
    kinds = [(*names[:2], NAME), (pc.list_flatten(aliases), bearers, ALIAS)]
    kinds += [(*_inflections(texts, entity), INFLECTION) for texts, entity, _ in tuple(kinds)]
    texts = pa.chunked_array([chunk for part, _, _ in kinds for chunk in part.chunks], pa.string())
    kind = np.repeat(np.array([kind for *_, kind in kinds], np.int8), [len(part) for part, _, _ in kinds])
    forms = Forms(texts, np.concatenate([entity for _, entity, _ in kinds]), kind)
    return forms.only(~is_blank(texts))


def _inflections(names: pa.ChunkedArray, entity: NDArray[np.int32]) -> tuple[pa.ChunkedArray, NDArray[np.int32]]:
    inflect, parts, rows = inflector(), [], []
    for start in range(0, len(names), _PART):
        inflected = [inflect(name) for name in names.slice(start, _PART).to_pylist()]
        parts.append(pa.array([form for forms in inflected for form in forms], pa.string()))
        rows.append(np.repeat(entity[start : start + _PART], [len(forms) for forms in inflected]))
    return pa.chunked_array(parts, pa.string()), np.concatenate([np.zeros(0, np.int32), *rows])


def inflector() -> Callable[[str], Sequence[str]]:
    """Return a function from a name to its inflected forms, without the name and :data:`FUNCTION_WORDS`."""
    from lemminflect import getAllInflections, getAllInflectionsOOV

    known = lru_cache(_CACHED)(getAllInflections)
    unknown = lru_cache(_CACHED)(partial(getAllInflectionsOOV, upos="NOUN"))

    def forms(word: str, tags: Sequence[str] = ()) -> Iterator[str]:
        for tag, spelt in (known(word) or ({} if tags else unknown(word))).items():
            if (not tags or tag in tags) and (tag != "NNS" or len(word) >= _PLURAL):
                yield from spelt

    def inflect(name: str) -> Sequence[str]:
        inflected: dict[str, None] = {}
        if last := _LAST_WORD.search(name):
            inflected |= {name[: last.start()] + form: None for form in forms(last[0])}
        if first := _FIRST_WORD.search(name):
            inflected |= {form + name[first.end() :]: None for form in forms(first[0], _OF_FIRST)}
        inflected.pop(name, None)
        return tuple(form for form in inflected if form.lower() not in FUNCTION_WORDS)

    return inflect
