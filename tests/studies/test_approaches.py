"""Template-based beside template-free probing: hand-made runs, every number derived in the comments or by scipy."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats
from typer.testing import CliRunner

from fathom.base.errors import BadInput
from fathom.cli import make_app
from fathom.results.compare import compare
from fathom.results.estimates import Estimate
from fathom.results.facts import BOTH, BY_TEMPLATE, FREE, NEITHER
from fathom.results.loading import read_all_facts
from fathom.results.metrics.correlation import correlate
from fathom.results.metrics.ranking import places
from fathom.results.metrics.table import metric, perplexity
from fathom.results.metrics.uncertainty import interval
from fathom.results.summary import RunNumbers, summarise
from fathom.results.tables import render
from fathom.store.folder import RunFolder
from fathom.store.predictions import SCHEMA
from fathom.studies import STUDIES, relations
from fathom.studies import rankings as rankings_study
from fathom.studies import repeated as repeated_study
from fathom.studies.perplexity import analyse as perplexities
from fathom.studies.rankings import analyse as rankings
from fathom.studies.relations import analyse as shared_relations
from fathom.studies.repeated import analyse as repeated
from fathom.studies.repeated import plots as repeated_plots
from fathom.studies.repeated import pseudo_values
from tests.answerers import EVEN, answered, at_rank, world
from tests.messages import mentioned, mentions, stated

TWENTY = [f"e{number:02}" for number in range(20)]
Make = Callable[..., RunFolder]

TAU, RHO = "Kendall's tau-b", "Spearman's rho"


def values(numbers: Iterable[Estimate]) -> list[float]:
    return [number.value for number in numbers]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a finished run. Facts are "s|relation|n", asked once each with the rank given."""

    def run(
        model: str,
        data: str,
        reading: str,
        ranks: Sequence[float | None],
        *,
        name: str = "",
        option: str | None = "as the reading",
        relations: Sequence[str] | None = None,
        facts: Sequence[str | None] | None = None,
        candidates: Sequence[str] = TWENTY,
        scorings: Sequence[str] = ("mask-mean",),
        sentences: Sequence[int] | None = None,
        templates: Sequence[int] | None = None,
        plan: Sequence[str] = ("0",),
        more: Sequence[Mapping[str, Any]] | None = None,
    ) -> RunFolder:
        folder = RunFolder(tmp_path / (name or f"{model}-{data}-{reading}".replace("/", "-")))
        count = len(ranks)
        kinds = list(relations or ["r"] * count)
        queries = pa.table(
            {
                "query_id": [f"q{number}" for number in range(count)],
                "fact_id": pa.array(facts or [f"s|{kinds[n]}|{n}" for n in range(count)], pa.string()),
                "relation": kinds,
                "direction": ["tail"] * count,
                "subject_id": ["s"] * count,
                "gold": pa.array([[candidates[0]]] * count, pa.list_(pa.string())),
                "candidates": ["all"] * count,
                "groups": pa.array([[] for _ in range(count)], pa.map_(pa.string(), pa.string())),
                "sentences": pa.array(sentences or [int(reading == FREE)] * count, pa.int64()),
            }
        )
        size = len(candidates)
        names = pa.table(
            {
                "set": ["all"] * size,
                "position": list(range(size)),
                "id": list(candidates),
                "name": [f"name {id_}" for id_ in candidates],
            }
        )
        identity = {
            "probe": "cloze",
            "options": {} if option is None else {"reading": reading if option == "as the reading" else option},
            "model": {"name": f"models/{model}", "content_hash": model},
            "data": {"name": data, "content_hash": "1"},
        }
        folder.start(identity, list(plan), queries, names)
        rows = [
            {
                "query_id": f"q{number}",
                "template": templates[number] if templates else 0,
                "scoring": scoring,
                "subject": "Ann",
                "prompt": "Ann is [Y].",
                "rank": rank,
                "rank_optimistic": None if rank is None else math.floor(rank),
                "rank_pessimistic": None if rank is None else math.ceil(rank),
                "num_candidates": size,
                "top_ids": list(candidates[:10]),
                "unscored": "no mask" if rank is None else None,
                **(more[number] if more else {}),
            }
            for scoring in scorings
            for number, rank in enumerate(ranks)
        ]
        folder.add_shard("0", rows)
        return folder

    return run


def likelihood(log_prob: float, tokens: int) -> dict[str, float]:
    return {"prompt_log_prob": log_prob, "prompt_tokens": tokens}


# --- metrics


def test_perplexity_by_hand() -> None:
    # exp(−(−2 ln 2)/2) = 2 and exp(−(−ln 16)/1) = 16: mean 9; corpus exp((2 ln 2 + 4 ln 2)/3) = 4
    log_prob, tokens = np.array([-2 * math.log(2), -math.log(16)]), np.array([2, 1])
    assert perplexity(log_prob, tokens).tolist() == pytest.approx([2, 16])
    corpus = metric("corpus_perplexity")
    found = interval([log_prob, tokens], ["a", "b"], limits=corpus.limits, fold=corpus.fold)
    assert found.estimate == pytest.approx(4)
    assert 1 <= found.low <= 4 <= found.high


