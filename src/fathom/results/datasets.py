"""Tables about data sets, and about the small models that can be fetched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fathom.data.fetch_model import PackagedModel, model_folder
from fathom.data.graph.leakage import LISTED, answers_in_descriptions, relations_per_entity
from fathom.data.graph.queries import GraphQuerySet, TripleQueries
from fathom.data.graph.seen import HALVES, Training, training_of
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.published import cache_root, catalogue, fetched
from fathom.data.queries import Query, QuerySet, relation_labels
from fathom.data.selection.pools import DATA, pooled
from fathom.data.selection.readings import ReadingCounts, asked
from fathom.data.statistics import graph_relations, graph_statistics, random_baseline, relation_statistics
from fathom.results.tables import Cell, Table

_SINGLE = ("one token", "one token after a space")


def readable_table(embedded: Mapping[str, QuerySet]) -> Table:
    """List the data sets that Fathom reads. :param embedded: those that come with it, by name."""
    bundled = (
        (name, "", f"{len(data.queries):,} facts, {len(data.relations)} relations", "with Fathom", data.licence,
         f"fathom data info {name}", "native", None)
        for name, data in embedded.items()
    )  # fmt: skip
    others = (
        (entry.name, entry.paper, entry.size, entry.home.removeprefix("https://"), entry.licence, entry.preparation,
         entry.format, str(folder) if folder else None)
        for entry, folder in ((entry, fetched(entry.name)) for entry in catalogue().values())
    )  # fmt: skip
    return Table(
        ("data set", "paper", "size", "published at", "licence", "make ready", "format", "fetched"),
        (*bundled, *others),
        title="data sets that Fathom reads",
        hidden=frozenset({"format", "fetched"}),
        notes=(
            "make ready: fetched by name, or checked in the downloaded folder; --data takes that name or path",
            "also: folders of your own facts, plain triples, KG-BERT's layout, OpenKE's, RDF (docs/data-format.md)",
        ),
    )


def packaged_table(models: Mapping[str, PackagedModel]) -> Table:
    """Tabulate the catalogue: licence, size, and the folder if the model was fetched."""
    folders = {name: model_folder(name) for name in models} if cache_root() is not None else {}
    fetched_to = {name: str(folder) for name, folder in folders.items() if folder.is_dir()}
    return Table(
        ("name", "model", "licence", "download", "fetched"),
        tuple((name, entry.about, entry.licence, entry.size, fetched_to.get(name)) for name, entry in models.items()),
        title="small models",
        notes=("fathom model fetch NAME; any other model of transformers: --model NAME, FOLDER or FILE.gguf",),
    )


def sample_table(manifest: Mapping[str, Any]) -> Table:
    """Tabulate the sizes of the part and of the whole.

    :param manifest: as ``manifest.json`` has it.
    """
    whole = manifest["source"]
    rows = [(name, manifest[name], whole[name]) for name in ("entities", "relations", "triples")]
    rows += [(split, manifest["splits"].get(split, 0), count) for split, count in whole["splits"].items()]
    return Table(("", "kept", "of"), tuple(rows), notes=tuple(manifest["notes"]))


def data_tables(queryset: QuerySet, count_tokens: Callable[[list[str]], list[int]] | None = None) -> list[Table]:
    """Return totals, then one row per relation. :param count_tokens: adds the share of answers of one token."""
    if isinstance(queryset, GraphQuerySet) and isinstance(queryset.queries, TripleQueries):
        counts = tuple(graph_statistics(queryset).items())
        totals = Table(("what", "count"), counts, title=_title(queryset), notes=queryset.notes)
        return [totals, _graph_relations(queryset.queries, count_tokens)]
    readings = [readings_table(queryset)] if queryset.has_sentences else []
    return [_totals(queryset), *readings, _relations(queryset, count_tokens)]


def readings_table(queryset: QuerySet) -> Table:
    """Count the facts and sentences of each reading, in all and by relation."""
    by_relation = asked(queryset)
    rows = [(relation, *counts) for relation, counts in by_relation.items()]
    if len(rows) > 1:
        rows.insert(0, ("all", *ReadingCounts.total(by_relation.values())))
    return Table(
        ("relation", "facts", "by template", "by sentence", "sentences", "by any sentence", "any sentences"),
        tuple(rows),
        title="readings",
        notes=(
            "by sentence: facts with a sentence in which the answer's name itself is masked (the default: the first is "
            "asked); sentences: how many there are (--sentences all)",
            "any: with --any-surface, regardless of which words are masked",
        ),
    )


def _totals(queryset: QuerySet) -> Table:
    cardinalities = sorted({query.groups.get("cardinality", "") for query in queryset.queries} - {""})
    parts: list[tuple[str, QuerySet, list[Query]]] = [("all", queryset, list(queryset.queries))]
    parts += [
        (name, queryset, [query for query in queryset.queries if query.groups.get("cardinality") == name])
        for name in cardinalities
    ]
    parts += [
        (f"subset {name}", queryset, [query for query in queryset.queries if query.id in ids])
        for name, ids in queryset.subsets.items()
    ]
    rows = (
        (
            name,
            len(queries),
            len({query.relation for query in queries}),
            len(queries) / max(1, len({query.relation for query in queries})),
            sum(query.unscored is not None for query in queries),
            random_baseline(data, queries),
        )
        for name, data, queries in (*parts, *_pooled(queryset))
    )
    return Table(
        ("part", "instances", "relations", "per relation", "unscored", "random baseline"),
        tuple(rows),
        title=_title(queryset),
        formats={"random baseline": ".2%", "per relation": ",.1f"},
        notes=tuple(map(_shortened, queryset.notes)),
    )


def _pooled(queryset: QuerySet) -> list[tuple[str, QuerySet, list[Query]]]:
    """Return the queries of the cloze probe's default pool, if the data set has sentences."""
    if not queryset.has_sentences or len(queryset.candidates) < 2:
        return []
    data, queries, _ = pooled(queryset, queryset.queries, DATA, None)
    return [(f"all, --pool {DATA} (the cloze probe's default)", data, list(queries))]


