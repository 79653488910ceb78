"""How much memory a world still admits: what it leaves of the names, and how many entities its texts give away.

An audit stands in the manifest of a world: under ``left`` the mentions that stayed, by kind, and under ``audit`` how
many entities are re-identified from their names, from their types where the graph has any (worlds keep them), and, by
each attack, from their descriptions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathom._version import VERSION
from fathom.building.worlds.forms import Forms, forms_of
from fathom.building.worlds.leftovers import LEFT, Leftovers, Spans
from fathom.building.worlds.reidentification import AMONG, MOST, Attack, ByVectors, Floats, TfIdf, Vectors
from fathom.building.worlds.texts import blocks
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.taking import is_blank, take_rows
from fathom.metrics.ranking import hits_at_k
from fathom.reading import Json
from fathom.results.estimates import Estimate, mean, untold
from fathom.results.samples import Sample
from fathom.results.tables import Cell, Table

ENTITY = Sample("entity")
UNDESCRIBED = "no entity has a description: there is nothing to tell it from"
UNNAMED = "no entity has a name"
UNTYPED = "no entity has a type"


class Reader(NamedTuple):
    """A language model that reads descriptions.

    :param name: of the model, with its revision or digest.
    :param encode: gives a vector of each text, shape (texts, d); NaN for a text that it cannot read.
    """

    name: str
    encode: Callable[[Sequence[str]], Vectors]


class Auditor:
    """Audits worlds of one graph; what several of them have in common is looked at once.

    :param source: the graph as it is.
    :param shortest: characters of the names that worlds look for.
    :param readers: language models that attack, beside TF-IDF.
    :param data: name of the graph, for recipes.
    :param forms: gives what entities may be called, where it is known already.
    """

    def __init__(
        self,
        source: KnowledgeGraph,
        shortest: int = 2,
        readers: Sequence[Reader] = (),
        data: str = "",
        forms: Callable[[], Forms] | None = None,
    ) -> None:
        self.source, self.readers = source, readers
        self._made_of = f"data:{data}@{source.content_hash}"
        self.described = np.flatnonzero(~is_blank(source.entities.column("description")))
        self._shortest, self._forms = shortest, forms or partial(forms_of, source.entities)
        self._leftovers: Leftovers | None = None
        self._left: dict[bytes, dict[str, int]] = {}
        self._attacks: dict[str, Attack] = {}
        self._known: dict[tuple[str, bytes], list[Floats]] = {}

    def prepare(self) -> None:
        """Make TF-IDF ready, so that :meth:`told` tells of attacks. :raises MissingExtra: scikit-learn is missing."""
        self._attack(TfIdf.name)

    @property
    def prepared(self) -> bool:
        """Whether :meth:`told` tells of attacks, too."""
        return TfIdf.name in self._attacks

    def told(self, world: KnowledgeGraph, name: str, spans: Spans, before: Json | None = None) -> Json:
        """What the manifest of a world says: ``left``, and where the auditor is prepared, ``audit``.

        :param name: of the world.
        :param spans: what was put into its descriptions, in the order of the texts.
        :param before: an audit of the same world, whose attacks are kept.
        """
        left = {"left": self.left(world.entities.column("description"), spans)}
        return left | {"audit": self.audit(world, name, before)} if self.prepared else left

    def left(self, descriptions: pa.ChunkedArray, spans: Spans) -> dict[str, int]:
        """Mentions of each of :data:`fathom.building.worlds.leftovers.LEFT` in a world.

        :param spans: what was put into the descriptions.
        """
        if not len(self.described):
            return dict.fromkeys(LEFT, 0)
        if self._leftovers is None:
            self._leftovers = Leftovers(self._forms(), self._shortest)
        key = _digest(descriptions) + hashlib.blake2b(np.stack(spans).tobytes()).digest()
        if key not in self._left:
            self._left[key] = self._leftovers.count(descriptions, spans)
        return dict(self._left[key])

    def audit(self, world: KnowledgeGraph, name: str, before: Mapping[str, Json] | None = None) -> Json:
        """How many entities of a world are re-identified, as its manifest has it.

        :param name: of the world.
        :param before: an audit of the same world; what it has is kept, and the readers are added.
        """
        made_of = f"{self._made_of}|world:{name}"
        found: Json = {"names": self._by_name(world, made_of)}
        kept = dict((before or {}).get("descriptions", {}))
        column = world.entities.column("description")
        for attacker in (TfIdf.name, *(reader.name for reader in self.readers)):
            kept[attacker] = self._by_description(attacker, column, made_of)
        return found | self._by_type(made_of) | {"descriptions": kept}

    def _by_name(self, world: KnowledgeGraph, made_of: str) -> Json:
        """An entity that is called as before is re-identified, but for others of the same name."""
        old, new = (graph.entities.column("name") for graph in (self.source, world))
        named = ~is_blank(old)
        counted = pc.value_counts(old)
        bearers = dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))
        alike = pc.equal(old, new).to_numpy()[named]
        texts = take_rows(old, np.flatnonzero(named)).to_pylist()
        told = np.array([kept / bearers[name] for kept, name in zip(alike.tolist(), texts, strict=True)])
        return _told(told, UNNAMED, f"hits@1|{made_of}|attack:name|ties:expected|fathom:{VERSION}")

    def _by_type(self, made_of: str) -> Json:
        """Worlds keep types: an entity is a guess among those of its type. Nothing of a graph without types."""
        if "type" not in self.source.entities.column_names:
            return {}
        types = self.source.entities.column("type")
        kinds = types.filter(pc.not_equal(types, "")).combine_chunks().dictionary_encode().indices.to_numpy()
        alike = np.bincount(kinds)[kinds]
        recipe, n = f"{made_of}|attack:type|ties:expected|fathom:{VERSION}", len(kinds)
        told: Json = {f"hits@{k}": _told(hits_at_k(np.ones(n), alike, k), UNTYPED, f"hits@{k}|{recipe}") for k in AMONG}
        return {"types": told | {f"chance@{k}": min(k, n) / max(n, 1) for k in AMONG}}

    def _by_description(self, attacker: str, column: pa.ChunkedArray, made_of: str) -> Json:
        """Hits@k of one attack, each with the chance rate: what a guess would hit."""
        n = len(self.described)
        recipe = f"{made_of}|attack:{attacker}|candidates:{n}|ties:expected|fathom:{VERSION}"
        if not n:
            return {f"hits@{k}": untold(UNDESCRIBED, f"hits@{k}|{recipe}").plain() for k in AMONG}
        asked = np.arange(n) if n <= MOST else np.sort(np.random.default_rng(0).choice(n, MOST, replace=False))
        texts = take_rows(column, self.described[asked])
        key = (attacker, _digest(texts))
        if key not in self._known:
            places = self._attack(attacker).places(texts.to_pylist(), asked)
            self._known[key] = [places.hits(k) for k in AMONG]
        hits = self._known[key]
        told: Json = {
            f"hits@{k}": mean(hit, ENTITY, f"hits@{k}|{recipe}").plain() for k, hit in zip(AMONG, hits, strict=True)
        }
        return told | {f"chance@{k}": min(k, n) / n for k in AMONG}

    def _attack(self, attacker: str) -> Attack:
        if attacker not in self._attacks:
            texts = take_rows(self.source.entities.column("description"), self.described).to_pylist()
            encode = {reader.name: reader.encode for reader in self.readers}
            self._attacks[attacker] = (
                TfIdf(texts) if attacker == TfIdf.name else ByVectors(attacker, encode[attacker], texts)
            )
        return self._attacks[attacker]


def _told(hits: Floats, why_not: str, recipe: str) -> Json:
    """The mean of *hits*, shape (entities,). :param why_not: there is none."""
    return (mean(hits, ENTITY, recipe) if len(hits) else untold(why_not, recipe)).plain()


def _digest(texts: pa.ChunkedArray) -> bytes:
    letters, lengths = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    for part in blocks(texts):
        letters.update(part.data.tobytes())
        lengths.update(np.diff(part.starts).tobytes())
    return letters.digest() + lengths.digest()


# ------------------------------------------------------------------------------------------------------------- tables


def left_table(manifests: Sequence[Json]) -> list[Table]:
    """What names are left in descriptions, a line for each world; no table where no world has one.

    :param manifests: as ``manifest.json`` has them.
    """
    if not any("left" in made for made in manifests):
        return []
    rows = [(made["world"], *(made.get("left", {}).get(kind) for kind in LEFT)) for made in manifests]
    notes = ["short: of fewer characters than are looked for; other case: found if no name's case counted"]
    lacking = [made["world"] for made in manifests if "left" not in made]
    if lacking:
        notes.append(f"made by an earlier version, without such a table: {', '.join(lacking)}; {HOW}")
    return [
        Table(("world", *LEFT), tuple(rows), title="worlds: mentions of entities that are left", notes=tuple(notes))
    ]


HOW = "fathom build audit FOLDER adds what is missing"


def audit_table(manifests: Sequence[Json]) -> Table:
    """How many entities are re-identified, a line for each world and attack.

    :param manifests: as ``manifest.json`` has them.
    """
    rows: list[list[Cell | Estimate]] = []
    for made in manifests:
        about = made.get("audit")
        if about is None:
            rows.append([made["world"], "not audited", None, None, None, None])
            continue
        rows.append([made["world"], "name", _number(about["names"]), None, None, _number(about["names"]).n])
        attacks = {f"description, {attacker}": told for attacker, told in about["descriptions"].items()}
        for attack, told in (({"type": about["types"]} if "types" in about else {}) | attacks).items():
            first, among = (_number(told[f"hits@{k}"]) for k in AMONG)
            rows.append([made["world"], attack, first, among, told.get("chance@1"), first.n])
    typed = any(row[1] == "type" for row in rows)
    by = "name, by its type (a guess among those of the type)," if typed else "name"
    notes = [
        f"hits@k: the own entity is among the first k, by its {by} or by the description that is nearest by cosine"
    ]
    lacking = [str(row[0]) for row in rows if row[1] == "not audited"]
    if lacking:
        notes.append(f"not audited: {', '.join(lacking)}; {HOW}")
    title = "worlds: entities re-identified from their texts"
    columns = ("world", "told by", "hits@1", "hits@10", "chance", "entities")
    return Table.of(rows, title, notes, columns=columns, main="hits@1", formats={"chance": ".2g"})


def _number(told: Json) -> Estimate:
    """Read what :meth:`fathom.results.estimates.Estimate.plain` gave, a share."""
    value = float("nan") if told["value"] is None else told["value"]
    return Estimate(**(told | {"value": value}), form=".1%")
