"""A model taught in blocks: what it knows when, by the callback, from its checkpoints, and by the study."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import yaml
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch.utils.data import SequentialSampler
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, Trainer, TrainingArguments

import fathom
from fathom.base.errors import BadInput
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.plans.watch import write_plan
from fathom.probes.options import EmbeddingOptions, StatementOptions
from fathom.store.folder import RunFolder
from fathom.studies import STUDIES
from fathom.studies.learning import Course, Learning, analyse, step_of
from fathom.watch import KnowledgeCallback, evaluate, sample_facts
from tests.answerers import EVEN, answered, world
from tests.messages import mentions, stated

BLOCKS, FACTS, STEPS = 4, 24, 30
"""Blocks, facts of each, and steps of training on each."""
LEARNING = STUDIES["learning"]


def people() -> list[tuple[str, str, str]]:
    """Subject, relation and answer of each fact; every answer is right once."""
    return [
        (f"Ann{number}", ("keeps", "visits")[number % 2], f"word{number}")
        for number in random.Random(1).sample(range(BLOCKS * FACTS), BLOCKS * FACTS)
    ]


def tokenizer() -> PreTrainedTokenizerFast:
    words = ["<s>", ".", *(word for fact in people() for word in fact)]
    backend = Tokenizer(WordLevel({word: place for place, word in enumerate(dict.fromkeys(words))}, unk_token="."))
    backend.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token=".", pad_token=".")


def network(size: int = 64) -> GPT2LMHeadModel:
    """With dropout, so that training takes random numbers."""
    torch.manual_seed(0)
    shape = {"n_embd": size, "n_layer": 2, "n_head": 2, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 1}
    return GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer()), **shape))


class InOrder(Trainer):
    """Reads the statements in their order."""

    def _get_train_sampler(self, *_: Any) -> SequentialSampler:
        return SequentialSampler(self.train_dataset)


def trainer_of(out: Path, steps: int = BLOCKS * STEPS, **arguments: Any) -> InOrder:
    """Teach each block of facts for some steps, then the next."""
    encoder, facts = tokenizer(), people()
    blocks = [facts[first : first + FACTS] for first in range(0, len(facts), FACTS)]
    texts = [f"<s> {' '.join(fact)} ." for block in blocks for fact in block * STEPS]
    rows = [  # only answers are learnt
        {"input_ids": ids, "labels": [-100, -100, -100, ids[3], -100]}
        for ids in encoder(texts, add_special_tokens=False)["input_ids"]
    ]
    settings = {
        "per_device_train_batch_size": FACTS, "max_steps": steps, "learning_rate": 3e-3, "report_to": [],
        "lr_scheduler_type": "constant", "use_cpu": True, "logging_steps": 10, "disable_tqdm": True, "seed": 0,
    }  # fmt: skip
    settings |= {"save_strategy": "no"} | arguments
    return InOrder(network(), TrainingArguments(str(out), **settings), train_dataset=rows, processing_class=encoder)


class Taught(NamedTuple):
    """What a training with the callback left. :param blocks: of each subject, from 0."""

    root: Path
    trainer: InOrder
    generators: tuple[Any, ...]
    blocks: dict[str, int]


def generators() -> tuple[Any, ...]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Taught:
    """A training with checkpoints, and its data."""
    root = tmp_path_factory.mktemp("watch")
    (root / "people").mkdir()
    facts = [{"subject": one, "relation": relation, "answer": answer} for one, relation, answer in people()]
    (root / "people" / "facts.jsonl").write_text("\n".join(map(json.dumps, facts)), "utf-8")
    relations = [{"relation": name, "templates": [f"[X] {name} [Y] ."]} for name in ("keeps", "visits")]
    (root / "people" / "relations.jsonl").write_text("\n".join(map(json.dumps, relations)), "utf-8")
    trainer = trainer_of(root / "training", save_strategy="steps", save_steps=STEPS)
    sample = {"every": STEPS, "facts": BLOCKS * FACTS}
    trainer.add_callback(KnowledgeCallback(trainer, str(root / "people"), root / "kept", **sample))
    trainer.train()
    blocks = {subject: place // FACTS for place, (subject, *_) in enumerate(people())}
    return Taught(root, trainer, generators(), blocks)


def runs_in(folder: Path) -> list[RunFolder]:
    return [RunFolder(path) for path in sorted(folder.iterdir())]


def share_at_block_end(course: Course, blocks: dict[str, int]) -> float:
    """Return the share of facts that were learnt when their block ended."""
    return float(np.mean([fact.learnt == STEPS * (1 + blocks[fact.subject]) for fact in course.facts]))


# --- the callback


def test_training_with_the_callback_ends_in_the_same_weights(taught: Taught, tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path / "alone")
    trainer.train()
    assert generators() == taught.generators
    weights = taught.trainer.model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in trainer.model.state_dict().items())
    losses = [[line["loss"] for line in one.state.log_history if "loss" in line] for one in (trainer, taught.trainer)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == BLOCKS * STEPS // 10


def test_the_trainer_logs_what_the_model_knows(taught: Taught) -> None:
    lines = [line for line in taught.trainer.state.log_history if "knowledge/accuracy" in line]
    assert [line["step"] for line in lines] == [STEPS * number for number in range(BLOCKS + 1)]
    for line in lines:
        assert line["knowledge/accuracy_low"] <= line["knowledge/accuracy"] <= line["knowledge/accuracy_high"]
        assert line["knowledge/gold_log_prob"] < 0
        assert line["knowledge/seconds"] > 0
    assert lines[1]["knowledge/accuracy"] > 0.2
    assert runs_in(taught.root / "kept")[1].is_complete()


def test_a_fact_is_learnt_when_its_block_ends(taught: Taught) -> None:
    [course] = analyse(runs_in(taught.root / "kept")).courses
    assert len(course.facts) == BLOCKS * FACTS
    assert course.steps == [STEPS * number for number in range(BLOCKS + 1)]
    assert share_at_block_end(course, taught.blocks) >= 0.95


def test_evaluation_leaves_the_network_as_it_is(taught: Taught, tmp_path: Path) -> None:
    model, encoder = network(), tokenizer()
    model.train()
    model(input_ids=torch.arange(6)[None], labels=torch.arange(6)[None]).loss.backward()
    gradients = [weight.grad.clone() for weight in model.parameters()]
    facts = sample_facts(str(taught.root / "people"), 10)
    options = StatementOptions(reduction=("sum", "mean"))
    numbers = evaluate(model, encoder, 5, facts, tmp_path, options)
    assert {"sum/full/accuracy", "mean/full/gold_log_prob"} <= numbers.keys()
    assert model.training
    assert torch.is_grad_enabled()
    assert all(torch.equal(weight.grad, own) for weight, own in zip(model.parameters(), gradients, strict=True))
    assert all(weight.requires_grad for weight in model.parameters())
    assert "gold_log_prob" not in evaluate(model, encoder, 6, facts, tmp_path, EmbeddingOptions(shots=1))


def test_mixed_precision_is_evaluated_in_full_precision_and_without_dropout(taught: Taught, tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path / "training", steps=3, bf16=True)
    trainer.add_callback(KnowledgeCallback(trainer, str(taught.root / "people"), tmp_path / "kept", facts=10))
    trainer.train()
    facts = sample_facts(str(taught.root / "people"), 10)
    trainer.model.save_pretrained(tmp_path / "saved")
    saved = GPT2LMHeadModel.from_pretrained(tmp_path / "saved")
    numbers = evaluate(saved, tokenizer(), 3, facts, tmp_path / "again")
    [line] = [line for line in trainer.state.log_history if line["step"] == 3 and "knowledge/accuracy" in line]
    assert line["knowledge/gold_log_prob"] == pytest.approx(numbers["gold_log_prob"], abs=1e-5)


def test_an_evaluation_that_fails_ends_no_training(
    taught: Taught, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = trainer_of(tmp_path / "training", steps=4)
    trainer.add_callback(KnowledgeCallback(trainer, str(taught.root / "people"), tmp_path, every=2, facts=5))
    (tmp_path / "checkpoint-2").write_text("no folder", "utf-8")
    with caplog.at_level(logging.WARNING, "fathom"):
        trainer.train()
    assert stated(caplog.text, "step 2 is not evaluated", "checkpoint-2")
    assert (tmp_path / "checkpoint-4" / "manifest.json").exists()


def test_what_cannot_be_evaluated_is_refused_before_training(taught: Taught, tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path / "training", steps=1)
    with pytest.raises(BadInput, match=mentions("every=0")):
        KnowledgeCallback(trainer, "geography", tmp_path, every=0)
    trainer.add_callback(KnowledgeCallback(trainer, "geography", tmp_path, options=StatementOptions(kind="masked")))
    with pytest.raises(BadInput, match=mentions("--kind")):
        trainer.train()
    trainer.is_fsdp_enabled = True
    with pytest.raises(BadInput, match=mentions("fathom watch")):
        KnowledgeCallback(trainer, "geography", tmp_path).on_train_begin(trainer.args, trainer.state, trainer.control)


def test_only_the_main_process_evaluates(taught: Taught, tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path / "training", steps=2)
    callback = KnowledgeCallback(trainer, str(taught.root / "people"), tmp_path / "kept", facts=5)
    state = trainer.state
    state.is_world_process_zero = False
    for event in (callback.on_train_begin, callback.on_step_end, callback.on_train_end):
        event(trainer.args, state, trainer.control)
    assert not (tmp_path / "kept").exists()


def test_the_sample_has_facts_of_each_relation_in_proportion() -> None:
    space = CandidateSet("all", ("a", "b"), ("a", "b"))
    sizes = {"big": 60, "small": 30, "rare": 10}
    queries = [
        Query(f"{name}/{n}", name, f"s{n}", f"s{n}", ("a",), "all") for name, n in sizes.items() for n in range(n)
    ]
    relations = {name: Relation(name, name, (Template("[X] [Y]"),), "1:N") for name in sizes}
    data = QuerySet("D", tuple(queries), {"all": space}, relations)
    sample = sample_facts(data, 20)
    assert {name: len(own) for name, own in sample.by_relation().items()} == {"big": 12, "small": 6, "rare": 2}
    assert sample_facts(data, 20) == sample != sample_facts(data, 20, seed=1)
    assert len(sample_facts(data, 1000).queries) == 100


def test_the_package_finds_its_part_for_training() -> None:
    assert fathom.watch.KnowledgeCallback is KnowledgeCallback


# --- fathom watch


def test_from_checkpoints_to_the_report(
    taught: Taught, tmp_path: Path, fathom: Callable[..., tuple[int, str, str]]
) -> None:
    """The same command takes up a checkpoint that was saved later, and keeps one that was deleted."""
    training, out = tmp_path / "training", tmp_path / "watched"
    shutil.copytree(taught.root / "training", training)
    later = training.rename(tmp_path / "all") / f"checkpoint-{STEPS * BLOCKS}"
    training.mkdir()
    for folder in (tmp_path / "all").iterdir():
        if folder != later:
            shutil.copytree(folder, training / folder.name)
    line = ["watch", training, "--data", taught.root / "people", "--out", out]
    code, output, errors = fathom(*line)
    assert code == 0, errors
    assert stated(output.replace("\n", " "), "were known at the first checkpoint")
    shutil.rmtree(training / f"checkpoint-{STEPS}")
    shutil.copytree(later, training / later.name)
    assert fathom(*line)[0] == 0
    plan = yaml.safe_load((out / "plan.yaml").read_text("utf-8"))
    assert list(plan["models"]) == [f"checkpoint-{STEPS * number}" for number in range(1, BLOCKS + 1)]
    studies = out / "studies" / "learning"
    assert {file.name for file in studies.glob("*.png")} >= {"learning-0.png", "learning-0-relations.png"}
    page = (out / "report.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") == len(list(studies.glob("*.png")))
    [course] = analyse(_data_runs(out)).courses
    assert share_at_block_end(course, taught.blocks) >= 0.95


def _data_runs(out: Path) -> list[RunFolder]:
    return [RunFolder(path / "data") for path in sorted((out / "runs" / "knowledge").iterdir())]


def test_checkpoints_that_cannot_be_used_have_a_line_each_and_the_others_are_evaluated(
    taught: Taught, tmp_path: Path, fathom: Callable[..., tuple[int, str, str]]
) -> None:
    training = tmp_path / "training"
    shutil.copytree(taught.root / "training", training)
    names = [f"checkpoint-{STEPS * number}" for number in range(1, BLOCKS + 1)]
    (training / names[1] / "config.json").unlink()
    weights = training / names[2] / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    other = training / "checkpoint-150"
    network(32).save_pretrained(other)
    tokenizer().save_pretrained(other)
    missing = tmp_path / "checkpoint-180"
    line = ["watch", training, missing, "--data", taught.root / "people", "--out", tmp_path / "out", "--limit", 20]
    code, output, errors = fathom(*line)
    assert code == 1
    assert stated(errors, names[1], "config.json")
    assert stated(errors, other.name, "another model", "hidden_size 32, not 64")
    assert stated(errors, missing.name, "left out")
    assert stated(errors, "knowledge", names[2])
    assert stated(output.replace("\n", " "), f"at step {STEPS}", f"at step {STEPS * BLOCKS}")


def test_a_missing_step_is_named(taught: Taught, tmp_path: Path) -> None:
    training = tmp_path / "training"
    shutil.copytree(taught.root / "training", training)
    shutil.copytree(training / f"checkpoint-{STEPS}", training / f"checkpoint-{STEPS * 6}")
    _, notes = write_plan([str(training)], str(taught.root / "people"), tmp_path / "out")
    assert stated(notes, f"no checkpoint of step {STEPS * 5}")
    assert len(notes) == 1
    (training / f"checkpoint-{STEPS * 5}").mkdir()  # has a line as one that is left out
    _, notes = write_plan([str(training)], str(taught.root / "people"), tmp_path / "out")
    assert [stated(note, "left out") for note in notes] == [True]
    with pytest.raises(BadInput, match=mentions("config.json")):
        write_plan([str(tmp_path)], "geography", tmp_path / "other")
    with pytest.raises(BadInput, match=mentions("another plan")):
        write_plan([str(training)], "geography", tmp_path / "out")


def test_the_state_of_deepspeed_in_a_checkpoint_is_no_checkpoint(taught: Taught, tmp_path: Path) -> None:
    training = tmp_path / "training"
    shutil.copytree(taught.root / "training", training)
    for folder in training.iterdir():
        (folder / "global_step30").mkdir()
    given = [str(training / f"checkpoint-{STEPS * number}") for number in (1, 2)]
    file, notes = write_plan(given, str(taught.root / "people"), tmp_path / "out")
    assert [one["model"] for one in yaml.safe_load(file.read_text("utf-8"))["models"].values()] == given
    assert not notes


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"data": "nodata"}, "no data at 'nodata'"),
        ({"probe": "nope"}, "--probe nope: expected one of"),
        ({"out": "people"}, "not the folder of a plan"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_not_written(
    taught: Taught, tmp_path: Path, about: dict[str, str], message: str
) -> None:
    people = shutil.copytree(taught.root / "people", tmp_path / "people")
    out = tmp_path / about.get("out", "out")
    with pytest.raises(BadInput, match=mentions(message)):
        write_plan([str(taught.root / "training")], about.get("data", str(people)), out, about.get("probe", ""))
    assert not (out / "plan.yaml").exists()


def test_revisions_are_planned_as_such(taught: Taught, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("fathom.plans.watch.find_model", lambda *given: asked.append(given) or ([], network().config))
    file, notes = write_plan(["org/m@step10", "org/m@step20"], "geography", tmp_path, tokenizer="t", limit=5)
    plan = yaml.safe_load(file.read_text("utf-8"))
    assert list(plan["models"].values()) == [{"model": "org/m", "revision": f"step{n}"} for n in (10, 20)]
    assert plan["runs"]["knowledge"] == {"probe": "statement", "tokenizer": "t", "limit": 5}
    assert asked[0] == ("org/m", "step10", "t")
    assert not notes


# --- the study


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("out/checkpoint-300", 300), ("org/m@step1000", 1000), ("org/m@step50-tokens4B", 50), ("m/epoch_3", 3),
        ("models/bert", None), ("models/7b-chat", None), ("org/pythia-70m@main", None),
    ],
)  # fmt: skip
def test_the_step_in_a_name(name: str, step: int | None) -> None:
    assert step_of(name) == step


def run_of(folder: Path, model: str, right: Sequence[int], data: str = "D") -> RunFolder:
    """A run that ranks the answers of these facts first, and those of others last."""
    known = {f"q{place:03}" for place in right}

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [-1.0 - 90 * ((id_ in query.gold) != (query.id in known)) - place for place, id_ in enumerate(space.ids)]

    return answered(folder / model.replace("/", "-"), answer, world(EVEN, name=data), model=model)


def test_learnt_and_forgotten_by_hand(tmp_path: Path) -> None:
    """Facts 0 to 4: always known, learnt, learnt and forgotten, forgotten and learnt again, never."""
    known = {"0": [0, 3], "10": [0, 1, 2], "20": [0, 1, 3]}
    runs = [run_of(tmp_path, f"t/checkpoint-{step}", right) for step, right in known.items()]
    [course] = analyse(runs[::-1]).courses
    assert [(fact.learnt, fact.forgotten) for fact in course.facts[:5]] == [
        (0, None), (10, None), (10, 20), (0, None), (None, None),
    ]  # fmt: skip
    counts = [(row["known"], row["learnt"], row["forgotten"]) for row in course.checkpoints]
    assert counts == [(2, None, None), (3, 2, 1), (3, 1, 1)]
    assert [(step.before, step.after) for step in course.changes] == [("0", "10"), ("10", "20"), ("0", "20")]
    assert course.model == "models/t"
    [sentence] = LEARNING.conclude(analyse(runs))
    assert stated(sentence, "2 of 100 facts were known at the first checkpoint, 2 were learnt after it, 1 forgotten")
    last = LEARNING.tables(analyse(runs))[-1]
    assert [(row["learnt"], row["forgotten"]) for row in last.objects()] == [(10, 20), (10, None)]


def test_one_checkpoint_shows_no_change(tmp_path: Path) -> None:
    findings = analyse([run_of(tmp_path, "t/final", [0, 3])])
    [course] = findings.courses
    assert (course.model, course.checkpoints[0]["known"]) == ("models/t/final", 2)
    assert stated(LEARNING.conclude(findings)[0], "2 of 100 facts known. One checkpoint shows no change")
    assert [table.title for table in LEARNING.tables(findings)] == [
        "knowledge by checkpoint", "by relation, at the first and the last checkpoint",
    ]  # fmt: skip


def test_checkpoints_without_a_step_are_in_the_order_given(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, f"t/{name}", right) for name, right in {"late": [1], "early": [0, 1]}.items()]
    [course] = analyse(runs).courses
    assert [fact.learnt for fact in course.facts[:2]] == [2, 1]
    two = analyse([run_of(tmp_path, f"{name}/checkpoint-1", [1]) for name in "ab"])
    assert [course.model for course in two.courses] == ["models/a", "models/b"]


def test_runs_that_cannot_be_followed_have_a_line_each(
    tmp_path: Path, fathom: Callable[..., tuple[int, str, str]]
) -> None:
    """Of a later format, unfinished, of other data, and none at all: the two others are followed."""
    runs = [run_of(tmp_path, f"t/checkpoint-{step}", range(step)) for step in (1, 2)]
    newer, unfinished = (run_of(tmp_path, f"t/checkpoint-{step}", [1]) for step in (3, 4))
    other = run_of(tmp_path, "t/checkpoint-5", [1], data="E")
    for run, change in ((newer, {"format": 99}), (unfinished, {"plan": ["0", "1"]})):
        manifest = json.loads((run.path / "manifest.json").read_text("utf-8"))
        (run.path / "manifest.json").write_text(json.dumps(manifest | change | {"digest": None}), "utf-8")
    code, output, errors = fathom(
        "study", "learning", *(run.path for run in (*runs, newer, unfinished, other)), tmp_path / "none"
    )
    assert code == 0, errors
    lines = LEARNING.conclude(analyse([*runs, newer, unfinished, other, RunFolder(tmp_path / "none")]))
    assert stated(lines, newer.path, "newer version")
    assert stated(lines, unfinished.path, "unfinished")
    assert stated(lines, other.path, "data.name: there 'D', here 'E'")
    assert stated(lines, tmp_path / "none", "not a run")
    assert len(lines) == 5
    assert "Left out" in output
    with pytest.raises(BadInput, match=mentions("newer version")):
        analyse([newer])


def test_files_have_every_fact_and_relation(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, f"t/checkpoint-{step}", range(step)) for step in (10, 50)]
    found: Learning = analyse(runs)
    tables = {table.title: table for table in LEARNING.tables(found)}
    assert len(tables["facts that changed last, and the steps"].rows) == 20
    files = LEARNING.files(found)
    assert len(files["facts"].rows) == 100
    assert [row["accuracy"] for row in files["relations"].objects()][:2] == [0.5, 1.0]
    pytest.importorskip("matplotlib")
    assert LEARNING.save(found, tmp_path / "out")
    assert (tmp_path / "out" / "learning-0-facts.png").exists()