def _shortened(note: str, length: int = 300) -> str:
    return note if len(note) <= length else f"{note[:length].rsplit(' ', 1)[0]} … (all of it: fathom data check)"


def _title(queryset: QuerySet) -> str:
    version = f" {queryset.version}" if queryset.version else ""
    return f"{queryset.name}{version}, content {queryset.content_hash}, licence: {queryset.licence}"


def _graph_relations(queries: TripleQueries, count_tokens: Callable[[list[str]], list[int]] | None) -> Table:
    single = _SINGLE if count_tokens is not None else ()
    relations = graph_relations(queries, count_tokens)
    return Table(
        ("relation", "name", "cardinality", "triples", "queries", "answers", "majority", *single),
        tuple((*relation[:-1], *(relation.single_token or ())) for relation in relations),
        title="by relation",
        formats=dict.fromkeys(("majority", *_SINGLE), ".1%"),
        hidden=frozenset({"name"}),
        labels=relation_labels({relation.relation: relation.name for relation in relations}),
        notes=(
            "cardinality, answers and majority are those of the queries; "
            "majority: accuracy of always giving the most frequent answer",
        ),
    )


def _relations(queryset: QuerySet, count_tokens: Callable[[list[str]], list[int]] | None) -> Table:
    rows = [(*line[:-1], *(line.single_token or ())) for line in relation_statistics(queryset, count_tokens)]
    single = _SINGLE if count_tokens is not None else ()
    if single:
        mean = [sum(row[place] for row in rows) / len(rows) for place in (-2, -1)]
        rows.append(("mean of relations", "", "", None, None, None, None, None, *mean))
    return Table(
        ("relation", "cardinality", "domains", "instances", "answers", "templates", "random", "majority", *single),
        tuple(rows),
        title="by relation",
        formats=dict.fromkeys(("random", "majority", *_SINGLE), ".1%"),
        notes=("random: accuracy of a random answer; majority: of always giving the most frequent one",),
    )


def leakage_tables(graph: KnowledgeGraph) -> list[Table]:
    """Return what a knowledge graph reveals without inference: tables 3 and 4 of Sakai et al. (NAACL 2024), and halves
    of triples seen in training."""
    training = training_of(graph)
    halves = [] if training is None else [_halves(graph, training)]
    return [_relations_per_entity(graph), _answers_in_descriptions(graph), *halves]


def _halves(graph: KnowledgeGraph, training: Training) -> Table:
    parts = {name: Counter(training.halves(np.arange(part.start, part.stop))) for name, part in graph.splits.items()}
    rows: list[tuple[Cell, ...]] = [
        (half, *(counts[half] / max(counts.total(), 1) for counts in parts.values())) for half in HALVES
    ]
    return Table(
        ("seen in training", *parts),
        (*rows, ("triples", *(counts.total() for counts in parts.values()))),
        title="halves of triples",
        formats=dict.fromkeys(parts, ".2%"),
        notes=(
            "of (h, r, t): whether other training triples have the head, or the tail, with the relation; "
            "fathom kgc evaluate distinguishes these",
        ),
    )


def _relations_per_entity(graph: KnowledgeGraph) -> Table:
    splits = relations_per_entity(graph)
    labels = [*map(str, range(1, LISTED + 1)), "more"]
    rows: list[tuple[Cell, ...]] = [
        (label, *(part.shares[place] for part in splits.values())) for place, label in enumerate(labels)
    ]
    return Table(
        ("distinct relations", *splits),
        (*rows, ("pairs", *(part.pairs for part in splits.values()))),
        title="relations per entity",
        formats=dict.fromkeys(splits, ".2%"),
        notes=("share of all pairs of an entity and a side (head or tail) with that many distinct relations",),
    )


def _answers_in_descriptions(graph: KnowledgeGraph) -> Table:
    splits = answers_in_descriptions(graph)
    notes = [
        "of all queries, (h, r, ?) and (?, r, t): the description of the given entity contains the answer's name "
        "in the same case"
    ]
    if not splits["total"].described:
        notes.append("no entity has a description: entity2textlong.txt, or a third column in entity2text.txt")
    return Table(
        ("the answer's name", *splits),
        (
            ("as a sub-string", *(part.substring for part in splits.values())),
            ("on word boundaries", *(part.word for part in splits.values())),
            ("queries", *(part.queries for part in splits.values())),
            ("about an entity with a description", *(part.described for part in splits.values())),
        ),
        title="answers in descriptions",
        formats=dict.fromkeys(splits, ".2%"),
        notes=tuple(notes),
    )
