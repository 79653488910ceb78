"""``--cluster`` in the studies of questions and ontology items: intervals by hand, and keys that there are not. That of
entailment stands with its other tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fathom.results.estimates import Estimate, difference, mean
from fathom.results.metrics.table import SHARE
from fathom.results.metrics.uncertainty import interval
from fathom.results.samples import Origin, Sample, sample_of_origins
from fathom.store.folder import RunFolder
from fathom.studies import STUDIES
from fathom.studies.ontology import analyse as ontology
from fathom.studies.options import ChoiceStudyOptions, OntologyStudyOptions
from fathom.studies.reasoning.choice import ALL, UNKNOWN
from fathom.studies.reasoning.choice import analyse as choice
from tests.messages import mentioned

NAMES = tuple("abcdefghijkl")
TASKS = ("type", "domain")
COUNT = 24
SUBJECTS = [f"s{(number % 2 + number // 4) % 5}" for number in range(COUNT)]
FACTS = [f"{TASKS[number % 2]}{number // 4}" for number in range(COUNT)]
"""Two questions of a task ask for one fact."""
RANKS = [1 + (number * 7 + number // 5) % 4 for number in range(COUNT)]


def write(
    path: Path,
    ids: Sequence[str],
    relations: Sequence[str],
    groups: Sequence[Mapping[str, str]],
    ranks: Mapping[str, Sequence[int]],
) -> RunFolder:
    """:param ranks: of each scoring those of all queries, by one template."""
    queries = pa.table(
        {
            "query_id": list(ids),
            "fact_id": FACTS,
            "relation": list(relations),
            "direction": ["tail"] * COUNT,
            "subject_id": SUBJECTS,
            "gold": pa.array([[NAMES[number % 7]] for number in range(COUNT)], pa.list_(pa.string())),
            "candidates": ["all"] * COUNT,
            "groups": pa.array([list(own.items()) for own in groups], pa.map_(pa.string(), pa.string())),
        }
    )
    space = {"set": ["all"] * 12, "position": list(range(12)), "id": list(NAMES), "name": list(NAMES)}
    identity = {
        "probe": "ontology",
        "options": {},
        "model": {"name": "m", "content_hash": "m"},
        "data": {"name": "D", "content_hash": "d"},
    }
    poolings = {name: {"unit": "nats", "masks": "several", "pooling": name} for name in ranks}
    folder = RunFolder(path)
    folder.start(identity, ["0"], queries, pa.table(space), shows={"scorings": poolings})
    rows: list[dict[str, Any]] = [
        {"query_id": id_, "template": 0, "scoring": scoring, "num_candidates": 12, "subject": id_, "prompt": id_}
        | dict.fromkeys(("rank", "rank_optimistic", "rank_pessimistic"), rank)
        | {"gold_ranks": [rank], "top_ids": ["a"], "top_scores": [0.0]}
        for scoring, own in ranks.items()
        for id_, rank in zip(ids, own, strict=True)
    ]
    folder.add_shard("0", rows)
    return folder


def tasks_of_items() -> list[str]:
    return [TASKS[number % 2] for number in range(COUNT)]


def by_hand(values: Sequence[float], key: str, limits: tuple[float, float] = SHARE) -> tuple[float, ...]:
    """Estimate, ends and number of units of one value for each query."""
    own: dict[str, dict[str, Any]] = {"subject": {"clusters": SUBJECTS}, "query": {}}
    return tuple(interval(values, **own[key], limits=limits)[:4])  # type: ignore[arg-type]


def told(number: Estimate) -> tuple[float | None, ...]:
    return number.value, number.low, number.high, number.clusters


class TestChoice:
    @pytest.fixture
    def memory(self, tmp_path: Path) -> RunFolder:
        ids = [f"{task}/{number}" for number, task in enumerate(tasks_of_items())]
        groups = [{"task": task, "options": "12"} for task in tasks_of_items()]
        return write(tmp_path / "memory", ids, tasks_of_items(), groups, {"chat": RANKS})

    @pytest.fixture
    def reasoning(self, tmp_path: Path) -> RunFolder:
        ids = [f"rdfs9-12/{number}" for number in range(COUNT)]
        groups = [{"rule": "rdfs9", "p1": "implicit", "premise": f"elsewhere/{n // 3}"} for n in range(COUNT)]
        return write(tmp_path / "reasoning", ids, ["rdfs9"] * COUNT, groups, {"chat": RANKS[::-1]})

    @pytest.mark.parametrize("key", ["subject", "query"])
    def test_by_hand(self, memory: RunFolder, key: str) -> None:
        lines = {line["task"]: line for line in choice([memory], ChoiceStudyOptions(cluster=key)).memorizing}
        hits = [float(rank == 1) for rank in RANKS]
        number = lines[ALL]["accuracy"]
        assert told(number) == pytest.approx(by_hand(hits, key))
        assert number.recipe.endswith(f"|task:all|cluster:{key}")
        assert (number.sample, lines[ALL]["all wrong"][:4]) == (key, number[:4])

    def test_two_questions_of_a_fact_are_one_value(self, memory: RunFolder) -> None:
        [number] = [
            line["accuracy"]
            for line in choice([memory], ChoiceStudyOptions(cluster="fact")).memorizing
            if line["task"] == ALL
        ]
        facts = sorted(set(FACTS))
        means = [np.mean([rank == 1 for rank, own in zip(RANKS, FACTS, strict=True) if own == fact]) for fact in facts]
        expected = interval(means, within=[fact.rstrip("0123456789") for fact in facts], limits=SHARE)
        assert told(number) == pytest.approx(expected[:4])
        assert (number.clusters, number.sample) == (12, "fact within relation")

    def test_by_default_the_questions_of_each_task(self, memory: RunFolder) -> None:
        [number] = [line["accuracy"] for line in choice([memory]).memorizing if line["task"] == ALL]
        hits = [float(rank == 1) for rank in RANKS]
        assert told(number) == pytest.approx(interval(hits, within=tasks_of_items(), limits=SHARE)[:4])
        assert number.recipe.endswith("|cluster:question within task")

    def test_a_key_of_one_of_two_runs(self, memory: RunFolder, reasoning: RunFolder) -> None:
        """Questions without it count for themselves, those of one fact together: the 24 that memorise ask for 12."""
        found = choice([memory, reasoning], ChoiceStudyOptions(cluster="premise"))
        [line] = found.reasoning
        assert line["P1"] == UNKNOWN
        hits = [float(rank == 1) for rank in RANKS[::-1]]
        assert told(line["accuracy"]) == pytest.approx(interval(hits, [n // 3 for n in range(COUNT)], limits=SHARE)[:4])
        assert [one["accuracy"].clusters for one in found.memorizing if one["task"] == ALL] == [12]

    def test_one_task_says_nothing_of_others(self, memory: RunFolder) -> None:
        one, *_ = choice([memory], ChoiceStudyOptions(cluster="task")).memorizing
        assert one["accuracy"].low is None
        assert mentioned(one["accuracy"].note, "one task", "no interval")

    def test_keys_that_there_are_not(self, memory: RunFolder, reasoning: RunFolder, tmp_path: Path, fathom) -> None:
        there = "query, fact, relation, subject, answer, task, options, rule, premise"
        typed = ["study", "choice", memory.path, reasoning.path, "--out", tmp_path / "tables", "--cluster"]
        code, out, error = fathom(*typed, "colour")
        assert (code, out) == (2, "")
        assert mentioned(error, "--cluster colour", there)
        code, _, error = fathom(*typed, "p1")
        assert code == 2
        assert mentioned(error, "--cluster p1", there)
        assert not (tmp_path / "tables").exists()

    def test_every_output_says_of_what(self, memory: RunFolder, tmp_path: Path, fathom) -> None:
        typed = ["study", "choice", memory.path, "--cluster", "subject"]
        code, out, _ = fathom(*typed, "--out", tmp_path / "tables")
        assert code == 0
        assert "clustered by subject" in out
        for form in ("csv", "json"):
            assert "|cluster:subject" in fathom(*typed, "--format", form)[1]
            assert "|cluster:subject" in (tmp_path / "tables" / f"choice.{form}").read_text(encoding="utf-8")


RANKED = {"mean": RANKS, "max": RANKS[3:] + RANKS[:3]}
"""By pooling."""


class TestOntology:
    @pytest.fixture
    def made(self, tmp_path: Path) -> RunFolder:
        ids = [f"{task}/{number}" for number, task in enumerate(tasks_of_items())]
        groups = [{"document": f"d{number // 6}"} for number in range(COUNT)]
        folder = write(tmp_path / "run", ids, tasks_of_items(), groups, RANKED)
        (folder.path / "artifacts").mkdir(exist_ok=True)
        training = {task: [["a"], ["b"], ["b"]] for task in TASKS}
        (folder.path / "artifacts" / "training.json").write_text(json.dumps(training))
        return folder

    def of_task(self, task: str, values: Sequence[Any]) -> list[Any]:
        return [value for value, own in zip(values, tasks_of_items(), strict=True) if own == task]

    def test_by_hand(self, made: RunFolder) -> None:
        """A task's own number; the baseline's; and the mean over tasks of one pooling, where all tasks weigh alike."""
        found = ontology([made], OntologyStudyOptions(cluster="subject"))
        [line] = [line for line in found.lines if line.setting.task == "type" and line.scoring == "max"]
        values = [1 / rank for rank in self.of_task("type", RANKED["max"])]
        subjects = self.of_task("type", SUBJECTS)
        number = line.numbers["MRR"]
        assert told(number) == pytest.approx(interval(values, subjects, limits=SHARE)[:4])
        assert number.recipe.endswith("|cluster:subject")
        assert found.baselines["type"].numbers["MRR"].sample == "subject"
        assert found.baselines["type"].numbers["MRR"].clusters == 5
        [compared] = found.comparisons
        of_max = [1 / rank for rank in RANKED["max"]]
        assert told(compared.means["max"][5]) == pytest.approx(interval(of_max, SUBJECTS, limits=SHARE)[:4])

    def test_an_item_that_is_asked_again_is_one_value(self, made: RunFolder, tmp_path: Path) -> None:
        """Over the settings of two models, the same as over the means of each item, or fact."""
        ids = [f"{task}/{number}" for number, task in enumerate(tasks_of_items())]
        ranks = {name: own[::-1] for name, own in RANKED.items()}
        other = write(tmp_path / "other", ids, tasks_of_items(), [{}] * COUNT, ranks)
        manifest = json.loads((other.path / "manifest.json").read_text(encoding="utf-8"))
        manifest["identity"]["model"] = {"name": "n", "content_hash": "n"}
        del manifest["digest"]
        (other.path / "manifest.json").write_text(json.dumps(manifest))
        runs = [made, RunFolder.open(other.path)]
        both = [RANKED["mean"], ranks["mean"]]
        items = [float(np.mean([1 / rank for rank in own])) for own in zip(*both, strict=True)]
        number = ontology(runs, OntologyStudyOptions(cluster="query")).comparisons[0].means["mean"][5]
        assert told(number) == pytest.approx(interval(items, limits=SHARE)[:4])
        assert (number.sample, number.n) == ("query", 2 * COUNT)
        number = ontology(runs, OntologyStudyOptions(cluster="fact")).comparisons[0].means["mean"][5]
        facts = sorted(set(FACTS))
        means = [np.mean([item for item, own in zip(items, FACTS, strict=True) if own == fact]) for fact in facts]
        within = [fact.rstrip("0123456789") for fact in facts]
        assert told(number) == pytest.approx(interval(means, within=within, limits=SHARE)[:4])
        assert number.sample == "fact within relation"
        by_default = ontology(runs).comparisons[0].means["mean"][5]
        assert told(by_default) == pytest.approx(interval(items, within=tasks_of_items(), limits=SHARE)[:4])
        assert by_default.recipe.endswith("|cluster:item within task")

    def test_the_verdict_is_of_the_same_sample(self, made: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        samples = []

        def note(first: Any, second: Any, sample: Sample, *more: Any) -> Estimate:
            samples.append(sample.key)
            return difference(first, second, sample, *more)

        monkeypatch.setattr("fathom.results.tasks.difference", note)
        for key in ("document", ""):
            found = ontology([made], OntologyStudyOptions(cluster=key))
            assert found.decisions["type", "m", False] is not None
        assert list(dict.fromkeys(samples)) == ["document", "item"]

    def test_keys_that_there_are_not(self, made: RunFolder, tmp_path: Path, fathom) -> None:
        code, out, error = fathom("study", "ontology", made.path, made.path, "--cluster", "colour")
        assert (code, out) == (2, "")
        there = "query, fact, relation, subject, answer, document"
        assert mentioned(error, "--cluster colour", there)

    def test_every_output_says_of_what(self, made: RunFolder, tmp_path: Path, fathom) -> None:
        typed = ["study", "ontology", made.path, "--cluster", "document"]
        code, out, _ = fathom(*typed, "--out", tmp_path / "tables")
        assert code == 0
        assert "clustered by document" in out
        assert "fact within" not in out
        for form in ("csv", "json"):
            assert "|cluster:document" in fathom(*typed, "--format", form)[1]


def test_every_study_takes_a_key() -> None:
    """But for that of compute time, which counts seconds, and that of a plan's cells."""
    lacking = {study.name for study in STUDIES.entries() if "cluster" not in study.options.model_fields}
    assert lacking == {"compute-time", "memory"}


