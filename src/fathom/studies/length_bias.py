"""Does a probe favour short names? Pearson's correlation of gold ranks and gold token lengths.

Section 5.3 and figure 9 of Jinno et al. (DEER), who found r = 0.484 for BEAR and 0.005 for DEER with OPT-1.3B. Over
relations with unequal numbers of candidates, random answers are correlated as well: short names that are ranked among
few have low ranks. So the correlation is also computed within relations, where that of random answers is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.results.baselines import BASELINE_COLUMNS, STRONGEST, Compared, RunBaselines, strongest_columns
from fathom.results.claims import Claim, Contrast, decide, sentences
from fathom.results.estimates import Estimate, correlation
from fathom.results.facts import RunFacts
from fathom.results.loading import outcomes_of
from fathom.results.names import distinguished
from fathom.results.plots import Plot
from fathom.results.rows import Floats, Ints
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.agreement import correlations_table

Counter = Callable[[list[str]], list[int]]


class Box(NamedTuple):
    """Ranks of the facts whose answer has so many tokens."""

    tokens: int
    facts: int
    lower_quartile: float
    median: float
    upper_quartile: float


class ByTokens(NamedTuple):
    """Accuracy on the facts whose answer has so many tokens. :param baseline: the strongest on these facts: where
    frequent answers are short, one who always says the most frequent seems to favour them."""

    tokens: int
    accuracy: Estimate
    baseline: Compared | None


class LengthBias(NamedTuple):
    """One run.

    :param name: probe, scoring and model, with what tells it from the other runs.
    :param vocabulary: whose tokens were counted.
    :param accuracy: by number of tokens.
    :param ranks: correlation of rank and token length; a positive one favours short names.
    :param within: the same of both less their mean over the relation's facts.
    :param left_out: facts without a rank.
    :param points: fact id, tokens, rank.
    """

    name: str
    ranks: Estimate
    log_ranks: Estimate
    within: Estimate
    boxes: list[Box]
    left_out: int
    points: list[tuple[str, int, float]]
    vocabulary: str
    accuracy: list[ByTokens]


def analyse(
    runs: Sequence[RunFolder],
    scoring: Sequence[str] = (),
    tokenizer: str | None = None,
    cluster: str = "",
    count_tokens: Counter | None = None,
) -> list[LengthBias]:
    """One result per run.

    :param tokenizer: model whose tokenizer counts alike for all runs; None takes what each recorded (the statement
        probe counts a name behind a space, the others the name alone).
    :param count_tokens: what counts instead.
    :raises BadInput: a run does not say, and nothing to count with is given; its search stopped at some rank.
    """
    count = count_tokens or (None if tokenizer is None else _counter(tokenizer))
    own = "given" if count_tokens else tokenizer
    outcomes = outcomes_of(runs, scoring, cluster, k=None)
    names = distinguished([(one.name, one.data, one.reading, one.wording, one.path) for one in outcomes])
    return [_of_run(name, outcome, count, own) for name, outcome in zip(names, outcomes, strict=True)]


def _of_run(name: str, outcome: RunFacts, count: Counter | None, vocabulary: str | None) -> LengthBias:
    facts = outcome.scored_facts
    if outcome.stopped:
        raise BadInput(
            f"{outcome.path} says of {len(outcome.stopped)} of {len(facts)} facts only that they rank beyond "
            "--max-rank: the correlation needs every rank, ask again without --max-rank"
        )
    lengths = np.array(_tokens(outcome, facts, count))
    ranks, sample = outcome.mean_ranks[outcome.at(facts)], outcome.sample(facts)
    return LengthBias(
        name,
        correlation(lengths, ranks, sample, outcome.recipe("correlation of rank and tokens")),
        correlation(lengths, np.log10(ranks), sample, outcome.recipe("correlation of log10 rank and tokens")),
        _within_relations(outcome, facts, lengths, ranks),
        [
            Box(length, len(own), *np.percentile(own, [25, 50, 75]).tolist())
            for length, own in ((length, ranks[lengths == length]) for length in np.unique(lengths).tolist())
        ],
        len(outcome.left_out),
        list(zip(facts, lengths.tolist(), ranks.tolist(), strict=True)),
        vocabulary or str(outcome.rows.identity.get("options", {}).get("tokenizer") or outcome.model),
        _by_tokens(outcome, facts, lengths),
    )


def _within_relations(outcome: RunFacts, facts: Sequence[str], lengths: Ints, ranks: Floats) -> Estimate:
    _, relation = np.unique(outcome.relations_of(facts), return_inverse=True)
    counts = np.bincount(relation)
    tokens, own = (side - (np.bincount(relation, side) / counts)[relation] for side in (lengths, ranks))
    made = outcome.recipe("correlation of rank and tokens within relations")
    return correlation(tokens, own, outcome.sample(facts), made)


def _by_tokens(outcome: RunFacts, facts: Sequence[str], lengths: Ints) -> list[ByTokens]:
    bars, found = RunBaselines(outcome), []
    for length in np.unique(lengths).tolist():
        own = [facts[at] for at in np.flatnonzero(lengths == length).tolist()]
        found.append(ByTokens(length, outcome.mean("Acc@1", outcome.hits(1), own), bars.strongest(1, own)))
    return found


def _tokens(outcome: RunFacts, facts: Sequence[str], count: Counter | None) -> list[int]:
    golds = _golds(outcome)
    if count is not None:
        return count([golds[fact].name for fact in facts])
    recorded = [tokens for fact in facts if (tokens := golds[fact].tokens) is not None]
    if len(recorded) < len(facts):
        raise BadInput(
            f"{outcome.path} does not say how many tokens its answers have: give --tokenizer (a model's folder)"
        )
    return recorded


class _Gold(NamedTuple):
    """The right answer whose rank is a fact's: its best. :param tokens: None where the run does not say."""

    name: str
    tokens: int | None


