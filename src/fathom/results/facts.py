"""What a run says of each fact: the form in which runs are laid side by side."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fathom.errors import BadInput
from fathom.store.folder import RunFolder


@dataclass(frozen=True)
class Fact:
    """One fact of a run, its templates averaged.

    :param ranks: realistic ranks, one per template; infinite where it is only known to be greater than *beyond*.
    :param gold_tokens: of the best gold answer's name; None where the run does not say.
    :param candidates: digest of the ids it was ranked among. :param beyond: where the search stopped (``--max-rank``).
    """

    relation: str
    ranks: tuple[float, ...]
    gold_tokens: int | None
    candidates: str
    beyond: int | None = None

    @property
    def rank(self) -> float:
        return float(np.mean(self.ranks))

    @property
    def log_rank(self) -> float:
        """Mean decimal logarithm."""
        return float(np.mean(np.log10(self.ranks)))


@dataclass(frozen=True)
class Facts:
    """:param name: probe, scoring and model, for tables. :param left_out: facts without a rank, and why."""

    name: str
    ranked: Mapping[str, Fact]
    left_out: Mapping[str, str]

    @property
    def stopped(self) -> list[str]:
        """Facts whose rank is only known to be greater than some number."""
        return [fact for fact, about in self.ranked.items() if about.beyond is not None]


def facts_of(run: RunFolder, scoring: str | None = None) -> Facts:
    """Facts by ``fact_id``, else ``query_id``; one is left out unless every one of its predictions was scored.

    :param scoring: None for the run's only one.
    :raises BadInput: no such scoring, or several and none chosen.
    """
    table, queries = run.predictions(), run.queries()
    chosen = chosen_scoring(run, table, scoring)
    about = {row["query_id"]: row for row in queries.to_pylist()}
    digests = candidate_digests(run)
    columns = ["query_id", "scoring", "rank", "rank_above", "unscored", "gold_scores", "gold_tokens"]
    ranks: dict[str, list[float]] = {}
    tokens: dict[str, int | None] = {}
    left_out: dict[str, str] = {}
    query_of: dict[str, str] = {}
    beyond: dict[str, int] = {}
    for row in table.select(columns).to_pylist():
        if row["scoring"] != chosen:
            continue
        fact = about[row["query_id"]]["fact_id"] or row["query_id"]  # a sentence without a known subject
        query_of[fact] = row["query_id"]
        above = row["rank_above"]
        if row["rank"] is None and (row["unscored"] or above is None):
            left_out[fact] = row["unscored"] or "its probe gives no ranks"
            continue
        if row["rank"] is None:
            beyond[fact] = min(above, beyond.get(fact, above))
        ranks.setdefault(fact, []).append(float("inf") if row["rank"] is None else row["rank"])
        tokens[fact] = _best_tokens(row["gold_scores"], row["gold_tokens"])
    ranked = {}
    for fact, values in ranks.items():
        if fact not in left_out:
            query = about[query_of[fact]]
            space = digests[query["candidates"]]
            ranked[fact] = Fact(query["relation"], tuple(values), tokens[fact], space, beyond.get(fact))
    if not ranked:
        why = next(iter(left_out.values()), "it has no predictions")
        raise BadInput(f"{run.path} has no ranks to compare ({why})")
    identity = run.manifest["identity"]
    name = f"{identity['probe']} {chosen} {str(identity['model']['name']).rstrip('/').rpartition('/')[2]}"
    return Facts(name, ranked, left_out)


def chosen_scoring(run: RunFolder, table: pa.Table, scoring: str | None) -> str:
    """:param scoring: None for the only one of *table*. :raises BadInput: no such scoring, or several."""
    scorings = list(dict.fromkeys(table.column("scoring").to_pylist()))
    if scoring is None and len(scorings) != 1:
        raise BadInput(f"{run.path} has the scorings {', '.join(scorings) or 'none'}: choose one with --scoring")
    chosen = scoring or scorings[0]
    if chosen not in scorings:
        raise BadInput(f"{run.path} has no scoring '{chosen}': it has {', '.join(scorings)}")
    return chosen


def candidate_digests(run: RunFolder) -> dict[str, str]:
    """Of each candidate set, whatever its order."""
    return {
        name: hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]
        for name, (ids, _) in run.candidates().items()
    }


def _best_tokens(scores: list[float] | None, tokens: list[int] | None) -> int | None:
    if not tokens:
        return None
    return tokens[int(np.argmax(scores))] if scores and len(scores) == len(tokens) else tokens[0]


def common(first: Facts, second: Facts) -> list[str]:
    """Facts that both ranked. :raises BadInput: none, or ranked among other candidates: ranks would not compare."""
    both = [fact for fact in first.ranked if fact in second.ranked]
    if not both:
        raise BadInput(f"'{first.name}' and '{second.name}' have no ranked fact in common")
    for fact in both:
        if first.ranked[fact].candidates != second.ranked[fact].candidates:
            raise BadInput(
                f"'{first.name}' and '{second.name}' ranked {fact} among different candidates: "
                "ask both with the same --candidates, --single-token and selection"
            )
    return both
