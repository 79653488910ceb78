"""The ontology probe: learnt templates score as a loop over candidates does, and training them changes no weight."""

from __future__ import annotations

import hashlib
import json
import shlex
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file

from fathom.base.errors import BadInput, RunFailed
from fathom.data.formats import read
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Prompt, Sentence, Span, Template
from fathom.engine.models.base import Attention
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.slots import (
    CandidateTokens,
    MaskCount,
    Slot,
    SlotPooling,
    SlotScoring,
    encode_slots,
    slot_scores,
)
from fathom.probes import ontology
from fathom.probes.options import ClozeOptions, OntologyOptions, StatementOptions
from fathom.probes.run import RunRequest, run
from fathom.results.loading import short_names
from fathom.results.metrics.ranking import by_frequency, reciprocal_mean_rank
from fathom.results.rows import Rows
from fathom.results.summary import summarise
from fathom.results.tasks import EACH_ITEM, RECALLS, _Counted, _template, _wording, baselines_of
from fathom.store.files import write_json
from fathom.store.folder import RunFolder
from fathom.studies.ontology import analyse as study
from fathom.studies.ontology import conclude, tables
from fathom.studies.options import OntologyStudyOptions
from fathom.training import soft
from fathom.training.soft import GoldSlot, SoftPlan, learn, random_start, word_start
from tests.answerers import answered, constant, world
from tests.cli.test_cli import bert, gpt2, save
from tests.conftest import build, make_local
from tests.messages import mentioned, mentions, stated
from tests.probes.test_cloze import KINDS, SHAPE
from tests.scripted import ScriptedModel

CLASSES = ("person", "singer", "soccer player", "place", "body of water", "lake", "work of art", "poem", "agent")
CHAINS = {
    "singer": ("singer", "person", "agent"), "soccer player": ("soccer player", "person", "agent"),
    "lake": ("lake", "body of water", "place"), "poem": ("poem", "work of art"),
}  # fmt: skip
THINGS = {
    "singer": ("Ann", "Bo", "Cleo", "Dee"), "soccer player": ("Ed", "Flo", "Gus", "Hal"),
    "lake": ("Lake Ina", "Lake Joy", "Lake Kit", "Lake Lin"), "poem": ("Ode to May", "On Nils", "Old Pia", "Oh Ray"),
}  # fmt: skip
DOMAINS = {"sings": "singer", "sees": "person", "knows": "person", "is": "work of art"}
TEMPLATES = ("[X] is a [Y] .", "[X] has class [Y] .")


def town() -> QuerySet:
    """Sixteen things and their types: six to learn from, four to choose the epoch by, six to test on; and two
    properties, asked for their domain by a sentence each."""
    things = [
        (name, kind) for names in zip(*THINGS.values(), strict=True) for name, kind in zip(names, THINGS, strict=True)
    ]
    types = [Query(f"type/{n}", "type", name, name, CHAINS[kind], "classes") for n, (name, kind) in enumerate(things)]
    domains = [
        Query(
            f"domain/{n}", "domain", name, name, (gold,), "classes",
            sentences=(Sentence(f"One has to be a particular [Y] if one {name} a thing ."),),
        )
        for n, (name, gold) in enumerate(DOMAINS.items())
    ]  # fmt: skip
    relations = {
        "type": Relation("type", "type", tuple(map(Template, TEMPLATES)), "1:N"),
        "domain": Relation("domain", "domain", (), "1:N"),
    }
    subsets = {
        "train": {*(f"type/{n}" for n in range(6)), "domain/0"},
        "dev": {*(f"type/{n}" for n in range(6, 10)), "domain/1"},
        "test": {*(f"type/{n}" for n in range(10, 16)), "domain/2", "domain/3"},
    }
    spaces = {"classes": CandidateSet("classes", CLASSES, CLASSES)}
    frozen = {name: frozenset(ids) for name, ids in subsets.items()}
    return QuerySet("town", (*types, *domains), spaces, relations, subsets=frozen, usual="test")


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    texts = [
        *CLASSES,
        *TEMPLATES,
        *(name for names in THINGS.values() for name in names),
        *map(str.capitalize, DOMAINS),
        "One has to be particular if",
    ]
    tokenizer = KINDS[request.param](texts * 3)
    network = build(request.param, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **SHAPE)
    return make_local(network, tokenizer, Attention.BIDIRECTIONAL)


def digest(model) -> str:
    every = b"".join(weight.detach().numpy().tobytes() for weight in model.network.state_dict().values())
    return hashlib.sha256(every).hexdigest()