def test_places_break_ties_by_the_next_score() -> None:
    # b and c tie in the first score, c is better in the second; a and d tie in both, for places 1 and 2
    scores = [[0.3, 0.4], [0.1, 0.2], [0.1, 0.3], [0.1 + 0.2, 0.4]]
    assert places(scores).tolist() == [1.5, 4, 3, 1.5]
    assert places(np.stack([scores, np.zeros((4, 2))])).tolist() == [[1.5, 4, 3, 1.5], [2.5] * 4]


# --- the summary of a run


def test_a_summary_shows_both_perplexities(make: Make) -> None:
    more = [likelihood(-2 * math.log(2), 2), likelihood(-math.log(16), 1), {}]
    run = make("m", "D", BY_TEMPLATE, [1, 2, None], more=more)
    numbers = summarise(run).headlines[0].numbers
    assert (numbers["perplexity"].value, numbers["corpus_perplexity"].value) == pytest.approx((9, 4))
    assert numbers["perplexity"].n == 2
    assert numbers["perplexity"].note.startswith("of 2 of 3 prompts")
    assert RunNumbers(run).json()["scorings"]["mask-mean"]["metrics"]["corpus_perplexity"]["value"] == pytest.approx(4)
    assert "perplexity" not in summarise(make("m", "E", BY_TEMPLATE, [1, 2])).headlines[0].numbers


def test_a_run_of_an_earlier_version_has_none(make: Make) -> None:
    run = make("m", "D", BY_TEMPLATE, [1, 2])
    old = pa.Table.from_pylist(run.predictions().to_pylist(), schema=SCHEMA)
    old = old.drop_columns(["prompt_log_prob", "prompt_tokens"])
    pq.write_table(old, run.path / "predictions" / "part-0.parquet")
    run.add_shard("1", [row | {"template": 1} for row in run.predictions().to_pylist()])
    (run.path / "manifest.json").write_text(json.dumps(run.manifest | {"plan": ["0", "1"]}))
    assert run.predictions().column("prompt_tokens").to_pylist() == [None] * 4
    [outcome] = read_all_facts([run])
    assert np.isnan(outcome.rows.prompt_log_prob).all()


# --- what runs say


def test_the_reading_is_told_by_option_or_sentences(make: Make) -> None:
    runs = [
        make("m", "D", FREE, [1, 1], name="said", sentences=[1, 0]),
        make("m", "D", FREE, [1, None], name="auto", option="auto", sentences=[1, 0]),
        make("m", "D", BY_TEMPLATE, [1, 1], name="earlier", option=None),
        make("m", "D", FREE, [1, 1], name="mixed", option="auto", sentences=[1, 0]),
        make("m", "D", BY_TEMPLATE, [1, 1], name="bare", option="auto", templates=[-1, -1]),
    ]
    assert [o.reading for o in read_all_facts(runs)] == [FREE, FREE, BY_TEMPLATE, BOTH, NEITHER]


def test_sentences_of_a_fact_are_averaged_and_unscored_facts_left_out(make: Make) -> None:
    # fact A by two sentences, ranks 1 and 7: Hits 1/2, 1/2, 1; B tied for ranks 1 and 2: 1/2, 1, 1; C has no rank
    run = make("m", "D", FREE, [1, 7, 1.5, 3, None], facts=["A", "A", "B", "C", "C"])
    [outcome] = read_all_facts([run])
    assert outcome.scored_facts == ["A", "B"]
    assert [outcome.hits(k)[:2].tolist() for k in (1, 5, 10)] == [[0.5, 0.5], [0.5, 1], [1, 1]]
    assert np.isnan(outcome.hits(1)[2])
    assert outcome.left_out == {"C": "no mask"}


@pytest.mark.parametrize(("reading", "accuracy"), [(FREE, 2 / 3), (BY_TEMPLATE, 1 / 2)])
def test_natural_sentences_count_alike_and_so_do_templates(make: Make, reading: str, accuracy: float) -> None:
    """Fact A by two prompts, right and wrong, B by one, right: two of three sentences; 1 and 0 of two templates."""
    run = make("m", "D", reading, [1, 7, 1], facts=["A", "A", "B"], templates=[0, 1, 0])
    assert summarise(run).headlines[0].accuracy.value == pytest.approx(accuracy)


def test_runs_that_cannot_take_part_are_named_all_at_once(make: Make) -> None:
    several = make("m", "D", FREE, [1], name="several", scorings=["mask-mean", "mask-max"])
    unfinished = make("m", "D", FREE, [1], name="unfinished", plan=["0", "1"])
    stopped = make("m", "D", FREE, [None], name="stopped", more=[{"rank_above": 5, "unscored": None}])
    written = make("m", "D", FREE, [None], name="written", more=[{"correct": 1.0, "unscored": None}])
    nothing = make("m", "D", FREE, [None], name="nothing")
    with pytest.raises(BadInput) as told:
        read_all_facts([several, unfinished, stopped, written, nothing])
    for number, words in enumerate(["--scoring", "is unfinished", "--max-rank", "no ranks", "no mask"]):
        assert words in told.value.faults[number]
    assert read_all_facts([several], ["mask-max"])[0].scoring == "mask-max"
    # A run of the statement probe beside it has its only scoring taken.
    causal = make("c", "D", FREE, [1], scorings=["sum/full"])
    assert [o.scoring for o in read_all_facts([several, causal], ["mask-max"])] == ["mask-max", "sum/full"]
    with pytest.raises(BadInput, match="several of --scoring"):
        read_all_facts([several], ["mask-max", "mask-mean"])
    with pytest.raises(BadInput, match=mentions("--scoring", "mask-maks", "sum/full")):
        read_all_facts([causal], ["mask-maks"])


