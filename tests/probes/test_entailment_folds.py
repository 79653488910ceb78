"""The entailment study cross-validated: every item asked once, by templates and conjunctions that other folds teach."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import fathom.probes.entailment as asking
from fathom.base.errors import BadInput
from fathom.data.folds import FOLD, folds_of_queries, taught
from fathom.data.formats import read
from fathom.engine.models.base import Attention
from fathom.store.folder import RunFolder
from tests.conftest import build, make_local
from tests.messages import mentioned, mentions
from tests.probes.test_cloze import KINDS, SHAPE
from tests.probes.test_entailment import asked, folder, naive, texts_of  # noqa: F401

pytestmark = pytest.mark.slow

FEW = {"epochs": 1, "learning_rate": 0.1, "cross_validate": True, "folds": 3}


@pytest.fixture(scope="module")
def model(folder):  # noqa: F811
    tokenizer = KINDS["BertForMaskedLM"](texts_of(folder) * 3)
    shape = SHAPE | {"max_position_embeddings": 200}
    network = build("BertForMaskedLM", vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **shape)
    return make_local(network, tokenizer, Attention.BIDIRECTIONAL)


def folds_of_classes(folder: Path, number: int = 3, seed: int = 0) -> dict[str, int]:  # noqa: F811
    """Of each super-class item, from 1."""
    found = folds_of_queries(read(folder).by_relation()["subClassOf"], number, seed)
    return {id_: fold + 1 for id_, fold in found.items()}


def test_what_teaches_a_fold_by_hand():
    """Of four folds, of the last nothing can be learnt: of the third the first (next in turn but one) chooses."""
    fold_of = {"a": 0, "b": 1, "c": 2, "d": 3, "e": 0, "f": 1}
    assert taught(fold_of, 2, {"a", "b", "c"}) == (["b", "d", "f"], ["a", "e"])
    assert taught(fold_of, 0, {"a", "b", "c"}) == (["c", "d"], ["b", "f"])
    assert taught(fold_of, 1, {"b"}) == (["a", "c", "d", "e"], [])


def test_every_item_is_asked_once_by_what_others_teach(folder, model, tmp_path, monkeypatch):  # noqa: F811
    """Conjunctions: one training for each way of giving and fold, on no item of it; and by words nothing changes."""
    lessons = []

    def noted(fold_of, fold, able):
        lessons.append((fold, *taught(fold_of, fold, able)))
        return lessons[-1][1:]

    monkeypatch.setattr(asking, "taught", noted)
    sizes = []

    def learn(model, names, way, items, validation, *more, **further):
        sizes.append((len(items), len(validation)))
        return real(model, names, way, items, validation, *more, **further)

    real = asking.learn
    monkeypatch.setattr(asking, "learn", learn)
    found = asked(model, folder, tmp_path / "o", ["rdfs9"], ["words", "learnt"], **FEW)
    runs = {made.path.name: made for made in found.runs}
    fold_of = folds_of_classes(folder)
    assert len(sizes) == 4 * 3, "four ways of giving premises, three folds"
    assert runs["learnt"].manifest["circumstances"]["trainings"] == 12
    for (fold, train, dev), size in zip(lessons, sizes, strict=True):
        kept = [{fold_of[f"subClassOf/{id_.split('/')[1]}"] - 1 for id_ in part} for part in (train, dev)]
        assert kept == [{(fold + 2) % 3}, {(fold + 1) % 3}]
        assert size == (len(train), len(dev))
    for name in ("learnt", "premises-learnt-templates"):
        rows = runs[name].queries().to_pylist()
        groups = [dict(row["groups"]) for row in rows]
        assert all(int(about[FOLD]) == fold_of[about["item"]] for about in groups)
    asked_of = {
        name: {dict(row["groups"])["item"] for row in runs[name].queries().to_pylist()}
        for name in ("premises-words", "words", "learnt")
    }
    assert asked_of["premises-words"] == set(fold_of), "nothing is held back"
    # The items in the middle of an odd count are in neither half.
    assert all(len(set(fold_of) - asked_of[name]) <= 2 for name in ("words", "learnt"))
    assert FOLD not in dict(runs["words"].queries().to_pylist()[0]["groups"])
    assert "cross_validate" not in runs["words"].manifest["identity"]["options"]


def test_a_fold_is_asked_by_its_own_template(folder, model, tmp_path):  # noqa: F811
    """P1's template is that of the item's fold; that of types, of which no item is a fact of the rule, the first."""
    asked(model, folder, tmp_path / "o", ["rdfs9"], ["learnt-templates"], **FEW)
    root = tmp_path / "o" / "tiny"
    soft = root / "memory-learnt-templates" / "artifacts" / "soft"
    [of_types] = soft.glob("type-fold-*-mask-mean.safetensors")
    pair = load_file(root / "learnt-templates" / "artifacts" / "pseudowords.safetensors")["rdfs9"]
    run_ = RunFolder.open(root / "learnt-templates")
    about = {row["query_id"]: dict(row["groups"]) for row in run_.queries().to_pylist()}
    seen = set()
    for row in run_.predictions().to_pylist():
        groups = about[row["query_id"]]
        if groups["given"] == "both" and groups["pair"] == "0" and groups[FOLD] not in seen:
            seen.add(groups[FOLD])
            own = load_file(soft / f"subClassOf-fold-{groups[FOLD]}-mask-mean.safetensors")["vectors"]
            types = load_file(of_types)["vectors"]
            rows = torch.cat([own, types, types])
            vectors = {"<x>": pair[0], **{f"<s{number + 1}>": vector for number, vector in enumerate(rows)}}
            said = naive(model, row["prompt"], vectors, row["top_ids"][0])
            assert row["top_scores"][0] == pytest.approx(said, abs=1e-5)
    assert seen == {"1", "2", "3"}


class TestInput:
    def test_what_does_not_fit(self, folder, model, tmp_path, fathom):  # noqa: F811
        typed = ["study", "entailment", "--model", "m", "--data", folder, "--out", tmp_path / "o", "--rules", "rdfs9"]
        code, _, error = fathom(*typed, "--folds", "4")
        assert code == 2
        assert mentioned(error, "--folds 4", "--cross-validate")
        code, _, error = fathom(*typed, "--soft", "--subset", "all")
        assert code == 2
        assert mentioned(error, "--subset all", "expected test", "--cross-validate")

    def test_too_few_items_to_hold_any_back_or_to_fold(self, folder, model, tmp_path):  # noqa: F811
        data = tmp_path / "small"
        (data / "memorizing").mkdir(parents=True)
        (data / "ontology").symlink_to(folder / "ontology")
        for file in (folder / "memorizing").iterdir():
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            (data / "memorizing" / file.name).write_text("".join(lines[:2] if file.stem == "domain" else lines[:15]))
        with pytest.raises(BadInput, match=mentions("0 items", "15", "--cross-validate")):
            asked(model, data, tmp_path / "o", ["rdfs9"], ["learnt"])
        with pytest.raises(BadInput, match=mentions("--cross-validate", "rdfs2", "domain", "has 2")):
            asked(model, data, tmp_path / "o", ["rdfs2", "rdfs9"], ["learnt"], cross_validate=True)
        found = asked(model, data, tmp_path / "o", ["rdfs9"], ["learnt-templates"], **FEW)
        assert {row["rule"]: row["items"] for row in found.remembered} == {"rdfs9": 15}