def naive(model, before: str, learnt: torch.Tensor, after: str, name: str, way: SlotScoring) -> float:
    """One candidate, one pass: text, learnt vectors, masks, text, as vectors put together by hand."""
    tokenizer, table = model.tokenizer, model.network.get_input_embeddings().weight

    def ids(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    own = ids(f", {name}")[len(ids(",")) :]
    masks = len(own) if way.masks is MaskCount.SEVERAL else 1
    parts = [
        table[[tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id, *ids(before)]],
        learnt,
        table[[tokenizer.mask_token_id] * masks],
        table[[*ids(after), tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id]],
    ]
    first = len(parts[0]) + len(learnt)
    with torch.no_grad():
        logits = model.network(inputs_embeds=torch.cat(parts)[None]).logits[0, first : first + masks]
    log_probs = torch.log_softmax(logits, dim=-1)
    values = [float(log_probs[min(n, masks - 1), token]) for n, token in enumerate(own)]
    return {"mean": float(np.mean(values)), "max": max(values), "first": values[0]}[way.pooling]


def test_learnt_templates_equal_a_loop_over_candidates(model, tmp_path):
    """Every way has vectors of its own, and every task; each score is within 1e-5 of one pass for its candidate."""
    options = OntologyOptions(
        soft=True, masks=("several", "one"), reduction=("mean", "max", "first"), epochs=1, batch_tokens=64
    )
    folder = run(RunRequest("ontology", model, town(), options), tmp_path / "r")
    rows = folder.predictions().to_pylist()
    assert len(rows) == 8 * 6
    for row in rows:
        one, _, pooling = row["scoring"].rpartition("mask-")
        way = SlotScoring(MaskCount.ONE if one else MaskCount.SEVERAL, SlotPooling(pooling))
        task = row["query_id"].split("/")[0]
        learnt = load_file(tmp_path / "r" / "artifacts" / "soft" / f"{task}-{way.name}.safetensors")["vectors"]
        subject = row["subject"][:1].upper() + row["subject"][1:]
        assert row["prompt"] == f"{subject} <s1> <s2> <s3> [Y] ."
        expected = [naive(model, subject, learnt, " .", name, way) for name in CLASSES]
        np.testing.assert_allclose(row["scores"], expected, atol=1e-5)


def test_manual_templates_are_those_of_the_cloze_probe(model, tmp_path):
    """The whole table from one set of passes: as many sequences as numbers of masks, not as ways."""
    ways = {"masks": ("several", "one"), "reduction": ("mean", "max", "first")}
    ours = run(RunRequest("ontology", model, town(), OntologyOptions(**ways)), tmp_path / "ontology")
    theirs = run(
        RunRequest("cloze", model, town(), ClozeOptions(subset="test", pool="relation", **ways)), tmp_path / "cloze"
    )
    assert ours.predictions().equals(theirs.predictions())
    lengths = {
        len(ids) - 1
        for ids in model.tokenizer([f", {name}" for name in CLASSES], add_special_tokens=False)["input_ids"]
    }
    asked = 6 * len(TEMPLATES) + 2  # sentences: six things by two templates, two properties by one
    assert ours.manifest["circumstances"]["sequences"] == asked * len(lengths | {1})
    several = run(RunRequest("ontology", model, town(), OntologyOptions()), tmp_path / "several")
    assert several.manifest["circumstances"]["sequences"] == asked * len(lengths)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["bce", "nll"])
def test_training_lowers_the_loss_and_leaves_the_model_alone(model, tmp_path, loss):
    before = digest(model)
    options = OntologyOptions(soft=True, loss=loss, epochs=30, learning_rate=0.1, relations=("type",))
    run(RunRequest("ontology", model, town(), options), tmp_path / "r")
    assert digest(model) == before
    assert all(weight.grad is None for weight in model.network.parameters())
    lines = (tmp_path / "r" / "artifacts" / "soft" / "type-mask-mean.jsonl").read_text().splitlines()
    curve = [json.loads(line) for line in lines]
    assert [point["epoch"] for point in curve] == list(range(1, 31))
    losses = [point["loss"] for point in curve]
    # NLL draws another gold answer in each epoch, so that single epochs cannot be compared.
    assert np.mean(losses[-5:]) < np.mean(losses[:5])
    if loss == "bce":
        assert losses[-1] < losses[0]


@pytest.mark.parametrize("loss", ["bce", "nll"])
def test_one_step_by_hand(model, loss):
    """AdamW's first step moves each number by lr · sign of its gradient, after a decay of lr · 0.01 of its value; the
    gradient is that of torch's own loss on the naive scores."""
    way = SlotScoring(MaskCount.SEVERAL, SlotPooling.MEAN)
    names = CandidateTokens(model.tokenizer([f" {name}" for name in CLASSES], add_special_tokens=False)["input_ids"])
    size = model.vocabulary_size
    slots = [Slot((7, size, size + 1, 8), (9,)), Slot((8, 9, size), (size + 1, 7, 8))]
    items = [GoldSlot(slots[0], (0, 2)), GoldSlot(slots[1], (5,))]
    start = random_start(model, 2, "x") * 0.1
    drawn = [soft.random.Random(3).choice((0, 2)), 5]
    found = learn(model, names, way, items, items, start, SoftPlan(loss, 1, 0.25, 8, 3), Budget(20, model.device))

    vectors = start.clone().requires_grad_()
    scores = torch.stack([torch.stack(_scores(model, slot, vectors, names)) for slot in slots])
    if loss == "nll":
        expected = torch.nn.functional.nll_loss(scores, torch.tensor(drawn))
    else:
        target = torch.zeros(2, len(CLASSES))
        target[0, [0, 2]] = target[1, 5] = 1
        expected = torch.nn.BCEWithLogitsLoss()(scores, target)
    expected.backward()
    assert found.curve[0].loss == pytest.approx(expected.item(), abs=1e-5)
    by_hand = start * (1 - 0.25 * 0.01) - 0.25 * torch.sign(vectors.grad)
    sure = vectors.grad.abs() > 1e-5  # elsewhere rounding may decide, or AdamW's epsilon count
    assert sure.float().mean() > 0.5
    torch.testing.assert_close(found.vectors[sure], by_hand[sure], atol=2e-3, rtol=0)


def _scores(model, slot: Slot, vectors: torch.Tensor, names: CandidateTokens) -> list[torch.Tensor]:
    """With gradients: the mean over tokens at several masks, one pass for each candidate."""
    table, size = model.network.get_input_embeddings().weight, model.vocabulary_size
    tokens_of = {}
    for group in names.by_length.values():
        tokens_of |= dict(zip(group.places.tolist(), group.tokens.tolist(), strict=True))
    found = []
    for place in range(len(names)):
        own = tokens_of[place]
        ids = [*slot.before, *[model.tokenizer.mask_token_id] * len(own), *slot.after]
        inputs = torch.stack([vectors[id_ - size] if id_ >= size else table[id_] for id_ in ids])
        logits = model.network(inputs_embeds=inputs[None]).logits[0, len(slot.before) :]
        log_probs = torch.log_softmax(logits, dim=-1)
        found.append(torch.stack([log_probs[n, token] for n, token in enumerate(own)]).mean())
    return found


