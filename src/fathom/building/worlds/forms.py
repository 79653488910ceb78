"""What entities may be called in texts: their names, their other names, and inflected forms of both.

Inflected forms are those of LemmInflect, a dictionary of English word forms (NIH's SPECIALIST Lexicon), of the last
and of the first word of a name: "family" gives "families", "tick off" gives "ticked off", "state of mind" gives "states
of mind". A last word that the dictionary has not gets the plural that the library makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
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
_PART = 1 << 16


class Forms(NamedTuple):
    """:param texts: shape (forms,).
    :param entity: row of the entity that each is a form of.
    :param kind: :data:`NAME`, :data:`ALIAS` or :data:`INFLECTION`.
    :param exact: whether its case counts; else A to Z equal a to z.
    """

    texts: pa.ChunkedArray
    entity: NDArray[np.int32]
    kind: NDArray[np.int8]
    exact: NDArray[np.bool_]

    def only(self, chosen: NDArray[np.bool_]) -> Forms:
        """Some of them. :param chosen: shape (forms,)."""
        texts = self.texts.filter(pa.array(chosen))
        return Forms(texts, self.entity[chosen], self.kind[chosen], self.exact[chosen])


def forms_of(entities: pa.Table, case: Case = "auto", shortest: int = 2, *, all_forms: bool = True) -> Forms:
    """What to look for.

    :param entities: of a graph.
    :param case: "exact"; "ignore", A to Z alike; "auto", by which it counts in those forms that have a capital letter.
    :param shortest: characters that a form needs.
    :param all_forms: other names and inflected forms, too.
    """
    names = entities.column("name")
    found = [(names, np.arange(len(names), dtype=np.int32), NAME)]
    if all_forms:
        found.append((*_aliases(entities.column("aliases")), ALIAS))
        found += [(*_inflections(texts, entity), INFLECTION) for texts, entity, _ in tuple(found)]
    texts = pa.chunked_array([chunk for part, _, _ in found for chunk in part.chunks], pa.string())
    kind = np.repeat(np.array([kind for *_, kind in found], np.int8), [len(part) for part, _, _ in found])
    every = Forms(texts, np.concatenate([entity for _, entity, _ in found]), kind, _case_counts(texts, case))
    long_enough = pc.greater_equal(pc.utf8_length(texts), shortest).to_numpy()
    return every.only(long_enough & ~is_blank(texts))


def _case_counts(texts: pa.ChunkedArray, case: Case) -> NDArray[np.bool_]:
    if case == "auto":
        return np.asarray(pc.match_substring_regex(texts, r"\p{Lu}").to_numpy())
    return np.full(len(texts), case == "exact")


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
    """A function that gives the inflected forms of a name; the name is not among them."""
    from lemminflect import getAllInflections, getAllInflectionsOOV

    known = cache(getAllInflections)

    def forms(word: str, tags: Sequence[str] = ()) -> Iterator[str]:
        for tag, spelt in (known(word) or ({} if tags else getAllInflectionsOOV(word, "NOUN"))).items():
            if not tags or tag in tags:
                yield from spelt

    def inflected(name: str) -> Sequence[str]:
        found: dict[str, None] = {}
        if last := _LAST_WORD.search(name):
            found |= {name[: last.start()] + form: None for form in forms(last[0])}
        if first := _FIRST_WORD.search(name):
            found |= {form + name[first.end() :]: None for form in forms(first[0], _OF_FIRST)}
        found.pop(name, None)
        return tuple(found)

    return inflected
