"""Types of a graph's entities: ``id<TAB>type``, or JSON with labels (CoDEx).

An entity has one type here: of several the one that most entities of the graph have, the first listed in a tie.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathom.base.reading import Faults
from fathom.data.columns import Columns
from fathom.data.formats.base import read_object
from fathom.data.knowledge import Places

TYPES = ("entity2type", "entity2types")
LABELS = "types.en"
JSON = (".json", ".json.gz")
_EXPECTED = '{"id": ["type", …], …}'


def read_types(file: Path, labels: Path | None, entities: pa.Table, faults: Faults) -> pa.Array:
    """Return the type of each entity, "" for none.

    :param file: one named by :data:`TYPES`, JSON or lines by its ending. Entities that the graph lacks are passed over.
    :param labels: what types are called; None where each is called as it stands.
    :returns: a column of texts, shape (entities,).
    """
    ids = entities.column("id").combine_chunks()
    if file.name.endswith(JSON):
        typed, types = _from_json(file, faults)
    else:
        part = Columns(file, ("id", "type"), faults)
        for name in part.names:
            part.refuse_empty(name)
        typed, types = part["id"].combine_chunks(), part["type"].combine_chunks()
    owner = pc.index_in(typed, value_set=ids)
    is_entity = pc.is_valid(owner)
    types = types.filter(is_entity).dictionary_encode()
    commonest = _commonest(
        np.asarray(owner.filter(is_entity), dtype=np.int64), np.asarray(types.indices, dtype=np.int64)
    )
    places = np.full(len(ids), -1, dtype=np.int64)
    places[commonest[0]] = commonest[1]
    called = types.dictionary if labels is None else _called(types.dictionary, labels, faults)
    column = pc.fill_null(called.take(pa.array(places, mask=places < 0)), "")
    missing = int((places < 0).sum())
    if missing and not faults.found:
        faults.note(file, None, f"{missing:,} of {len(ids):,} entities have no type")
    return column


def _commonest(owner: Places, type_: Places) -> tuple[Places, Places]:
    """Return the owners, each once, and their types. :param owner, type_: pairs in the order listed."""
    first = np.unique(np.stack([owner, type_]), axis=1, return_index=True)[1]  # a pair may stand there twice
    owner, type_ = owner[np.sort(first)], type_[np.sort(first)]
    times = np.bincount(type_)
    order = np.lexsort((np.arange(len(owner)), -times[type_], owner))
    owners, place = np.unique(owner[order], return_index=True)
    return owners, type_[order][place]


def _from_json(file: Path, faults: Faults) -> tuple[pa.Array, pa.Array]:
    pairs: list[tuple[str, str]] = []
    for id_, types in read_object(file, faults, _EXPECTED).items():
        if isinstance(types, list) and all(isinstance(type_, str) and type_.strip() for type_ in types):
            pairs += [(id_, type_) for type_ in types]
        else:
            faults.add(file, None, f"types of {id_!r}: expected {_EXPECTED}, found {str(types)[:60]}")
            break
    return pa.array([id_ for id_, _ in pairs], pa.string()), pa.array([type_ for _, type_ in pairs], pa.string())


def _called(types: pa.Array, labels: Path, faults: Faults) -> pa.Array:
    """Return types by their labels, without one by themselves."""
    content = read_object(labels, faults, '{"type": {"label": "…"}, …}')
    about = [content.get(type_) for type_ in types.to_pylist()]
    names = [str(entry.get("label") or "").strip() if isinstance(entry, dict) else "" for entry in about]
    return pa.array([label or type_ for label, type_ in zip(names, types.to_pylist(), strict=True)], pa.string())