# --- rankings


def grid(make: Make) -> list[RunFolder]:
    """Acc@1 of a, b, c: 3/4, 2/4, 1/4 by template; 2/4, 3/4, 1/4 by sentence."""
    ranks = {3: [1, 1, 1, 6], 2: [1, 1, 6, 6], 1: [1, 6, 6, 6]}
    wanted = {BY_TEMPLATE: {"a": 3, "b": 2, "c": 1}, FREE: {"a": 2, "b": 3, "c": 1}}
    return [make(model, "D", reading, ranks[n]) for reading, of in wanted.items() for model, n in of.items()]


def test_rankings_by_hand(make: Make) -> None:
    found = rankings(grid(make))
    based, free = found.columns
    assert [(score.model, score.place) for score in based.scores] == [("a", 1), ("b", 2), ("c", 3)]
    assert [(score.model, score.place) for score in free.scores] == [("a", 2), ("b", 1), ("c", 3)]
    assert [hit.value for hit in based.scores[0].hits] == [0.75, 0.75, 1]
    assert values(based.average) == pytest.approx([0.5, 0.5, 1])
    assert (based.facts, based.left_out) == (4, 0)
    assert all(hit.low <= hit.value <= hit.high for score in based.scores for hit in score.hits)
    [everyone] = found.agreements
    assert (everyone["data"], everyone["models"]) == ("D", 3)
    assert everyone[TAU].value == pytest.approx(1 / 3)  # two of three pairs alike
    assert everyone[RHO].value == pytest.approx(0.5)  # 1 − 6·2/(3·8)
    assert everyone[TAU].low <= everyone[TAU].value <= everyone[TAU].high


def test_a_ranking_says_who_was_asked_differently(make: Make) -> None:
    """Causal and masked models have other default scorings, and stand in one column."""
    runs = [make("a", "D", FREE, [1, 2]), make("b", "D", FREE, [2, 1], scorings=("sum/full",))]
    assert "cloze mask-mean: a; cloze sum/full: b" in render(rankings_study.tables(rankings(runs)), "text")
    alike = [runs[0], make("c", "D", FREE, [2, 1])]
    assert "mask-mean: a" not in render(rankings_study.tables(rankings(alike)), "text")


def test_of_one_relation_the_facts_are_the_sample(make: Make) -> None:
    """Not the whole scale: 5 of 20 is as Wilson with Student's quantile says, 4 of the same 20 fewer by (0.05 ± …)."""
    hits = [1] * 5 + [11] * 15
    runs = [make("a", "D", FREE, hits), make("b", "D", FREE, [1] * 9 + [11] * 11)]
    for score in rankings(runs).columns[0].scores:
        assert score.hits[0].high - score.hits[0].low < 0.45
        assert score.hits[0].sample == "fact within relation"
    wider = make("a", "D", FREE, [11] * 4 + [1] + [11] * 15, name="wider", candidates=[*TWENTY, "more"])
    found = compare([wider, runs[0]]).pairs[0].differences[0].number
    assert found.value == pytest.approx(-0.2)
    # Four facts differ, all in one direction: McNemar's statistic √4, of as many pairs as the jackknife's variance has,
    # 19 instead of 20.
    assert found.p_value == pytest.approx(2 * scipy.stats.t.sf(np.sqrt(4 * 19 / 20), 19))
    assert -0.45 < found.low < found.value < 0 < found.high < 0.03


def test_models_are_above_the_baselines_by_their_first_answers(tmp_path: Path) -> None:
    """a has all facts right; b ranks every answer second, so that its Hits@1 is 0."""
    runs = [answered(tmp_path / name, at_rank(at), world(EVEN), model=name) for name, at in (("a", 1), ("b", 2))]
    scores = rankings(runs).columns[0].scores
    assert [(score.model, score.decision.holds) for score in scores] == [("a", True), ("b", False)]


def test_bounds_of_tau_are_what_certain_orders_leave_open(make: Make) -> None:
    """a is surely above b and c; b and c differ by six facts of 200, which is significant at 0.05 / 3 but not at
    0.05 / 6: one of three pairs is open, 2 ± 1 of three."""
    runs = [
        make(model, "D", reading, [1] * right + [9] * (200 - right))
        for reading in (BY_TEMPLATE, FREE)
        for model, right in (("a", 180), ("b", 26), ("c", 20))
    ]
    [agreement] = rankings(runs).agreements
    assert agreement[TAU][:3] == pytest.approx((1, 1 / 3, 1))


