"""The analysis of ``fathom demo``: what a model knows, its confident mistakes, and where ranking and writing differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fathom.results.answers import error_table
from fathom.results.facts import names_of
from fathom.results.rows import Rows
from fathom.results.summary import summarise
from fathom.results.tables import Table
from fathom.store.folder import RunFolder

MISTAKES, EXAMPLES = 10, 3


class Answer(NamedTuple):
    """A model's answer to a fact. :param text: the first-ranked name, or what was written."""

    subject: str
    relation: str
    gold: str
    text: str
    is_right: bool


class Findings(NamedTuple):
    """:param sentences: accuracy, interval and baselines. :param tables: in the order in which readers see them."""

    sentences: list[str]
    tables: list[Table]


def analyse(ranking: RunFolder, *writing: RunFolder) -> Findings:
    """:param writing: the run in which the model wrote answers, if it can write."""
    summary, ranked = summarise(ranking, ["relation"]), _answers(ranking)
    by_relation = summary.tables[1]
    by_relation = replace(by_relation, hidden=by_relation.hidden | {"scoring", "n", "mrr"})
    tables = [by_relation, _mistakes(ranking, ranked)]
    for run in writing:
        tables += _differences(ranked, _answers(run))
    return Findings(summary.answer, tables)


def _answers(run: RunFolder) -> dict[str, Answer]:
    """Return the answer to each scored fact, by query id."""
    rows = Rows(run)
    names, hits, written = names_of(rows.candidates), rows.hits(1), rows.table.column("answers")
    answers = {}
    for place in rows.of(rows.scorings[0]).tolist():
        if rows.scored[place]:
            query = int(rows.query[place])
            said = written[place].as_py()
            text = names[rows.best(place)[0]] if said is None else " ".join(said)
            golds = ", ".join(names[gold] for gold in rows.gold[query])
            about = rows.asked(place)[1], rows.relations[query], golds
            answers[rows.query_ids[query]] = Answer(*about, text, bool(hits[place] > 1 / 2))
    return answers


def _mistakes(run: RunFolder, answers: Mapping[str, Answer]) -> Table:
    wrong = error_table(run, MISTAKES).objects()
    rows = [(row["first_answer"], row["first_probability"], answers[str(row["query"])].gold) for row in wrong]
    return Table(("sentence", "probability", "answer"), tuple(rows), "Most confident mistakes", {"probability": ".0%"})


def _differences(ranked: Mapping[str, Answer], written: Mapping[str, Answer]) -> list[Table]:
    shared = [fact for fact in written if fact in ranked]
    only_ranked = [fact for fact in shared if ranked[fact].is_right and not written[fact].is_right]
    only_written = [fact for fact in shared if written[fact].is_right and not ranked[fact].is_right]
    of_all = f"of {len(shared)} facts queried both ways"
    return [
        _examples(f"Ranked first, but not written: {len(only_ranked)} {of_all}", "writes", only_ranked, written),
        _examples(f"Written, but not ranked first: {len(only_written)} {of_all}", "ranks first", only_written, ranked),
    ]


def _examples(title: str, column: str, facts: Sequence[str], answers: Mapping[str, Answer]) -> Table:
    chosen = [answers[fact] for fact in facts[:: max(1, len(facts) // EXAMPLES)][:EXAMPLES]]
    rows = tuple((one.subject, one.relation, one.gold, one.text) for one in chosen)
    return Table(("subject", "relation", "answer", column), rows, title, notes=() if rows else ("none",))
