"""Audits of worlds: mentions of entities that remain, and how many entities can be re-identified from their texts.

The manifest of a world has its audit: ``left`` counts the remaining mentions by kind. ``audit`` has the shares of
entities that are re-identified from their names, their types (which worlds keep), and, by attack, their descriptions.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fathom._version import VERSION
from fathom.base.reading import Json
from fathom.data.columns import take_rows
from fathom.data.knowledge import KnowledgeGraph
from fathom.results.estimates import Estimate, mean, point_estimate
from fathom.results.metrics.ranking import hits_at_k
from fathom.results.samples import Sample
from fathom.results.tables import Cell, Table
from fathom_build.worlds.constructions import Materials, make_world
from fathom_build.worlds.forms import KINDS, Forms
from fathom_build.worlds.reidentification import (
    ATTACKED,
    CUTOFFS,
    Alignment,
    Attack,
    CharacterNgrams,
    Floats,
    TfIdf,
    TrainedRanking,
    VectorAttack,
    Vectors,
    choose,
)
from fathom_build.worlds.texts import Spans, blocks, in_characters
from fathom_build.worlds.tries import Matches, Tries
from fathom_build.worlds.world import BASE, Variant, parse_variants

ATTACKS = tuple(attack.name for attack in (TfIdf, CharacterNgrams, Alignment, TrainedRanking))
"""Attacks by descriptions that need no language model."""
HIDDEN = 0.1
"""Descriptions hide their entities if the strongest attack identifies a smaller share."""
ENTITY = Sample("entity")
UNDESCRIBED = "no entity has a description: there is nothing to attack"
UNNAMED = "there is no entity"
UNTYPED = "no entity has a type"
RANDOM = "fully-anonymised-ed has random strings instead"
REMEDY = "fathom build audit FOLDER adds what is missing"
LEFT = (*KINDS, "short", "other case")
"""Kinds of remaining mentions: names, other names and inflected forms that are long enough to be searched for; shorter
ones; and those found only if the case of A to Z is ignored in all names."""


class RemainingMentions:
    """A counter of remaining mentions in any world of one graph; names of *shortest* characters are searched for."""

    def __init__(self, forms: Forms, shortest: int) -> None:
        exact, long_enough = forms.exact("auto"), forms.have(shortest)
        self._tries = Tries(forms.texts, exact)
        sought = forms.texts.filter(pa.array(long_enough & exact))
        self._any_case = Tries(sought, np.zeros(len(sought), dtype=bool))
        self._kind = self._tries.smallest(forms.kind)
        self._short = np.zeros(self._tries.count, dtype=bool)
        self._short[self._tries.numbers] = ~long_enough

    def count(self, texts: pa.ChunkedArray, new: Spans) -> dict[str, int]:
        """Count mentions of each of :data:`LEFT` in descriptions of a world, outside *new* (inserted) text."""
        matches = self._tries.find(texts)
        spans = _in_characters(texts, matches)
        number = matches.number[~spans.meet(new)]
        short = self._short[number]
        counts = np.bincount(self._kind[number[~short]], minlength=len(KINDS)).tolist()
        others = _in_characters(texts, self._any_case.find(texts))
        more = ~others.meet(new) & ~others.meet(spans)
        return dict(zip(LEFT, (*counts, int(short.sum()), int(more.sum())), strict=True))


def _in_characters(texts: pa.ChunkedArray, matches: Matches) -> Spans:
    places = [(np.zeros(0, np.int32), np.zeros(0, np.int32))]
    for part in blocks(texts):
        first, last = np.searchsorted(matches.row, [part.first, part.first + len(part.starts) - 1])
        row = part.starts[matches.row[first:last] - part.first]
        start, end = in_characters(part.data, row, row + matches.start[first:last], row + matches.end[first:last])
        places.append((start, end))
    starts, ends = (np.concatenate(column).astype(np.int64) for column in zip(*places, strict=True))
    return Spans(matches.row.astype(np.int64), starts, ends)


class Reader(NamedTuple):
    """A language model that encodes texts as vectors, shape (texts, d); NaN for a text that it cannot read."""

    name: str
    encode: Callable[[Sequence[str]], Vectors]


class Auditor:
    """Audits worlds of one graph; work that several of them share is done once.

    :param materials: graph, seed and options of the worlds.
    :param readers: language models that attack, in addition to :data:`ATTACKS`.
    :param data: name of the graph, for recipes.
    """

    def __init__(self, materials: Materials, readers: Sequence[Reader] = (), data: str = "") -> None:
        self.source, self.readers, self._materials = materials.graph, readers, materials
        self.prepared = False
        """Whether :meth:`report` includes attacks."""
        self._recipe = f"data:{data}@{self.source.content_hash}"
        self._left: dict[bytes, dict[str, int]] = {}
        self._hits: dict[tuple[str, bytes], list[Floats]] = {}

    def prepare(self) -> None:
        """Prepare attacks, so that :meth:`report` includes them. :raises MissingExtra: scikit-learn is missing."""
        self.prepared = bool(self._similarities)

    @cached_property
    def _similarities(self) -> tuple[TfIdf, CharacterNgrams, Alignment]:
        texts = self._texts(self.source)
        return TfIdf(texts), CharacterNgrams(texts), Alignment(texts)

    @cached_property
    def _attacks(self) -> dict[str, Attack]:
        """Attacks that are the same for all worlds, by name."""
        texts = self._texts(self.source)
        attacks: list[Attack] = [*self._similarities]
        attacks += [VectorAttack(reader.name, reader.encode, texts) for reader in self.readers]
        return {attack.name: attack for attack in attacks}

    def report(self, world: KnowledgeGraph, name: str, spans: Spans, before: Json | None = None) -> Json:
        """Return ``left`` and, if prepared, ``audit`` for the manifest of a world.

        :param spans: inserted text in its descriptions, in the order of the texts.
        :param before: an audit of the same world, whose attacks are kept.
        """
        left = {"left": self.left(world.entities.column("description"), spans)}
        return left | {"audit": self.audit(world, name, before)} if self.prepared else left

    def left(self, descriptions: pa.ChunkedArray, spans: Spans) -> dict[str, int]:
        """Count mentions of each of :data:`LEFT` in a world. :param spans: inserted text."""
        if not len(self._materials.described):
            return dict.fromkeys(LEFT, 0)
        key = _digest(descriptions) + hashlib.blake2b(np.stack(spans).tobytes()).digest()
        if key not in self._left:
            self._left[key] = self._remaining.count(descriptions, spans)
        return dict(self._left[key])

    @cached_property
    def _remaining(self) -> RemainingMentions:
        return RemainingMentions(self._materials.forms, self._materials.options.shortest_mention)

    def audit(self, world: KnowledgeGraph, name: str, before: Mapping[str, Json] | None = None) -> Json:
        """Measure how many entities of a world are re-identified; keep attacks of an audit *before*."""
        recipe = f"{self._recipe}|world:{name}"
        descriptions = dict((before or {}).get("descriptions", {}))
        for attacker in (*ATTACKS, *(reader.name for reader in self.readers)):
            descriptions[attacker] = self._by_description(attacker, world, name, recipe)
        names = {"names": self._by_name(world, recipe)} | self._by_type(recipe)
        return names | {"descriptions": descriptions, "strongest": strongest(descriptions)}

    def _by_name(self, world: KnowledgeGraph, recipe: str) -> Json:
        """Guess by name: one that is unchanged re-identifies its entity; entities of one name share the hit.

        Predictors read the id of an entity without a name (:class:`fathom_kgc.links.texts.GraphTexts`), which worlds
        keep.
        """
        old, new = _names_or_ids(self.source), _names_or_ids(world)
        bearers = Counter(old)
        hits = np.array([(name == before) / bearers[before] for name, before in zip(new, old, strict=True)])
        return _share(hits, UNNAMED, f"hits@1|{recipe}|attack:name|ties:expected|fathom:{VERSION}")

    def _by_type(self, recipe: str) -> Json:
        """Guess among the entities of a type, which worlds keep. Return {} for a graph without types."""
        if "type" not in self.source.entities.column_names:
            return {}
        types = self.source.entities.column("type")
        kinds = types.filter(pc.not_equal(types, "")).combine_chunks().dictionary_encode().indices.to_numpy()
        same = np.bincount(kinds)[kinds]
        recipe, n = f"{recipe}|attack:type|ties:expected|fathom:{VERSION}", len(kinds)
        hits = {f"hits@{k}": _share(hits_at_k(np.ones(n), same, k), UNTYPED, f"hits@{k}|{recipe}") for k in CUTOFFS}
        return {"types": hits | {f"chance@{k}": min(k, n) / max(n, 1) for k in CUTOFFS}}

    def _by_description(self, attacker: str, world: KnowledgeGraph, name: str, recipe: str) -> Json:
        n = len(self._materials.described)
        recipe = f"{recipe}|attack:{attacker}|candidates:{n}|ties:expected|fathom:{VERSION}"
        if not n:
            return {f"hits@{k}": _share(np.zeros(0), UNDESCRIBED, f"hits@{k}|{recipe}") for k in CUTOFFS}
        chosen = choose(n, ATTACKED)
        texts = take_rows(world.entities.column("description"), self._materials.described[chosen])
        key = (attacker, _digest(texts))
        if key not in self._hits:
            attack = self._trained(name) if attacker == TrainedRanking.name else self._attacks[attacker]
            places = attack.places(texts.to_pylist(), chosen)
            self._hits[key] = [places.hits(k) for k in CUTOFFS]
        by_k = zip(CUTOFFS, self._hits[key], strict=True)
        shares = {f"hits@{k}": _share(hits, UNDESCRIBED, f"hits@{k}|{recipe}") for k, hits in by_k}
        return shares | {f"chance@{k}": min(k, n) / n for k in CUTOFFS}

    def _trained(self, world: str) -> TrainedRanking:
        """Train on two worlds of the construction of *world* with other seeds."""
        [(construction, parts)] = parse_variants([world])
        parts = parts.replace("r", "")  # which leaves descriptions as they are
        variant, materials, others = Variant(construction, parts) if parts else BASE, self._materials, []
        for seed in (materials.seed + 1, materials.seed + 2):
            materials = materials.with_seed(seed)
            others.append(self._texts(make_world(variant, materials).graph))
        return TrainedRanking(*self._similarities, others)

    def _texts(self, graph: KnowledgeGraph) -> list[str]:
        texts: list[str] = take_rows(graph.entities.column("description"), self._materials.described).to_pylist()
        return texts


def _names_or_ids(graph: KnowledgeGraph) -> list[str]:
    columns = (graph.entities.column(name).to_pylist() for name in ("name", "id"))
    return [name.strip() or id_ for name, id_ in zip(*columns, strict=True)]


def _share(hits: Floats, reason: str, recipe: str) -> Json:
    return (mean(hits, ENTITY, recipe) if len(hits) else point_estimate(reason, recipe)).plain()


def _digest(texts: pa.ChunkedArray) -> bytes:
    letters, lengths = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)
    for part in blocks(texts):
        letters.update(part.data.tobytes())
        lengths.update(np.diff(part.starts).tobytes())
    return letters.digest() + lengths.digest()


def left_table(manifests: Sequence[Json]) -> list[Table]:
    """Tabulate remaining mentions by world; no table if no manifest has them."""
    if not any("left" in manifest for manifest in manifests):
        return []
    rows = [(manifest["world"], *(manifest.get("left", {}).get(kind) for kind in LEFT)) for manifest in manifests]
    notes = ["short: of fewer characters than are searched for; other case: found if case is ignored in all names"]
    if lacking := [manifest["world"] for manifest in manifests if "left" not in manifest]:
        notes.append(f"built by an earlier version, without this table: {', '.join(lacking)}; {REMEDY}")
    title = "worlds: mentions of entities that are left"
    return [Table(("world", *LEFT), tuple(rows), title=title, notes=tuple(notes))]


def audit_table(manifests: Sequence[Json]) -> Table:
    """Tabulate re-identified entities by world and attack."""
    rows: list[list[Cell | Estimate]] = []
    found: dict[str, tuple[str, float]] = {}
    for manifest in manifests:
        world, audit = manifest["world"], manifest.get("audit")
        if audit is None:
            rows.append([world, "not audited", None, None, None, None])
            continue
        rows.append([world, "name", _estimate(audit["names"]), None, None, _estimate(audit["names"]).n])
        if best := strongest(audit["descriptions"]):
            found[world] = best, _rate(audit["descriptions"][best])
        attacks = {f"description, {attacker}": shares for attacker, shares in audit["descriptions"].items()}
        for attack, shares in (({"type": audit["types"]} if "types" in audit else {}) | attacks).items():
            first, among = (_estimate(shares[f"hits@{k}"]) for k in CUTOFFS)
            rows.append([world, attack, first, among, shares.get("chance@1"), first.n])
    typed = any(row[1] == "type" for row in rows)
    by = "name, by its type (a guess among those of the type)," if typed else "name"
    notes = [f"hits@k: the entity itself is among the first k by its {by} or by its description"]
    worlds_by_rate: dict[str, list[str]] = {}
    for world, (attack, rate) in found.items():
        worlds_by_rate.setdefault(f"{rate:.1%} by {attack}", []).append(world)
    if found:
        listed = (f"{', '.join(worlds)} {rate}" for rate, worlds in worlds_by_rate.items())
        notes.append(f"strongest attack by description: {'; '.join(listed)}")
    if unhidden := [world for world, (_, rate) in found.items() if rate >= HIDDEN and world != "base"]:
        notes.append(f"descriptions cannot hide entities ({HIDDEN:.0%} or more) in {', '.join(unhidden)}; {RANDOM}")
    if lacking := [str(row[0]) for row in rows if row[1] == "not audited"]:
        notes.append(f"not audited: {', '.join(lacking)}; {REMEDY}")
    title = "worlds: entities re-identified from their texts"
    columns = ("world", "attack", "hits@1", "hits@10", "chance", "entities")
    return Table.of(rows, title, notes, columns=columns, main="hits@1", formats={"chance": ".2g"})


def strongest(descriptions: Mapping[str, Json]) -> str | None:
    """Return the attack that re-identifies most entities by their descriptions; None if there is none to attack."""
    rates = {attack: _rate(shares) for attack, shares in descriptions.items() if _rate(shares) is not None}
    return max(rates, key=rates.__getitem__) if rates else None


def _rate(shares: Json) -> Any:
    return shares["hits@1"]["value"]


def _estimate(plain: Json) -> Estimate:
    value = float("nan") if plain["value"] is None else plain["value"]
    return Estimate(**(plain | {"value": value}), form=".1%")
