"""``fathom report`` without a browser: what it takes from runs, what it counts, and what it does where runs are bad."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

import fathom as library
from fathom.base.errors import BadInput, RunFailed
from fathom.results.compare import compare
from fathom.results.rows import Rows
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.report.charts import DRAWINGS, chart, counted, whole
from fathom.studies.report.evidence import (
    CAPITAL,
    MISSING,
    SUBJECT,
    Evidence,
    PredictionColumns,
    dimensions,
    kinds_of,
    label_of,
    showable,
    weights,
)
from fathom.studies.report.overview import slices
from fathom.studies.report.page import CHARTS, MODULES, UNSURE, Opening, packed_evidence, report
from tests.answerers import (
    answered,
    at_random,
    at_rank,
    constant,
    grown,
    knowing,
    never,
    short_names_first,
    unscored,
    world,
)
from tests.messages import mentioned, stated

vl_convert = pytest.importorskip("vl_convert")

Made = Callable[..., RunFolder]
FOUR = world([[0], [1], [2], [3]] * 2, relations=2)
"""Two relations of four facts; the right answer is that of the fact's place."""


@pytest.fixture
def made(tmp_path) -> Made:
    count = iter(range(1000))
    return lambda answer, data=FOUR, **more: answered(
        tmp_path / f"run{next(count)}", answer, data, probe="statement", **more
    )


def gathered(*runs: RunFolder) -> tuple[Evidence, PredictionColumns]:
    evidence = Evidence()
    for run in runs:
        evidence.add_run(run, Rows(run), run.manifest["identity"]["model"]["name"])
    return evidence, evidence.finish()


# --- what is taken from runs


def test_a_prediction_by_hand(made):
    """Scores are 0, −1 … −19: e⁻ᵏ / Σ e⁻ᵏ. The third fact's right answer is at rank 3; its name has three words."""
    evidence, found = gathered(made(constant))
    total = sum(math.exp(-place) for place in range(20))
    texts = list(evidence.pool)
    assert found.rank.tolist() == [1, 2, 3, 4] * 2
    assert found.hit.tolist() == [1, 0, 0, 0] * 2
    assert found.confidence == pytest.approx([1 / total] * 8)
    assert found.values[2].tolist() == [round(1000 * math.exp(-place) / total) for place in range(5)]
    assert [texts[number] for number in found.answers[2]][:3] == ["w0", "w1 w1", "w2 w2 w2"]
    assert [texts[number] for number in evidence.gold[2]] == ["w2 w2 w2"]
    assert found.length.tolist() == [1, 2, 3, 4] * 2
    assert [texts[number] for number in found.prompt] == [f"{SUBJECT} is [Y]."] * 8
    assert [texts[number] for number in evidence.subject] == [f"s00{number}" for number in range(8)]
    assert not found.reason.any()


def test_the_gold_answer_is_kept_where_it_is_not_among_the_listed_ones(made):
    """The seventh candidate is right with e⁻⁶ / Σ e⁻ᵏ, the second is listed."""
    evidence, found = gathered(made(constant, world([[6], [1]], relations=1)))
    total = sum(math.exp(-place) for place in range(20))
    assert [list(evidence.pool)[number] for number in found.gold] == ["w6 w6 w6 w6", ""]
    assert found.gold_value.tolist() == [round(1000 * math.exp(-6) / total), MISSING]


