"""Single answers of a run: confident mistakes, consistency, a preferred position, data frames."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import bdtrc

from fathom.base.errors import BadInput
from fathom.data.templates import ANSWER, capitalized
from fathom.results.estimates import Estimate, mean, point_estimate, recipe
from fathom.results.facts import names_of
from fathom.results.metrics.confidence import softmax
from fathom.results.metrics.ranking import consistency, rankc, rankc_by_chance, top_chances
from fathom.results.metrics.significance import LEVEL
from fathom.results.rows import NONE, Floats, Ints, Rows, grouped
from fathom.results.samples import RELATION
from fathom.results.tables import Cell, Table
from fathom.store.folder import RunFolder
from fathom.store.predictions import KEEP_SCORES_UP_TO

NO_SCORES = "no confidence: no prediction has log-likelihoods of all candidates"

_OPTIONS = re.compile(r"\s+\(a\) .*, \(b\) .*")
"""The options after a question: "(a) bank, (b) work"."""


def confident(rows: Rows, scoring: str) -> Ints:
    """Return the places of the predictions of *scoring* whose confidence is known."""
    places = rows.of(scoring)
    return places[~np.isnan(rows.confidence.top_probability[places])]


def error_table(run: RunFolder, count: int) -> Table:
    """List the most confident wrong predictions of each scoring (as table 5 of Wiland et al. 2024).

    One row per query and template: the preferred and the right statement, each with its rank among all candidates and
    its softmax probability. Of a few-shot prompt, only the question is shown. Wrong predictions have an expected Hits@1
    of 0. Ranks are unfiltered, so the first answer may be another known one. Of tied answers the one with the smallest
    id is shown. Written answers have no confidence: the first wrong ones are listed.

    :param count: number of predictions per scoring.
    """
    rows = Rows(run)
    body: list[tuple[Cell, ...]] = []
    is_known = any(len(confident(rows, name)) for name in rows.scorings)
    if not is_known and (written := _list_written(rows, count)):
        columns = ("scoring", "relation", "subject", "written", "gold")
        return Table(
            columns,
            tuple(written),
            "Wrong written answers",
            notes=("the first in the run; –: none written",),
            labels=rows.declared.relations,
        )
    for name in rows.scorings:
        places = confident(rows, name)
        wrong = places[rows.hits(1)[places] == 0].tolist()
        sure = rows.confidence.top_probability
        wrong.sort(key=lambda place: (-sure[place], rows.query_ids[rows.query[place]], rows.template[place]))
        body += [_error(rows, place) for place in wrong[:count]]
    why_unknown = (
        f"{NO_SCORES}; a run without --max-rank keeps those of up to {KEEP_SCORES_UP_TO:,} candidates: see the best "
        f"answers in the report (fathom report {run.path}), or probe with fewer, such as --pool relation"
    )
    which = ("scoring", "relation", "query", "template")
    first = ("first_answer", "first_rank", "first_probability")
    return Table(
        (*which, *first, "gold", "gold_rank", "gold_probability", "uncertainty"),
        tuple(body),
        "Most confident wrong answers",
        dict.fromkeys(("first_probability", "gold_probability", "uncertainty"), ".4f")
        | dict.fromkeys(("first_rank", "gold_rank"), "g"),
        hidden=frozenset({"relation", "query", "template", "first_rank", "gold_probability", "uncertainty"}),
        notes=() if body else ("no wrong prediction" if is_known else why_unknown,),
    )


def _list_written(rows: Rows, count: int) -> list[tuple[Cell, ...]]:
    """List the first predictions of each scoring whose written answers are all wrong."""
    names, answers = names_of(rows.candidates), rows.table.column("answers")
    body: list[tuple[Cell, ...]] = []
    for scoring in rows.scorings:
        for place in [place for place in rows.of(scoring).tolist() if rows.correct[place] == 0][:count]:
            query = int(rows.query[place])
            golds = "; ".join(names.get(gold, gold) for gold in rows.gold[query])
            written = "; ".join(answers[place].as_py() or ()) or None
            body.append((scoring, rows.relations[query], rows.asked(place)[1], written, golds))
    return body


def _error(rows: Rows, place: int) -> tuple[Cell, ...]:
    query, scores = int(rows.query[place]), rows.scores(place)
    space = rows.spaces[query]
    assert space is not None  # rows.confidence holds only predictions with candidates
    ids, names = rows.candidates[space]
    first = min(np.flatnonzero(scores == scores.max()).tolist(), key=lambda at: ids[at])
    gold = max(rows.gold_places(place), key=lambda at: float(scores[at]))
    probabilities, prompt = softmax(scores), _sentence(rows, place)
    capitalize = rows.identity.get("options", {}).get("capitalize", True)
    cells: list[Cell] = [rows.scoring[place], rows.relations[query], rows.query_ids[query], int(rows.template[place])]
    for answer in (first, gold):
        text = prompt.replace(ANSWER, names[answer])
        better, equal = (np.count_nonzero(mask) for mask in (scores > scores[answer], scores == scores[answer]))
        cells += [
            capitalized(text) if capitalize and prompt.startswith(ANSWER) else text,
            float(better + (equal + 1) / 2),
            float(probabilities[answer]),
        ]
    return (*cells, float(rows.confidence.uncertainty[place]))


def _sentence(rows: Rows, place: int) -> str:
    """Return the question of a prompt, or the triple if a link predictor's text has no place for the answer."""
    prompt, subject = rows.asked(place)
    query = int(rows.query[place])
    relation = rows.declared.shown(RELATION, rows.relations[query])
    triple = {"tail": f"({subject}, {relation}, {ANSWER})", "head": f"({ANSWER}, {relation}, {subject})"}
    return (
        question_in(prompt, subject) if ANSWER in prompt else triple.get(rows.directions[query] or "", prompt or ANSWER)
    )


