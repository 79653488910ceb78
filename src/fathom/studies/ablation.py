"""Does the scoring of statements matter? Sum or mean, full or conditional, and the masking variants of masked models.

Two arms are compared query by query, averaged over templates (section 5.2.1 and appendix A.2 of Wiland et al. 2024,
which report Student's t-test for paired samples).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from fathom.base.errors import BadInput, all_of
from fathom.engine.models.base import Attention
from fathom.engine.scoring.masked import Pll
from fathom.results.claims import Claim, Contrast, decide_by_name, sentences
from fathom.results.facts import RunFacts, difference
from fathom.results.loading import check_same, read_scorings, short_names
from fathom.results.metrics import uncertainty
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.options import AllScoringsOptions

DEFAULT_PLL = str(Pll.WITHIN_WORD_L2R)


class Ablation(NamedTuple):
    """Rows of all arms, and of the comparisons of two: accuracy of the first minus that of the second."""

    arms: list[dict[str, Any]]
    comparisons: list[dict[str, Any]]


def analyse(runs: Sequence[RunFolder], options: AllScoringsOptions = AllScoringsOptions()) -> Ablation:
    """Compare all ways of scoring in runs of one model.

    :raises BadInput: runs of several models or data sets, of another probe, unfinished, or two with the same masking.
    """
    check_same(runs, ("model", "data"))
    outcomes: dict[tuple[str, str], RunFacts] = {}
    for sides in all_of(*(partial(read_scorings, run, short_names([run])[0], options.cluster) for run in runs)):
        for outcome in sides:
            arm = (_masking(outcome), outcome.scoring)
            if outcomes.setdefault(arm, outcome) is not outcome:
                raise BadInput(f"{outcome.path} scores as another run does: {' '.join(arm)}; give one of them")
    variants = list(dict.fromkeys(variant for variant, _ in outcomes))
    arms = [
        {
            "pll": variant,
            "scoring": one.scoring,
            "accuracy": one.mean("accuracy", one.hits(1)),
            "queries": len(one.scored_facts),
            "unscored": len(one.left_out),
        }
        for (variant, _), one in outcomes.items()
    ]
    base = DEFAULT_PLL if DEFAULT_PLL in variants else variants[0]
    pairs = [((base, "sum/full"), (base, "mean/full")), ((base, "sum/full"), (base, "sum/conditional"))]
    for variant in variants:
        pairs += [((base, score), (variant, score)) for score in ("sum/full", "mean/full") if variant != base]
    compared = [_compare(*pair, outcomes) for pair in pairs if all(arm in outcomes for arm in pair)]
    return Ablation(arms, [comparison for comparison in compared if comparison is not None])


def _masking(outcome: RunFacts) -> str:
    """Return how the tokens of a statement are masked. :raises BadInput: the run does not say."""
    if outcome.attention != Attention.BIDIRECTIONAL:
        return "causal"
    if "pll" not in outcome.options:
        raise BadInput(f"{outcome.path} is of the {outcome.probe} probe: give runs of the statement probe")
    return str(outcome.options["pll"])


def _compare(
    first: tuple[str, str], second: tuple[str, str], outcomes: dict[tuple[str, str], RunFacts]
) -> dict[str, Any] | None:
    """Return None if both scored fewer than two queries, which leaves nothing to test."""
    one, other = outcomes[first], outcomes[second]
    both = [query for query in one.scored_facts if query not in other.left_out]
    if len(both) < 2:
        return None
    hits = one.hits(1), other.hits(1)
    # Without clusters it is Student's t-test for paired samples (footnote 6).
    t_test = uncertainty.interval(hits[0][one.at(both)] - hits[1][other.at(both)])
    return {
        "first": " ".join(first),
        "second": " ".join(second),
        "difference": difference("accuracy", one, other, hits, both),
        "p (t-test)": t_test.p_value,
        "queries": len(both),
    }


def conclude(findings: Ablation) -> list[str]:
    claims = [
        Claim(f"{row['first']} minus {row['second']}", (Contrast("accuracy", row["difference"]),))
        for row in findings.comparisons
    ]
    return sentences(decide_by_name(claims).values())


def tables(findings: Ablation) -> list[Table]:
    note = "p: of the test that belongs to the interval; p (t-test): Student's for paired samples, as in the paper"
    return [
        Table.of(findings.arms, "accuracy, mean over facts of each one's mean over templates"),
        Table.of(findings.comparisons, "first minus second, paired by query", [note]),
    ]
