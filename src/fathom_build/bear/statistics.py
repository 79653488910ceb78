"""Tables about a probe that was built: what each step left out, the paper's tables 1 and 2, how balanced it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fathom.data.queries import QuerySet
from fathom.data.statistics import CountTokens, majority_share, random_baseline, relation_statistics
from fathom.results.tables import Cell, Table
from fathom_build.bear.balance import ONE_TO_ONE, ChosenRelation
from fathom_build.bear.pools import Log

PUBLISHED: tuple[tuple[Cell, ...], ...] = (
    ("BEAR-big (published)", 40_916, 78, 14, 64, 596.9),
    ("BEAR (published)", 7_731, 60, 14, 46, 149.8),
)
"""Rows of table 2 of Wiland et al. 2024, whose average excludes the 1:1 relations."""
_TABLE_2 = ("instances", "relations", "1:1 relations", "N:1 relations", "instances per N:1 relation")


def sizes(chosen: Mapping[str, Sequence[ChosenRelation]]) -> Table:
    """Tabulate the sizes of each variant next to the published values (table 2 of the paper).

    :param chosen: relations of each variant, the infeasible ones left out.
    """
    rows: list[tuple[Cell, ...]] = []
    for name, relations in chosen.items():
        single = sum(one.cardinality == ONE_TO_ONE for one in relations)
        many = [one.total for one in relations if one.cardinality != ONE_TO_ONE]
        mean = sum(many) / len(many) if many else None
        rows.append((name, sum(one.total for one in relations), len(relations), single, len(many), mean))
    note = "the average of BEAR's N:1 relations as the paper's table 2 has it"
    formats = {_TABLE_2[-1]: ".1f"}
    return Table(("variant", *_TABLE_2), (*rows, *PUBLISHED), "sizes (table 2)", formats=formats, notes=(note,))


def by_relation(variant: str, relations: Iterable[ChosenRelation]) -> Table:
    """Tabulate the configuration of each relation, and why those that are left out are infeasible."""
    rows = tuple((one.relation, one.cardinality, one.configuration, one.total, one.why or None) for one in relations)
    columns = ("relation", "cardinality", "answers × instances", "instances", "infeasible")
    return Table(columns, rows, f"relations of {variant}").without_empty("infeasible")


def balance(variant: str, data: QuerySet, count_tokens: CountTokens | None) -> Table:
    """Tabulate which answers are one token (table 1 of the paper), and how even the answers are.

    :param count_tokens: of each text; None leaves table 1 out.
    """
    single = ("one token", "one token after a space") if count_tokens is not None else ()
    rows: list[tuple[Cell, ...]] = []
    for entry in relation_statistics(data, count_tokens):
        answers = Counter(query.gold[0] for query in data.by_relation()[entry.relation])
        rows.append((entry.relation, entry.instances, entry.candidates, evenness(answers), entry.baseline,
                     entry.majority, *(entry.single_token or ())))  # fmt: skip
    queries = list(data.queries)
    means = [sum(float(row[place] or 0) for row in rows) / len(rows) for place in range(6, 6 + len(single))]
    largest = sum(majority_share(of) * len(of) for of in data.by_relation().values()) / len(queries)
    rows.append(("all", len(queries), None, None, random_baseline(data, queries), largest, *means))
    columns = ("relation", "instances", "answers", "balance", "random", "majority", *single)
    note = "balance: entropy of the answers divided by its greatest, 1 where all are equally frequent"
    formats = {"balance": ".3f"} | dict.fromkeys(("random", "majority", *single), ".1%")
    return Table(columns, tuple(rows), f"answers of {variant} (table 1)", formats=formats, notes=(note,))


def evenness(answers: Mapping[str, int]) -> float:
    """Return the entropy of the answers ÷ the greatest that so many answers can have; 1 for a single answer."""
    total = sum(answers.values())
    shares = [count / total for count in answers.values() if count]
    return -sum(share * math.log(share) for share in shares) / math.log(len(shares)) if len(shares) > 1 else 1.0


def left_out(log: Log, facts: Mapping[str, int], taken: Mapping[str, int]) -> Table:
    """Tabulate what was left out of all relations together, by reason.

    :param facts: of each relation, before any filter.
    :param taken: instances of each relation in the largest variant.
    """
    reasons: Counter[str] = Counter()
    relations: Counter[str] = Counter()
    for (_, why), count in log.counts.items():
        reasons[why] += count
        relations[why] += count > 0
    rows: list[tuple[Cell, ...]] = [("facts that count", sum(facts.values()), len(facts))]
    rows += [(f"left out: {why}", count, relations[why]) for why, count in reasons.items() if count]
    rows.append(("instances of the largest variant", sum(taken.values()), sum(map(bool, taken.values()))))
    return Table(("step", "facts", "relations"), tuple(rows), "from facts to instances")
