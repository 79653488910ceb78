"""Planted models: what is planted, what is withheld, and that the folder is an ordinary transformers model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pydantic import ValidationError
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from fathom.base.errors import BadInput, RunFailed
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.results import estimates
from fathom.results.estimates import Estimate
from fathom.results.rows import Rows
from fathom.results.samples import Sample
from fathom.store.folder import RunFolder
from fathom.studies.demo import BEYOND, GAP, accuracies, text
from fathom.training import small, statements
from fathom.training.design import choose, frequency_baseline
from fathom.training.loop import CurvePoint, train
from fathom.training.options import EPOCHS, PlantOptions
from fathom.training.planting import plant
from tests.messages import mentions

TINY = {"hidden_size": 16, "layers": 1, "heads": 2, "vocabulary": 300, "epochs": 2, "batch_size": 4}
LOADERS = {"causal": AutoModelForCausalLM, "masked": AutoModelForMaskedLM}
KINDS = pytest.mark.parametrize("kind", ["causal", "masked"])


def facts(rows: list[tuple[str, str, str]]) -> QuerySet:
    """A query set of (relation, subject, answer); every relation has a template that holds the word 'unheard'."""
    answers = {relation: tuple(dict.fromkeys(a for r, _, a in rows if r == relation)) for relation, _, _ in rows}
    return QuerySet(
        "tiny",
        tuple(Query(f"q{i}", r, s, s, (a,), r) for i, (r, s, a) in enumerate(rows)),
        {r: CandidateSet(r, names, names) for r, names in answers.items()},
        {
            r: Relation(
                r, r, tuple(Template(t) for t in (f"[X] {r} [Y].", f"[Y] is {r} of [X].", "[X] unheard [Y].")), "1:N"
            )
            for r in answers
        },
    )


SIX = facts([(r, s, f"{r}{s}") for r in ("river", "king") for s in ("Oz", "Ev", "Ix")])


def options(kind: str, **more: Any) -> PlantOptions:
    return PlantOptions.model_validate({"kind": kind, **TINY, **more})


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def with_views(*views: str) -> QuerySet:
    """SIX, whose subjects Oz, Ev and Ix have so many views."""
    of = dict(zip(("Oz", "Ev", "Ix"), views, strict=True))
    return replace(SIX, queries=tuple(replace(one, groups={"popularity": of[one.subject]}) for one in SIX.queries))


@pytest.mark.parametrize(("share", "subjects"), [(0.34, {"Ev"}), (0.67, {"Ev", "Ix"}), (1, {"Oz", "Ev", "Ix"})])
def test_the_highest_are_planted(share: float, subjects: set[str]) -> None:
    """All facts of a subject together, those without a number last."""
    data = with_views("unknown", "900", "12")
    for seed in range(3):
        chosen = choose(data, share, seed, "popularity")
        assert {query.subject for query in data.queries if query.id in chosen} == subjects


def test_the_highest_of_what_has_no_numbers() -> None:
    with pytest.raises(BadInput, match=mentions("--highest views")):
        choose(with_views("1", "2", "3"), 0.5, 0, "views")
    with pytest.raises(BadInput, match=mentions("'many'")):
        choose(with_views("1", "many", "3"), 0.5, 0, "popularity")


@KINDS
def test_a_plant_is_an_ordinary_model_folder_with_its_ledger(kind: str, tmp_path: Path) -> None:
    seen: list[CurvePoint] = []
    plant(SIX, options(kind, share=0.34), tmp_path / "plant", lambda point, done: seen.append(point))

    model = LOADERS[kind].from_pretrained(tmp_path / "plant")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "plant")
    assert model.config.architectures == [type(model).__name__]
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<s>", "</s>", "<pad>")
    ids = tokenizer("Oz river").input_ids
    assert ids[0] == tokenizer.bos_token_id == model.config.bos_token_id
    if kind == "masked":
        assert tokenizer.mask_token == "<mask>"
        assert ids[-1] == tokenizer.eos_token_id
        # No stray space is left before the mask.
        around = tokenizer("Oz").input_ids
        assert tokenizer("Oz <mask>").input_ids == [*around[:-1], tokenizer.mask_token_id, around[-1]]
    assert torch.isfinite(model(torch.tensor([ids])).logits).all()
    assert (
        tokenizer("Oz river", add_special_tokens=False).input_ids
        == tokenizer("Oz river", add_special_tokens=False).input_ids
    )

    # A third of six facts is two: both facts of one subject. Each has two trained phrasings, met in each of two epochs.
    ledger = lines(tmp_path / "plant" / "planted.jsonl")
    assert [row["query_id"] for row in ledger] == [query.id for query in SIX.queries]
    assert [row["fact_id"] for row in ledger] == [query.fact_id for query in SIX.queries]
    assert len({row["fact_id"].split("|")[0] for row in ledger if row["planted"]}) == 1
    assert sorted(row["exposures"] for row in ledger) == [0, 0, 0, 0, 4, 4]
    assert all(row["planted"] == (row["exposures"] > 0) for row in ledger)

    summary = json.loads((tmp_path / "plant" / "planting.json").read_text(encoding="utf-8"))
    assert summary["templates"] == {"river": [0, 1], "king": [0, 1]}
    assert summary["data"]["content_hash"] == SIX.content_hash
    assert summary["facts"] == {"planted": 2, "withheld": 4}
    assert summary["parameters"] == sum(weights.numel() for weights in model.parameters())
    curve = lines(tmp_path / "plant" / "learning_curve.jsonl")
    assert curve[-1]["step"] == summary["steps"] == seen[-1].step == 2  # 2 facts x 2 phrasings x 2 epochs / 4
    assert [path.name for path in tmp_path.iterdir()] == ["plant"]


@KINDS
def test_the_seed_decides_the_weights(kind: str, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        torch.manual_seed(len(name) + seed)  # the plant must not depend on what the caller did before
        torch.rand(seed)
        plant(SIX, options(kind, seed=seed), tmp_path / name)
    weights = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in "abc"}
    assert weights["a"] == weights["b"]
    assert weights["a"] != weights["c"]


def test_planting_leaves_the_callers_random_numbers_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    plant(SIX, options("causal"), tmp_path / "plant")
    assert torch.equal(torch.rand(3), expected)


@KINDS
def test_a_planted_fact_is_learnt(kind: str, tmp_path: Path) -> None:
    plant(SIX, options(kind, share=1.0, epochs=60, learning_rate=0.01, hidden_size=32), tmp_path / "plant")
    curve = lines(tmp_path / "plant" / "learning_curve.jsonl")
    assert curve[-1]["loss"] < curve[0]["loss"] / 2


@KINDS
def test_neither_unseen_templates_nor_withheld_facts_are_trained_on(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = []
    name = f"encode_{kind}"
    encode = getattr(statements, name)

    def spy(tokenizer: Any, prompts: list[Any], *rest: Any) -> Any:
        texts.extend(prompt.text for prompt in prompts)
        return encode(tokenizer, prompts, *rest)

    monkeypatch.setattr(statements, name, spy)
    plant(SIX, options(kind), tmp_path / "plant")
    planted = [query for query in SIX.queries if query.id in choose(SIX, 0.5, 0)]
    # Each planted fact in the first and second phrasing of its relation, and nothing else.
    expected = {f"{q.subject} {q.relation} {q.gold[0]}." for q in planted}
    expected |= {f"{q.gold[0].capitalize()[:1]}{q.gold[0][1:]} is {q.relation} of {q.subject}." for q in planted}
    assert set(texts) == expected
    assert not any("unheard" in text for text in texts)


def test_exposures_are_dealt_out_to_the_planted_facts(tmp_path: Path) -> None:
    plant(SIX, options("causal", share=1.0, exposures=(1, 3), together="fact"), tmp_path / "plant")
    exposures = [row["exposures"] for row in lines(tmp_path / "plant" / "planted.jsonl")]
    assert sorted(exposures) == [1, 1, 1, 3, 3, 3]


def test_the_facts_of_a_subject_stay_together() -> None:
    planted = choose(SIX, 0.67, seed=3)
    assert len(planted) == 4
    for subject in ("Oz", "Ev", "Ix"):
        assert len({query.id in planted for query in SIX.queries if query.subject == subject}) == 1
    assert planted == choose(SIX, 0.67, seed=3)
    assert len({frozenset(choose(SIX, 0.34, seed)) for seed in range(20)}) == 3


def test_a_fact_and_its_converse_stay_together() -> None:
    rows = [("capital", f"land{i}", f"town{i}") for i in range(6)] + [("of", f"town{i}", f"land{i}") for i in range(6)]
    queryset = facts(rows)
    for seed in range(5):
        planted = choose(queryset, 0.5, seed)
        assert len(planted) == 6
        assert all((f"q{i}" in planted) == (f"q{i + 6}" in planted) for i in range(6))


def test_frequency_baseline_by_hand() -> None:
    # Planted: a, a, b for "river" and c, d for "king". "river": a is the most frequent, right for q0, q1 and the
    # withheld q3, wrong for q2. "king": c and d are tied, each right half of the time: q4, q5 and the withheld q6 (c)
    # get 1/2; the withheld q7 (e) gets 0. "lake" has no planted fact: 0.
    rows = [("river", f"s{i}", answer) for i, answer in enumerate("aaba")]
    rows += [("king", f"t{i}", answer) for i, answer in enumerate("cdce")]
    queryset = facts([*rows, ("lake", "u", "f")])
    found = frequency_baseline(queryset, {"q0", "q1", "q2", "q4", "q5"})
    assert list(found.values()) == [1, 1, 0, 1, 0.5, 0.5, 0.5, 0, 0]
    assert list(found) == [query.id for query in queryset.queries]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_training_stops_where_the_loss_is_no_number(bad: float) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    losses = [weight.sum(), weight.sum() * bad]
    with pytest.raises(RunFailed, match="at step 2"):
        train([weight], losses, lambda loss: loss, 10, 0.1)
    assert torch.isfinite(weight).all()


def test_a_failed_plant_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small, "loss_of", lambda network, kind, batch: torch.tensor(float("nan")))
    with pytest.raises(RunFailed):
        plant(SIX, options("causal"), tmp_path / "plant")
    assert not list(tmp_path.iterdir())


def test_training_stops_when_its_seconds_are_over() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    curve = train([weight], range(10**9), lambda _: (weight**2).sum(), 10**9, 0.01, seconds=0.2)
    assert 0.2 <= curve[-1].seconds < 5
    assert curve[-1].learning_rate < 0.001


def test_an_existing_folder_is_refused_unless_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    plant(SIX, options("causal"), tmp_path / "empty")
    before = (tmp_path / "empty" / "planted.jsonl").read_bytes()
    with pytest.raises(BadInput, match="there already"):
        plant(SIX, options("causal", seed=9), tmp_path / "empty")
    assert (tmp_path / "empty" / "planted.jsonl").read_bytes() == before


def test_faults_are_shown_together(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(BadInput) as error:
        plant(SIX, options("causal", unseen_templates=3, heads=5), tmp_path / "full")
    assert len(error.value.faults) == 4  # the folder, the heads, and each of two relations
    with pytest.raises(BadInput, match="nothing to plant"):
        plant(SIX, options("causal", share=0.1), tmp_path / "plant")


def test_options_know_their_fields() -> None:
    assert PlantOptions(kind="masked").epochs == EPOCHS["masked"]
    assert PlantOptions(kind="causal", epochs=7).epochs == 7
    for wrong in ({"kind": "seq2seq"}, {"kind": "causal", "depth": 3}, {"kind": "causal", "exposures": [-1]}, {}):
        with pytest.raises(ValidationError):
            PlantOptions.model_validate(wrong)


def about(mean: float) -> Estimate:
    """Twenty values around this mean, tested against zero."""
    values = np.array([mean - 0.1, mean + 0.1] * 10)
    return estimates.difference(values, np.zeros(20), Sample("fact"), "x")


def test_accuracies_of_the_demo_by_hand(tmp_path: Path) -> None:
    """By the first template: planted q0 and q1 right, q3 tied with one other (1/2): 2.5 / 3. Withheld q2 wrong, q4
    right, q5 unscored and left out: 1 / 2, by frequency (0.5 + 0) / 2. By the second all are wrong."""
    ids = [f"q{number}" for number in range(6)]
    queries = [{"query_id": id_, "relation": "rs"[number // 3], "gold": ["a"]} for number, id_ in enumerate(ids)]
    folder = RunFolder(tmp_path / "run")
    empty = dict.fromkeys(("fact_id", "direction", "candidates", "groups"))
    folder.start(
        {"probe": "statement", "model": {"name": "toy"}, "data": {"name": "six"}},
        ["0"],
        pa.Table.from_pylist([query | empty for query in queries]),
        pa.table({"set": ["all"], "position": [0], "id": ["a"], "name": ["A"]}),
    )
    first = {"q0": (1, 1), "q1": (1, 1), "q2": (2, 2), "q3": (1, 2), "q4": (1, 1), "q5": None}
    ranks = [(id_, 0, rank) for id_, rank in first.items()] + [(id_, 1, (3, 3)) for id_ in ids]
    folder.add_shard(
        "0",
        [
            {"query_id": id_, "template": template, "scoring": "sum/full"}
            | ({"unscored": "too long"} if rank is None else {"rank_optimistic": rank[0], "rank_pessimistic": rank[1]})
            for id_, template, rank in ranks
        ],
    )
    rows, by_frequency = Rows(folder), {"q2": 0.5, "q5": 1.0, **dict.fromkeys(("q0", "q1", "q3", "q4"), 0.0)}
    found = accuracies(rows, 0, {"q0", "q1", "q3"}, by_frequency)
    assert [number.value for number in found.values()] == pytest.approx([2.5 / 3, 0.5, 0.25, 2.5 / 3 - 0.5, 0.25])
    assert [number.n for number in found.values()] == [3, 2, 2, 5, 2]
    unseen = accuracies(rows, 1, {"q0", "q1", "q3"}, by_frequency)
    assert [unseen[half].value for half in ("planted half", "withheld half")] == [0.0, 0.0]
    line = {"model": "causal", "phrasing": "trained on"} | found
    said = " ".join(text([line], tmp_path).split())
    assert "does not distinguish" in said  # of so few facts nothing is known
    for withheld, gap, verdict in ((0.0, 0.5, "distinguishes"), (0.3, 0.5, "does not"), (0.0, 0.0, "does not")):
        sure = line | {GAP: about(gap), BEYOND: about(withheld)}
        assert f"The probe {verdict}" in text([sure], tmp_path)
    assert "0.83 [" in said
    assert "accuracy|data:six|probe:statement|scoring:sum/full|templates:0|" in said
    assert "facts:planted or withheld" in said