def _golds(outcome: RunFacts) -> dict[str, _Gold]:
    """Of each fact; of one that several templates ask, by the last of them."""
    rows = outcome.rows
    names = {space: dict(zip(*pair, strict=True)) for space, pair in rows.candidates.items()}
    columns = rows.table.select(["gold_scores", "gold_tokens"]).take(outcome.places).to_pydict()
    found = {}
    for query, scores, tokens in zip(rows.query[outcome.places].tolist(), *columns.values(), strict=True):
        gold, best = rows.gold[query], _best(scores or [])
        name = names[rows.spaces[query] or ""][gold[best]]
        found[rows.fact_ids[query] or rows.query_ids[query]] = _Gold(name, tokens[best] if tokens else None)
    return found


def _best(scores: Sequence[float]) -> int:
    """The place of the highest score that is a number, the first where none was recorded."""
    return max(range(len(scores)), key=lambda place: (not np.isnan(scores[place]), scores[place]), default=0)


def _counter(tokenizer: str) -> Counter:
    """Number of tokens of each text behind a space, as names stand in statements."""
    from fathom.models.loading import load_tokenizer
    from fathom.scoring.tokens import token_counter

    count = token_counter(load_tokenizer(tokenizer))
    return lambda texts: count([" " + text for text in texts])


def conclude(findings: Sequence[LengthBias]) -> list[str]:
    """Whether each probe favours short names, or long ones, within relations."""
    claims = [
        Claim(f"{one.name}, correlation of rank and tokens within relations", (Contrast("correlation", one.within),))
        for one in findings
    ]
    return sentences(decide(claims), is_share=False)


def tables(findings: Sequence[LengthBias]) -> list[Table]:
    """Correlations, and the ranks of each length."""
    left_out = sum(bias.left_out for bias in findings)
    notes = [
        "a positive r favours short names; of relations with unequally many candidates so does random guessing, which "
        "has none within relations (rank and tokens less their means over the relation's facts)"
    ]
    notes += [f"{left_out} facts without a rank are left out"] if left_out else []
    columns = ("run", "tokens", "facts", "lower quartile", "median", "upper quartile")
    return [
        correlations_table(
            "gold rank and gold token length",
            [
                (f"{bias.name}, {name}", value)
                for bias in findings
                for name, value in (
                    ("rank", bias.ranks),
                    ("log10 rank", bias.log_ranks),
                    ("rank within relations", bias.within),
                )
            ],
            notes,
        ),
        Table(
            columns,
            tuple((bias.name, *box) for bias in findings for box in bias.boxes),
            "rank of the gold answer by its number of tokens",
            formats=dict.fromkeys(columns[3:], ".1f"),
            notes=("quartiles of the ranks themselves, which describe these facts: no interval",),
        ),
        Table.of(
            [
                {
                    "run": bias.name,
                    "vocabulary": bias.vocabulary,
                    "tokens": line.tokens,
                    "facts": line.accuracy.n,
                    "Acc@1": line.accuracy,
                    **dict(zip(BASELINE_COLUMNS, strongest_columns(line.baseline), strict=True)),
                }
                for bias in findings
                for line in bias.accuracy
            ],
            "accuracy by the number of tokens of the gold answer",
            ("vocabulary: whose tokens were counted, a model's own or that of --tokenizer", STRONGEST),
            main="Acc@1",
            inline=True,
            formats={"Acc@1 baseline": ".1%"},
        ),
    ]


def files(findings: Sequence[LengthBias]) -> dict[str, Table]:
    """Tokens and rank of every fact."""
    return {
        f"length-bias-{number}": Table(("fact", "tokens", "rank"), tuple(bias.points), bias.name)
        for number, bias in enumerate(findings)
    }


def plots(findings: Sequence[LengthBias]) -> list[Plot]:
    """A box of ranks for each number of tokens (figure 9)."""
    return [
        Plot(
            f"length-bias-{number}",
            partial(_draw, bias),
            "tokens of the gold answer",
            "rank of the gold answer",
            f"{bias.name}: r = {bias.ranks.value:.3f}",
        )
        for number, bias in enumerate(findings)
    ]


def _draw(bias: LengthBias, axes: Any) -> None:
    lengths = [box.tokens for box in bias.boxes]
    ranks = [[rank for _, tokens, rank in bias.points if tokens == length] for length in lengths]
    axes.boxplot(ranks, positions=lengths, showfliers=False)