def test_scores_that_are_no_logarithms_are_shown_as_they_are(made):
    run = made(constant)
    manifest = run.manifest | {"shows": {"scorings": {"sum/full": {"unit": "cosine"}}}}
    (run.path / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    _, found = gathered(run)
    assert np.isnan(found.confidence).all()
    assert found.values[0].tolist() == [0, -1000, -2000, -3000, -4000]


def test_a_subject_that_begins_a_sentence_is_told_from_one_within(made):
    data = replace(FOUR, queries=tuple(replace(query, subject="oman") for query in FOUR.queries))
    run = made(constant, data)
    rows = run.predictions().to_pylist()
    rows[0]["prompt"] = "Oman is [Y], and oman."
    (run.path / "predictions" / "part-0.parquet").unlink()
    run.add_shard("0", rows)
    evidence, found = gathered(run)
    patterns = [f"Oman is [Y], and {SUBJECT}.", f"{SUBJECT} is [Y]."]
    assert [list(evidence.pool)[number] for number in found.prompt[:2]] == patterns
    rows[0]["prompt"] = "Oman is [Y]."
    (run.path / "predictions" / "part-0.parquet").unlink()
    run.add_shard("0", rows)
    evidence, found = gathered(run)
    assert list(evidence.pool)[found.prompt[0]] == f"{CAPITAL} is [Y]."


def test_a_fact_counts_once_and_not_where_a_template_is_unscored(made):
    data = world([[0], [1]], relations=1, templates=2)
    run = unscored(made(constant, data), 3)
    evidence, found = gathered(run)
    assert weights(found).tolist() == [0.5, 0.5, 0, 0]
    assert list(evidence.pool)[found.reason[3]] == "the prompt is too long"
    assert evidence.hits.tolist()[0] == [1, pytest.approx(math.nan, nan_ok=True)]
    [view] = evidence.views
    assert (view.accuracy.value, view.accuracy.n) == (1, 1)


def test_facts_of_two_runs_are_the_same_ones_and_views_are_told_apart(made):
    evidence, found = gathered(made(constant, model="a"), made(never, model="a"))
    assert len(evidence.facts) == 8
    assert found.view.tolist() == [0] * 8 + [1] * 8
    names = [view.name for view in evidence.views]
    assert names == ["models/a run0", "models/a run1"]


# --- what is counted


def test_counts_by_hand(made):
    """Of each run's eight facts two are right: rank 1; never: rank 20."""
    evidence, found = gathered(made(constant, model="a"), made(never, model="b"))
    dims = dimensions(evidence, found)
    rows = counted(("run", "rank"), dims, found)
    assert [(row["run"][-1], row["rank"], row["facts"], row["share"], row["hit"]) for row in rows] == [
        ("a", "1", 2, 0.25, 1),
        ("a", "2", 2, 0.25, 0),
        ("a", "3", 2, 0.25, 0),
        ("a", "4–5", 2, 0.25, 0),
        ("b", "11–20", 8, 1, 0),
    ]
    [first, second] = counted(("run",), dims, found)
    assert (first["hit"], second["hit"]) == (0.25, 0)
    # never: nineteen candidates at 0 and one at −1.
    assert second["sure"] == pytest.approx(1 / (19 + math.exp(-1)))


def test_ties_count_by_their_expectation(made):
    """Four of twenty names have one word: the right one is first with chance 1/4, its mean rank is 2.5."""
    evidence, found = gathered(made(short_names_first, world([[0]] * 4, relations=1)))
    assert counted(("run",), dimensions(evidence, found), found)[0]["hit"] == pytest.approx(0.25)
    assert set(found.rank.tolist()) == {2.5}


def test_a_rank_beyond_a_stop_is_in_the_class_behind_it(made):
    run = made(at_rank(7))
    rows = [row | {"rank": None, "rank_optimistic": None, "rank_pessimistic": None, "rank_above": 5}
            for row in run.predictions().to_pylist()]  # fmt: skip
    (run.path / "predictions" / "part-0.parquet").unlink()
    run.add_shard("0", rows)
    evidence, found = gathered(run)
    assert set(found.rank.tolist()) == {-5}
    [row] = counted(("run", "rank"), dimensions(evidence, found), found)
    assert (row["rank"], row["hit"]) == ("6–10", 0)


def test_kinds_of_facts(made):
    groups = ["1:1", "1:N; N:M", "1:1", "N:M"] * 2
    queries = [replace(q, groups={"kind": own}) for q, own in zip(FOUR.queries, groups, strict=True)]
    data = replace(FOUR, queries=tuple(queries))
    runs = [made(knowing({"q000", "q001"}), data, model="a"), unscored(made(knowing({"q000"}), data, model="b"), 7)]
    found = kinds_of(*gathered(*runs))
    parts = {label: [fact for fact, own in enumerate(found.of_facts) if place in own]
             for place, label in enumerate(found.labels)}  # fmt: skip
    assert parts == {
        "kind: 1:1": [0, 2, 4, 6],
        "kind: 1:N": [1, 5],
        "kind: N:M": [1, 3, 5, 7],
        "scored by all runs": [0, 1, 2, 3, 4, 5, 6],
        "right by all runs": [0],
        "right by no run": [2, 3, 4, 5, 6],
        "a prediction unscored": [7],
    }


def test_labels_are_words():
    assert [label_of("planted", value) for value in ("True", "False")] == ["planted", "withheld"]
    assert [label_of("masked", value) for value in ("true", "false")] == ["masked", "not masked"]
    assert label_of("cardinality", "1:1") == "cardinality: 1:1"


def test_templates_are_called_by_their_text(made):
    """Of one text for each relation, the first; sentences of their own have none in common."""
    data = world([[0], [1], [2], [3]], relations=2, templates=2)
    run = made(constant, data)
    assert dimensions(*gathered(run))["template"].labels == ["0: [X] is [Y].", "1: [X] is so [Y]."]
    rows = run.predictions().to_pylist()

    def labels(prompts: dict[int, str]) -> list[str]:
        for place, prompt in prompts.items():
            rows[place]["prompt"] = prompt
        (run.path / "predictions" / "part-0.parquet").unlink()
        run.add_shard("0", rows)
        return dimensions(*gathered(run))["template"].labels

    assert labels({4: "s002 was [Y]."}) == ["template 0", "1: [X] is so [Y]."]


def test_the_forest_plot_by_hand(made, tmp_path):
    """The first run has 3 of 8 facts right, the second 2 of 7: over the 7 in common, 3 and 2."""
    runs = [made(knowing({"q000", "q001", "q002"}), model="a"), unscored(made(constant, model="b"), 7)]
    text = report(runs, tmp_path / "r.html").path.read_text("utf-8")
    plots = re.findall(r'<div data-forest="([^"]*)"(.*?)</table>', text, re.DOTALL)
    assert [name for name, _ in plots] == ["accuracy", "hits@10", "mrr"]
    [accuracy, _, mrr] = [table for _, table in plots]
    assert mentioned(accuracy, "over the 7 facts")
    shown = re.findall(r"<strong>(.*?)</strong>", accuracy)
    assert shown == ["42.9 %", "28.6 %"]
    # Ranks 1, 2, 3, 4, 1, 2, 3.
    assert re.findall(r"<strong>(.*?)</strong>", mrr)[0] == f"{(2 + 2 / 2 + 2 / 3 + 1 / 4) / 7:.3f}"
    # Guessing among twenty.
    assert "random 5.0 %" in accuracy or "names" in accuracy or "majority" in accuracy
    assert re.findall(r'left: ([\d.]+)%">○', accuracy) == ["5.0", "5.0"]


def cells_of(text: str, kind: str) -> list[list[str]]:
    """The rows of the first forest plot or heat map, each as the texts of its cells."""
    [table, *_] = re.findall(rf'<div data-{kind}="accuracy".*?<table.*?</table>', text, re.DOTALL)
    rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
    cells = [re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL) for row in rows]
    return [[" ".join(re.sub("<[^>]*>", "", cell).split()) for cell in own] for own in cells]


