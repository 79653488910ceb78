"""Summaries of a hand-made run: every number derived in the comments."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats

from fathom.base.errors import BadInput
from fathom.results.answers import error_table
from fathom.results.estimates import Estimate, combined, named_in, recipe
from fathom.results.metrics.table import METRICS
from fathom.results.rows import Rows
from fathom.results.summary import RunNumbers, summarise
from fathom.results.tables import Table, _latex_line, render, to_csv, to_latex, to_markdown, to_text
from fathom.store.predictions import SCHEMA
from tests.messages import mentions, stated

IDENTITY = {
    "probe": "statement",
    "options": {},
    "model": {"name": "toy", "revision": None, "dtype": "float32", "content_hash": "cafe"},
    "data": {"name": "Mini", "content_hash": "3f2a"},
    "seed": 0,
    "version": "0.1.0",
}
SPACES = {"R1": (["a", "b", "c"], ["Aachen", "Bonn", "Celle"]), "R2": (["x", "y"], ["xylem", "yew"])}
QUERIES = [
    ("q1", "R1", "a", {"cardinality": "1:N", "domain": "Geo; Art"}),
    ("q2", "R1", "b", {"cardinality": "1:N", "domain": "Geo; Art"}),
    ("q3", "R2", "y", {"cardinality": "1:1", "domain": "Geo"}),
]


class Fake:
    """A run that lies in memory."""

    manifest: Mapping[str, Any]
    path = Path("run")

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.manifest = {"identity": IDENTITY}
        self.rows = rows

    def is_complete(self) -> bool:
        return False

    def predictions(self) -> pa.Table:
        # two chunks, as two shards would give
        parts = [list(self.rows[:2]), list(self.rows[2:])]
        return pa.concat_tables([pa.Table.from_pylist(part, schema=SCHEMA) for part in parts])

    def queries(self) -> pa.Table:
        return pa.table(
            {
                "query_id": [query[0] for query in QUERIES],
                "fact_id": [f"s|{query[1]}|{query[2]}" for query in QUERIES],
                "relation": [query[1] for query in QUERIES],
                "direction": ["tail"] * len(QUERIES),
                "subject_id": ["s"] * len(QUERIES),
                "gold": pa.array([[query[2]] for query in QUERIES], pa.list_(pa.string())),
                "candidates": [query[1] for query in QUERIES],
                "groups": pa.array([list(query[3].items()) for query in QUERIES], pa.map_(pa.string(), pa.string())),
            }
        )

    def candidates(self) -> Mapping[str, tuple[Sequence[str], Sequence[str]]]:
        return SPACES


def scored(query: str, template: int, probabilities: list[float], best: int, worst: int, **more: Any) -> dict[str, Any]:
    return {
        "query_id": query,
        "template": template,
        "scoring": "sum/full",
        "prompt": "[Y] is it." if template else "It is [Y].",
        "rank": (best + worst) / 2,
        "rank_optimistic": best,
        "rank_pessimistic": worst,
        "num_candidates": len(probabilities),
        "scores": (np.log(probabilities) - 40).tolist(),
        **more,
    }


def unscored(query: str, template: int, why: str | None) -> dict[str, Any]:
    row = {"query_id": query, "template": template, "scoring": "sum/full", "unscored": why}
    return row | {"scores": [math.nan, 1.0]}


#            template 0                    Hits@1  1/rank | template 1                       Hits@1  1/rank
# q1, gold a (.5, .25, .25)  rank 1           1      1    | (.4, .4, .2)    rank 1–2, 1.5     1/2     2/3
# q2, gold b (.75, .15, .1)  rank 2           0     1/2   | (.25, .65, .1)  rank 1             1       1
# q3, gold y (.1, .9)        rank 1           1      1    | unscored
ROWS = [
    scored("q1", 0, [0.5, 0.25, 0.25], 1, 1),
    scored("q2", 0, [0.75, 0.15, 0.1], 2, 2),
    scored("q3", 0, [0.1, 0.9], 1, 1),
    scored("q1", 1, [0.4, 0.4, 0.2], 1, 2),
    scored("q2", 1, [0.25, 0.65, 0.1], 1, 1),
    unscored("q3", 1, "not numbers"),
]


def values(run: Fake) -> dict[str, float]:
    return {name: number.value for name, number in summarise(run).headlines[0].numbers.items()}


def test_headline_by_hand() -> None:
    line = summarise(Fake(ROWS)).headlines[0]
    assert (line.scoring, line.templates, line.queries, line.predictions) == ("sum/full", (0, 1), 3, 6)
    assert (line.unscored, line.reasons) == (1, {"not numbers": 1})
    # accuracy per template: (1 + 0 + 1)/3 = 2/3 and (1/2 + 1)/2 = 3/4: mean 17/24; sample deviation (1/12)/√2
    assert line.accuracy is not None
    assert line.accuracy.value == pytest.approx(17 / 24)
    assert line.deviation == pytest.approx(1 / 12 / math.sqrt(2))
    # Two queries of R1, weights 5/6 each, with means 0.7 and 0.6; one of R2, weight 1/3, mean 1, which joins them. The
    # means without each in turn have the variance V = 2/3 · Σ of squares around theirs, with 2 degrees of freedom: that
    # of 17/24 · 7/24 / V tosses.
    without = [(5 / 6 * 0.6 + 1 / 3) / (7 / 6), (5 / 6 * 0.7 + 1 / 3) / (7 / 6), 0.65]
    bend = scipy.stats.t.ppf(0.975, 2) ** 2 / (17 / 24 * 7 / 24 / (2 / 3 * 3 * np.var(without)))
    ends = np.sort(np.roots([1 + bend, -(17 / 12 + bend), (17 / 24) ** 2]))
    assert [line.accuracy.low, line.accuracy.high] == pytest.approx(ends.tolist())
    assert (line.accuracy.clusters, line.accuracy.n, line.accuracy.note) == (3, 5, "")
    assert line.accuracy.sample == "fact within relation"
    assert "|cluster:fact within relation" in line.accuracy.recipe
    assert values(Fake(ROWS)) == pytest.approx(
        {
            "accuracy": 17 / 24,
            "hits@5": 1,
            "hits@10": 1,
            "mrr": ((1 + 1 / 2 + 1) / 3 + ((1 + 1 / 2) / 2 + 1) / 2) / 2,
            "mean_rank": ((1 + 2 + 1) / 3 + (1.5 + 1) / 2) / 2,
            "consistency": (1 / 2 + 0) / 2,  # q1: {a} and {a, b}, a half; q2: a and b; q3 lacks an answer: left out
            "confidence": ((0.5 + 0.75 + 0.9) / 3 + (0.4 + 0.65) / 2) / 2,
            "margin": ((0.25 + 0.6 + 0.8) / 3 + (0 + 0.4) / 2) / 2,
            "uncertainty": values(Fake(ROWS))["uncertainty"],
            # mean over options of (p − y)²: q1 .375/3, q2 1.295/3, q3 .02/2; template 1: .56/3 and .195/3
            "brier": ((0.375 / 3 + 1.295 / 3 + 0.01) / 3 + (0.56 / 3 + 0.195 / 3) / 2) / 2,
            "ece": values(Fake(ROWS))["ece"],
        }
    )
    # Gaps of template 0: |.5 − 1|, |.75 − 0|, |.9 − 1|; of template 1: |.4 − .5|, |.65 − 1|. Noise is subtracted.
    assert 0 < values(Fake(ROWS))["ece"] < ((0.5 + 0.75 + 0.1) / 3 + (0.1 + 0.35) / 2) / 2


def test_uncertainty_by_hand() -> None:
    # q3, template 0: H(.1, .9)/log 2 = 0.468996 bits
    assert values(Fake(ROWS[2:3]))["uncertainty"] == pytest.approx(0.4689956)


def test_order_of_predictions_does_not_matter() -> None:
    ours, theirs = RunNumbers(Fake(ROWS)).json(), RunNumbers(Fake(ROWS[::-1])).json()
    a, b = ours["scorings"]["sum/full"]["metrics"], theirs["scorings"]["sum/full"]["metrics"]
    for name in a:
        assert [a[name][key] for key in ("value", "low", "high")] == pytest.approx(
            [b[name][key] for key in ("value", "low", "high")]
        )


def test_breakdown_counts_a_query_in_all_its_domains() -> None:
    parts = {part.keys: part for part in summarise(Fake(ROWS), ["domain"]).breakdowns[0].parts}
    # Art is R1: templates (1 + 0)/2 and (1/2 + 1)/2: mean 5/8. Geo is everything.
    art, geo = parts["Art",], parts["Geo",]
    right, of_all = art.numbers["accuracy"], geo.numbers["accuracy"]
    assert (art.queries, art.n, art.unscored, right.value) == (2, 4, 0, pytest.approx(5 / 8))
    assert (geo.queries, geo.n, geo.unscored, of_all.value) == (3, 5, 1, pytest.approx(17 / 24))
    assert (right.note, right.sample) == ("", "fact within relation")
    assert right.recipe.endswith("|domain:Art")


def test_breakdown_by_two_keys_and_a_part_without_scores() -> None:
    parts = {part.keys: part for part in summarise(Fake(ROWS), ["relation+template"]).breakdowns[0].parts}
    assert list(parts) == [("R1", "0"), ("R1", "1"), ("R2", "0"), ("R2", "1")]
    empty = parts["R2", "1"]
    assert (empty.n, empty.unscored, empty.numbers.get("accuracy"), empty.numbers.get("mrr")) == (0, 1, None, None)
    text = summarise(Fake(ROWS), ["relation+template"]).to_text()
    assert "nothing was scored" in text
    assert stated(text, "1 × unscored", "not numbers")


def test_unknown_key_names_those_there_are() -> None:
    for key in ("", "colour"):
        with pytest.raises(BadInput, match="template, scoring, relation, direction, cardinality, domain"):
            summarise(Fake(ROWS), [key])


def test_nothing_scored() -> None:
    run = Fake([unscored("q3", 0, "no name"), unscored("q3", 1, None)])
    line = summarise(run).headlines[0]
    assert (line.accuracy, line.deviation, line.unscored) == (None, None, 2)
    assert line.reasons == {"no name": 1, "no rank was recorded": 1}
    assert "–" in summarise(run, ["relation"]).to_text()
    assert RunNumbers(run).json()["scorings"]["sum/full"]["metrics"] == {}
    assert error_table(run, 5).rows == ()


def test_reasons_that_differ_in_numbers_are_one_line() -> None:
    """Ranges by number (99 before 108), ids and names as they are; JSON keeps every reason."""
    long, most = "{} tokens, window 64", "{} tokens, x"
    whys = [long.format(108), most.format(9), long.format(99), long.format(125), most.format(9), long.format(108)]
    whys += ["its answer 08769179 has no name", "its answer 02 has no name", "P36 is odd", "P37 is odd"]
    run = Fake([unscored("q3", number, why) for number, why in enumerate(whys)])
    notes = [note for note in summarise(run).tables[0].notes if "unscored" in note]
    assert notes == [
        "sum/full: 4 × unscored: 99 to 125 tokens, window 64",
        "sum/full: 2 × unscored: 9 tokens, x",
        "sum/full: 1 × unscored: its answer 08769179 has no name",
        "sum/full: 1 × unscored: its answer 02 has no name",
        "sum/full: 1 × unscored: P36 is odd",
        "sum/full: 1 × unscored: P37 is odd",
    ]
    assert RunNumbers(run).json()["scorings"]["sum/full"]["reasons"] == dict.fromkeys(whys, 1) | {
        long.format(108): 2,
        most.format(9): 2,
    }


def test_an_empty_run() -> None:
    assert summarise(Fake([])).headlines == ()
    assert summarise(Fake([])).to_text()
    assert RunNumbers(Fake([])).json()["scorings"] == {}


def test_scorings_are_never_mixed_and_cosines_are_no_confidence() -> None:
    cosine = [{**row, "scoring": "cosine"} for row in ROWS[:2]]
    first, second = summarise(Fake([*ROWS, *cosine])).headlines
    assert first.accuracy is not None
    assert first.accuracy.value == pytest.approx(17 / 24)
    assert second.accuracy is not None
    assert second.accuracy.value == 0.5
    assert "confidence" not in second.numbers
    assert "ece" not in second.numbers


def test_a_stopped_search_tells_hits_but_no_mean_rank() -> None:
    stopped = {"query_id": "q2", "template": 0, "scoring": "sum/full", "rank_above": 5}
    numbers = values(Fake([ROWS[0], stopped]))
    # ranks 1 and more than 5: Hits@1 and Hits@5 are 1/2, Hits@10 cannot be told
    assert (numbers["accuracy"], numbers["hits@5"]) == (0.5, 0.5)
    assert not {"hits@10", "mrr", "mean_rank"} & numbers.keys()


def test_credit_of_answers_without_ranks_is_accuracy() -> None:
    rows = [
        {"query_id": f"q{n}", "template": -1, "scoring": "match", "correct": credit} for n, credit in ((1, 1), (2, 0))
    ]
    numbers = values(Fake(rows))
    assert numbers == {"accuracy": 0.5}


def test_tops_come_from_the_list_where_scores_were_not_kept() -> None:
    lists = {"scores": None, "top_ids": ["a", "b"], "top_scores": [-1.0, -2.0]}
    rows = [scored("q1", template, [0.5, 0.5], 1, 1) | lists for template in (0, 1)]
    numbers = values(Fake(rows))
    assert numbers["consistency"] == 1
    assert "confidence" not in numbers


def test_rows_that_are_not_of_one_run_are_refused() -> None:
    with pytest.raises(BadInput, match=mentions("'q1'", "0")):
        summarise(Fake([ROWS[0], ROWS[0]]))
    with pytest.raises(BadInput, match="'elsewhere'"):
        summarise(Fake([scored("elsewhere", 0, [1.0], 1, 1)]))


def test_ranks_that_cannot_be_are_refused() -> None:
    """From 1 to the number of candidates, where that is recorded."""
    for best, worst, name in ((0, 2, "rank_optimistic"), (2, 4, "rank_pessimistic"), (4, 4, "rank")):
        with pytest.raises(BadInput, match=mentions(f"{name} of query 'q1'", "damaged")):
            summarise(Fake([scored("q1", 0, [0.5, 0.25, 0.25], best, worst)]))
    assert values(Fake([scored("q1", 0, [0.5, 0.25, 0.25], 4, 4, num_candidates=None)]))["mrr"] == 1 / 4


def test_a_prompt_without_tokens_has_no_perplexity() -> None:
    asked = [scored("q1", 0, [1.0], 1, 1, prompt_log_prob=-1.0, prompt_tokens=tokens) for tokens in (0, 1)]
    rows = Rows(Fake([one | {"template": number} for number, one in enumerate(asked)]))
    assert rows.prompt_log_prob.tolist() == pytest.approx([math.nan, -1], nan_ok=True)


def test_recipe() -> None:
    assert recipe(Rows(Fake(ROWS)), "accuracy", "sum/full", (0, 1)) == (
        "accuracy|data:Mini@3f2a|probe:statement|scoring:sum/full|templates:0,1|ties:expected|model:toy@cafe|dtype:float32|fathom:0.1.0"
    )


def test_a_recipe_of_several_lists_what_differs() -> None:
    recipes = ("accuracy|data:a|model:m", "mrr|data:b|model:m")
    assert combined("gain", recipes) == "gain|data:a − b|model:m"
    assert combined("both", reversed(recipes), " and ") == "both|data:a and b|model:m"


def test_error_table_shows_the_surest_mistake() -> None:
    table = error_table(Fake(ROWS), 5)
    # only q2, template 0 has no chance: .75 on Aachen, .15 on the right Bonn. q1's tie at template 1 may be right.
    entropy = -(0.75 * math.log(0.75) + 0.15 * math.log(0.15) + 0.1 * math.log(0.1)) / math.log(3)
    assert len(table.rows) == 1
    assert table.columns[4:7] == ("first_answer", "first_rank", "first_probability")
    assert table.rows[0][:5] == ("sum/full", "R1", "q2", 0, "It is Aachen.")
    assert table.rows[0][5:7] == (1, pytest.approx(0.75))
    assert table.rows[0][7] == "It is Bonn."
    assert table.rows[0][8:] == (2, pytest.approx(0.15), pytest.approx(entropy))


def test_error_table_sorts_by_confidence_and_counts_ties() -> None:
    rows = [
        scored("q2", 0, [0.4, 0.2, 0.4], 3, 3),  # first answers a and c share rank 1.5; a has the smaller id
        scored("q3", 1, [0.8, 0.2], 2, 2),
    ]
    first, second = error_table(Fake(rows), 5).rows
    assert (first[2], first[4]) == ("q3", "Xylem is it.")  # a capital where the answer begins the sentence
    assert (second[4], second[5], second[8]) == ("It is Aachen.", 1.5, 3)
    assert len(error_table(Fake(rows), 1).rows) == 1


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        ("(France, capital, Paris)\n(Bonn, river, Rhine)\n(Oz, river,[Y]", "(Oz, river,Aachen"),
        ("Oz lies here.\nOz - a land\n(Oz, river,[Y]", "(Oz, river,Aachen"),
        ("Which river has Oz? (a) Aachen, (b) Bonn\nAnswer: [Y]", "Which river has Oz?\nAnswer: Aachen"),
        ("Q: Which river has Eb?\nA: Bonn\nQ: Which river has Oz?\nA: [Y]", "Q: Which river has Oz?\nA: Aachen"),
        ("The river (a) of it is [Y].\nOz is a land.", "The river (a) of it is Aachen.\nOz is a land."),
        ("It is\n[Y].", "Aachen."),
    ],
)
def test_error_table_shows_the_question_of_a_prompt(prompt: str, shown: str) -> None:
    rows = [scored("q2", 0, [0.75, 0.15, 0.1], 2, 2, prompt=prompt, subject="Oz")]
    assert error_table(Fake(rows), 1).rows[0][4] == shown


def test_metrics_json_is_json_with_recipes_and_breakdowns() -> None:
    content = json.loads(json.dumps(RunNumbers(Fake(ROWS)).json(), allow_nan=False))
    scoring = content["scorings"]["sum/full"]
    assert scoring["metrics"]["accuracy"]["value"] == pytest.approx(17 / 24)
    assert scoring["metrics"]["accuracy"]["recipe"].startswith("accuracy|data:Mini@3f2a|")
    assert set(scoring["by"]) == {"template", "relation", "cardinality", "domain"}
    assert scoring["by"]["template"]["1"]["unscored"] == 1
    assert scoring["by"]["relation"]["R2"]["accuracy"]["value"] == 1
    assert RunNumbers(Fake(ROWS[:1])).json()["scorings"]["sum/full"]["metrics"]["mean_rank"]["high"] is None


# --- tables

TABLE = Table(
    ("name", "share", "secret"),
    (("東京", 0.123456, 1), ("a|b\x1b[31m", None, 2), ("c", math.nan, 3)),
    "Title",
    {"share": ".1%"},
    hidden=frozenset({"secret"}),
    notes=("careful",),
)


def test_text_is_aligned_rounded_and_harmless() -> None:
    assert to_text(TABLE).splitlines() == [
        "Title",
        "name       share",
        "────────  ──────",
        "東京      12.3 %",
        "a|b [31m       –",
        "c              –",
        "careful",
    ]


def test_markdown() -> None:
    assert to_markdown(TABLE).splitlines() == [
        "**Title**",
        "",
        "| name | share |",
        "| --- | ---: |",
        "| 東京 | 12.3 % |",
        "| a\\|b [31m | – |",
        "| c | – |",
        "",
        "- careful",
    ]


def test_ends_of_intervals_have_a_minus_in_latex() -> None:
    table = Table(("model", "change"), (("gpt-2", -0.5), ("[a-1]", 1.0)))
    [first, second] = [line for line in to_latex(table).splitlines() if "&" in line][1:]
    assert first == r"gpt-2 & $-$0.5 \\"
    assert second == r"{[a-1]} & 1 \\"
    assert _latex_line(["a-1", "-40.0 [-73.5, 1-2]"], [False, True]) == r"a-1 & $-$40.0 [$-$73.5, 1-2] \\"


def test_latex_escapes_everything() -> None:
    names = [r"50 % & more_$#{x}~^\ <|>", "−1 – 2", "[x]"]
    table = Table(
        ("a_b", "x²", "low"),
        tuple((name, value, None) for name, value in zip(names, (-0.5, -0.5, 0.5), strict=True)),
        "50 % is",
        {"x²": ".1%"},
        notes=("a_b\n%",),
        recipe="a_b|data:x",
    )
    assert to_latex(table).splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{50 \% is (data: x)}",
        r"\label{tab:x-50-is}",
        r"\begin{tabular}{lrl}",
        r"\toprule",
        r"a\_b & x² & low \\",
        r"\midrule",
        r"50 \% \& more\_\$\#\{x\}\textasciitilde{}\textasciicircum{}\textbackslash{} "
        r"\textless{}\textbar{}\textgreater{} & $-$50.0 \% & -- \\",
        r"$-$1 -- 2 & $-$50.0 \% & -- \\",
        r"{[x]} & 50.0 \% & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "% a_b %",
    ]
    assert render([table], "latex") == f"{to_latex(table)}\n\n% recipe: a_b|data:x"
    assert render([table], "md").endswith("\n\nrecipe: a_b|data:x")
    assert "recipe" not in render([table], "text")


def test_a_caption_names_models_and_data() -> None:
    """Of a comparison all models; of a table without numbers those of the others."""
    of_one = "accuracy|data:facts.nt@0123456789abcdef|scoring:sum|model:/models/gpt_2@0123456789abcdef"
    numbers, texts = Table(("a",), ((1.0,),), "Results", recipe=of_one), Table(("b",), (("x",),), "Errors")
    shown = render([numbers, texts], "latex")
    assert r"\caption{Results (model: gpt\_2; data: facts.nt)}" in shown
    assert r"\label{tab:gpt-2-facts-nt-results}" in shown
    assert r"\label{tab:gpt-2-facts-nt-errors}" in shown
    both = combined("difference", [of_one, of_one.replace("gpt_2@0123456789abcdef", "own/bert@fedcba9876543210")])
    assert (named_in(both, "model"), named_in(both, "data")) == (["bert", "gpt_2"], ["facts.nt"])
    hashes = "0123456789abcdef", "fedcba9876543210"
    together = "|".join(("r", f"data:this or that@{hashes[0]}", f"model:a@{hashes[0]} and b@{hashes[1]}"))
    assert (named_in(together, "model"), named_in(together, "data")) == (["a", "b"], ["this or that"])


def test_csv_and_json_keep_everything() -> None:
    assert to_csv(TABLE).splitlines()[:2] == ["name,share,secret", "東京,0.123456,1"]
    formula = Table(("name", "gain"), (("=1+1", -0.5), ("@x", 1)))
    assert to_csv(formula).splitlines()[1:] == ["'=1+1,-0.5", "'@x,1"]
    objects = TABLE.objects()
    assert objects[0] == {"name": "東京", "share": 0.123456, "secret": 1}
    assert objects[2]["share"] is None


def test_render() -> None:
    assert json.loads(render([TABLE], "json")) == {TABLE.title: TABLE.objects()}
    assert list(json.loads(render([TABLE, Table(("a",), (), "Other")], "json"))) == ["Title", "Other"]
    assert "\n\nOther" in render([TABLE, Table(("a",), (), "Other")], "text")
    with pytest.raises(BadInput, match="text, json, csv, md and latex"):
        render([TABLE], "xml")
    with pytest.raises(ValueError, match="2 cells"):
        Table(("a",), ((1, 2),))


# --- what readers see of a headline


def test_readers_see_the_usual_metrics_and_programs_all() -> None:
    text = summarise(Fake(ROWS)).to_text()
    every = [*METRICS, "hits@5", "hits@10"]
    shown = [line.split()[0] for line in text.splitlines() if line.strip() and line.split()[0] in every]
    assert shown == ["accuracy", "mrr", "consistency"]  # there are fewer than ten candidates
    assert "asked so far" not in text
    assert "toy (sum/full) answers 70.8 % [" in " ".join(text.split())
    ten = scored("q1", 0, [1.0], 1, 1) | {"num_candidates": 10, "scores": None}
    assert "hits@10" not in [row["metric"] for row in summarise(Fake([ten])).tables_in("text")[0].objects()]
    assert "scoring" not in text.split("Results")[1].splitlines()[1]
    table = summarise(Fake(ROWS), every=True).tables[0]
    assert {"confidence", "ece", "hits@10"} <= {row["metric"] for row in table.objects()}
    results = json.loads(summarise(Fake(ROWS)).to_json())["Results"]
    assert {"confidence", "ece", "hits@10"} <= {row["metric"] for row in results}


# --- tables of estimates


def estimate(
    value: float, form: str, low: float | None = None, p_value: float | None = None, note: str = ""
) -> Estimate:
    high = None if low is None else 2 * value - low
    return Estimate(value, low, high, 9, note, 9, "x|data:d", p_value, "query" if low is not None else "", form=form)


def test_a_table_wider_than_a_terminal_breaks_its_header_and_texts() -> None:
    table = Table(("sentence", "top_share", "id"), (("Lima lies in South America.", 0.5, "x" * 60),))
    assert to_text(table).splitlines() == [
        "sentence      top_  id",
        "             share",
        f"────────  ────────  {'─' * 60}",
        f"Lima           0.5  {'x' * 60}",
        "lies in",
        "South",
        "America.",
    ]


def test_an_interval_is_not_broken() -> None:
    wide = Table.of([{"share": estimate(0.5, ".1%", 0.4), "id": "x" * 80}])
    assert to_text(wide).splitlines()[2] == f"50.0 % [40.0, 60.0]  {'x' * 80}"


def test_a_column_of_estimates_has_its_interval_next_to_it() -> None:
    rows = [{"model": "a", "share": estimate(0.5, ".1%", 0.4), "n": 3}, {"model": "b", "share": estimate(0.25, ".1%")}]
    made = Table.of(rows, "t", ["a note"])
    assert made.columns == ("model", "share", "low", "high", "n", "note", "recipe")
    assert made.objects()[0] | {"recipe": ""} == {
        "model": "a", "share": 0.5, "low": 0.4, "high": 0.6, "n": 3, "note": "", "recipe": ""
    }  # fmt: skip
    assert made.objects()[1]["low"] is None
    assert to_text(made).splitlines() == [
        "t",
        "model                share  n",
        "─────  ───────────────────  ─",
        "a      50.0 % [40.0, 60.0]  3",
        "b                   25.0 %  –",
        "a note",
        "95 % intervals: for other queries, each for itself",
    ]


def test_of_several_columns_of_estimates_the_main_one_has_the_short_names() -> None:
    row = {"gain": estimate(0.1, "+.1%", 0.05, 0.001), "share": estimate(0.5, ".1%", 0.4)}
    assert Table.of([row]).columns[:5] == ("gain", "gain low", "gain high", "gain p", "share")
    main = Table.of([row], main="share")
    assert main.columns[4:7] == ("share", "low", "high")
    assert "50.0 % [40.0, 60.0]" in to_text(main)
    assert "+10.0 [" not in to_text(main)
    both = Table.of([row], main="gain", inline=True)
    assert "+10.0 [5.0, 15.0]" in to_text(both)
    assert "50.0 % [40.0, 60.0]" in to_text(both)
    assert [name for name in both.columns if name not in both.hidden] == ["gain", "p", "share"]


def test_rows_of_different_quantities_have_formats_of_their_own() -> None:
    rows = [("share", estimate(0.5, "+.1%"), 0.5), ("rank", estimate(2.0, ".2f"), 3.0)]
    made = Table.of(rows, columns=("of", "value", "other"))
    lines = [line.split() for line in to_text(made).splitlines()[2:4]]
    assert lines == [["share", "50.0", "%", "–", "50.0", "%"], ["rank", "2.00", "–", "3.00"]]


def test_columns_without_interval_and_notes_said_once() -> None:
    rows = [{"r": estimate(0.5, ".2f", note="why")}, {"r": estimate(0.25, ".2f", note="why")}]
    made = Table.of(rows, notes=["a: why"], without_interval=["r"])
    assert made.columns == ("r", "note", "recipe")
    assert made.notes == ("a: why",)
    assert [row["note"] for row in made.objects()] == ["why", "why"]