class TestValuesOfOneUnit:
    """Of three facts, two of them asked twice, of two relations."""

    FACTS = ("f", "f", "g", "h", "h")
    VALUES = (0.0, 1.0, 1.0, 1.0, 0.0)

    def origins(self, key: str, labels: Sequence[str | None]) -> list[Origin]:
        relations = ["r", "r", "r", "q", "q"]
        return [Origin(key, *own) for own in zip(self.FACTS, relations, labels, strict=True)]

    def test_samples(self) -> None:
        assert sample_of_origins(self.origins("query", [None] * 5)).clusters == list(self.FACTS)
        assert sample_of_origins(self.origins("fact", [None] * 5))[1:3] == (list(self.FACTS), ["r", "r", "r", "q", "q"])
        labels = ["x", "x", None, None, None]
        assert sample_of_origins(self.origins("document", labels)).clusters == [
            "document x", "document x", "alone g", "alone h", "alone h"
        ]  # fmt: skip
        assert sample_of_origins([]).clusters is None

    def test_of_facts_that_are_asked_again_the_means_count(self) -> None:
        sample, weights = sample_of_origins(self.origins("fact", [None] * 5)), np.array([1.0, 3.0, 2.0, 1.0, 1.0])
        means, sizes, within = [0.75, 1.0, 0.5], [4.0, 2.0, 2.0], ["r", "r", "q"]
        expected = interval(means, within=within, weights=sizes, limits=SHARE)
        assert told(mean(self.VALUES, sample, "", weights=weights)) == pytest.approx(expected[:4])
        paired = difference(self.VALUES, [0.5] * 5, sample, "")
        expected = interval([0.0, 0.5, 0.0], within=within, weights=[2, 1, 2], limits=(-1, 1))
        assert told(paired) == pytest.approx(expected[:4])
        assert paired.p_value == pytest.approx(expected.p_value)

    def test_one_fact_has_no_interval(self) -> None:
        sample = sample_of_origins([Origin("fact", "f", "r", None)] * 2)
        assert mean([0.0, 1.0], sample, "").note == "of one value: no interval"