def test_runs_and_relations_are_ordered_by_accuracy(made, tmp_path):
    """r0 has q000 to q003, r1 the others; as c did not score q000, r0 counts three facts.

    Right in r0 and r1: a 1 and 1, b 3 and 2, c 0 and 4.
    """
    known = {"a": (1, 4), "b": (1, 2, 3, 4, 5), "c": (4, 5, 6, 7)}
    runs = [made(knowing({f"q00{own}" for own in facts}), model=name) for name, facts in known.items()]
    text = report([*runs[:2], unscored(runs[2], 0)], tmp_path / "r.html").path.read_text("utf-8")
    head, *lines = cells_of(text, "forest")
    assert [line[0] for line in lines] == ["b", "c", "a"]
    best = head.index("Best relation")
    assert [line[best : best + 2] for line in lines] == [
        ["r0 100.0 %", "r1 50.0 %"],
        ["r1 100.0 %", "r0 0.0 %"],
        ["r0 33.3 %", "r1 25.0 %"],
    ]
    # Means over runs: r1 (2/4 + 4/4 + 1/4) / 3, r0 (3/3 + 0 + 1/3) / 3.
    assert cells_of(text, "heat") == [
        ["Relation", "Facts", "b", "c", "a"],
        ["r1", "4", "50 %", "100 %", "25 %"],
        ["r0", "3", "100 %", "0 %", "33 %"],
    ]
    [settings] = re.findall(r"<h2>Settings that differ</h2>(.*?)</table>", text, re.DOTALL) or [""]
    assert not settings


