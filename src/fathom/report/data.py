"""Tables about a data set."""

from __future__ import annotations

from collections.abc import Callable

from fathom.data.queries import Query, QuerySet
from fathom.data.statistics import random_baseline, relation_statistics
from fathom.report.tables import Table


def data_tables(queryset: QuerySet, count_tokens: Callable[[list[str]], list[int]] | None = None) -> list[Table]:
    """Totals, then one row per relation. :param count_tokens: adds the share of answers that are one token."""
    return [_totals(queryset), _relations(queryset, count_tokens)]


def _totals(queryset: QuerySet) -> Table:
    cardinalities = sorted({query.groups["cardinality"] for query in queryset.queries})
    parts: list[tuple[str, list[Query]]] = [("all", list(queryset.queries))]
    parts += [(c, [q for q in queryset.queries if q.groups["cardinality"] == c]) for c in cardinalities]
    subsets = [
        (f"subset {name}", [query for query in queryset.queries if query.id in ids])
        for name, ids in queryset.subsets.items()
    ]
    rows = tuple(
        (
            name,
            len(queries),
            len({query.relation for query in queries}),
            sum(query.unscored is not None for query in queries),
            random_baseline(queryset, queries),
        )
        for name, queries in parts + subsets
    )
    version = f" {queryset.version}" if queryset.version else ""
    return Table(
        ("part", "instances", "relations", "cannot be asked", "random baseline"),
        rows,
        title=f"{queryset.name}{version}, content {queryset.content_hash}, licence: {queryset.licence}",
        formats={"random baseline": ".2%"},
        notes=queryset.notes,
    )


def _relations(queryset: QuerySet, count_tokens: Callable[[list[str]], list[int]] | None) -> Table:
    columns = ["relation", "cardinality", "domains", "instances", "answers", "templates", "random", "majority"]
    rows = []
    for found in relation_statistics(queryset, count_tokens):
        rows.append((*found[:-1], *(found.single_token or ())))
    if count_tokens is not None:
        columns += ["one token", "one token after a space"]
        mean = [sum(row[place] for row in rows) / len(rows) for place in (-2, -1)]
        rows.append(("mean of relations", "", "", None, None, None, None, None, *mean))
    return Table(
        tuple(columns),
        tuple(rows),
        title="by relation",
        formats=dict.fromkeys(("random", "majority", "one token", "one token after a space"), ".1%"),
        notes=("random: accuracy of a random answer; majority: of always giving the most frequent one",),
    )