def question_in(prompt: str, subject: str) -> str:
    """Return a prompt without the few-shot lines before its question and the lettered options after it."""
    lines = prompt.split("\n")
    answer = next(place for place, line in enumerate(lines) if ANSWER in line)
    start = max((place for place, line in enumerate(lines[: answer + 1]) if subject in line), default=answer)
    return _OPTIONS.sub("", "\n".join(lines[start:]))


# --- whether a model prefers a position among the options of multiple-choice questions


class PreferredPosition(NamedTuple):
    """A position that is chosen too often.

    :param letter: of the option there.
    :param times: how often it was chosen, of *choices*.
    """

    letter: str
    times: int
    choices: int

    def __str__(self) -> str:
        return (
            f"({self.letter}) was chosen {self.times:,} of {self.choices:,} times, whether right or wrong: the model "
            "prefers that position (--orders shows options in several)."
        )


def preferred_position(rows: Rows, asked: Ints) -> PreferredPosition | None:
    """Return the position that takes more than its share of choices, None if no position does significantly.

    :param asked: predictions of one scoring.
    """
    if not {"letters", "gold_letters"} <= set(rows.table.column_names):
        return None
    columns = (rows.table[name].take(asked).to_pylist() for name in ("letters", "gold_letters"))
    sizes = rows.number_of_candidates[asked].tolist()
    choices = [
        (letter, gold, int(size))
        for letters, golds, size in zip(*columns, sizes, strict=True)
        for letter, gold in zip(letters or (), golds or (), strict=True)
        if letter is not None
    ]
    counts = Counter(letter for letter, *_ in choices)
    if not counts:
        return None
    letter, p_value = min(_p_values(choices).items(), key=lambda item: item[1], default=("", 1.0))
    return PreferredPosition(letter, counts[letter], len(choices)) if p_value < LEVEL else None


def _p_values(choices: Sequence[tuple[str, str, int]]) -> dict[str, float]:
    """Return how surprising the wrong choices of each position are, by Bonferroni over the positions.

    Without a preference a wrong choice is any wrong option's position. Right choices say nothing: their position is
    that of the gold answer.

    :param choices: letter, gold letter and number of options.
    """
    wrong = [(letter, gold, size) for letter, gold, size in choices if letter != gold and size > 2]
    p_values = {}
    for position in dict.fromkeys(letter for letter, *_ in wrong):
        possible = [(letter, size) for letter, gold, size in wrong if gold != position]
        count = sum(letter == position for letter, _ in possible)
        chance = sum(1 / (size - 1) for _, size in possible) / len(possible)
        positions = max(size for *_, size in wrong)
        p_values[position] = min(1.0, positions * float(bdtrc(count - 1, len(possible), chance)))
    return p_values