def test_baselines_and_verdicts_are_over_the_common_facts(made, tmp_path):
    """Alone, a run with all 40 facts right is above guessing; over the 2 facts in common with the other it is not."""
    data = world([[number % 4] for number in range(40)], relations=2, size=4)
    every = knowing({query.id for query in data.queries})
    runs = [made(every, data, model="a"), unscored(made(every, data, model="b"), *range(2, 40))]
    alone = cells_of(report(runs[:1], tmp_path / "a.html").path.read_text("utf-8"), "forest")
    both = cells_of(report(runs, tmp_path / "b.html").path.read_text("utf-8"), "forest")
    verdict = both[0].index("Against baselines")
    assert alone[1][verdict] == "above"
    assert [line[verdict] for line in both[1:]] != ["above", "above"]
    assert both[1][verdict] == both[2][verdict]


def test_methods_show_how_each_run_was_made(made, tmp_path):
    run = made(constant)
    command = {"probe": "statement", "model": "models/m", "data": "D", "options": {"templates": [0]}}
    versions = {"fathom": "0.1.0", "torch": "2.13.0"}
    run.add_circumstances(command=command, engine="token trie", device="cuda:0", versions=versions)
    text = report([run, made(never, model="b")], tmp_path / "r.html").path.read_text("utf-8")
    methods = text[text.index('id="methods"') :]
    line = f"fathom probe statement --model models/m --data D --templates 0 --out {run.path}"
    assert mentioned(methods, line, "token trie", "cuda:0", "fathom 0.1.0, torch 2.13.0")
    assert methods.count("not recorded") == 4, "command, engine, device and versions of the other run"
    assert re.findall(r"<h3><bdi>(.*?)</bdi>", methods) == ["m", "b"] * 2


def test_three_weak_runs_are_named_and_the_others_counted(made, tmp_path):
    runs = [made(never, model=name) for name in "abcde"]
    text = report(runs, tmp_path / "r.html").path.read_text("utf-8")
    [answer] = re.findall(r'<div id="answer">(.*?)</div>', text, re.DOTALL)
    assert [name for name in "abcde" if f"{name} (sum/full)" in answer] == ["a", "b", "c"]
    assert mentioned(answer, "2 more")


def test_runs_that_share_no_fact_have_a_line_each_over_their_own(made, tmp_path):
    other = world([[0]] * 4, relations=1, name="E")
    queries = tuple(replace(q, id=f"e{q.id}", subject_id=f"e{q.subject_id}") for q in other.queries)
    runs = [made(constant, model="a"), made(constant, replace(other, queries=queries), model="b")]
    text = report(runs, tmp_path / "r.html").path.read_text("utf-8")
    [plot] = re.findall(r'<div data-forest="accuracy"(.*?)</table>', text, re.DOTALL)
    assert "its own facts" in plot
    assert re.findall(r"<strong>(.*?)</strong>", plot) == ["100.0 %", "25.0 %"]
    assert re.findall(r'data-label="facts: ">(\d+)<', plot) == ["4", "8"]
    [settings] = re.findall(r"<h2>Settings that differ</h2>(.*?)</table>", text, re.DOTALL)
    assert mentioned(settings, "data set", "<bdi>D</bdi>", "<bdi>E</bdi>")


