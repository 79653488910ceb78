"""Small ontologies: everything is asked once where nothing is trained, and by folds where something is."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from fathom.base.errors import BadInput
from fathom.data.folds import folds_of_queries, with_folds
from fathom.data.formats import read
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.probes import ontology
from fathom.probes.options import OntologyOptions
from fathom.probes.run import RunRequest, run
from fathom.results.metrics.ranking import by_frequency_of_others
from fathom.results.rows import Rows
from fathom.results.summary import summarise
from fathom.results.tasks import baselines_of
from fathom.store.folder import RunFolder
from fathom.studies.ontology import BY_FOLDS, tables
from fathom.studies.ontology import analyse as study
from fathom.studies.options import OntologyStudyOptions
from tests.cli.test_cli import bert, save
from tests.messages import mentioned, mentions, stated
from tests.probes.test_ontology import THINGS, model, published, town  # noqa: F401
from tests.scripted import ScriptedModel

CLASSES = ("lake", "poem", "singer", "place", "art", "agent")
GOLDS = {"Ann": ("singer", "agent"), "Bo": ("singer", "agent"), "Ina": ("lake",), "Ode": ("poem",)}
WORDS = [*CLASSES, *GOLDS, "is", "a", "."]


def small(golds=GOLDS, classes=CLASSES) -> QuerySet:
    """Four things and no subsets."""
    queries = [Query(f"type/{name}", "type", name, name, gold, "classes") for name, gold in golds.items()]
    relation = Relation("type", "type", (Template("[X] is a [Y] ."),), "1:N")
    return QuerySet("small", tuple(queries), {"classes": CandidateSet("classes", classes, classes)}, {"type": relation})


def whole_town() -> QuerySet:
    """As if it had been built here: no part of it is usual."""
    return replace(town(), usual="")


# Which items are asked


def test_nothing_is_kept_back_where_nothing_is_trained(model, tmp_path):  # noqa: F811
    """Each of the 16 + 4 items once by each of its templates; the published part of such data, 6 + 2."""
    asked = run(RunRequest("ontology", model, whole_town(), OntologyOptions()), tmp_path / "all").queries()
    assert Counter(asked["relation"].to_pylist()) == {"type": 16, "domain": 4}
    assert len(set(asked["query_id"].to_pylist())) == 20
    usual = run(RunRequest("ontology", model, town(), OntologyOptions()), tmp_path / "usual")
    assert Counter(usual.queries()["relation"].to_pylist()) == {"type": 6, "domain": 2}
    every = run(RunRequest("ontology", model, town(), OntologyOptions(subset="all")), tmp_path / "every")
    assert len(every.queries()) == 20
    for folder, part in ((usual, "subset:test"), (every, "subset:all")):
        assert part in summarise(folder).headlines[0].numbers["mrr"].recipe


def test_training_still_holds_out(model, tmp_path):  # noqa: F811
    folder = run(RunRequest("ontology", model, whole_town(), OntologyOptions(soft=True, epochs=1)), tmp_path / "r")
    assert Counter(folder.queries()["relation"].to_pylist()) == {"type": 6, "domain": 2}
    artifacts = {file.name for file in (folder.path / "artifacts").iterdir()}
    assert {"training.json", "soft"} <= artifacts
    assert "items.json" not in artifacts


def test_the_published_folder_asks_what_the_paper_asked(tmp_path):
    published(tmp_path / "theirs")
    assert read(tmp_path / "theirs").usual == "test"
    (tmp_path / "theirs" / "manifest.json").write_text("{}")
    assert read(tmp_path / "theirs").usual == ""


# Folds


def test_folds_are_of_one_size_and_of_the_seed_alone():
    """11 subjects, one of them asked twice, in 5 folds: two subjects in each, three in one."""
    queries = [Query(f"t/{n}", "t", f"s{n % 11}", f"s{n % 11}", ("a",), "c") for n in range(12)]
    found = folds_of_queries(queries, 5, 3)
    assert found == folds_of_queries(queries[::-1], 5, 3) != folds_of_queries(queries, 5, 4)
    assert found["t/0"] == found["t/11"]
    assert sorted(Counter(found[f"t/{n}"] for n in range(11)).values()) == [2, 2, 2, 2, 3]
    assert sorted(folds_of_queries(queries[:3], 5, 0).values()) == [0, 1, 2]


@pytest.mark.slow
def test_each_item_is_asked_by_what_others_teach(model, tmp_path, monkeypatch):  # noqa: F811
    """What a template is learnt from, what chooses its epoch, and what it asks have no item in common, and together
    are all items: 16 things in five folds, four properties in four."""
    lessons, real = [], ontology.OntologyProbe._train

    def noted(self, lesson, way, file):
        lessons.append(lesson)
        return real(self, lesson, way, file)

    monkeypatch.setattr(ontology.OntologyProbe, "_train", noted)
    options = OntologyOptions(soft=True, cross_validate=True, epochs=1)
    folder = run(RunRequest("ontology", model, town(), options), tmp_path / "r")
    rows = folder.queries().to_pylist()
    assert Counter(row["relation"] for row in rows) == {"type": 16, "domain": 4}
    assert Counter(lesson.task for lesson in lessons) == {"type": 5, "domain": 4}
    fold = {row["query_id"]: int(dict(row["groups"])["fold"]) for row in rows}
    for lesson in lessons:
        asks = {id_ for id_, own in fold.items() if own == lesson.fold and id_.startswith(lesson.task)}
        parts = [asks, {query.id for query in lesson.train}, {query.id for query in lesson.dev}]
        assert all(parts)
        assert sorted(id_ for part in parts for id_ in part) == sorted(
            id_ for id_ in fold if id_.startswith(lesson.task)
        )
    again = run(RunRequest("ontology", model, town(), options), tmp_path / "again")
    assert again.predictions().equals(folder.predictions())
    recipe = summarise(folder).headlines[0].numbers["mrr"].recipe
    assert "subset:all|" in recipe
    assert "cross_validate:True|folds:5" in recipe
    by_fold = summarise(folder, ["fold"]).breakdowns[0].parts
    assert {part.keys for part in by_fold} == {(str(number),) for number in range(1, 6)}


def test_a_fold_asks_by_its_own_template(model, tmp_path):  # noqa: F811
    """The same item asked alone, by its fold's vectors, has the same scores: other folds' are not in its prompt, and
    a limit changes no fold and trains no more than it needs."""
    options = OntologyOptions(soft=True, cross_validate=True, epochs=1, folds=3, relations=("type",))
    every = run(RunRequest("ontology", model, town(), options), tmp_path / "every")
    one = run(RunRequest("ontology", model, town(), options.model_copy(update={"limit": 1})), tmp_path / "one")
    [row] = one.predictions().to_pylist()
    [same] = [other for other in every.predictions().to_pylist() if other["query_id"] == row["query_id"]]
    np.testing.assert_allclose(row["scores"], same["scores"], atol=1e-5)  # batches of other sizes
    assert (every.manifest["circumstances"]["trainings"], one.manifest["circumstances"]["trainings"]) == (3, 1)
    others = {tuple(other["scores"]) for other in every.predictions().to_pylist()}
    assert len(others) == 16


def test_a_killed_run_learns_no_fold_again(model, tmp_path, monkeypatch):  # noqa: F811
    options = OntologyOptions(soft=True, cross_validate=True, epochs=1, relations=("type",))
    whole = run(RunRequest("ontology", model, town(), options), tmp_path / "whole")
    learnt, real = [], ontology.learn

    def dies_at_the_third(*arguments):
        learnt.append(arguments)
        if len(learnt) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(ontology, "learn", dies_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        run(RunRequest("ontology", model, town(), options), tmp_path / "killed")
    resumed = run(RunRequest("ontology", model, town(), options), tmp_path / "killed")
    assert len(learnt) == 6
    assert resumed.predictions().equals(whole.predictions())
    with pytest.raises(BadInput, match=r"options\.folds: there 5, here 4"):
        run(RunRequest("ontology", model, town(), options.model_copy(update={"folds": 4})), tmp_path / "killed")


def test_tasks_too_small_for_folds(model, tmp_path):  # noqa: F811
    data = town()
    two = replace(data, queries=tuple(query for query in data.queries if query.id not in ("domain/2", "domain/3")))
    options = OntologyOptions(soft=True, cross_validate=True, epochs=1)
    with pytest.raises(BadInput, match=mentions("--cross-validate", "domain", "2 items", "--relations type")):
        run(RunRequest("ontology", model, two, options), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_a_fold_that_teaches_nothing_is_passed_over(model, tmp_path, monkeypatch):  # noqa: F811
    """Of eight things six have names without a word: the folds of the other two choose and teach for all."""
    data = town()
    things = [query for query in data.queries if query.relation == "type"][:8]
    bare = [replace(query, unscored="no name") if number > 1 else query for number, query in enumerate(things)]
    two = replace(data, queries=tuple(bare), relations={"type": data.relations["type"]})
    options = OntologyOptions(soft=True, cross_validate=True, epochs=1, folds=8)
    with pytest.raises(BadInput, match=mentions("--cross-validate", "8")):
        run(RunRequest("ontology", model, two, options), tmp_path / "no")
    three = replace(two, queries=(*bare[:2], things[2], *bare[3:]))
    folder = run(RunRequest("ontology", model, three, options), tmp_path / "r")
    assert folder.manifest["circumstances"]["trainings"] == 8


def test_the_folds_of_a_selection_are_those_of_all():
    data = town()
    some = replace(data, queries=data.queries[3:5], whole=data)
    of_all = {query.id: query.groups["fold"] for query in with_folds(data, 5, 0).queries}
    assert {q.id: q.groups["fold"] for q in with_folds(some, 5, 0).queries}.items() <= of_all.items()


def test_tasks_of_which_nothing_is_held_out_are_named(model, tmp_path):  # noqa: F811
    data = town()
    subsets = dict(data.subsets) | {"test": data.subsets["test"] - {"domain/2", "domain/3"}}
    folder = run(
        RunRequest("ontology", model, replace(data, subsets=subsets), OntologyOptions(soft=True, epochs=1)),
        tmp_path / "r",
    )
    assert stated(summarise(folder).notes, "domain (4 items)", "--cross-validate")


# The baseline


def test_the_frequency_of_others_by_hand():
    """Six candidates; agent (5) and singer (2) are right twice, lake (0) and poem (1) once.

    Ann: without her own item both of hers are right once, as are lake and poem. With it none is above, so that either
    is the 1st to the 4th of all; of the best, the other right answer taken out, 1 to 3. Ina: with her item lake is
    behind agent and singer, 3rd; without it, the last of all six. So poem.
    """
    places = {name: number for number, name in enumerate(CLASSES)}
    items = [(name, [places[gold] for gold in own]) for name, own in GOLDS.items()]
    found = by_frequency_of_others(items, items, len(CLASSES))
    assert found.optimistic.tolist() == [1, 1, 3, 3]
    assert found.pessimistic.tolist() == [3, 3, 6, 6]
    assert found.ranks == [[2.5, 2.5], [2.5, 2.5], [4.5], [4.5]]


def test_what_is_equally_frequent_is_no_better_than_chance():
    """30 answers, each right once, or four times: leaving the asked item out would tell its answer, as the rarest."""
    for times in (1, 4):
        items = [(f"{gold} {time}", [gold]) for gold in range(30) for time in range(times)]
        found = by_frequency_of_others(items, items, 30)
        assert set(found.optimistic) == {1}
        assert set(found.pessimistic) == {30}


def test_what_is_said_of_one_subject_is_left_out_as_a_whole():
    """Two items of one subject: neither is answered by the other."""
    found = by_frequency_of_others([("Ann", [0]), ("Ann", [0]), ("Bo", [1])], [("Ann", [0])], 3)
    assert (found.optimistic.tolist(), found.pessimistic.tolist()) == ([1.0], [3.0])


def test_a_frequent_answer_is_found():
    """Of 40 items 30 are of one class: it is first for each of them, and all but one of the others are behind it."""
    items = [(str(number), [0 if number < 30 else number - 29]) for number in range(40)]
    found = by_frequency_of_others(items, items, 12)
    assert found.optimistic[:30].tolist() == found.pessimistic[:30].tolist() == [1] * 30
    assert set(found.optimistic[30:]) == {2}


def test_the_table_has_it_where_everything_is_asked(tmp_path):
    """A model that says nothing: every class is tied; the mean of 1 / r over six places for one right answer, over
    five for the best of two, the other taken out. The baseline: places 1 to 3 for Ann and Bo, 3 to 6 for the others."""
    folder = run(
        RunRequest("ontology", ScriptedModel(WORDS, {}, masked=True), small(), OntologyOptions()), tmp_path / "r"
    )
    noted = json.loads((folder.path / "artifacts" / "items.json").read_text())
    assert noted["type"][0] == ["Ann", ["singer", "agent"]]
    assert not (folder.path / "artifacts" / "training.json").exists()
    line, baseline = summarise(folder).tables[0].objects()
    six, five = (sum(1 / rank for rank in range(1, most + 1)) / most for most in (6, 5))
    assert (line["MRR"], line["n"]) == (pytest.approx((2 * five + 2 * six) / 4), 4)
    first, last = (1 + 1 / 2 + 1 / 3) / 3, (1 / 3 + 1 / 4 + 1 / 5 + 1 / 6) / 4
    assert (baseline["MRR"], baseline["n"]) == (pytest.approx((2 * first + 2 * last) / 4), 4)
    assert baseline["MRRₐ"] == pytest.approx((2 / 2.5 + 2 / 4.5) / 4)
    assert line["verdict"].startswith("cannot be determined")  # of four items
    [number] = [found.numbers["MRR"] for found in baselines_of(folder, Rows(folder)).values()]
    assert "answers:other items' by frequency|" in number.recipe


def test_a_damaged_note_of_the_items_is_said(tmp_path):
    folder = run(
        RunRequest("ontology", ScriptedModel(WORDS, {}, masked=True), small(), OntologyOptions()), tmp_path / "r"
    )
    (folder.path / "artifacts" / "items.json").write_text('{"type": [["Ann"]]}')
    with pytest.raises(BadInput, match=mentions("items.json", '{"task": [["subject", ["right answer"')):
        summarise(folder)


# The study


def test_the_best_setting_is_chosen_on_other_items(tmp_path):
    """ "is a" ranks singer before lake, "has class" the other way round: each is right of two items, and has MRR 3/4.
    For each item by itself the other template is better on the other three, (1 + 1 + 1/2) / 3 to (1 + 1/2 + 1/2) / 3:
    so the setting that is chosen ranks it second, and what the best of two seems to know is nothing.
    """
    golds = {"Ann": ("singer",), "Bo": ("singer",), "Ina": ("lake",), "Ode": ("lake",)}
    templates = (Template("[X] is a [Y] ."), Template("[X] has class [Y] ."))
    data = small(golds)
    data = replace(data, relations={"type": replace(data.relations["type"], templates=templates)})
    weights = {"a": {"singer": 8.0, "lake": 4.0}, "class": {"lake": 8.0, "singer": 4.0}}
    model_ = ScriptedModel([*WORDS, "has", "class"], weights, masked=True)
    folder = run(RunRequest("ontology", model_, data, OntologyOptions()), tmp_path / "r")
    found = study([folder], OntologyStudyOptions(cross_validate=True, folds=4))
    about = ("type", "scripted", False)
    assert found.best[about].mrr == pytest.approx(3 / 4)
    chosen = found.by_folds[about]
    assert chosen.numbers["MRR"].value == pytest.approx(1 / 2)
    assert sorted(rows.query_ids[query] for rows, query in chosen.queries) == [f"type/{name}" for name in sorted(golds)]
    assert sorted(chosen.settings.values()) == [2, 2]
    assert "chosen:on the other of 4 folds, seed 0" in chosen.numbers["MRR"].recipe
    table = tables(found)[0]
    [_, line] = table.objects()
    assert (line["MRR"], line["items"]) == (pytest.approx(1 / 2), 4)
    assert line["setting"].count("(2 folds)") == 2
    assert BY_FOLDS in table.notes
    with pytest.raises(BadInput, match="--folds 4"):
        study([folder], OntologyStudyOptions(folds=4))


# At the command line


def test_folds_by_words_and_learnt_side_by_side(tmp_path, fathom):
    """32 things of a folder: learnt templates by folds, words asked of all, and the study of both."""
    facts = tmp_path / "town"
    published(facts)
    save(tmp_path / "bert", bert(), *CLASSES, "water person soccer player", *map(" ".join, THINGS.values()), "0 1")
    asked = ["probe", "ontology", "--model", tmp_path / "bert", "--data", facts]
    folds = ["--soft", "--cross-validate", "--folds", 3, "--epochs", 1]
    code, _, error = fathom(*asked, *folds, "--out", tmp_path / "soft")
    assert code == 0, error
    assert fathom(*asked, "--subset", "all", "--out", tmp_path / "words")[0] == 0
    assert fathom("metrics", tmp_path / "soft", "--by", "fold")[0] == 0
    runs = [tmp_path / "soft", tmp_path / "words"]
    assert {line.items for line in study([RunFolder.open(folder) for folder in runs]).lines} == {32}
    code, out, error = fathom("study", "ontology", *runs, "--cross-validate", "--folds", 4)
    assert code == 0, error
    assert "on the other folds" in " ".join(out.split())
    code, _, error = fathom(*asked, "--soft", "--folds", 3, "--out", tmp_path / "no")
    assert (code, "--cross-validate" in error) == (2, True)
    code, _, error = fathom(*asked, *folds[:2], "--folds", 2, "--out", tmp_path / "no")
    assert code == 2
    assert mentioned(error, "--folds", "3")