def test_the_best_epoch_is_kept(model, monkeypatch):
    """Validation MRRₐ 0.2, 0.5, 0.5, 0.3: the second epoch's vectors, as they were then."""
    seen = []

    def validate(self):
        seen.append(self.vectors.detach().clone())
        return 0.9, (0.2, 0.5, 0.5, 0.3)[len(seen) - 1]

    monkeypatch.setattr(soft._Fit, "_validate", validate)
    names = CandidateTokens([[7], [8, 9]])
    slot = Slot((7, model.vocabulary_size), (8,))
    way = SlotScoring(MaskCount.SEVERAL, SlotPooling.MEAN)
    start = random_start(model, 1, 0)
    found = learn(model, names, way, [GoldSlot(slot, (1,))], [], start, SoftPlan(epochs=4), Budget(None, model.device))
    assert found.epoch == 2
    assert torch.equal(found.vectors, seen[1])
    assert not torch.equal(seen[1], seen[2])
    assert len(found.curve) == 4


def test_memory_that_ends_changes_no_loss(model, monkeypatch):
    """A part of a batch for which memory ends is done again, smaller, and counted once."""
    names = CandidateTokens([[7], [8, 9], [9, 7, 8]])
    slots = [Slot((7, model.vocabulary_size), (8,)), Slot((8, model.vocabulary_size), (9,))]
    items = [GoldSlot(slot, (1,)) for slot in slots]
    start, way, plan = random_start(model, 1, 0), SlotScoring(MaskCount.SEVERAL, SlotPooling.MEAN), SoftPlan(epochs=2)
    plain = learn(model, names, way, items, items, start, plan, Budget(256, model.device))
    hidden, calls = model.hidden_at, []

    def short(vectors, at):
        calls.append(len(vectors))
        if len(calls) == 2:
            raise torch.OutOfMemoryError
        return hidden(vectors, at)

    monkeypatch.setattr(model, "hidden_at", short)
    budget = Budget(256, model.device)
    again = learn(model, names, way, items, items, start, plan, budget)
    assert budget.halvings == 1
    assert [point.loss for point in again.curve] == pytest.approx([point.loss for point in plain.curve], abs=1e-6)


def test_a_loss_that_is_no_number_stops(model, tmp_path, monkeypatch):
    monkeypatch.setattr(model, "hidden_at", lambda vectors, at: vectors[:, : at.shape[1]] * torch.nan)
    with pytest.raises(RunFailed, match=mentions("nan", "epoch 1, step 1", "soft template")):
        run(RunRequest("ontology", model, town(), OntologyOptions(soft=True, epochs=1)), tmp_path / "r")


