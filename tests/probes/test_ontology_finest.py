"""The finest right answer: what a model remembers where the root of a hierarchy is right of everything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fathom.data.formats import read
from fathom.data.hierarchy import distances, kind_of_answer
from fathom.probes.options import OntologyOptions
from fathom.probes.run import RunRequest, run
from fathom.results.metrics.ranking import finest_rank
from fathom.results.rows import Rows
from fathom.results.summary import summarise
from fathom.results.tasks import _Counted, baselines_of
from fathom.store.files import write_json
from fathom.studies.ontology import analyse, conclude, files, tables
from fathom_build.ontology import build_ontology
from fathom_build.options import OntologyBuildOptions
from tests.answerers import answered, constant, world
from tests.probes.test_ontology import KNOWS
from tests.probes.test_ontology import asked as without_hierarchy
from tests.scripted import ScriptedModel

pytest.importorskip("pyoxigraph")
ONTOLOGIES = Path(__file__).parents[1] / "ontologies"
BARE = '{"relation": "type", "template": "[X] [Y] ."}\n{"relation": "subClassOf", "template": "[X] [Y] ."}\n'


@pytest.fixture(scope="module")
def rooted(tmp_path_factory):
    """65 classes below "entity", each named by one word."""
    file, out = ONTOLOGIES / "one_root.ttl", tmp_path_factory.mktemp("rooted") / "out"
    build_ontology(OntologyBuildOptions(input=[file], out=out, patterns=ONTOLOGIES / "patterns.tsv"))
    return read(out)


def probed(data, folder: Path, weights, task: str = "type", name: str = ""):
    """A run whose model sees the subject before the slot, so that it can answer by subject."""
    (folder / "bare.jsonl").write_text(BARE)
    words = [*data.candidates["classes"].names, ".", *(capitalized(query.subject) for query in data.queries)]
    weights = {subject: {word: float(weight) for word, weight in own.items()} for subject, own in weights.items()}
    model = ScriptedModel(list(dict.fromkeys(words)), weights, masked=True, name=name)
    options = OntologyOptions(relations=(task,), own_templates=folder / "bare.jsonl")
    return run(RunRequest("ontology", model, data, options), folder / (name or "run"))


def asked(data, task: str = "type"):
    return [query for query in data.queries if query.relation == task]


def capitalized(name: str) -> str:
    return name[:1].upper() + name[1:]


@pytest.mark.parametrize(
    ("ranks", "finest", "rank"),
    [
        ([3.0, 1.0, 2.0], [0], 1.0),  # both before it are right
        ([9.0, 1.0, 2.0], [0], 7.0),
        ([9.0, 1.0, 4.0], [0, 2], 3.0),  # the better of two
        ([6.5, 6.5, 6.5], [0], 5.5),  # tied with the coarser ones at an even chance each
        ([np.nan, 4.0], [0], 4.0),  # the finest has no tokens: the next one counts
        ([2.0], [0], 2.0),
    ],
)
def test_rank_of_the_finest_by_hand(ranks, finest, rank):
    assert finest_rank(ranks, finest) == rank


def test_no_rank_without_ranks():
    assert np.isnan(finest_rank([], [0]))


def test_distances_by_hand():
    above = {"singer": ("artist", "person"), "artist": ("person",), "mayor": ("person",), "cat": ("feline",)}
    assert distances(("singer", "artist", "person"), above) == (1, 2, 3)
    assert distances(("person", "mayor", "singer", "artist"), above) == (3, 1, 1, 2)  # the longest way to "person"
    same = above | {"feline": ("cat",)}
    assert distances(("cat", "feline"), same) == (1, 1)
    assert distances(("lake",), above) == (1,)
    assert distances(("a", "c", "b"), {"a": ("b",), "b": ("c",)}) == (1, 3, 2)  # direct steps alone


def test_the_reader_knows_distances(rooted):
    by_subject = {query.subject: query for query in asked(rooted, "subClassOf")}
    assert (by_subject["otter"].gold, by_subject["otter"].distances) == (("mammal", "organism", "entity"), (1, 2, 3))
    assert by_subject["organism"].distances == (1,)
    assert {query.distances for query in asked(rooted)} == {(1, 2, 3, 4)}
    assert {query.distances for query in asked(rooted, "subPropertyOf")} == {(1,)}


def test_always_the_root_is_no_memory(rooted, tmp_path):
    """MRR 1 for model and baseline alike. All other 64 classes are tied: 61 are wrong, the finest is 31.5th.

    Each of the 48 finest classes is as frequent as the others among the finest answers: they are tied.
    """
    weights = {capitalized(query.subject): {"entity": 8.0} for query in asked(rooted)}
    folder = probed(rooted, tmp_path, weights)
    [table] = summarise(folder).tables
    model, baseline = table.objects()
    assert (model["MRR"], baseline["MRR"], model["R@1"], model["remembered"]) == (1, 1, 1, 0)
    assert model["MRR finest"] == pytest.approx(1 / 31.5)
    assert baseline["MRR finest"] == pytest.approx(np.mean(1 / np.arange(1, 49)))
    assert model["verdict"] != "above"
    found = analyse([folder])
    assert "in 0 of 1 tasks" in conclude(found)[0]


def test_who_remembers_the_finest_is_above_the_baseline(rooted, tmp_path):
    """Half of the things are known by all their types, finest first; of the others only the root is known."""
    weights = {}
    for number, query in enumerate(asked(rooted)):
        known = zip(query.gold, (64.0, 32.0, 16.0, 8.0), strict=True) if number % 2 else [("entity", 8.0)]
        weights[capitalized(query.subject)] = dict(known)
    folder = probed(rooted, tmp_path, weights)
    rows = Rows(folder)
    remembered = {rows.query_ids[query]: rank == 1 for query, rank in zip(rows.query, rows.finest_rank, strict=True)}
    assert [remembered[query.id] for query in asked(rooted)] == [False, True] * 48
    [table] = summarise(folder).tables
    model = table.objects()[0]
    assert (model["MRR"], model["remembered"]) == pytest.approx((1, 0.5))
    assert model["MRR finest"] == pytest.approx((1 + 1 / 31.5) / 2)
    assert "in 1 of 1 tasks" in conclude(analyse([folder]))[0]


ABOVE = {
    "otter": ("mammal", "animal", "thing"),
    "lynx": ("mammal", "animal", "thing"),
    "gecko": ("reptile", "animal", "thing"),
    "mammal": ("animal", "thing"),
    "reptile": ("animal", "thing"),
    "animal": ("thing",),
    "barge": ("vessel", "thing"),
    "vessel": ("thing",),
}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("otter", "right"),
        ("mammal", "too general"),
        ("thing", "too general"),
        ("lynx", "sibling"),
        ("gecko", "cousin"),
        ("reptile", "cousin"),  # below what is two steps above the otter
        ("barge", "other"),  # only the root is above both
        ("unheard of", "other"),
    ],
)
def test_kinds_of_answers_by_hand(answer, kind):
    assert kind_of_answer(answer, ("otter", "mammal", "animal", "thing"), (1, 2, 3, 4), ABOVE) == kind


def test_an_answer_below_the_right_one_is_too_specific():
    assert kind_of_answer("lynx", ("mammal", "animal", "thing"), (1, 2, 3), ABOVE) == "too specific"
    assert kind_of_answer("lynx", ("vessel", "thing"), (1, 2), ABOVE) == "other"
    assert kind_of_answer("barge", ("lake",), (1,), {}) == "other"


def test_the_depth_profile_by_hand(rooted, tmp_path):
    """Five classes, asked for those above: right, a level too high, an uncle, a sibling, and two at once."""
    answers = {"otter": "mammal", "badger": "organism", "lynx": "reptile", "walrus": "otter"}
    data = rooted
    weights = {capitalized(query.subject): {"entity": 2.0} for query in asked(data, "subClassOf")}
    weights |= {capitalized(name): {answer: 8.0, "entity": 2.0} for name, answer in answers.items()}
    weights["Gecko"] = {"reptile": 8.0, "lynx": 8.0, "entity": 2.0}
    folder = probed(data, tmp_path, weights, "subClassOf")
    found = analyse([folder])
    by_title = {table.title: table for table in tables(found)}
    first = by_title["first answers"].objects()[0]
    number = len(asked(data, "subClassOf"))
    general = sum(query.distances[query.gold.index("entity")] > 1 for query in asked(data, "subClassOf"))
    # The root is right for the four classes below it, and too general for the others but four.
    assert first["right"] == pytest.approx((1.5 + number - general) / number)
    assert first["too general"] == pytest.approx((general - 5 + 1) / number)
    assert [first[kind] for kind in ("too specific", "sibling", "cousin", "other")] == pytest.approx(
        [1 / number, 1 / number, 0.5 / number, 0]
    )
    rows = by_title["accuracy by distance in the hierarchy"].objects()
    assert [(row["distance"], row["items"]) for row in rows] == [(1, 64), (2, 60), (3, 48)]
    # The root is two steps from 12 classes, three from 48; the walrus, the lynx and the gecko have others before it.
    assert rows[0]["accuracy"] == pytest.approx((4 + 1) / 64)
    assert rows[1]["accuracy"] == pytest.approx((12 + 1) / 60)
    assert rows[2]["accuracy"] == pytest.approx((48 - 3) / 48)
    # At two steps five answers are right of 12 classes each. At one step 13 are of 4, or 3 without the item, which
    # ties them with the other four.
    assert [row["frequency"] for row in rows] == pytest.approx([52 / 17 / 64, 1 / 5, 1])
    axioms = {row["subject"]: row for row in files(found)["unknown-axioms"].objects()}
    assert len(axioms) == 64 - 5
    assert "otter" not in axioms
    lynx = axioms["lynx"]
    assert (lynx["right"], lynx["answered"], lynx["kind"]) == ("mammal", "reptile", "sibling")
    assert (axioms["gecko"]["answered"], axioms["gecko"]["kind"]) == ("lynx; reptile", "cousin; right")
    assert (axioms["walrus"]["kind"], axioms["badger"]["kind"]) == ("too specific", "too general")


@pytest.mark.parametrize(("task", "profiled"), [("subClassOf", True), ("domain", False)])
def test_only_hierarchies_of_several_steps_have_a_profile(rooted, tmp_path, task, profiled):
    queries = asked(rooted, task)
    if profiled:  # two steps at most
        queries = [query for query in queries if max(query.distances) <= 2]
    data = replace(rooted, queries=tuple(queries), relations={task: rooted.relations[task]})
    (tmp_path / "bare.jsonl").write_text(f'{{"relation": "{task}", "template": "[X] [Y] ."}}\n')
    words = [*data.candidates["classes"].names, ".", *(capitalized(query.subject) for query in queries)]
    options = OntologyOptions(own_templates=tmp_path / "bare.jsonl")
    folder = run(RunRequest("ontology", ScriptedModel(words, {}, masked=True), data, options), tmp_path / "run")
    found = analyse([folder])
    assert ("first answers" in [table.title for table in tables(found)]) == profiled
    assert len(files(found)["unknown-axioms"].rows) == len(queries)


def test_runs_without_a_hierarchy_have_no_kinds(tmp_path):
    """As of earlier versions: the first right answer counts as the finest."""
    found = analyse([without_hierarchy(tmp_path, KNOWS)])
    assert "first answers" not in [table.title for table in tables(found)]
    rows = files(found)["unknown-axioms"].objects()
    assert [(row["subject"], row["right"], row["answered"], row["kind"]) for row in rows] == [
        ("Ina", "lake", "singer", "")
    ]


def test_distances_of_dropped_answers_are_not_stored(rooted, tmp_path):
    queries = tuple(replace(query, gold=query.gold[:1]) for query in asked(rooted)[:3])
    rows = Rows(probed(replace(rooted, queries=queries), tmp_path, {}))
    assert rows.distances == [None] * 3
    assert [rows.at_distance(query) for query in range(3)] == [[0]] * 3


def test_the_baseline_of_the_finest_by_hand(tmp_path):
    """c01, c02 and c03 are below c00. Finest training answers: c02 three times, c03 twice, c01 once.

    Item 0, right of c00 and c01: c02 and c03 are ahead of c01, so 1/3. Item 1, right of c00, c01 and c02: its finest
    answers are c01 and c02, and c02 is first. MRR finest is (1/3 + 1) / 2, and one of two items is remembered.
    """
    data = world([[0, 1], [0, 1, 2]], relations=1)
    steps = [(2, 1), (2, 1, 1)]
    queries = tuple(replace(query, distances=own) for query, own in zip(data.queries, steps, strict=True))
    folder = answered(tmp_path / "run", constant, replace(data, queries=queries))
    above = {"all": {name: ["c00"] for name in ("c01", "c02", "c03")}}
    golds = [["c00", "c02"], ["c00", "c02", "c03"], ["c00", "c03", "c02"], ["c00", "c01"]]
    write_json(folder.path / "artifacts" / "hierarchy.json", above)
    write_json(folder.path / "artifacts" / "training.json", {"r0": golds})
    found = baselines_of(folder, Rows(folder))["r0"]
    assert found.numbers["MRR finest"].value == pytest.approx((1 / 3 + 1) / 2)
    assert found.numbers["remembered"].value == 0.5
    assert found.numbers["MRR"].value == 1  # c00 is the most frequent of all answers
    assert found.reciprocal == pytest.approx({"q000": 1 / 3, "q001": 1})


def test_the_finest_answers_of_training_and_of_all_items():
    above = {"c01": ("c00",), "c02": ("c00",)}
    golds, fine = [["c00", "c01", "c02"], ["c00"], ["c00", "c02"]], [["c01", "c02"], ["c00"], ["c02"]]
    items = list(zip("xyz", golds, strict=True))
    counted = _Counted(golds, items, {}, 0).of_finest(above)
    assert (counted.training, counted.items) == (fine, list(zip("xyz", fine, strict=True)))
    assert _Counted(None, items, {}, 0).of_finest(above).training is None