def test_slices_are_paired_differences_of_parts(made):
    """r0: the first knows 3 of 4 and the second 1; r1: the first 1 and the second 2."""
    first, second = {"q000", "q001", "q002", "q004"}, {"q000", "q005", "q006"}
    found = compare([made(knowing(facts), model=name) for name, facts in (("a", first), ("b", second))])
    cut = slices(found, ["relation", "no such key"])
    assert [(own.value, own.facts, own.of_first, own.of_second) for own in cut] == [
        ("r0", 4, 0.75, 0.25),
        ("r1", 4, 0.25, 0.5),
    ]
    assert [own.number.value for own in cut] == pytest.approx([0.5, -0.25])
    assert [own.adjusted for own in cut] == [None, None]  # of four facts each
    assert "relation:r0" in cut[0].number.recipe


# --- what is packed


def unpacked(text: str) -> dict:
    content = gzip.decompress(base64.b64decode(text))
    [size] = struct.unpack("<I", content[:4])
    header = json.loads(content[4 : 4 + size])
    at = 4 + size
    assert at % 4 == 0
    kinds = {"Uint": "u", "Int": "i", "Float": "f"}
    for column in header["columns"]:
        name, bits = re.fullmatch(r"([A-Z][a-z]+)(\d+)Array", column["kind"]).groups()
        kind = np.dtype(f"<{kinds[name]}{int(bits) // 8}")
        header[column["name"]] = np.frombuffer(content, kind, column["length"], at)
        at += column["length"] * kind.itemsize
    assert at == len(content)
    return header


def test_what_is_packed_is_what_was_found(made):
    data = world([[0], [1]], relations=1, templates=2)

    def by_the_first(query, space, number):
        return (never if number else at_rank(1))(query, space, number)

    evidence, found = gathered(unscored(made(constant, data, model="a"), 3), made(by_the_first, data, model="b"))
    dims = dimensions(evidence, found)
    pieces = packed_evidence(evidence, found, dims, kinds_of(evidence, found), [], [], {}, {})
    told = unpacked("".join(pieces))
    assert told["fact"].tolist() == [0, 0, 1, 1] * 2
    ranks = [1, 1, 2, math.nan, 1, 20, 1, 20]
    assert told["rank"].tolist() == pytest.approx(ranks, nan_ok=True)
    assert told["ties"].tolist() == [0] * 5 + [0, 0, 0]
    # The second fact of the first run does not count.
    assert told["weight"].tolist() == [0.5, 0.5, 0, 0, 0.5, 0.5, 0.5, 0.5]
    assert told["alone"].tolist() == [1, 1, 0, 0, 1, 1, 1, 1]
    total = sum(math.exp(-place) for place in range(20))
    assert told["confidence"][0] / (UNSURE - 1) == pytest.approx(1 / total, abs=1e-5)
    assert told["confidence"][3] == UNSURE
    # Best answers first, of all predictions; a probability in thousandths; the least number where there is none.
    missing = np.iinfo(told["value"].dtype).min
    assert told["value"][:4].tolist() == [round(1000 / total)] * 3 + [missing]
    assert missing < told["value"][told["value"] != missing].min()
    assert told["labels"]["relation"] == ["r0"]


def test_halves_of_characters_and_control_characters_do_not_break_the_page(made, tmp_path):
    assert showable("half \ud800 of one,\x00\x1b[31m") == "half \ufffd of one,\ufffd\ufffd[31m"
    made_of = report([made(constant)], tmp_path / "r.html", title="a \ud800 title\x00")
    assert "a \ufffd title\ufffd" in made_of.path.read_text("utf-8")


# --- many runs


@pytest.mark.slow
def test_of_each_prediction_less_than_a_hundred_bytes_are_held(made):
    data = world([[number % 20] for number in range(300)], relations=5, templates=3)
    runs = [made(at_random(number), data, model=f"m{number}") for number in range(5)]
    evidence = Evidence()
    assert grown(lambda run: evidence.add_run(run, Rows(run), "m"), runs) < 100 * 3 * len(data.queries)