def test_resuming_trains_nothing_again(model, tmp_path, monkeypatch):
    options = OntologyOptions(soft=True, epochs=2)
    whole = run(RunRequest("ontology", model, town(), options), tmp_path / "whole")
    assert whole.manifest["circumstances"]["trainings"] == 2
    learnt, real = [], ontology.learn

    def dies_at_the_second(*arguments):
        learnt.append(arguments)
        if len(learnt) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(ontology, "learn", dies_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        run(RunRequest("ontology", model, town(), options), tmp_path / "killed")
    resumed = run(RunRequest("ontology", model, town(), options), tmp_path / "killed")
    assert len(learnt) == 3  # the task whose training died, again; the other not
    assert resumed.predictions().equals(whole.predictions())
    (tmp_path / "killed" / "artifacts" / "soft" / "type-mask-mean.safetensors").write_bytes(b"no")
    (tmp_path / "killed" / "predictions" / "part-00000.parquet").unlink()
    with pytest.raises(BadInput, match=mentions("type-mask-mean.safetensors")):
        run(RunRequest("ontology", model, town(), options), tmp_path / "killed")


def test_where_learnt_tokens_begin(model):
    one, same, other = (random_start(model, 3, seed, "type") for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    table = model.network.get_input_embeddings().weight
    ids = [model.tokenizer(f", {word}", add_special_tokens=False)["input_ids"][1:] for word in ("is", "place")]
    expected = torch.stack([table[own].mean(dim=0) for own in ids])
    torch.testing.assert_close(word_start(model, ("is", "place")), expected)


def test_learnt_tokens_anywhere_in_a_text(model):
    """Two slots of learnt tokens around words and the answer; in the subject such signs are text."""
    tokenizer = model.tokenizer
    mask = tokenizer.mask_token
    text = f"<s2> the <s1> person <s10> {mask} <s1> ."
    subject, answer = Span(9, 20), Span(text.index(mask), text.index(mask) + len(mask))
    [slot] = encode_slots(tokenizer, [Prompt(text, (), (answer,))], [500])
    assert [id_ for id_ in (*slot.before, *slot.after) if id_ >= 500] == [501, 500, 509, 500]
    assert slot.before[-1] == 509
    assert slot.after[0] == 500
    [literal] = encode_slots(tokenizer, [Prompt(text, (subject,), (answer,))], [500])
    assert [id_ for id_ in (*literal.before, *literal.after) if id_ >= 500] == [501, 509, 500]


def test_learnt_vectors_stand_beside_the_vocabulary(model):
    """A learnt token with a word's own vector scores as the word does."""
    names, way = CandidateTokens([[7], [8, 9]]), SlotScoring(MaskCount.SEVERAL, SlotPooling.MEAN)
    word = model.network.get_input_embeddings().weight[[8]]
    budget = Budget(None, model.device)
    plain = slot_scores(model, [Slot((7, 8), (9,))], names, [way], budget)
    learnt = slot_scores(model, [Slot((7, model.vocabulary_size), (9,))], names, [way], budget, word)
    np.testing.assert_array_equal(plain, learnt)


class TestInput:
    def test_causal_models_are_told_what_to_type(self, tmp_path, fathom):
        """The line works as it stands, once data and folder are in it, and ranks the same candidates."""
        facts = tmp_path / "town"
        published(facts)
        save(tmp_path / "gpt2", gpt2())
        asked = ["--model", tmp_path / "gpt2", "--data", facts, "--relations", "type", "--limit", 4]
        code, _, error = fathom("probe", "ontology", *asked, "--out", tmp_path / "no")
        assert code == 2, error
        assert not (tmp_path / "no").exists()
        said, _, told = error.strip().partition(": fathom ")
        assert "is causal" in said
        told = f"fathom {told}"
        assert told.startswith(f"fathom probe statement --model {tmp_path / 'gpt2'} --data … --out … ")
        typed = told.replace("--data …", f"--data {facts}").replace("--out …", f"--out {tmp_path / 'causal'}")
        assert fathom(*shlex.split(typed)[1:])[0] == 0
        save(tmp_path / "bert", bert())
        asked[1] = tmp_path / "bert"
        assert fathom("probe", "ontology", *asked, "--out", tmp_path / "masked")[0] == 0
        from fathom.store.folder import RunFolder

        causal, masked = RunFolder.open(tmp_path / "causal"), RunFolder.open(tmp_path / "masked")
        assert causal.candidates() == masked.candidates()
        assert causal.queries().equals(masked.queries())
        keys = [
            {(row["query_id"], row["template"], row["prompt"]) for row in folder.predictions().to_pylist()}
            for folder in (causal, masked)
        ]
        assert keys[0] == keys[1]

    def test_soft_templates_need_masks(self, tmp_path):
        with pytest.raises(BadInput, match=r"is causal: .*: fathom"):
            run(RunRequest("ontology", ScriptedModel(["a"], {}), town(), OntologyOptions(soft=True)), tmp_path / "r")

    def test_soft_templates_need_vectors(self, model, tmp_path, monkeypatch):
        monkeypatch.setattr(model, "takes_vectors", False)
        with pytest.raises(BadInput, match=mentions(model.identity.name, "vectors")):
            run(RunRequest("ontology", model, town(), OntologyOptions(soft=True)), tmp_path / "r")
        assert not (tmp_path / "r").exists()

    def test_a_task_without_items_to_learn_from(self, model, tmp_path):
        data = town()
        data = QuerySet(
            "t", data.queries, data.candidates, data.relations,
            subsets=dict(data.subsets) | {"dev": data.subsets["dev"] - {"domain/1"}},
        )  # fmt: skip
        with pytest.raises(BadInput, match=mentions("0 items of domain", "dev")):
            run(RunRequest("ontology", model, data, OntologyOptions(soft=True)), tmp_path / "r")
        assert not (tmp_path / "r").exists()

    def test_data_without_subsets(self, model, tmp_path):
        data = town()
        bare = QuerySet("bare", data.queries, data.candidates, data.relations)
        with pytest.raises(BadInput, match=mentions("'test'")):
            run(RunRequest("ontology", model, bare, OntologyOptions(subset="test")), tmp_path / "r")
        with pytest.raises(BadInput, match=r"--soft: .*bare.*--cross-validate"):
            run(RunRequest("ontology", model, bare, OntologyOptions(soft=True)), tmp_path / "r")
        with pytest.raises(BadInput, match="--folds 4"):
            run(RunRequest("ontology", model, bare, OntologyOptions(soft=True, folds=4)), tmp_path / "r")

    def test_own_templates(self, model, tmp_path):
        file = tmp_path / "own.jsonl"
        file.write_text(json.dumps({"relation": "domain", "template": "The domain of [X] is [Y] ."}))
        options = OntologyOptions(own_templates=file)
        folder = run(RunRequest("ontology", model, town(), options), tmp_path / "r")
        prompts = {row["query_id"]: row["prompt"] for row in folder.predictions().to_pylist() if row["template"] == 0}
        assert prompts["domain/2"] == "The domain of knows is [Y] ."
        assert prompts["type/10"] == "Lake Kit is a [Y] ."
        run(RunRequest("ontology", model, town(), OntologyOptions(own_templates=file)), tmp_path / "r")
        file.write_text(json.dumps({"relation": "domain", "template": "Whoever [X] is a [Y] ."}))
        with pytest.raises(BadInput, match=r"resolved\.own_templates"):
            run(RunRequest("ontology", model, town(), options), tmp_path / "r")

    @pytest.mark.parametrize(
        ("line", "fault"),
        [
            ('{"relation": "kind", "template": "[X] [Y]"}', ("own.jsonl:1:", "'kind'", "type")),
            ('{"relation": "type", "template": "[X] is"}', ("own.jsonl:1:", "'[X] is'", "no [Y]")),
            ('{"relation": "type", "template": "a [Y]"}', ("own.jsonl:1:", "no [X]")),
            ('{"relation": "type"}', "'template' is missing"),
            ("", "no template in it"),
        ],
    )
    def test_own_templates_that_are_none(self, model, tmp_path, line, fault):
        (tmp_path / "own.jsonl").write_text(line)
        with pytest.raises(BadInput, match=mentions(fault)):
            run(
                RunRequest("ontology", model, town(), OntologyOptions(own_templates=tmp_path / "own.jsonl")),
                tmp_path / "r",
            )

    def test_own_templates_are_not_learnt(self, model, tmp_path):
        (tmp_path / "own.jsonl").write_text('{"relation": "type", "template": "[X] a [Y]"}')
        options = OntologyOptions(own_templates=tmp_path / "own.jsonl", soft=True)
        with pytest.raises(BadInput, match="--own-templates, --soft"):
            run(RunRequest("ontology", model, town(), options), tmp_path / "r")


def published(folder: Path) -> None:
    """A folder in OntoProbe's form: 24 things, their types, and the classes."""
    (folder / "ontology").mkdir(parents=True)
    (folder / "memorizing").mkdir()
    classes = [
        {
            "rdfs:Class": name,
            "rdfs:label": name,
            "rdfs:subClassOf": list(CHAINS.get(name, ())[1:]),
            "is rdf:type of": [],
        }
        for name in CLASSES
    ]
    (folder / "ontology" / "class.json").write_text(json.dumps(classes))
    (folder / "ontology" / "property.json").write_text("[]")
    lines = [
        {"uuu": f"{name} {n}", "xxx": list(CHAINS[kind])}
        for kind, names in THINGS.items()
        for n, name in product(range(2), names)
    ]
    (folder / "memorizing" / "type.jsonl").write_text("\n".join(map(json.dumps, lines)))


# Metrics


def test_reciprocal_of_the_mean_rank():
    """Golds at 1 and 4: 1 / 2.5. One gold at 2: 1 / 2. 3, and one without tokens: 1 / 3. Mean 0.4111…"""
    found = reciprocal_mean_rank([[1, 4], [2], [3, float("nan")]])
    np.testing.assert_allclose(found, [0.4, 0.5, 1 / 3])
    with pytest.raises(ValueError, match="1 or more"):
        reciprocal_mean_rank([[0.0, 1.0]])


def test_the_frequency_baseline():
    """b twice, then c and a as they came; strangers are no candidates; the rest by lot, whatever order it has."""
    order = by_frequency(["c", "b", "x", "b", "a"], ["a", "b", "c", "d", "e", "f", "g"], seed=1)
    assert order[:3] == ["b", "c", "a"]
    assert sorted(order[3:]) == ["d", "e", "f", "g"]
    assert order == by_frequency(["c", "b", "b", "a"], ["g", "f", "e", "d", "c", "b", "a"], seed=1)
    others = {tuple(by_frequency([], "abcdefg", seed)) for seed in range(5)}
    assert len(others) == 5


def test_metrics_of_the_probe_by_hand(tmp_path):
    """ "is a" gives singer 8, person 4, agent 2 and the rest 1 of 9 candidates, whatever the thing.

    A singer's golds stand at 1, 2, 3: best 1, mean 2 → 1/2. Lake (golds lake, body of water, place among the tied six
    of rank (4 + 9) / 2 = 6.5, the best filtered of the others: tied with 3 rivals, ranks 4 to 7): Hits@5 expects
    (5 − 4 + 1) / (7 − 4 + 1) = 1/2, all of Hits@25, 1 / 6.5 for all golds.
    """
    words = [
        "is",
        "a",
        "singer",
        "person",
        "agent",
        "player",
        "place",
        "water",
        "lake",
        "art",
        "poem",
        "Ann",
        "Ina",
        ".",
    ]
    model = ScriptedModel(words, {"a": {"singer": 8.0, "person": 4.0, "agent": 2.0}}, masked=True)
    names = ("singer", "person", "agent", "player", "place", "water", "lake", "art", "poem")
    space = CandidateSet("classes", names, names)
    golds = {"Ann": ("singer", "person", "agent"), "Ina": ("lake", "water", "place")}
    queries = [Query(f"type/{name}", "type", name, name, gold, "classes") for name, gold in golds.items()]
    relation = Relation("type", "type", (Template("[X] is a [Y] ."),), "1:N")
    everything = {"test": frozenset(query.id for query in queries)}
    data = QuerySet("two", tuple(queries), {"classes": space}, {"type": relation}, subsets=everything)
    folder = run(RunRequest("ontology", model, data, OntologyOptions()), tmp_path / "r")
    rows = {row["subject"]: row for row in folder.predictions().to_pylist()}
    assert rows["Ann"]["gold_ranks"] == [1.0, 2.0, 3.0]
    assert rows["Ina"]["gold_ranks"] == [6.5, 6.5, 6.5]
    assert (rows["Ina"]["rank_optimistic"], rows["Ina"]["rank_pessimistic"]) == (4, 7)
    [line] = summarise(folder).headlines
    values = {name: number.value for name, number in line.numbers.items()}
    assert values["accuracy"] == pytest.approx(1 / 2)
    assert values["hits@5"] == pytest.approx((1 + 1 / 2) / 2)
    assert values["hits@25"] == values["hits@50"] == 1
    assert values["mrr"] == pytest.approx((1 + (1 / 4 + 1 / 5 + 1 / 6 + 1 / 7) / 4) / 2)  # 4 to 7
    assert values["mrr_all"] == pytest.approx((1 / 2 + 1 / 6.5) / 2)


def test_a_line_for_each_task(tmp_path):
    """Bob, to learn from, was a poem; Ann is a singer and a person, Ina a lake; the model says singer, lake, person.

    Ann's ranks are 1 and 3 (the other filtered: 1), Ina's 2: R@1 1/2, R@5 1, MRR (1 + 1/2) / 2, MRRₐ (1/2 + 1/2) / 2.
    With two templates and two poolings each has a line, and a column that tells it.
    """
    plain = asked(tmp_path / "plain", KNOWS, templates=(0,))
    [table] = summarise(plain).tables
    model, baseline = table.objects()
    shown = [column for column in table.columns if column not in table.hidden]
    assert shown[:7] == ["task", "by", "R@1", "R@5", "R@10", "R@25", "R@50"]
    assert model["R@1 low"] < model["R@1"] < model["R@1 high"]
    assert (model["task"], model["by"], model["n"], model["unscored"]) == ("type", "model", 2, 0)
    assert (model["R@1"], model["R@5"], model["MRR"], model["MRRₐ"]) == pytest.approx((0.5, 1, 0.75, 0.5))
    assert model["low"] < 0.75 < model["high"]
    assert (baseline["by"], baseline["R@1"], baseline["n"]) == ("frequency", 0, 2)
    assert "scoring:mask-mean|templates:0|" in table.recipe
    [table] = summarise(asked(tmp_path / "both", KNOWS, reduction=("mean", "max"))).tables
    told = [(row["template"], row["pooling"], row["by"]) for row in table.objects()]
    words = [template for template in ("[X] is a [Y] .", "[X] has class [Y] .") for _ in range(2)]
    assert told == [*zip(words, ("mean", "max") * 2, ["model"] * 4, strict=True), (None, None, "frequency")]
    assert "masks" not in table.columns


def test_a_template_is_recognised_in_its_prompts():
    """By the subject, once, and the place of the answer; else each item has a sentence of its own, counted from 1."""

    def recognised(*asked: tuple[str, str]) -> str:
        table = pa.Table.from_pylist([{"prompt": prompt, "subject": subject} for prompt, subject in asked])
        return _wording(SimpleNamespace(table=table), np.arange(len(asked)))

    assert recognised(("The is is a [Y] .", "is"), ("The lake is a [Y] .", "lake")) == "The [X] is a [Y] ."
    assert recognised(("Ann sings .", "Ann")) == recognised(("[Y] sings .", "Ann")) == EACH_ITEM
    line = SimpleNamespace(setting=SimpleNamespace(prompt=EACH_ITEM), template=1)
    assert _template(line) == "sentence 2 of each item"


def test_a_task_without_training_items_has_no_baseline(tmp_path):
    run = answered(tmp_path / "run", constant, world([[0]] * 4, relations=2))
    write_json(run.path / "artifacts" / "training.json", {"r1": [["c00"]]})
    found = baselines_of(run, Rows(run))
    assert list(found) == ["r1"]
    assert (found["r1"].items, found["r1"].numbers["R@1"].value) == (2, 1)
    counted = _Counted([["a"], ["a"], ["b"]], [], {"a": 0, "b": 1}, 0)  # b is second, and first where a is excluded
    assert [counted.ranks(["x"], [[1]], known).optimistic.tolist() for known in ((), [[0, 1]])] == [[2], [1]]


def test_what_cannot_be_scored_stands_in_the_table(tmp_path):
    """Nobody in the vocabulary is called Xyz: of two items one has a rank."""
    names = ("singer", "lake")
    golds = {"Ann": ("singer",), "Xyz": ("lake",)}
    queries = tuple(Query(f"type/{name}", "type", name, name, gold, "classes") for name, gold in golds.items())
    relation = Relation("type", "type", (Template("[X] is a [Y] ."),), "1:N")
    every = {"test": frozenset(query.id for query in queries)}
    data = QuerySet(
        "two", queries, {"classes": CandidateSet("classes", names, names)}, {"type": relation}, subsets=every
    )
    folder = run(
        RunRequest("ontology", ScriptedModel(WORDS, KNOWS, masked=True), data, OntologyOptions()), tmp_path / "r"
    )
    [table] = summarise(folder).tables
    line, baseline = table.objects()
    assert (line["n"], line["unscored"], line["R@1"]) == (1, 1, 1)
    assert (baseline["by"], baseline["n"]) == ("frequency", 2)
    assert stated(table.notes, "1 × unscored", "subject", "<unk>")


def test_published_folder(shared_data, bert_cased, tmp_path):
    """500 + 500 + 39 + 30 + 28 items, type and sub-class by three templates each; 783 classes, 82 properties."""
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    network = build("BertForMaskedLM", vocab_size=len(bert_cased), **shape)
    model = make_local(network, bert_cased, Attention.BIDIRECTIONAL)
    options = OntologyOptions(limit=40, relations=("type", "subPropertyOf", "domain"))
    folder = run(RunRequest("ontology", model, read(shared_data / "ontoprobe"), options), tmp_path / "r")
    rows = folder.predictions().to_pylist()
    assert all(row["unscored"] is None for row in rows)
    assert {row["num_candidates"] for row in rows if row["query_id"].startswith("type")} == {783}
    assert {row["num_candidates"] for row in rows if row["query_id"].startswith("subProp")} <= {82}
    training = json.loads((tmp_path / "r" / "artifacts" / "training.json").read_text())
    assert {task: len(golds) for task, golds in training.items()} == {"type": 10, "subPropertyOf": 10, "domain": 10}


# The study


NAMES = ("singer", "person", "agent", "player", "place", "water", "lake", "art", "poem")
WORDS = [*NAMES, "is", "a", "has", "class", "Ann", "Ina", "Bob", "."]


def asked(folder: Path, weights, *, masked=True, **options):
    """Ann is a singer, Ina a lake; Bob, a poem, is there to learn from, twice as often as anything else."""
    space = CandidateSet("classes", NAMES, NAMES)
    golds = {"Ann": ("singer", "person"), "Ina": ("lake",), "Bob": ("poem",)}
    queries = [Query(f"type/{name}", "type", name, name, gold, "classes") for name, gold in golds.items()]
    templates = (Template("[X] is a [Y] ."), Template("[X] has class [Y] ."))
    relation = Relation("type", "type", templates, "1:N")
    subsets = {"test": frozenset({"type/Ann", "type/Ina"}), "train": frozenset({"type/Bob"})}
    data = QuerySet("three", tuple(queries), {"classes": space}, {"type": relation}, subsets=subsets, usual="test")
    model = ScriptedModel(WORDS, weights, masked=masked)
    if masked:
        return run(RunRequest("ontology", model, data, OntologyOptions(**options)), folder)
    return run(RunRequest("statement", model, data, StatementOptions(subset="test", **options)), folder)


KNOWS = {"a": {"singer": 8.0, "lake": 4.0, "person": 2.0}, "class": {"person": 8.0}}


def test_the_study_by_hand(tmp_path):
    """ "is a" ranks singer 1, lake 2, person 3: Ann 1 and mean 2, Ina 2: MRR (1 + 1/2) / 2, MRRₐ (1/2 + 1/2) / 2.

    "has class" ranks person 1 and all others 5.5 (2 to 9): Ann 1 and mean 3.25, Ina 5.5. The causal model sees the same
    weights and ranks the same. The baseline says poem, then the other eight by lot.
    """
    ways = {"masks": ("several", "one"), "reduction": ("mean", "max")}
    masked = asked(tmp_path / "masked", KNOWS, **ways)
    found = study([masked], OntologyStudyOptions(examples=["type/Ina"]))
    assert len(found.lines) == 2 * 4
    [line] = [line for line in found.lines if line.setting.prompt == "[X] is a [Y] ." and line.scoring == "mask-mean"]
    assert (line.setting.masks, line.setting.pooling, line.setting.soft) == ("several", "mean", False)
    assert tuple(line.numbers[name].value for name in RECALLS) == (0.5, 1.0, 1.0, 1.0, 1.0)
    assert line.numbers["MRR"].value == pytest.approx(0.75)
    assert line.numbers["MRRₐ"].value == pytest.approx(0.5)
    [other] = [line for line in found.lines if "has class" in line.setting.prompt and line.scoring == "one-mask-max"]
    assert (other.setting.masks, other.setting.pooling) == ("one", "max")
    assert other.numbers["MRR"].value == pytest.approx((1 + sum(1 / rank for rank in range(2, 10)) / 8) / 2)
    assert other.numbers["MRRₐ"].value == pytest.approx((1 / 3.25 + 1 / 5.5) / 2)
    assert found.best["type", "scripted", False].setting.prompt == "[X] is a [Y] ."
    order = by_frequency(["poem"], NAMES, seed=0)
    assert order[0] == "poem"
    ann, ina = [order.index(name) + 1 for name in ("singer", "person")], order.index("lake") + 1
    baseline = found.baselines["type"].numbers
    assert found.baselines["type"].items == 2
    # Of two items nothing is concluded.
    decision = found.decisions["type", "scripted", False]
    assert decision is not None
    assert decision.word == "cannot be determined"
    [said] = conclude(found)
    assert "in 0 of 1 tasks" in said
    assert "determined for 1" in said
    assert baseline["MRR"].value == pytest.approx((1 / min(ann) + 1 / ina) / 2)
    assert baseline["MRRₐ"].value == pytest.approx((2 / sum(ann) + 1 / ina) / 2)
    assert baseline["R@1"].value == 0
    [example] = found.examples
    assert example[2:4] == ("Ina is a [Y] .", "lake")
    assert example[4].startswith("singer, lake ✓, person, ")
    # Names are one token each, so that no way of pooling them differs.
    assert [one.part for one in found.comparisons] == ["masks", "pooling"]
    for one in found.comparisons:
        assert one.settings == 4
        [first, second] = ([(mean.value, mean.low, mean.high) for mean in means] for means in one.means.values())
        assert first == [pytest.approx(numbers) for numbers in second]
        assert all(low < value < high for value, low, high in (first[0], *first[5:]))
        tied = sum(1 / rank for rank in range(2, 10)) / 8
        assert first[5][0] == pytest.approx((0.75 + (1 + tied) / 2) / 2)


def test_causal_models_take_part(tmp_path):
    runs = [asked(tmp_path / "m", KNOWS), asked(tmp_path / "c", KNOWS | {"Ann": {"has": 2.0}}, masked=False)]
    found = study(runs)
    by_model = {(line.run.path.name, line.template): line for line in found.lines}
    assert by_model["c", 0].setting.masks == ""
    assert by_model["c", 0].setting.pooling == "sum/full"
    for template in (0, 1):
        assert by_model["c", template].mrr == by_model["m", template].mrr > 0
        mean_ranks = [by_model[model, template].numbers["MRRₐ"].value for model in "cm"]
        assert mean_ranks[0] == mean_ranks[1]
    assert found.comparisons == []


def test_an_imported_run_is_told_apart_by_its_tool(tmp_path):
    """Logs of other tools have no hash of the model."""
    runs = []
    for number, (content, resolved) in enumerate((("0123456789", {}), (None, {"imported": "lm-evaluation-harness"}))):
        folder = tmp_path / str(number)
        folder.mkdir()
        model = {"name": "a/m", "content_hash": content}
        identity = {"probe": "statement", "options": {}, "model": model, "data": {"name": "d"}, "resolved": resolved}
        (folder / "manifest.json").write_text(json.dumps({"format": 1, "identity": identity, "plan": ["0"]}))
        runs.append(RunFolder.open(folder))
    assert short_names(runs) == ["m@main", "m@lm-evaluation-harness"]


def test_models_have_short_names_that_tell_them_apart(tmp_path):
    models = {
        "a": ("runs/small", "1"),
        "a elsewhere": ("/moved/small/", "1"),
        "other": ("new/large", "2"),
        "other's namesake": ("old/large", "3"),
        "before": ("mine", "44444444444"),
        "trained anew": ("mine", "55555555555"),
        "before the last step": ("/home/user/checkpoints/1/last", "6"),
        "last step": ("/home/user/checkpoints/2/last", "7"),
    }
    runs = []
    for folder, (name, content) in models.items():
        (tmp_path / folder).mkdir()
        identity = {"probe": "ontology", "model": {"name": name, "content_hash": content}, "data": {"name": "town"}}
        manifest = {"format": 1, "identity": identity, "plan": ["0"]}
        (tmp_path / folder / "manifest.json").write_text(json.dumps(manifest))
        runs.append(RunFolder.open(tmp_path / folder))
    steps = ["1/last", "2/last"]
    assert short_names(runs) == ["small", "small", "new/large", "old/large", "mine@44444444", "mine@55555555", *steps]


def test_losses_are_compared_where_all_else_is_equal(model, tmp_path):
    """Two runs by each loss, one of them with another way of pooling besides, which has no partner."""
    plain = {"soft": True, "epochs": 1, "relations": ("type",)}
    runs = [
        run(RunRequest("ontology", model, town(), OntologyOptions(**options)), tmp_path / str(number))
        for number, options in enumerate((plain, plain | {"loss": "nll", "reduction": ("mean", "max")}, {}))
    ]
    found = study(runs)
    [loss] = [one for one in found.comparisons if one.part == "loss"]
    assert (set(loss.means), loss.settings) == ({"bce", "nll"}, 1)
    assert {key[2] for key in found.best if key[0] == "type"} == {True, False}
    assert all(line.setting.prompt == "learnt from random" for line in found.lines if line.setting.soft)
    assert tables(found)[0].title == "the best of each model and task (table 4)"
    prompts = {line.setting.prompt for line in found.lines if line.setting.task == "domain"}
    assert prompts == {"One has to be a particular [Y] if one [X] a thing ."}


class TestStudyInput:
    def test_runs_that_cannot_be_compared(self, tmp_path):
        one = asked(tmp_path / "one", KNOWS)
        part = asked(tmp_path / "part", KNOWS | {"Bob": {"a": 2.0}}, limit=1)
        more = tmp_path / "more.txt"
        more.write_text("river\n")
        pool = asked(tmp_path / "pool", KNOWS | {"Bob": {"a": 3.0}}, add_candidates=more)
        with pytest.raises(BadInput) as error:
            study([one, part, pool])
        items, candidates = error.value.faults
        assert mentioned(items, one.path, part.path, "type", "--limit")
        assert mentioned(candidates, one.path, pool.path, "type", "--pool")
        with pytest.raises(BadInput, match=mentions("both", "scripted, type")):
            study([one, asked(tmp_path / "again", KNOWS)])
        with pytest.raises(BadInput, match=mentions("--examples", "type/9", "type/Ann")):
            study([one], OntologyStudyOptions(examples=["type/9"]))

    def test_the_flags_that_chose_other_items_are_named(self, tmp_path):
        """With a limit the other relations matter, too, since it draws from all; without one they do not."""
        words = sorted({word for text in (*CLASSES, *TEMPLATES, *THINGS["lake"], *DOMAINS) for word in text.split()})
        names = [name for things in THINGS.values() for name in things]
        model = ScriptedModel([*words, *{word for name in names for word in name.split()} - {*words}], {}, masked=True)
        ways = {
            "every": {},
            "limited": {"limit": 4},
            "types": {"limit": 4, "relations": ("type",)},
            "others": {"relations": ("type",), "subset": "dev"},
            "seed": {"limit": 4, "seed": 1},
        }
        runs = {
            name: run(RunRequest("ontology", model, town(), OntologyOptions(**options)), tmp_path / name)
            for name, options in ways.items()
        }

        def advice(*names: str) -> set[str]:
            with pytest.raises(BadInput, match=r"of type.* --") as error:
                study([runs[name] for name in names])
            return {fault[fault.index("--") :] for fault in error.value.faults}

        assert advice("limited", "types") == {"--relations"}
        assert advice("every", "limited") == {"--limit"}
        assert advice("every", "others") == {"--subset"}
        assert advice("types", "seed") == {"--relations and --seed"}

    def test_runs_without_full_ranks(self, tmp_path):
        stopped = asked(tmp_path / "stopped", {}, masked=False, max_rank=2)
        with pytest.raises(BadInput, match=mentions(stopped.path, "--max-rank")):
            study([stopped])
        whole = asked(tmp_path / "r", KNOWS)
        (whole.path / "predictions" / "part-00001.parquet").unlink()
        with pytest.raises(BadInput, match="unfinished"):
            study([whole])

    def test_the_command(self, tmp_path, fathom):
        asked(tmp_path / "r", KNOWS, masks=("several", "one"))
        code, out, _ = fathom("study", "ontology", tmp_path / "r", "--out", tmp_path / "tables")
        assert code == 0
        assert "frequency baseline" in out
        assert {file.name for file in (tmp_path / "tables").iterdir()} >= {
            "ontology.md",
            "ontology.csv",
            "ontology.png",
        }
        code, _, error = fathom("study", "ontology", tmp_path / "no")
        assert (code, "not a run" in error) == (2, True)
