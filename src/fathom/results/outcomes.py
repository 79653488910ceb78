"""What runs of several models, data sets and readings say: the form in which template-based and template-free probing
are laid side by side (sections 4 and 5 of Shaier et al. 2024)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fathom.errors import BadInput
from fathom.metrics.ranking import told_hits_at_k
from fathom.results.facts import candidate_digests, chosen_scoring
from fathom.store.folder import RunFolder

Floats = npt.NDArray[np.float64]

CUTS = (1, 5, 10)
BY_TEMPLATE, FREE, BOTH, NEITHER = "template-based", "template-free", "both", "without templates"
READINGS = (BY_TEMPLATE, FREE)


@dataclass(frozen=True)
class Outcome:
    """One run in one scoring: a line per prediction, in arrays of length n.

    :param model: short name, where no other model of the study has it. :param full_name: as the run was given it.
    :param attention: kind of the model, causal or bidirectional; "" where the run does not say.
    :param reading: template-based, template-free, both (relations differ) or without templates.
    :param facts: ``fact_id``, else ``query_id``. :param hits: [n, 3], Hits@k for :data:`CUTS`; NaN where unscored.
    :param space: digest of the candidates. :param candidates: how many they are.
    :param log_prob: of the prompt, nats, NaN where it was not asked for. :param tokens: how many were scored.
    :param left_out: facts with an unscored prediction, and why.
    """

    path: str
    model: str
    full_name: str
    model_hash: str
    data: str
    reading: str
    attention: str
    probe: str
    scoring: str
    table: pa.Table
    facts: npt.NDArray[np.str_]
    relations: npt.NDArray[np.str_]
    templates: npt.NDArray[np.int64]
    hits: Floats
    spaces: npt.NDArray[np.str_]
    candidates: npt.NDArray[np.int64]
    log_prob: Floats
    tokens: Floats
    left_out: dict[str, str]

    @cached_property
    def ranked(self) -> PerFact:
        """The facts of which every prediction has a rank, averaged over templates or sentences."""
        kept = ~np.isin(self.facts, list(self.left_out)) if self.left_out else np.ones(len(self.facts), dtype=bool)
        ids, first, number = np.unique(self.facts[kept], return_index=True, return_inverse=True)
        count = np.bincount(number)
        hits = np.stack([np.bincount(number, column) / count for column in self.hits[kept].T], axis=1)
        return PerFact(
            {id_: place for place, id_ in enumerate(ids.tolist())},
            hits,
            self.relations[kept][first],
            self.spaces[kept][first],
            self.candidates[kept][first],
        )


class PerFact(NamedTuple):
    """:param place: fact id → its line in the arrays, which are sorted by id. :param hits: [facts, 3]."""

    place: dict[str, int]
    hits: Floats
    relations: npt.NDArray[np.str_]
    spaces: npt.NDArray[np.str_]
    candidates: npt.NDArray[np.int64]


def outcomes_of(runs: Sequence[RunFolder], scorings: Sequence[str] = ()) -> list[Outcome]:
    """One per run, in their order.

    :param scorings: which to take of runs that have several; runs with one need none.
    :raises BadInput: with the faults of all runs: unfinished, without ranks, several scorings and none chosen.
    """
    found, faults = [], []
    there: set[str] = set()
    for run in runs:
        try:
            found.append(_outcome(run, scorings, there))
        except BadInput as error:
            faults += error.faults
    faults += [
        f"--scoring {name}: no run has it; there is {', '.join(sorted(there))}"
        for name in scorings
        if name not in there
    ]
    if faults:
        raise BadInput(faults)
    return _shortly_named(found)


def by_column(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], dict[str, Outcome]]:
    """(data, reading) → model → its run. :raises BadInput: two runs of one model, data set and reading."""
    found: dict[tuple[str, str], dict[str, Outcome]] = {}
    faults = []
    for outcome in outcomes:
        models = found.setdefault((outcome.data, outcome.reading), {})
        if outcome.model in models:
            faults.append(
                f"{models[outcome.model].path} and {outcome.path} are both of {outcome.model} on {outcome.data}, "
                f"{outcome.reading}: give one of them (fathom study pools compares answer pools)"
            )
        models[outcome.model] = outcome
    if faults:
        raise BadInput(faults)
    return found


def common_facts(outcomes: Sequence[Outcome]) -> list[str]:
    """Facts that all ranked, sorted. :raises BadInput: none, or ranked among other candidates."""
    first, *others = outcomes
    both = sorted(set(first.ranked.place).intersection(*(other.ranked.place for other in others)))
    if not both:
        raise BadInput(
            f"{', '.join(outcome.path for outcome in outcomes)} have no ranked fact in common: "
            "they need the same data, or data with the same fact_id"
        )
    for other in others:
        for fact in both:
            mine, theirs = first.ranked.place[fact], other.ranked.place[fact]
            if first.ranked.spaces[mine] != other.ranked.spaces[theirs]:
                raise BadInput(
                    f"{first.path} ranked {fact} among {first.ranked.candidates[mine]} candidates, {other.path} among "
                    f"{other.ranked.candidates[theirs]} others: ask both with the same --pool and selection "
                    "(fathom study pools compares answer pools)"
                )
    return both


def hits_of(outcome: Outcome, facts: Sequence[str]) -> Floats:
    """[facts, 3]"""
    return outcome.ranked.hits[[outcome.ranked.place[fact] for fact in facts]]


def relations_of(outcome: Outcome, facts: Sequence[str]) -> list[str]:
    return [str(outcome.ranked.relations[outcome.ranked.place[fact]]) for fact in facts]


def _outcome(run: RunFolder, scorings: Sequence[str], there: set[str]) -> Outcome:
    """:param there: the run's scorings are added."""
    if not run.is_complete():
        raise BadInput(f"{run.path} is unfinished: type its command again, it goes on where it stopped")
    table, identity = run.predictions(), run.manifest["identity"]
    own = set(table.column("scoring").to_pylist())
    there |= own
    wanted = [name for name in scorings if name in own] if len(own) > 1 else []
    if len(wanted) > 1:
        raise BadInput(f"{run.path} has several of --scoring {','.join(scorings)}: name one of {', '.join(wanted)}")
    scoring = chosen_scoring(run, table, wanted[0] if wanted else None)
    # All candidates' scores of many runs would fill memory.
    table = table.filter(pc.equal(table.column("scoring"), scoring)).drop_columns(["scores"])
    queries = {row["query_id"]: row for row in _of_queries(run.queries())}
    asked = [queries[id_] for id_ in table.column("query_id").to_pylist()]
    hits = _hits(run, table)
    facts = [row["fact_id"] or row["query_id"] for row in asked]
    unscored: npt.NDArray[np.bool_] = np.asarray(np.isnan(hits).any(axis=1))
    reasons = table.column("unscored").to_pylist()
    left_out = {facts[place]: reasons[place] or "no rank was recorded" for place in np.flatnonzero(unscored).tolist()}
    if not set(facts) - left_out.keys():
        [(why, _)] = Counter(left_out.values()).most_common(1) or [("it has no predictions", 0)]
        raise BadInput(f"{run.path} has no ranks to compare ({why})")
    digests = candidate_digests(run)
    templates = table.column("template").fill_null(-1).to_numpy().astype(np.int64)
    return Outcome(
        path=str(run.path),
        model=str(identity["model"]["name"]).rstrip("/").rpartition("/")[2],
        full_name=str(identity["model"]["name"]),
        model_hash=str(identity["model"].get("content_hash")),
        data=str(identity.get("data", {}).get("name")),
        reading=_reading(identity.get("options", {}).get("reading"), asked, templates, unscored),
        attention=str(identity.get("resolved", {}).get("attention", "")),
        probe=str(identity["probe"]),
        scoring=scoring,
        table=table,
        facts=np.array(facts),
        relations=np.array([row["relation"] or "" for row in asked]),
        templates=templates,
        hits=hits,
        spaces=np.array([digests.get(row["candidates"], "") for row in asked]),
        candidates=_numbers(table, "num_candidates").astype(np.int64),
        log_prob=_numbers(table, "prompt_log_prob", missing=np.nan),
        tokens=_numbers(table, "prompt_tokens", missing=np.nan),
        left_out=left_out,
    )