def test_each_run_is_read_once(made, tmp_path, monkeypatch):
    read, predictions = [], RunFolder.predictions
    monkeypatch.setattr(RunFolder, "predictions", lambda run, **more: read.append(run.path) or predictions(run, **more))
    runs = [made(constant, model="a"), made(never, model="b"), made(at_rank(1), model="c")]
    assert report(runs, tmp_path / "r.html").runs == 3
    assert read == [run.path for run in runs]


# --- charts


def test_every_chart_can_be_drawn_without_a_browser(made):
    data = world([[0], [1], [2], [3]] * 2, relations=2, templates=2)
    runs = [made(constant, data, model="a"), made(never, data, model="b")]
    evidence, found = gathered(*runs)
    dims = dimensions(evidence, found)
    there = [one for one in DRAWINGS if one.there(evidence.views, dims)]
    assert len(there) == len(DRAWINGS)
    for one in there:
        drawn = chart(one, dims, counted(one.keys, dims, found), whole(evidence.views))
        assert one.title in vl_convert.vegalite_to_svg(drawn.to_dict())


def test_no_chart_is_lower_than_its_labels(made):
    """Of one run with two relations."""
    for drawn in library.plots([made(constant).path]).values():
        assert drawn.to_dict()["height"] >= 100


def test_the_shipped_code_of_charts_is_the_library_s():
    if vl_convert.__version__ != "1.9.0":
        pytest.skip("the code was written by vl-convert 1.9.0")
    shipped = (resources.files("fathom.studies.report") / "assets" / CHARTS).read_bytes()
    assert gzip.decompress(shipped).decode("utf-8") == vl_convert.javascript_bundle()


def test_a_chart_is_left_out_where_there_is_nothing_to_draw(made):
    drawn = library.plots([made(constant).path])
    assert sorted(drawn) == ["calibration", "confidence", "lengths", "ranks", "relations", "runs"]
    assert drawn["runs"].to_dict()["datasets"]["counted"][0]["hit"] == 0.25
    with pytest.raises(BadInput, match="a run or more"):
        library.plots([])


def test_results_and_tables_show_themselves_in_notebooks(made):
    result = library.open_run(made(constant).path)
    assert "<table>" in result._repr_html_()
    assert "25.0 %" in result._repr_html_()
    assert "calibration" in library.plots([result])
    found = library.compare([made(constant, model="a").path, made(never, model="b").path])
    assert found._repr_html_().count("<table>") == len(found.tables)
    hostile = Table(("<b>",), (("<script>x</script>\u202e",),), 'a "title"', notes=("<i>",))._repr_html_()
    assert "<script>" not in hostile
    assert "<b>" not in hostile
    assert "<i>" not in hostile
    assert "&lt;script&gt;" in hostile


# --- the page


def test_the_page_has_numbers_comparison_and_tables_of_studies(made, tmp_path):
    runs = [made(constant, model="a"), made(never, model="b")]
    study = Table(("run", "Pearson r"), (("a", 0.12345678),), "rank by length", notes=("corr|data:D",))
    made_of = report(runs, tmp_path / "r.html", studies=[("length-bias", [study])])
    text = made_of.path.read_text("utf-8")
    assert made_of.runs == 2
    assert "differences in accuracy" in text
    [answer] = re.findall(r'<div id="answer">(.*?)</div>', text, re.DOTALL)
    assert mentioned(answer, "8 facts", "both runs scored")
    # The second run is right with none.
    assert mentioned(answer, "b (sum/full)", "0.0 %", "random")
    assert "rank by length" in text
    assert "0.1235" in text
    assert "corr|data:D" in text