def test_rankings_do_not_depend_on_the_order_of_runs(make: Make) -> None:
    runs = grid(make)
    one, other = rankings(runs).agreements[0], rankings(runs[::-1]).agreements[0]
    assert one == other


def test_equal_rankings_of_many_facts_agree_surely(make: Make) -> None:
    # Over 200 facts, shares of 90, 50 and 10 %: every order is significant in both readings.
    runs = [
        make(model, "D", reading, [1] * right + [9] * (200 - right))
        for reading in (BY_TEMPLATE, FREE)
        for model, right in (("a", 180), ("b", 100), ("c", 20))
    ]
    [agreement] = rankings(runs).agreements
    assert agreement[TAU][:3] == (1, 1, 1)
    assert agreement[RHO][:3] == (pytest.approx(1), None, None)


def test_facts_that_one_model_could_not_rank_are_left_out_for_all(make: Make) -> None:
    runs = [make("a", "D", FREE, [1, None, 1]), make("b", "D", FREE, [6, 1, 1])]
    [column] = rankings(runs).columns
    assert (column.facts, column.left_out) == (2, 1)
    assert [score.hits[0].value for score in column.scores] == [1, 0.5]
    text = " ".join(render(rankings_study.tables(rankings(runs)), "text").split())
    assert stated(text, "1 facts", "not all models")
    assert "--reading template-based and template-free" in text  # why there is no agreement to show


def test_both_readings_are_ranked_on_the_facts_that_all_ranked_in_both(make: Make) -> None:
    """Fact 1 has no rank of b by template, fact 3 none of a by sentence: 0 and 2 are left, the others are listed."""
    runs = [
        make("a", "D", BY_TEMPLATE, [1, 1, 1, 1]),
        make("b", "D", BY_TEMPLATE, [6, None, 1, 1]),
        make("a", "D", FREE, [1, 1, 6, None]),
        make("b", "D", FREE, [1, 1, 1, 1]),
    ]
    found = rankings(runs)
    assert [(column.facts, column.left_out) for column in found.columns] == [(2, 2), (2, 2)]
    assert [score.hits[0].value for column in found.columns for score in column.scores] == [1, 0.5, 0.5, 1]
    assert [(one["reading"], one["fact"], one["why"]) for one in found.left_out][:2] == [
        (BY_TEMPLATE, "s|r|1", "b: no mask"),
        (BY_TEMPLATE, "s|r|3", found.left_out[1]["why"]),
    ]
    [listed] = rankings_study.files(found).values()
    assert len(listed.rows) == 4
    assert stated(render(rankings_study.tables(found), "md"), "s|r|1, s|r|3", "rankings-left-out.csv")
    with pytest.raises(BadInput, match="no fact in common"):
        rankings([*runs[:2], *(make(one, "D", FREE, [None, 1, None, None]) for one in "cd")])


def test_bad_rankings(make: Make) -> None:
    one, other = make("a", "D", FREE, [1, 6]), make("b", "D", FREE, [1, 6], candidates=TWENTY[:15])
    with pytest.raises(BadInput, match="found a"):
        rankings([one, make("a", "D", BY_TEMPLATE, [1, 1])])
    with pytest.raises(BadInput, match=mentions("20 candidates", "15 others", "--pool")):
        rankings([one, other])
    with pytest.raises(BadInput, match="a on D, template-free"):
        rankings([one, make("a", "D", FREE, [1], name="again"), make("b", "D", FREE, [1], name="more")])
    with pytest.raises(BadInput, match="no ranked fact"):
        rankings([one, make("b", "D", FREE, [1], name="strange", facts=["t|r|9"])])


def test_models_of_one_last_name_keep_their_full_one(make: Make) -> None:
    runs = [make("x/m", "D", FREE, [1, 6]), make("y/m", "D", FREE, [1, 1])]
    assert [score.model for score in rankings(runs).columns[0].scores] == ["x/m", "y/m"]


# --- the same facts in two ways

ACCURACIES = ("accuracy", "hits@5", "hits@10")


def test_readings_are_paired_by_fact(make: Make) -> None:
    # In common: facts 0, 1, 2. By template ranks 1, 6, 6: 1/3, 1/3, 1; by sentence 1, 1, 6: 2/3, 2/3, 1.
    based = make("m", "D", BY_TEMPLATE, [1, 6, 6, 1, None])
    free = make("m", "D", FREE, [1, 1, 6, None, 1])
    [found] = compare([free, based], metrics=ACCURACIES).pairs
    assert (found.facts, found.only_first, found.only_second) == (3, 1, 1)
    assert [d.first for d in found.differences] == pytest.approx([2 / 3, 2 / 3, 1])
    assert [d.second for d in found.differences] == pytest.approx([1 / 3, 1 / 3, 1])
    assert [d.number.value for d in found.differences] == pytest.approx([1 / 3, 1 / 3, 0])
    # Differences d of 0, 1, 0: error 1/3, as of (1/3 − 1/9) / (1/9) = 2 pairs, a third of which favours the first, and
    # none the second; 2 degrees of freedom. Tango's share q of the second alone solves 4q² + (−2/3 + 10/3 · d) q = 0:
    # it is 0 above d = 1/5, and below 1/6 − 5/6 · d. The variance of a pair is 2q + d (1 − d).
    low, high = found.differences[0].number.low, found.differences[0].number.high
    quantile = scipy.stats.t.ppf(0.975, 2)
    assert low < 1 / 5 < high
    below = 2 * (1 / 6 - 5 / 6 * low) + low * (1 - low)
    assert (2 / 3 - 2 * low) / np.sqrt(2 * below) == pytest.approx(quantile)
    assert (2 * high - 2 / 3) / np.sqrt(2 * high * (1 - high)) == pytest.approx(quantile)
    assert "|reading:template-free − template-based|" in found.differences[0].number.recipe
    assert found.differs == ("readings (template-free and template-based)",)