# --- predictions as a table with few columns and names instead of ids, for data frames


def tidy_table(run: RunFolder) -> pa.Table:
    """Return one row per prediction, in the order of the run; :meth:`fathom.Result.to_pandas` has the columns."""
    rows = Rows(run)
    places = range(len(rows.query))
    queries = rows.query.tolist()

    def named(query: int, ids: Sequence[str]) -> str:
        name_by_id = rows.names.get(rows.spaces[query] or "", {})
        return "; ".join(name_by_id.get(id_, id_) for id_ in ids)

    columns: dict[str, Sequence[Any]] = {
        "query_id": [rows.query_ids[query] for query in queries],
        "relation": rows.relation_of(),
        "direction": [rows.directions[query] for query in queries],
        "template": rows.template.tolist(),
        "scoring": rows.scoring,
        "subject": [rows.asked(place)[1] for place in places],
        "prompt": [rows.asked(place)[0] for place in places],
        "gold": [named(query, rows.gold[query]) for query in queries],
        "first_answer": [_first_answer(rows, place, named) for place in places],
        "correct": _numbers(rows.hits(1)),
        "rank": _numbers(rows.rank),
        "gold_score": [max(scores or (), default=None) for scores in rows.table.column("gold_scores").to_pylist()],
        "confidence": _numbers(rows.confidence.top_probability),
        "candidates": rows.number_of_candidates.astype(np.int64).tolist(),
        "unscored": rows.reason,
    }
    if not any(columns["direction"]):
        del columns["direction"]
    kinds = {"template": pa.int64(), "candidates": pa.int64()}
    kinds |= dict.fromkeys(("correct", "rank", "gold_score", "confidence"), pa.float64())
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])  # a column may be empty
    return pa.table({name: list(values) for name, values in columns.items()}, schema=schema)


def _first_answer(rows: Rows, place: int, named: Callable[[int, Sequence[str]], str]) -> str | None:
    if not rows.scored[place]:
        return None
    if best := sorted(rows.top_answers(place)):
        return named(int(rows.query[place]), best[:1])
    written = rows.table.column("answers")[place].as_py() if "answers" in rows.table.column_names else None
    return written[0] if written else None


