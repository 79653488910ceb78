"""Answerers whose properties are known, and what they leave behind: run folders as ``fathom probe`` writes them, made
without a model. An answerer gives every candidate of a query a score."""

from __future__ import annotations

import gc
import json
import math
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.engine.scoring.rows import PromptedQuery, score_columns
from fathom.probes.run.setup import tables
from fathom.probes.slot import SlotProbe
from fathom.results.comparison import Agreement
from fathom.results.facts import BY_TEMPLATE
from fathom.store.folder import RunFolder
from fathom.store.predictions import Scoring
from fathom.studies import agreement
from fathom.studies.options import AgreementOptions

SCORING = Scoring("sum/full", "nats")
Answerer = Callable[[Query, CandidateSet, int], list[float]]
"""Given a query, its candidates and the number of a template: a score of each candidate."""
SlotAnswerer = Callable[[Query, Sequence[str]], Sequence[float]]
"""Given a query and the candidates' names: a score of each."""


def agreement_of(runs: Sequence[RunFolder], **options: Any) -> Agreement:
    """The agreement of the only pair of these runs."""
    [pair] = agreement.analyse(runs, AgreementOptions(**options)).pairs
    return pair.ranks


def candidates(size: int = 20) -> CandidateSet:
    """Names of 1 to 5 words. In twenty of them lengths run up, down, up and down: each occurs four times, and the place
    of a candidate says nothing of its length."""
    words = [1 + (place % 5 if place // 5 % 2 == 0 else 4 - place % 5) for place in range(size)]
    names = tuple(" ".join([f"w{place}"] * count) for place, count in enumerate(words))
    return CandidateSet("all", tuple(f"c{place:02}" for place in range(size)), names)


def world(
    golds: Sequence[Sequence[int]],
    *,
    relations: int = 5,
    size: int = 20,
    name: str = "D",
    templates: int = 1,
    each: Sequence[int] = (),
) -> QuerySet:
    """One fact for each of *golds*.

    :param golds: places of the right answers among the candidates.
    :param relations: of equal size, one after another.
    :param size: number of candidates.
    :param each: how many facts each relation has, instead.
    """
    space = candidates(size)
    sizes = list(each) or [len(golds) // relations] * relations
    of_fact = [f"r{number}" for number, count in enumerate(sizes) for _ in range(count)]
    subjects = [f"s{number:03}" for number in range(len(golds))]
    queries = tuple(
        Query(f"q{subject[1:]}", relation, subject, subject, tuple(space.ids[place] for place in gold), "all")
        for subject, relation, gold in zip(subjects, of_fact, golds, strict=True)
    )
    wordings = tuple(Template(f"[X] is{' so' * number} [Y].") for number in range(templates))
    kinds = {relation: Relation(relation, relation, wordings, "1:N") for relation in dict.fromkeys(of_fact)}
    return QuerySet(name, queries, {"all": space}, kinds)


def grown(add: Callable[[RunFolder], object], runs: Sequence[RunFolder]) -> float:
    """Bytes that remain of each run after the second: the least, as threads of other tests may allocate meanwhile."""
    sizes = []
    tracemalloc.start()
    try:
        for run in runs:
            add(run)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    return min(after - before for before, after in pairwise(sizes[1:]))


EVEN = [[number % 20] for number in range(100)]
"""A hundred facts: each of twenty candidates is right once in each of five relations."""


def answered(
    folder: Path,
    answer: Answerer,
    data: QuerySet,
    *,
    model: str = "m",
    reading: str = BY_TEMPLATE,
    probe: str = "cloze",
    perplexity: float | None = None,
    options: Mapping[str, object] = MappingProxyType({}),
) -> RunFolder:
    """The finished run of an answerer: every query of *data* by every template.

    :param perplexity: of every prompt; None for a run that does not tell.
    :param options: of the probe, besides the reading.
    """
    run = RunFolder(folder)
    identity = {
        "probe": probe,
        "options": {"reading": reading, **options},
        "model": {"name": f"models/{model}", "content_hash": model},
        "data": {"name": data.name, "content_hash": "1"},
    }
    run.start(identity, ["0"], *tables(data))
    likelihood = None if perplexity is None else (-math.log(perplexity), 1)
    rows = []
    for query in data.queries:
        space = data.candidates[query.candidates]
        for number, template in enumerate(data.phrasings(query)):
            prompt = template.text.replace("[X]", query.subject)
            asked = PromptedQuery(query, number, prompt, len(space), likelihood)
            scores = np.array(answer(query, space, number), dtype=float)
            words = [len(name.split()) for name in space.names]
            gold_words = [words[place] for place in space.places(query.gold)]
            ranked = None if not np.isnan(scores).any() else ~np.isnan(scores)
            rows += asked.rows(
                [SCORING], [score_columns(query, space, scores, gold_words, words, top_k=10, ranked=ranked)]
            )
    run.add_shard("0", rows)
    return run


def without_digests(run: Path) -> Path:
    """The same run as an earlier version wrote it; its files may be edited."""
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    earlier = {name: value for name, value in manifest.items() if name not in ("digest", "digests")}
    (run / "manifest.json").write_text(json.dumps(earlier), "utf-8")
    return run


def unscored(run: RunFolder, *places: int) -> RunFolder:
    """The same run with some predictions that were not scored."""
    file = run.path / "predictions" / "part-0.parquet"
    rows = run.predictions().to_pylist()
    for place in places:
        gone = ("rank", "rank_optimistic", "rank_pessimistic", "gold_scores", "top_ids", "top_scores", "scores")
        rows[place] |= dict.fromkeys(gone) | {"unscored": "the prompt is too long"}
    file.unlink()
    run.add_shard("0", rows)
    return run


# --- answerers


def constant(query: Query, space: CandidateSet, template: int) -> list[float]:
    """Says the same of everything: the first candidate before the second, and so on."""
    return [-float(place) for place in range(len(space))]


def at_random(seed: int) -> Answerer:
    """Puts the candidates of each query in an order of its own."""

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        scores = list(map(float, range(len(space))))
        random.Random(f"{seed} {query.id} {template}").shuffle(scores)
        return scores

    return answer


def short_names_first(query: Query, space: CandidateSet, template: int) -> list[float]:
    """Led by length alone: names of as many words are tied."""
    return [-float(len(name.split())) for name in space.names]


def long_names_first(query: Query, space: CandidateSet, template: int) -> list[float]:
    """The opposite."""
    return [float(len(name.split())) for name in space.names]


def frequent_first(order: Sequence[str]) -> Answerer:
    """Led by frequency alone. :param order: ids, the most frequent first."""
    return lambda query, space, template: [-float(order.index(id_)) for id_ in space.ids]


def by_frequency_in(data: QuerySet) -> Answerer:
    """Ranks candidates by how often they are right in *data*."""
    count = Counter(id_ for query in data.queries for id_ in query.gold)
    return lambda query, space, template: [float(count[id_]) for id_ in space.ids]


def never(query: Query, space: CandidateSet, template: int) -> list[float]:
    """Puts what is right behind all others."""
    return [-1.0 if id_ in query.gold else 0.0 for id_ in space.ids]


def at_rank(rank: int) -> Answerer:
    """Puts what is right at that rank."""

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        others = iter(range(len(space)))
        return [1.5 - rank if id_ in query.gold else -float(next(others)) for id_ in space.ids]

    return answer


def knowing(facts: Container[str], otherwise: Answerer = never, well: Answerer | None = None) -> Answerer:
    """Puts what is right first in those *facts* (ids of queries), and answers the rest like another.

    :param well: answers those facts, if not with what is right first.
    """
    first = well or at_rank(1)
    return lambda query, space, template: (first if query.id in facts else otherwise)(query, space, template)


def known_of(data: QuerySet, shares: Sequence[float]) -> set[str]:
    """Ids of the first queries of each relation. :param shares: of each relation, or one for all."""
    of_relation: dict[str, list[str]] = {}
    for query in data.queries:
        of_relation.setdefault(query.relation, []).append(query.id)
    every = list(shares) * len(of_relation) if len(shares) == 1 else shares
    return {
        id_ for ids, share in zip(of_relation.values(), every, strict=True) for id_ in ids[: round(share * len(ids))]
    }


def first_few(data: QuerySet, share: float, seed: int) -> set[str]:
    """Ids of queries, of each relation the same *share*, drawn by lot."""
    ids = [query.id for query in data.queries]
    random.Random(seed).shuffle(ids)
    place = {id_: number for number, id_ in enumerate(ids)}
    queries = tuple(sorted(data.queries, key=lambda query: place[query.id]))
    return known_of(replace(data, queries=queries), [share])


def tossed(data: QuerySet, *seed: int) -> set[str]:
    """Ids of queries, each by the toss of a coin."""
    return {query.id for query in data.queries if random.Random(f"{seed} {query.id}").random() < 0.5}


def answer_slots(patch: pytest.MonkeyPatch, answerer: SlotAnswerer, untrained: SlotAnswerer) -> None:
    """Replace the scores of slot probes by those of *answerer*, for untrained twins by those of *untrained*."""

    def columns(probe: Any, items: Sequence[Any], space: CandidateSet) -> dict[str, list[Any]]:
        score = untrained if "untrained" in probe.model.identity.name else answerer
        return {
            query.id: [
                probe._answer(query, space, probe._names(space.name, before), np.array(scores, dtype=np.float32))
            ]
            for query, before in ((item.query, item.before) for item in items)
            for scores in [score(query, space.names)]
        }

    patch.setattr(SlotProbe, "_columns", columns)