def test_the_opening_comes_before_the_plot_and_is_escaped(made, tmp_path):
    opening = Opening(["<b>first</b>"], [Table(("a",), (("<i>cell</i>",),), "<u>title</u>")])
    page = report([made(constant)], tmp_path / "r.html", opening=opening).path.read_text(encoding="utf-8")
    first = page[page.index('id="answer"') : page.index('class="forest"')]
    assert all(f"&lt;{tag}&gt;" in first for tag in "biu")
    assert first.index("first") < first.index("title") < first.index("cell")


def test_further_groups_cut_the_facts(made, tmp_path):
    """The first knows what was planted, the other nothing: 1 of the planted half, 0 of the other."""
    planted = {"q000", "q001", "q004", "q005"}
    lines = [json.dumps({"query_id": f"q00{number}", "planted": f"q00{number}" in planted}) for number in range(8)]
    (tmp_path / "planted.jsonl").write_text("\n".join(lines), "utf-8")
    runs = [made(knowing(planted), model="a"), made(never, model="b")]
    text = report(runs, tmp_path / "r.html", groups=tmp_path / "planted.jsonl").path.read_text("utf-8")
    [packed] = re.findall(r'id="evidence-data">([^<]*)<', text)
    told = unpacked(packed)
    assert {"planted", "withheld"} <= set(told["labels"]["slice"])
    [first, *_] = told["slices"]["0-1"]
    assert (first["choice"], first["value"]) == ("slice", "planted")
    assert first["cells"][:4] == ["4", "100.0 %", "0.0 %", "+100.0"]
    with pytest.raises(BadInput, match="no-such"):
        report(runs, tmp_path / "r2.html", groups=tmp_path / "no-such")


def test_pairs_say_what_the_comparison_says(made, tmp_path):
    """Of eight facts 5 and 3 are right; a third run ranked other facts."""
    other = world([[0]] * 4, relations=1)
    other = replace(
        other, queries=tuple(replace(q, id=f"e{q.id}", subject_id=f"e{q.subject_id}") for q in other.queries)
    )
    known = ({"q000", "q001", "q002", "q004", "q005"}, {"q000", "q003", "q004"})
    runs = [*(made(knowing(facts), model=f"m{number}") for number, facts in enumerate(known)), made(constant, other)]
    text = report(runs, tmp_path / "r.html").path.read_text("utf-8")
    [packed] = re.findall(r'id="evidence-data">([^<]*)<', text)
    told = unpacked(packed)
    of_pair = told["ofPair"]["0-1"]
    baselines = " Neither is significantly above its baselines."  # the report says so of each run
    assert of_pair == told["ofPair"]["1-0"] == compare(runs[:2]).answer[0].removesuffix(baselines)
    assert mentioned(told["ofPair"]["0-1"], "the 8 facts", "+25.0 points [", "no significant difference", "p = 0.4")
    assert sorted(told["refused"]) == ["0-2", "1-2", "2-0", "2-1"]
    assert "no ranked fact" in told["refused"]["2-0"]


def test_the_page_needs_no_network(made, tmp_path):
    text = report([made(constant)], tmp_path / "r.html").path.read_text("utf-8")
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=", text)
    assert text.index("DataTables") < text.index("charts-code")  # licences are told


def test_what_is_wrong_with_some_runs_is_told_and_the_others_are_shown(made, tmp_path):
    good = made(constant, model="good")
    unfinished = made(constant, model="u")
    (unfinished.path / "manifest.json").write_text(json.dumps(unfinished.manifest | {"plan": ["0", "1"]}), "utf-8")
    damaged = made(constant, model="d")
    (damaged.path / "predictions" / "part-0.parquet").write_bytes(b"PAR1 not really")
    newer = made(constant, model="n")
    (newer.path / "manifest.json").write_text(json.dumps(newer.manifest | {"format": 99}), "utf-8")
    runs = [unfinished.path, damaged.path, newer.path, tmp_path / "nowhere", good.path, good.path]
    found = report(runs, tmp_path / "r.html")
    assert found.runs == 1
    assert [next(word for word in ("unfinished", "damaged", "newer", "not a run", "twice") if word in note)
            for note in found.notes] == ["unfinished", "newer", "not a run", "twice", "damaged"]  # fmt: skip
    text = found.path.read_text("utf-8")
    assert "Not in this report" in text
    assert "is unfinished" in text