def test_readings_that_cannot_be_paired(make: Make) -> None:
    free = make("m", "D", FREE, [1])
    with pytest.raises(BadInput, match="no ranked fact"):
        compare([free, make("m", "D", BY_TEMPLATE, [1], facts=["t|r|9"])])
    with pytest.raises(BadInput, match=mentions("--pool", "--candidates")):
        compare([free, make("n", "D", FREE, [1], name="fewer", candidates=TWENTY[:9])])


def test_pools_by_hand(make: Make) -> None:
    original = make("m", "D", FREE, [1, 1, 2, 6], candidates=TWENTY[:10])
    modified = make("m", "D", FREE, [1, 3, 6, 11], name="more")
    [found] = compare([modified, original], metrics=ACCURACIES).pairs
    assert found.differs == ("answer pools (20 and 10 candidates)",)
    assert [d.second for d in found.differences] == pytest.approx([2 / 4, 3 / 4, 1])
    assert [d.first for d in found.differences] == pytest.approx([1 / 4, 2 / 4, 3 / 4])
    assert [d.number.value for d in found.differences] == pytest.approx([-1 / 4] * 3)


# --- repeated predictions


def test_repeated_by_hand(make: Make) -> None:
    # Eleven candidates and three prompts; one is unscored. Firsts: x, x; the second lists share x, 1 … 8.
    ids = ["x", "y", *(str(number) for number in range(9))]
    first = [
        "x",
        *ids[2:],
    ]
    second = ["x", "y", *ids[2:10]]
    more = [{"top_ids": first}, {"top_ids": second}, {"top_ids": None}]
    [found] = repeated([make("m", "D", FREE, [1, 2, None], candidates=ids, more=more)]).runs
    assert (found.about["prompts"], found.about["unscored"]) == (2, 1)
    # top 1: x of 2 predictions; top 5: x 0 1 2 3 and x y 0 1 2, six of 10; top 10: x 0…8 and x y 0…7, eleven of 20
    assert [found.about[f"distinct@{k}"] for k in (1, 5, 10)] == [1, 6, 11]
    shares = [found.about[f"distinct share@{k}"] for k in (1, 5, 10)]
    assert values(shares) == pytest.approx([1 / 2, 6 / 10, 11 / 20])
    assert (found.entities[0]["id"], found.entities[0]["entity"]) == ("x", "name x")
    assert values(found.entities[0][f"top {k}"] for k in (1, 5, 10)) == [1, 1, 1]
    # All are in both top 10, the next in top 5.
    assert [entity["id"] for entity in found.entities[:4]] == ["x", "0", "1", "2"]
    assert values(found.entities[-1][f"top {k}"] for k in (1, 5, 10)) == pytest.approx([0, 0, 1 / 2])


def test_the_overlap_of_two_facts_by_hand() -> None:
    """Best two of three facts: ab, ab, bc. Pairs share 2, 1, 1 of 2: U = (1 + 1/2 + 1/2) / 3. Without the first 1/2,
    without the second 1/2, without the third 1; pseudo-values 3 U − 2 of these, whose mean is U."""
    shares = [dict.fromkeys(own, 1.0) for own in ("ab", "ab", "bc")]
    mean = 2 / 3
    assert pseudo_values(shares, 2).tolist() == pytest.approx([3 * mean - 1, 3 * mean - 1, 3 * mean - 2])
    assert np.isnan(pseudo_values(shares[:2], 2)).all()


def test_intervals_of_overlaps_hold() -> None:
    """Answers drawn among six, the first as likely as the five others: two share one with p = 1/4 + 5/100."""
    draw = np.random.default_rng(0)
    held = []
    for _ in range(200):
        answers = draw.choice(6, 60, p=[0.5, *[0.1] * 5])
        found = interval(pseudo_values([{str(one): 1.0} for one in answers.tolist()], 1), limits=(0, 1))
        held.append(found.low <= 0.3 <= found.high)
    assert np.mean(held) > 0.91