def _numbers(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


# --- consistency over paraphrases of a fact


TEMPLATE, ALL = "template", "all pairs"


class _Ranking(NamedTuple):
    """One prediction. :param ids: of its candidates, in the order of *best*."""

    ids: tuple[str, ...]
    best: Floats
    tops: frozenset[str]


_Compared = tuple[float, ...]
"""RankC, RankC by chance, and how often the first answer is the same."""


def consistency_table(run: RunFolder, over: str, cluster: str = "") -> Table:
    """Return a line for all pairs (the mean of each fact's), then one for each two values of a key.

    Paraphrases are the templates of a query, or queries of one ``fact_id`` that differ in a key, such as language
    (BMLAMA) or prompt (CounterFact). RankC (Qi, Fernández and Bisazza 2023) compares whole rankings. Its control is
    RankC of independent rankings, which is high with few candidates.

    :param over: "template", or a key of the queries' groups.
    :raises BadInput: the queries have no such key.
    """
    rows = Rows(run, cluster=cluster)
    if over != TEMPLATE and over not in rows.keys:
        raise BadInput(
            f"--consistency {over}: the queries have no such key; there is {', '.join((TEMPLATE, *rows.keys))}"
        )
    body: list[dict[str, Cell | Estimate]] = []
    notes = ["by chance: RankC of rankings that have nothing to do with each other; same answer: the same first answer"]
    for scoring in rows.scorings:
        asked, unlike = _asked(rows, scoring, over)
        pairs = _pairs(asked)
        body += _lines(rows, scoring, over, pairs)
        if unlike:
            notes.append(f"{scoring}: facts whose candidates differ: {unlike:,}, left out")
        if not pairs:
            notes.append(f"{scoring}: no fact has two rankings of the same candidates, with all their scores")
    title = f"Consistency over {over}"
    hidden = ("scoring",) if len(rows.scorings) == 1 else ()
    return Table.of(body, title, notes, main="RankC", inline=True, hidden=hidden, formats={"by chance": ".3f"})


def _asked(rows: Rows, scoring: str, over: str) -> tuple[dict[int, dict[str, list[_Ranking]]], int]:
    """Return rankings by the first query of the fact and by value, and the number of facts with unlike candidates."""
    rankings: dict[int, dict[str, list[_Ranking]]] = {}
    unlike: set[int] = set()
    for place in rows.of(scoring).tolist():
        query = int(rows.query[place])
        values = [str(rows.template[place])] if over == TEMPLATE else rows.values_of(query, over)
        ranking = _ranking(rows, place)
        if ranking is None or values == [NONE]:
            continue
        fact = query if over == TEMPLATE else int(rows.unit[query])
        by_value = rankings.setdefault(fact, {})
        if any(earlier.ids != ranking.ids for others in by_value.values() for earlier in others):
            unlike.add(fact)
        for value in values:
            by_value.setdefault(value, []).append(ranking)
    return {fact: by_value for fact, by_value in rankings.items() if fact not in unlike}, len(unlike)


def _ranking(rows: Rows, place: int) -> _Ranking | None:
    """Return None unless all candidates have a score; a candidate that cannot be ranked has −∞."""
    scores, space = rows.scores(place), rows.spaces[int(rows.query[place])]
    if not rows.scored[place] or space is None or not len(scores) or not np.isfinite(scores).all():
        return None
    ids = rows.candidates[space][0]
    order = sorted(range(len(ids)), key=ids.__getitem__)  # languages may list them in other orders
    return _Ranking(tuple(ids[at] for at in order), top_chances(scores[order]), rows.top_answers(place))


def _pairs(asked: Mapping[int, Mapping[str, Sequence[_Ranking]]]) -> dict[tuple[str, str], dict[int, _Compared]]:
    """Compare each two values, in order of appearance, by fact."""
    values = dict.fromkeys(value for by_value in asked.values() for value in by_value)
    pairs = {
        pair: {
            fact: _compared(*(by_value[value] for value in pair))
            for fact, by_value in asked.items()
            if {*pair} <= by_value.keys()
        }
        for pair in combinations(values, 2)
    }
    return {pair: compared for pair, compared in pairs.items() if compared}


def _compared(first: Sequence[_Ranking], second: Sequence[_Ranking]) -> _Compared:
    """Average over each ranking of the one and each of the other."""
    both = [(left, right) for left in first for right in second]
    return (
        float(np.mean([rankc(left.best, right.best) for left, right in both])),
        rankc_by_chance(len(first[0].ids)),
        float(consistency([[left.tops, right.tops] for left, right in both]).mean()),
    )


def _lines(
    rows: Rows, scoring: str, over: str, pairs: Mapping[tuple[str, str], Mapping[int, _Compared]]
) -> list[dict[str, Cell | Estimate]]:
    every = grouped((fact, numbers) for compared in pairs.values() for fact, numbers in compared.items())
    means = {fact: tuple(np.mean(of_fact, axis=0).tolist()) for fact, of_fact in every.items()}
    lines = [_line(rows, scoring, over, (ALL, ""), means)] if len(pairs) != 1 else []
    return [*lines, *(_line(rows, scoring, over, pair, compared) for pair, compared in pairs.items())]


def _line(
    rows: Rows, scoring: str, over: str, pair: tuple[str, str], compared: Mapping[int, _Compared]
) -> dict[str, Cell | Estimate]:
    sample, columns = rows.sample(list(compared)), np.array(list(compared.values())).reshape(-1, 3)
    made = [f"{recipe(rows, name, scoring)}|over:{over}" for name in ("rankc", "same answer")]
    rankc, same = (
        mean(columns[:, place], sample, line, form=form)
        if compared
        else point_estimate("there is no pair", line, form=form)
        for place, line, form in zip((0, 2), made, (".3f", ".1%"), strict=True)
    )
    by_chance = float(columns[:, 1].mean()) if compared else None
    return {
        "scoring": scoring,
        "first": pair[0],
        "second": pair[1],
        "facts": len(compared),
        "RankC": rankc,
        "by chance": by_chance,
        "same answer": same,
    }