@pytest.mark.parametrize("manifest", ["null", "[]", "{}", '{"format": "1"}', '{"identity": null, "plan": []}', "\x00"])
def test_a_manifest_that_is_none_is_told(made, tmp_path, manifest):
    strange = made(constant, model="s")
    (strange.path / "manifest.json").write_text(manifest)
    found = report([strange.path, made(constant).path], tmp_path / "r.html")
    assert found.runs == 1
    assert found.notes
    assert all("manifest.json" in note for note in found.notes)


def test_runs_of_different_data_are_shown_and_the_reason_told(made, tmp_path):
    other = world([[0]] * 4, relations=1, name="E")
    other = replace(
        other, queries=tuple(replace(q, id=f"e{q.id}", subject_id=f"e{q.subject_id}") for q in other.queries)
    )
    found = report([made(constant, model="a"), made(constant, other, model="b")], tmp_path / "r.html")
    assert found.runs == 2
    assert any("no ranked fact" in note for note in found.notes)


def test_a_report_of_nothing_is_refused(made, tmp_path):
    with pytest.raises(BadInput, match="a run or more"):
        report([], tmp_path / "r.html")
    with pytest.raises(BadInput, match="not a run"):
        report([tmp_path], tmp_path / "r.html")
    with pytest.raises(BadInput, match="is a folder"):
        report([made(constant)], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFailed, match="cannot write"):
        report([made(constant)], tmp_path / "file" / "r.html")
    with pytest.raises(BadInput, match="--cluster nothing"):
        report([made(constant)], tmp_path / "r.html", cluster="nothing")
    assert not list(tmp_path.glob("*.html"))


def test_a_folder_of_runs_is_refused_with_the_command_that_takes_them(made, tmp_path, fathom):
    paths = [made(constant).path, made(never).path]
    for command in ("report", "metrics"):
        code, _, error = fathom(command, tmp_path)
        assert code == 2
        assert stated(error, f"{tmp_path} is not a run", "contains 2", paths[0], f"fathom report --serve {tmp_path}")
        assert len(error.splitlines()) == 1
    (tmp_path / "plan" / "runs").mkdir(parents=True)
    paths[0].rename(deep := tmp_path / "plan" / "runs" / "run0")
    assert stated(fathom("metrics", tmp_path / "plan")[2], "contains a run", deep)
    deep.rename(paths[0])
    code, *_ = fathom("report", *paths, "--out", tmp_path / "r.html")
    assert code == 0


def test_a_run_of_which_nothing_is_scored_is_shown(made, tmp_path):
    run = unscored(made(constant), *range(8))
    found = report([run, made(never, model="b")], tmp_path / "r.html")
    assert found.runs == 2


def test_the_script_is_small_modules_that_import_from_those_before():
    assets = resources.files("fathom.studies.report") / "assets"
    assert {f"{name}.js" for name in MODULES} == {file.name for file in assets.iterdir() if file.name.endswith(".js")}
    names: list[str] = []
    for place, module in enumerate(MODULES):
        text = (assets / f"{module}.js").read_text("utf-8")
        assert set(re.findall(r'from "\./(\w+)\.js"', text)) <= set(MODULES[:place])
        assert len(text.splitlines()) < 200
        assert max(map(len, text.splitlines())) <= 120
        names += re.findall(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names)), "the page has the modules in one script"


def test_the_command_tells_where_the_report_lies(made, tmp_path, monkeypatch, capsys):
    from fathom.cli import main

    bad = tmp_path / "bad"
    bad.mkdir()
    monkeypatch.setattr(
        "sys.argv", ["fathom", "report", str(made(constant).path), str(bad), "-o", str(tmp_path / "r.html")]
    )
    with pytest.raises(SystemExit) as end:
        main()
    told = capsys.readouterr()
    assert end.value.code in (None, 0)
    assert "r.html: 1 of 2 runs" in told.out
    assert "note: " in told.err
    shutil.rmtree(bad)