def test_repetition_changes_from_template_to_sentence(make: Make) -> None:
    """By template everything has the same ten best, by sentence two facts of four share the first and none of the
    others; the right answer is the same throughout."""
    ids = [f"e{number:02}" for number in range(40)]
    rest = [ids[1 + 9 * number : 10 + 9 * number] for number in range(4)]
    tops = [[ids[0] if number < 2 else ids[37 + number - 2], *rest[number]] for number in range(4)]
    runs = [
        make("m", "D", BY_TEMPLATE, [1] * 4, candidates=ids),
        make("m", "D", FREE, [1] * 4, candidates=ids, more=[{"top_ids": top} for top in tops]),
        make("n", "D", FREE, [1] * 4, candidates=ids),
    ]
    found = repeated(runs)
    [both] = found.in_both
    assert (both.model, len(both.by_fact), [change["of"] for change in both.changes]) == (
        "m", 4, ["top 1", "top 5", "top 10"],
    )  # fmt: skip
    assert values([change[BY_TEMPLATE] for change in both.changes]) == pytest.approx([1, 1, 1])
    assert values([change[FREE] for change in both.changes]) == pytest.approx([1 / 6, 1 / 30, 1 / 60])
    assert values([change["difference"] for change in both.changes]) == pytest.approx([-5 / 6, -29 / 30, -59 / 60])
    assert both.changes[0]["right answers"].value == pytest.approx(1)
    assert [plot.name for plot in repeated_study.plots(found)] == ["repeated-0", "repeated-1", "repeated-2"]


def test_right_answers_of_each_entity(make: Make) -> None:
    """Four prompts with one right answer, e00, which each has among its ten best."""
    ids = [f"e{number:02}" for number in range(40)]
    [found] = repeated([make("m", "D", BY_TEMPLATE, [1] * 4, candidates=ids)]).runs
    assert found.about["right answers"].value == 1 / 4
    assert values([found.entities[n]["right answers"] for n in range(2)]) == [1, 0]


def test_figure_1_has_right_answers(make: Make) -> None:
    """Two prompts of four have the same ten best, the others ten of their own; all are right with the first entity."""
    figure = pytest.importorskip("matplotlib.figure").Figure()
    ids = [f"e{number:02}" for number in range(40)]
    tops = [ids[:10] if number < 2 else ids[10 * number - 10 : 10 * number] for number in range(4)]
    run = make("m", "D", FREE, [1] * 4, candidates=ids, more=[{"top_ids": top} for top in tops])
    [plot], axes = repeated_study.plots(repeated([run])), figure.subplots()
    plot.draw(axes)
    assert [[bar.get_height() for bar in bars] for bars in axes.containers] == [[50] * 10 + [25] * 5]
    [lines] = axes.collections
    assert [segment[0, 1] for segment in lines.get_segments()] == [100] + [0] * 14
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["name e00", "name e01"]
    # Three of four first answers differ, 15 of 20 at a cut of five, 30 of 40 at ten.
    said = axes.get_legend().get_title().get_text()
    assert said.startswith(
        "m, D, template-free, 4 prompts\ndistinct: 75.0 % of top 1, 75.0 % of top 5, 75.0 % of top 10"
    )


def test_readings_that_are_not_laid_side_by_side_say_why(make: Make) -> None:
    """Of m the facts differ, of n the candidates, of o there are two runs by sentence; p was asked in one reading."""
    runs = [
        make("m", "D", BY_TEMPLATE, [1, 1, 1]),
        make("m", "D", FREE, [1, 1, 1], facts=["a", "b", "c"]),
        make("n", "D", BY_TEMPLATE, [1, 1, 1]),
        make("n", "D", FREE, [1, 1, 1], candidates=TWENTY[:19]),
        make("o", "D", BY_TEMPLATE, [1, 1, 1]),
        *(make("o", "D", FREE, [1, 1, 1], name=name) for name in ("first", "second")),
        make("p", "D", FREE, [1, 1, 1]),
    ]
    found = repeated(runs)
    assert found.in_both == []
    assert [model for model, *_ in found.not_paired] == ["m", "n", "o"]
    for (*_, why), part in zip(found.not_paired, ("no ranked fact", "19 others", "second are both"), strict=True):
        assert why.startswith("template-based and template-free: ")
        assert part in why
    for form in ("text", "json"):
        told = render(repeated_study.tables(found), form)
        assert "not compared" in told
        assert str(runs[0].path) in told
    assert "not compared" not in render(repeated_study.tables(repeated(runs[-1:])), "text")


def test_fewer_than_ten_candidates_are_no_fault_and_a_short_list_is(make: Make) -> None:
    [found] = repeated([make("m", "D", FREE, [1, 1], candidates=TWENTY[:3])]).runs
    assert values(found.about[f"distinct share@{k}"] for k in (1, 5, 10)) == pytest.approx([1 / 2, 3 / 6, 3 / 6])
    with pytest.raises(BadInput, match=mentions(2, 10, "--top-k 10")):
        repeated([make("m", "E", FREE, [1], more=[{"top_ids": ["e00", "e01"]}])])


# --- what metrics print first