def _of_queries(table: pa.Table) -> list[dict[str, Any]]:
    columns = {"query_id", "fact_id", "relation", "candidates", "sentences"}
    found: list[dict[str, Any]] = table.select([name for name in table.column_names if name in columns]).to_pylist()
    return found


def _hits(run: RunFolder, table: pa.Table) -> Floats:
    optimistic, pessimistic, above, correct = (
        _numbers(table, name, missing=np.nan)
        for name in ("rank_optimistic", "rank_pessimistic", "rank_above", "correct")
    )
    if (stopped := above[np.isnan(optimistic) & (above < max(CUTS))]).size:
        raise BadInput(
            f"{run.path} stopped at rank {stopped.min():.0f} and cannot tell Acc@{max(CUTS)}: "
            f"ask without --max-rank, or with {max(CUTS)} or more"
        )
    if not np.isnan(correct).all():
        raise BadInput(f"{run.path} has written answers and no ranks: ask with the cloze or the statement probe")
    return np.stack([told_hits_at_k(optimistic, pessimistic, above, correct, k) for k in CUTS], axis=1)


def _numbers(table: pa.Table, name: str, missing: float = 0.0) -> Floats:
    if name not in table.column_names:  # a run of an earlier version
        return np.full(len(table), missing)
    values = np.asarray(table.column(name).to_numpy(), dtype=np.float64)
    return np.where(np.isnan(values), missing, values)


def _reading(
    option: str | None,
    asked: Sequence[dict[str, Any]],
    templates: npt.NDArray[np.int64],
    unscored: npt.NDArray[np.bool_],
) -> str:
    """*option* where it says; else by whether queries had sentences of their own."""
    if option in READINGS:
        return str(option)
    natural = np.array([bool(row.get("sentences")) for row in asked], dtype=bool)
    if not natural.any():
        return BY_TEMPLATE if (templates >= 0).any() else NEITHER
    # A fact that has no sentence is left unscored, which tells nothing of how the others were asked.
    return FREE if natural[~unscored].all() else BOTH


def _shortly_named(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Models by the last part of their name, by all of it where two differ in the rest alone."""
    hashes: dict[str, set[tuple[str, str]]] = {}
    for outcome in outcomes:
        key = (outcome.model_hash, "" if outcome.model_hash != "None" else outcome.full_name)
        hashes.setdefault(outcome.model, set()).add(key)
    return [
        outcome if len(hashes[outcome.model]) == 1 else replace(outcome, model=outcome.full_name)
        for outcome in outcomes
    ]
