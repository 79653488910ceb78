"""What every study must keep, whatever it asks: nothing stopped or unscored is right or wrong in silence, templates are
averaged, scorings and models are not mixed, unfinished runs are not taken for whole ones, every number says how it was
made and how sure it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fathom.base.errors import BadInput
from fathom.results.tables import Table, render
from fathom.store.folder import SECONDS, RunFolder
from fathom.studies import STUDIES

IDS = tuple(f"e{number:02d}" for number in range(20))


@dataclass(frozen=True)
class Shape:
    """How the runs of a case are written.

    :param stopped: the second fact's search stopped there. :param unscored: the second fact has no number.
    """

    templates: int = 1
    scorings: tuple[str, ...] = ("mask-mean",)
    stopped: int | None = None
    unscored: bool = False
    finished: bool = True


@dataclass
class Desk:
    """Writes runs of one shape."""

    folder: Path
    shape: Shape

    def run(self, model: str, reading: str = "template-based", pool: int = 20, **more: Any) -> RunFolder:
        """Four facts of two relations, ranked 1, 2, 4 and 12 among *pool* candidates.

        :param more: of its identity; ``facts``, fewer of them; ``seconds`` that they took.
        """
        shape = self.shape
        folder = RunFolder(
            self.folder / "-".join([model.replace("/", "-"), reading, str(pool), *map(str, more.values())])
        )
        facts = [("type", 0, 1), ("type", 1, 2), ("domain", 2, 4), ("domain", 3, 12)][: more.get("facts", 4)]
        sentences = int(reading == "template-free")
        ids = [f"{relation}/{number}" for relation, number, _ in facts]
        groups = [list(_groups(number).items()) for _, number, _ in facts]
        queries = pa.table(
            {
                "query_id": ids,
                "fact_id": [f"s{number}|{relation}|{IDS[0]}" for relation, number, _ in facts],
                "relation": [relation for relation, _, _ in facts],
                "direction": ["tail"] * len(facts),
                "subject_id": [f"s{number}" for _, number, _ in facts],
                "gold": pa.array([[IDS[0]]] * len(facts), pa.list_(pa.string())),
                "candidates": ["all"] * len(facts),
                "groups": pa.array(groups, pa.map_(pa.string(), pa.string())),
                "sentences": pa.array([sentences] * len(facts), pa.int64()),
            }
        )
        names = [f"name {'long ' * (place % 3)}{place}" for place in range(pool)]
        space = {"set": ["all"] * pool, "position": list(range(pool)), "id": list(IDS[:pool]), "name": names}
        identity = {
            "probe": more.get("probe", "cloze"),
            "options": {"reading": reading}
            | {name: True for name in ("chat", "shuffle_chat") if more.get(name)}
            | {name: more[name] for name in ("alter", "pll") if name in more},
            "resolved": {"attention": "bidirectional"} | ({"asking": {}} if more.get("probe") == "link" else {}),
            "model": {"name": f"models/{model}", "content_hash": model},
            "data": {"name": more.get("data", "D"), "content_hash": "1"},
        }
        plan = ["0"] if shape.finished else ["0", "1"]
        folder.start(identity, plan, queries, pa.table(space))
        rows = [
            self._row(ids[number], template, scoring, rank, pool, number == 1)
            for scoring in shape.scorings
            for template in range(shape.templates)
            for _, number, rank in facts
        ]
        folder.add_shard("0", rows)
        if shape.finished and "seconds" in more:
            folder.add_circumstances(**{SECONDS: more["seconds"]})
        return folder

    def _row(self, id_: str, template: int, scoring: str, rank: int, pool: int, odd: bool) -> Mapping[str, Any]:
        best = min(rank + template, pool)
        row = {
            "query_id": id_,
            "template": template,
            "scoring": scoring,
            "subject": "Ann",
            "prompt": f"Ann {'is' * (template + 1)} [Y].",
            "num_candidates": pool,
            "prompt_log_prob": -math.log(best + 1),
            "prompt_tokens": 1,
        }
        if odd and self.shape.unscored:
            return {**row, "unscored": "no mask"}
        if odd and self.shape.stopped is not None:
            return {**row, "rank_above": self.shape.stopped}
        ranks = {"rank": best, "rank_optimistic": best, "rank_pessimistic": best, "gold_ranks": [best]}
        gold = {"gold_tokens": [1 + best % 3], "gold_scores": [-best]}
        return {**row, **ranks, **gold, "top_ids": list(IDS[:10]), "top_scores": [-float(n) for n in range(10)]}


def _groups(number: int) -> dict[str, str]:
    """Two questions of a task, and two of a rule whose premises they are."""
    if number < 2:
        return {"task": "type"}
    return {"rule": "rdfs9", "premise": f"type/{number - 2}", "p1": "implicit"}


@dataclass(frozen=True)
class Case:
    """A study of finished runs, and what it does about each oddity: "refused" with these words, or shown by them.

    :param runs: what is asked. :param facts: column of the table that counts facts, and how many they are.
    """

    runs: Callable[[Desk], list[RunFolder]]
    stopped: str
    unscored: str
    facts: tuple[str, int] | None
    several_scorings: str = "refused: --scoring"
    unfinished: str = "refused: unfinished"
    options: Mapping[str, Any] = field(default_factory=dict)


def with_two_templates(desk: Desk) -> Desk:
    other = copy(desk)
    other.shape = replace(desk.shape, templates=2)
    return other


STOPPED = "refused: --max-rank"
CASES = {
    "agreement": Case(
        lambda desk: [desk.run("m"), desk.run("m", probe="embedding")],
        "beyond --max-rank",
        "1 facts that one of the two",
        ("facts", 4),
        options={"k": 3},
    ),
    "length-bias": Case(lambda desk: [desk.run("m")], STOPPED, "1 facts without a rank", ("facts", 4)),
    "profile": Case(
        lambda desk: [desk.run("m"), desk.run("m", probe="generation")],
        '"known": 0.25',  # the first of four
        "1 facts that not all runs scored",
        ("facts", 4),
        several_scorings="by mask-mean, not mask-max; --scoring takes another",
    ),
    "calibration": Case(
        lambda desk: [with_two_templates(desk).run("m")],
        "1 answers without a confidence",
        "1 answers without a confidence",
        ("answers", 4),
    ),
    "compute-time": Case(
        lambda desk: [desk.run("m", facts=facts, seconds=float(facts)) for facts in (2, 3, 4)],
        '"queries": 4',
        '"queries": 4',
        ("queries", 4),
        several_scorings='"queries": 4',
        unfinished="refused: not timed",
    ),
    "learning": Case(
        lambda desk: [desk.run("m-100"), desk.run("m-200")],
        '"accuracy": 0.25',
        '"unscored": 1',
        ("facts", 4),
    ),
    "repeated": Case(lambda desk: [desk.run("m")], STOPPED, '"unscored": 1', None),
    "rankings": Case(lambda desk: [desk.run("a"), desk.run("b")], STOPPED, "1 facts that not all", None),
    "items": Case(
        lambda desk: [desk.run("a"), desk.run("b"), desk.run("c")],
        '"accuracy": 0.25',  # the first of four
        "1 facts that not all models scored",
        ("facts", 4),
    ),
    "relations": Case(lambda desk: [desk.run("m"), desk.run("m", data="E")], STOPPED, '"facts D": 1', None),
    "perplexity": Case(lambda desk: [desk.run(name) for name in "abc"], STOPPED, '"Acc@1": 0.333', None),
    "ontology": Case(
        lambda desk: [desk.run("m")],
        "refused: --max-rank",
        '"unscored": 1',
        None,
        several_scorings="mask-max",
    ),
    "choice": Case(
        lambda desk: [desk.run("m")],
        '"accuracy": 0.5',  # of two questions one is right, one stopped
        '"unscored": 1',
        ("questions", 2),
        several_scorings="mask-max",
        unfinished="unfinished",
    ),
}
OTHERS = {"entailment", "chains", "validity"}
"""Studies with tests of their own: two make their runs, one is of planted models."""


def made(name: str, desk: Desk) -> tuple[list[Table], str]:
    """The tables, and all that is printed and kept of them."""
    study, case = STUDIES[name], CASES[name]
    runs = case.runs(desk)
    found = study.analyse(runs, **(study.options(**case.options).model_dump()))
    tables = study.tables(found)
    return tables, render(tables, "text") + render(tables, "json")


def check(expected: str, name: str, desk: Desk) -> None:
    if expected.startswith("refused: "):
        with pytest.raises(BadInput, match=expected.removeprefix("refused: ")):
            made(name, desk)
    else:
        assert expected in made(name, desk)[1]


def check_numbers(tables: Sequence[Table]) -> None:
    """Recipe, and interval or the reason why there is none."""
    for table in tables:
        for row in table.objects():
            for column, beside in table.numbers.items():
                if row[column] is not None:
                    assert row["recipe"], (table.title, column)
                    assert row["note"] or (beside and row[beside[0]] is not None), (table.title, column)
    assert any(table.numbers for table in tables)


def test_every_study_has_its_case() -> None:
    assert {study.name for study in STUDIES.entries() if study.takes != "cells"} == CASES.keys() | OTHERS


@pytest.mark.parametrize("name", CASES)
class TestOfFinishedRuns:
    def test_every_number_has_recipe_and_interval(self, name: str, tmp_path: Path) -> None:
        tables, _ = made(name, Desk(tmp_path, Shape()))
        check_numbers(tables)
        recipes = {row["recipe"] for table in tables for row in table.objects() if row.get("recipe")}
        assert all("data:" in recipe or "relation:" in recipe for recipe in recipes)
        assert not any("nan" in line.lower() for line in render(tables, "md").splitlines())
        json.loads(render(tables, "json"))

    def test_a_stopped_search_is_neither_unscored_nor_right(self, name: str, tmp_path: Path) -> None:
        check(CASES[name].stopped, name, Desk(tmp_path, Shape(stopped=3)))

    def test_an_unscored_fact_is_left_out_and_counted(self, name: str, tmp_path: Path) -> None:
        check(CASES[name].unscored, name, Desk(tmp_path, Shape(unscored=True)))

    def test_templates_are_averaged_and_facts_counted(self, name: str, tmp_path: Path) -> None:
        tables, _ = made(name, Desk(tmp_path, Shape(templates=2)))
        check_numbers(tables)
        if CASES[name].facts is not None:
            column, count = CASES[name].facts  # type: ignore[misc]
            told = [row[column] for row in tables[0].objects() if row.get(column) is not None]
            assert told
            assert set(told) == {count}

    def test_scorings_are_not_mixed(self, name: str, tmp_path: Path) -> None:
        check(CASES[name].several_scorings, name, Desk(tmp_path, Shape(scorings=("mask-mean", "mask-max"))))

    def test_two_models_of_one_name_stay_two(self, name: str, tmp_path: Path) -> None:
        desk, case, study = Desk(tmp_path, Shape()), CASES[name], STUDIES[name]
        of_each = [case.runs(_RenamedDesk(desk, model)) for model in ("x/m", "y/m")]
        runs = [*of_each[0], *of_each[1]]
        if name == "agreement":  # of so many runs as they take
            runs = [of_each[place % 2][place] for place in range(len(of_each[0]))]
        if name in ("profile", "compute-time"):  # of one model
            with pytest.raises(BadInput, match="models/x/m, models/y/m"):
                study.analyse(runs)
            return
        text = render(study.tables(study.analyse(runs, **study.options(**case.options).model_dump())), "json")
        assert "models/x" in text
        assert "models/y" in text

    def test_an_unfinished_run_is_no_whole_one(self, name: str, tmp_path: Path) -> None:
        check(CASES[name].unfinished, name, Desk(tmp_path, Shape(finished=False)))


class _RenamedDesk(Desk):
    """Its runs are all of models of one last name."""

    def __init__(self, desk: Desk, model: str) -> None:
        super().__init__(desk.folder, desk.shape)
        self.model = model

    def run(self, model: str, reading: str = "template-based", pool: int = 20, **more: Any) -> RunFolder:
        folder, _, last = self.model.rpartition("/")
        return super().run(f"{folder}{'' if model == 'm' else model}/{last}", reading, pool, **more)