def test_unscored_queries_and_deviations(make: Make) -> None:
    ranks, templates, of = [1, 1, 6, 1, None], [0, 1, 0, 1, 0], ["a", "a", "b", "b", "b"]
    summary = summarise(make("m", "D", BY_TEMPLATE, ranks, templates=templates, relations=of), ["relation"])
    first, second = summary.answer
    assert stated(first, 75.0, 4)
    assert mentioned(second, "1 of 5 queries are unscored", "no mask (1)")
    [part] = [table for table in summary.tables if "relation" in table.columns]
    assert [row["deviation"] for row in part.objects()] == [0, pytest.approx(math.sqrt(0.5))]


# --- perplexity


def test_accuracy_and_perplexity_by_hand(make: Make) -> None:
    # Perplexities 2, 4, 8 and Acc@1 1, 1/2, 0 on D.
    runs = [
        make(model, "D", FREE, ranks, more=[likelihood(-math.log(value), 1)] * 2)
        for model, ranks, value in (("a", [1, 1], 2), ("b", [1, 6], 4), ("c", [6, 6], 8))
    ]
    runs.append(make("a", "E", FREE, [1, None], more=[likelihood(-math.log(3) * 2, 2), {}]))
    found = perplexities(runs)
    assert [(p["Acc@1"].value, p["perplexity"].value) for p in found.points] == [
        (1, pytest.approx(2)),
        (0.5, pytest.approx(4)),
        (0, pytest.approx(8)),
        (1, pytest.approx(3)),
    ]
    assert (found.points[3]["prompts"], found.points[3]["left out"]) == (1, 1)
    assert [(m["data"], m["Acc@1"].value) for m in found.means] == [("D", 0.5), ("E", 1)]
    assert found.means[0]["perplexity"].value == pytest.approx(14 / 3)
    over_models = found.related[0]
    reference = scipy.stats.pearsonr([2, 4, 8], [1, 0.5, 0])
    assert over_models["Pearson r"].value == pytest.approx(reference.statistic)
    assert over_models["Pearson r"].p_value is None  # three points have no interval, and so no test
    assert math.isnan(found.related[-1]["Pearson r"].value)  # two data sets
    assert found.related[-1]["points are"] == "data sets"


def test_models_are_compared_on_the_facts_that_all_ranked(make: Make) -> None:
    """The fact that the second model cannot rank counts for neither: it would give the first 1/2 and perplexity 6."""
    runs = [
        make(model, "D", FREE, ranks, more=[likelihood(-math.log(value), 1) for value in (2, 10)])
        for model, ranks in (("a", [6, 1]), ("b", [1, None]))
    ]
    one, other = perplexities(runs).points
    assert (one["Acc@1"].value, one["perplexity"].value) == (0, pytest.approx(2))
    assert (other["Acc@1"].value, other["perplexity"].value) == (1, pytest.approx(2))
    assert (one["prompts"], one["left out"]) == (other["prompts"], other["left out"]) == (1, 1)


def test_a_run_without_perplexities_says_what_to_type(make: Make) -> None:
    with pytest.raises(BadInput) as told:
        perplexities([make("a", "D", FREE, [1]), make("b", "D", FREE, [1])])
    assert len(told.value.faults) == 2
    assert all("--perplexity" in fault for fault in told.value.faults)


def test_the_papers_figure_2_follows_from_its_tables() -> None:
    # Averages of tables 3 to 5 of Shaier et al.; the figure's caption says 0.83 (p 0.16) and 0.60 (p 0.20), the latter
    # without its sign: accuracy falls with perplexity in template-free data, as their text says.
    based = correlate([295.36, 396.23, 24.66, 77.42], [0.025, 0.11, 0.011, 0.002])
    free = correlate([79.97, 43.54, 477.02, 154.19, 29.31, 31.29], [0.094, 0.21, 0.073, 0.17, 0.12, 0.18])
    assert (based.estimate, free.estimate) == pytest.approx((0.83, -0.60), abs=0.01)
    # Theirs is Student's; ours belongs to the interval, which is Fisher's: z = artanh r, error 1 / √(n − 3).
    for found, n in ((based, 4), (free, 6)):
        expected = 2 * scipy.stats.norm.sf(abs(math.atanh(found.estimate)) * math.sqrt(n - 3))
        assert found.p_value == pytest.approx(expected)
        assert (found.p_value < 0.05) == (found.low > 0 or found.high < 0)


# --- templates and relations


