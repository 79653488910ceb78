"""Checks of a run against itself, as of a folder that comes from somebody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fathom.base.errors import BadInput
from fathom.base.reading import shown
from fathom.engine.scoring.rows import rank_best, top, unfiltered_ranks
from fathom.results.rows import Rows, grouped
from fathom.store.folder import RunFolder

_EDITED = "the run was edited, make it anew"


def verify(run: RunFolder) -> str:
    """Check files against their digests, then ids and bounds of ranks, then ranks against the recorded scores.

    :returns: what was checked.
    :raises BadInput: a file is damaged, or values contradict each other.
    """
    rows, ranked = Rows(run), 0
    _check_facts(rows, run)
    _check_prompts(rows, run)
    for place, query in enumerate(rows.query.tolist()):
        by_scores = _by_scores(rows, place)
        ranked += bool(by_scores)
        for name, (found, expected) in by_scores.items():
            if not np.array_equal(found, expected):
                where = f"{run.path / 'predictions'}: {name} of query {rows.query_ids[query]!r}"
                raise BadInput(f"{where}: {shown(found)}, by its scores {shown(expected)}: {_EDITED}")
    files = f"{len(run.digests()):,} files against their digests" if run.digests() else "no digests were recorded"
    return f"verified: {len(rows.rank):,} predictions, the ranks of {ranked:,} against their scores; {files}"


def _check_facts(rows: Rows, run: RunFolder) -> None:
    """:raises BadInput: a ``fact_id`` is not of its query's subject, relation and gold answer."""
    columns = (rows.fact_ids, rows.subjects, rows.relations, rows.gold, rows.directions, rows.query_ids)
    for fact, subject, relation, gold, direction, query in zip(*columns, strict=True):
        ends = [(subject, answer)[:: 1 if direction == "tail" else -1] for answer in (*gold[:1], "*")]
        if fact and subject and fact not in [f"{head}|{relation}|{tail}" for head, tail in ends]:
            where = f"{run.path / 'queries.parquet'}: fact_id {fact!r} of query {query!r}"
            raise BadInput(f"{where} is not of its subject, relation and gold answer: {_EDITED}")


def _check_prompts(rows: Rows, run: RunFolder) -> None:
    """:raises BadInput: a finished run has not as many predictions as prompts, or queries of other templates."""
    if not run.is_complete():
        return
    work = run.manifest.get("work")
    prompts = sum(sum(by_relation.values()) for by_relation in work["prompts"].values()) if work else None
    for scoring, places in grouped((scoring, place) for place, scoring in enumerate(rows.scoring)).items():
        where = f"{run.path / 'predictions'}: scoring {scoring}"
        if prompts not in (None, len(places)):
            raise BadInput(f"{where} has {len(places):,} predictions, of {prompts:,} prompts: {_EDITED}")
        if rows.natural:
            continue
        templates = grouped((int(rows.query[place]), int(rows.template[place])) for place in places)
        of_relation = grouped((rows.relations[query], frozenset(numbers)) for query, numbers in templates.items())
        for relation, sets in of_relation.items():
            if len(set(sets)) > 1:
                raise BadInput(f"{where}: queries of relation {relation!r} have different templates: {_EDITED}")


def _by_scores(rows: Rows, place: int) -> dict[str, tuple[Any, Any]]:
    """Return the recorded and the expected value of columns that follow from the scores of all candidates.

    :returns: nothing if the prediction has no rank, or the scores or the answers to filter were not recorded.
    """
    query, scores = int(rows.query[place]), np.nan_to_num(rows.scores(place), nan=-np.inf, neginf=-np.inf)
    also_right, best = rows.known[query], rows.best(place)
    if np.isnan(rows.rank[place]) or not len(scores) or also_right is None:
        return {}
    golds = [gold for gold in rows.gold_places(place) if scores[gold] > -np.inf]
    ranks = rank_best(scores, golds, rows.candidate_places(place, also_right))
    ids = rows.candidates[rows.spaces[query] or ""][0]
    gold_ranks = [rank for rank in rows.table.column("gold_ranks")[place].as_py() or () if rank and not np.isnan(rank)]
    highest = [float(scores[at]) for at in top(scores, ids, len(best))]
    return {
        "top_scores": (rows.table.column("top_scores")[place].as_py(), highest),
        "rank_optimistic": (float(rows.optimistic[place]), ranks.optimistic),
        "rank_pessimistic": (float(rows.pessimistic[place]), ranks.pessimistic),
        "gold_ranks": (gold_ranks, unfiltered_ranks(scores, golds)),
        "top_ids": (best, _first_ids(best, dict(zip(ids, scores.tolist(), strict=True)), highest)),
    }


def _first_ids(recorded: list[str], score_of: Mapping[str, float], highest: list[float]) -> list[str]:
    """Return the ids that scores put first, equal ones by id; at the cut the embedding probe records any of these."""
    cut = highest[-1] if highest else np.inf
    above = [id_ for id_, score in score_of.items() if score > cut]
    at_cut = [id_ for id_ in recorded if score_of.get(id_) == cut]
    return sorted([*above, *at_cut], key=lambda id_: (-score_of[id_], id_))
