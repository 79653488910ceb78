"""Does a probe favour short names? Pearson's correlation of gold ranks and gold token lengths.

Section 5.3 and figure 9 of Jinno et al. (DEER), who found r = 0.484 for BEAR and 0.005 for DEER with OPT-1.3B. Over
relations with unequal numbers of candidates, random answers are correlated as well: short names that are ranked among
few have low ranks. So the correlation is also computed within relations, where that of random answers is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.baselines import BASELINE_COLUMNS, STRONGEST, RunBaselines, strongest_columns
from fathom.results.claims import Claim, Contrast, decide_by_name, sentences
from fathom.results.estimates import Estimate, correlation, correlation_within
from fathom.results.facts import RunFacts
from fathom.results.loading import distinguished, read_all_facts
from fathom.results.rows import Floats, Ints
from fathom.results.tables import Axes, Plot, Table
from fathom.store.folder import RunFolder
from fathom.studies.options import LengthBiasOptions

TokenCounter = Callable[[list[str]], list[int]]
QUARTILES = ("lower quartile", "median", "upper quartile")


class LengthBias(NamedTuple):
    """One run.

    :param name: probe, scoring and model, with what distinguishes it from the other runs.
    :param ranks: correlation of rank and number of tokens; a positive one favours short names.
    :param within: the same, with each value relative to its mean over the relation's facts.
    :param by_tokens: a row for each number of tokens of the answer. The majority baseline favours short names if
        frequent answers are short.
    """

    name: str
    ranks: Estimate
    log_ranks: Estimate
    within: Estimate
    by_tokens: list[dict[str, Any]]
    left_out: int
    points: list[tuple[str, int, float]]


def analyse(
    runs: Sequence[RunFolder],
    options: LengthBiasOptions = LengthBiasOptions(),
    count_tokens: TokenCounter | None = None,
) -> list[LengthBias]:
    """Correlate ranks and numbers of tokens in each run.

    By default tokens are those that each run recorded: of a name after a space (statement probe), or alone (others).

    :param count_tokens: replaces the tokenizer.
    :raises BadInput: a run recorded no lengths and no tokenizer is given, or its search stopped at some rank.
    """
    count = count_tokens or (None if options.tokenizer is None else _counter(options.tokenizer))
    vocabulary = "given" if count_tokens else options.tokenizer
    outcomes = read_all_facts(runs, options.scoring, options.cluster, k=None)
    names = distinguished([{"name": outcome.name, **outcome.distinguishing} for outcome in outcomes])
    return [_of_run(name, outcome, count, vocabulary) for name, outcome in zip(names, outcomes, strict=True)]


def _of_run(name: str, outcome: RunFacts, count: TokenCounter | None, vocabulary: str | None) -> LengthBias:
    facts = outcome.scored_facts
    if outcome.stopped:
        raise BadInput(
            f"{outcome.path}: {len(outcome.stopped)} of {len(facts)} facts are only known to rank beyond --max-rank; "
            "the correlation needs every rank: run again without --max-rank"
        )
    lengths = np.array(gold_tokens(outcome, facts, count))
    ranks, sample = outcome.mean_ranks[outcome.at(facts)], outcome.sample(facts)
    relations = outcome.relations_of(facts)
    default = str(outcome.rows.identity.get("options", {}).get("tokenizer") or outcome.model)
    about = {"run": name, "vocabulary": vocabulary or default}
    return LengthBias(
        name,
        correlation(lengths, ranks, sample, outcome.recipe("correlation of rank and tokens")),
        correlation(lengths, np.log10(ranks), sample, outcome.recipe("correlation of log10 rank and tokens")),
        correlation_within(
            lengths, ranks, relations, sample, outcome.recipe("correlation of rank and tokens within relations")
        ),
        [about | row for row in _by_tokens(outcome, facts, lengths, ranks)],
        len(outcome.left_out),
        list(zip(facts, lengths.tolist(), ranks.tolist(), strict=True)),
    )


def _by_tokens(outcome: RunFacts, facts: Sequence[str], lengths: Ints, ranks: Floats) -> Iterator[dict[str, Any]]:
    baselines, hits = RunBaselines(outcome), outcome.hits(1)
    for length in np.unique(lengths).tolist():
        at = np.flatnonzero(lengths == length)
        of_length = [facts[place] for place in at.tolist()]
        quartiles = np.percentile(ranks[at], [25, 50, 75]).tolist()
        yield {
            "tokens": length,
            "facts": len(of_length),
            **dict(zip(QUARTILES, quartiles, strict=True)),
            "Acc@1": outcome.mean("Acc@1", hits, of_length),
            **dict(zip(BASELINE_COLUMNS, strongest_columns(baselines.strongest(1, of_length)), strict=True)),
        }


def gold_tokens(outcome: RunFacts, facts: Sequence[str], count: TokenCounter | None = None) -> list[int]:
    """Return the number of tokens of each fact's best gold answer, by default as the run recorded it.

    :raises BadInput: it did not.
    """
    golds = outcome.best_golds()
    if count is not None:
        return count([golds[fact][0] for fact in facts])
    recorded = [tokens for fact in facts if (tokens := golds[fact][1]) is not None]
    if len(recorded) < len(facts):
        raise BadInput(f"{outcome.path} does not record the number of tokens of its answers: give --tokenizer")
    return recorded


def _counter(tokenizer: str) -> TokenCounter:
    """Return a function that counts the tokens of each text after a space, as names occur in statements."""
    from fathom.engine.models.parts import load_tokenizer
    from fathom.engine.scoring.tokens import token_counter

    count = token_counter(load_tokenizer(tokenizer))
    return lambda texts: count([" " + text for text in texts])


def conclude(findings: Sequence[LengthBias]) -> list[str]:
    name = "{}, correlation of rank and tokens within relations"
    claims = [Claim(name.format(bias.name), (Contrast("correlation", bias.within),)) for bias in findings]
    return sentences(decide_by_name(claims).values(), is_share=False)


def tables(findings: Sequence[LengthBias]) -> list[Table]:
    left_out = sum(bias.left_out for bias in findings)
    notes = [
        "a positive r favours short names; of relations with unequally many candidates so does random guessing, which "
        "has none within relations (rank and tokens less their means over the relation's facts)"
    ]
    notes += [f"{left_out} facts without a rank are excluded"] if left_out else []
    correlations = [
        (f"{bias.name}, {name}", number, number.n)
        for bias in findings
        for name, number in zip(("rank", "log10 rank", "rank within relations"), bias[1:4], strict=True)
    ]
    return [
        Table.of(
            correlations, "gold rank and gold token length", notes, columns=("of", "Pearson r", "facts"), hidden=["p"]
        ),
        Table.of(
            [row for bias in findings for row in bias.by_tokens],
            "rank and accuracy by the number of tokens of the gold answer",
            (
                "quartiles: of the ranks of these facts, without an interval; vocabulary: whose tokens were counted, a "
                "model's own or that of --tokenizer",
                STRONGEST,
            ),
            main="Acc@1",
            inline=True,
            hidden=("vocabulary", "Acc@1 baseline", *(("run",) if len(findings) == 1 else ())),
            formats={"Acc@1 baseline": ".1%"} | dict.fromkeys(QUARTILES, ".1f"),
        ),
    ]


def files(findings: Sequence[LengthBias]) -> dict[str, Table]:
    columns = ("fact", "tokens", "rank")
    return {f"length-bias-{n}": Table(columns, tuple(bias.points), bias.name) for n, bias in enumerate(findings)}


def plots(findings: Sequence[LengthBias]) -> list[Plot]:
    """Draw a box of ranks for each number of tokens (figure 9)."""
    axes = ("tokens of the gold answer", "rank of the gold answer")
    return [
        Plot(f"length-bias-{n}", partial(_draw, bias), *axes, f"{bias.name}: r = {bias.ranks.value:.3f}")
        for n, bias in enumerate(findings)
    ]


def _draw(bias: LengthBias, axes: Axes) -> None:
    lengths = [row["tokens"] for row in bias.by_tokens]
    ranks = [[rank for _, tokens, rank in bias.points if tokens == length] for length in lengths]
    axes.boxplot(ranks, positions=lengths, showfliers=False)