def test_shared_relations_by_hand(make: Make) -> None:
    # Shared: P1, P2, P3. BEAR 1, 1/2, 0 (mean 1/2); T-REx 1, 1, 1/2 (mean 5/6): difference −1/3.
    bear = make("m", "BEAR", BY_TEMPLATE, [1, 1, 6, 6, 1], relations=["P1", "P2", "P2", "P3", "P9"])
    trex = make("m", "T-REx", BY_TEMPLATE, [1, 1, 1, 6], relations=["P1", "P2", "P3", "P3"], candidates=TWENTY[:12])
    found = shared_relations([bear, trex])
    [model] = found.models
    assert found.names == ("BEAR", "T-REx")
    assert [model[name].value for name in found.names] == pytest.approx([1 / 2, 5 / 6])
    assert model["difference"].value == pytest.approx(-1 / 3)
    assert relations.conclude(found)[0].startswith("m, accuracy on BEAR minus T-REx: ")
    assert model["Pearson r"].value == pytest.approx(scipy.stats.pearsonr([1, 0.5, 0], [1, 1, 0.5]).statistic)
    counts = [(row["relation"], row["facts BEAR"], row["facts T-REx"]) for row in found.relations]
    assert counts == [("P1", 1, 1), ("P2", 2, 1), ("P3", 1, 2)]
    assert found.only == (1, 0)
    assert found.spread is None
    assert "1 relations of only BEAR" in render(relations.tables(found), "text")
    # A second model, 1/2 worse in P1 of BEAR … all wrong there, all right on T-REx: spreads 1/2 and 1/6.
    others = [
        make("n", "BEAR", BY_TEMPLATE, [6] * 5, relations=["P1", "P2", "P2", "P3", "P9"]),
        make("n", "T-REx", BY_TEMPLATE, [1] * 4, relations=["P1", "P2", "P3", "P3"], candidates=TWENTY[:12]),
    ]
    assert shared_relations([bear, trex, *others]).spread == pytest.approx((1 / 2, 1 / 6))
    with pytest.raises(BadInput, match=mentions("BEAR", "REx")):
        shared_relations([bear, trex, others[0]])
    with pytest.raises(BadInput, match="1: BEAR"):
        shared_relations([bear])
    with pytest.raises(BadInput, match="share no relation"):
        shared_relations([bear, make("m", "K", BY_TEMPLATE, [1], relations=["Q1"])])


# --- what is written


def test_the_studies_write_tables_and_pictures(make: Make, tmp_path: Path) -> None:
    told = [likelihood(-1.0, 2)] * 4
    for reading, ranks in {BY_TEMPLATE: [1, 6, 6, 6], FREE: [1, 1, 6, 6]}.items():
        for number, model in enumerate("abc"):
            make(model, "D", reading, ranks[number:] + ranks[:number], name=f"{model}-{reading}", more=told)
    make("a", "D", FREE, [1, 6, 6, 11], name="more", candidates=[*TWENTY, "e20"])
    make("a", "E", FREE, [1, 6, 6, 11], name="elsewhere")
    runs = [str(tmp_path / f"{model}-{reading}") for model in "abc" for reading in (BY_TEMPLATE, FREE)]
    asked = {
        "rankings": runs,
        "repeated": runs[:2],
        "perplexity": runs,
        "relations": [str(tmp_path / "a-template-free"), str(tmp_path / "elsewhere")],
    }
    for command, folders in asked.items():
        out = tmp_path / "out" / command
        study = STUDIES.find(command)
        study.save(study.analyse([RunFolder.open(folder) for folder in folders]), out)
        assert json.loads((out / f"{command}.json").read_text())
        assert {f"{command}.json", f"{command}.csv", f"{command}.md"} <= {file.name for file in out.iterdir()}
    pytest.importorskip("matplotlib")
    pictures = {str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*.png")}
    assert pictures == {
        "repeated/repeated-0.png",
        "repeated/repeated-1.png",
        "perplexity/perplexity.png",
        "relations/relations.png",
    }


def test_every_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(make_app(), ["study", "length-bias", str(tmp_path / "x"), str(tmp_path / "y")])
    assert isinstance(result.exception, BadInput)
    assert len(result.exception.faults) == 2


@pytest.mark.parametrize(
    ("readings", "over"),
    [
        ([("D", BY_TEMPLATE), ("D", FREE)], ["D"]),
        ([("D", BY_TEMPLATE), ("E", BY_TEMPLATE), ("D", FREE)], ["D"]),
        ([("D", BY_TEMPLATE), ("D", FREE), ("E", FREE)], ["D"]),
        ([("D", BY_TEMPLATE), ("E", FREE)], []),
        ([("D", BY_TEMPLATE), ("E", BY_TEMPLATE)], []),
    ],
)
def test_over_which_data_the_readings_are_compared(
    make: Make, readings: list[tuple[str, str]], over: list[str]
) -> None:
    ranks = {"a": [1, 1, 1, 6], "b": [1, 6, 6, 6]}
    runs = [make(model, data, reading, own) for data, reading in readings for model, own in ranks.items()]
    found = rankings(runs)
    assert [one["data"] for one in found.agreements] == over
    for one in found.agreements:
        assert [one[TAU].recipe.partition("|")[0], one[RHO].recipe.partition("|")[0]] == [TAU, RHO]
    *_, table = rankings_study.tables(found)
    for row, one in zip(table.objects(), found.agreements, strict=True):
        assert (row["low"], row["high"]) == (one[TAU].low, one[TAU].high)


def test_bars_of_repetition_stand_at_their_shares(make: Make) -> None:
    """Three prompts; c0 is right in all, and stands in the top ten of all."""
    axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
    found = repeated([make("a", "D", BY_TEMPLATE, [1, 1, 6])])
    repeated_plots(found)[0].draw(axes)
    best = found.runs[0].entities[0]
    assert axes.patches[0].get_height() == pytest.approx(100 * best["top 10"].value)
    assert axes.collections[0].get_segments()[0][0][1] == pytest.approx(100 * best["right answers"].value)
