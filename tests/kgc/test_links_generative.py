"""KGT5 and GenKGC: what they read and learn, and that the search among names is exact."""

from __future__ import annotations

import itertools
import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import fathom_kgc
from fathom.base.errors import BadInput, RunFailed
from fathom.data.graph.links import Links, split_links, training_links
from fathom.data.knowledge import KnowledgeGraph
from fathom.engine.scoring.trie import AnswerTrie
from fathom_kgc.links import find, generative
from fathom_kgc.links.base import rank_links
from fathom_kgc.links.generative import Decoder, EncodedQuestions, GenerativePredictor, Reach, search
from fathom_kgc.links.options import Generative, GenKgc, Kgt5
from tests.conftest import build
from tests.messages import stated

WORDS = ["<pad>", "</s>", "<s>", "<unk>", *(f"w{number}" for number in range(4, 24))]
WORDS += ["predict", "head", "tail", "reverse", ":", "|", "(", ")"]
PAD, END, BEGIN = 0, 1, 2
FAMILIES = ("T5ForConditionalGeneration", "BartForConditionalGeneration")
CPU = torch.device("cpu")

# One token; a name that another begins with; equal beginnings; one name for two entities; a token twice.
NAMES = ["w4", "w4 w5", "w4 w5 w6", "w4 w7", "w8 w9", "w8 w9", "w10 w10 w10", "w11", "w12 w4", "w13 w14 w15 w16", "w17"]
NAMES += [f"w{first} w{second}" for first, second in itertools.product(range(18, 22), range(4, 8))]


def tokenizer(begins: bool = False) -> PreTrainedTokenizerFast:
    """A token for each word and an end token. :param begins: with a token before each text, as BART has it."""
    core = Tokenizer(WordLevel({word: id_ for id_, word in enumerate(WORDS)}, unk_token="<unk>"))
    core.pre_tokenizer = Whitespace()
    around = "<s> $A </s>" if begins else "$A </s>"
    core.post_processor = TemplateProcessing(single=around, special_tokens=[("<s>", BEGIN), ("</s>", END)])
    return PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token="</s>", bos_token="<s>", unk_token="<unk>"
    )


def network(family: str, seed: int = 0, size: int = 16) -> PreTrainedModel:
    shape: dict[str, Any] = {"vocab_size": len(WORDS), "d_model": size, "pad_token_id": PAD, "eos_token_id": END}
    if family.startswith("T5"):
        shape |= {"d_kv": size // 2, "d_ff": 2 * size, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": PAD}
        shape |= {"dropout_rate": 0.0}
    else:
        shape |= {f"{part}_{name}": 2 for part in ("encoder", "decoder") for name in ("layers", "attention_heads")}
        shape |= {"encoder_ffn_dim": 2 * size, "decoder_ffn_dim": 2 * size, "max_position_embeddings": 64}
        shape |= {"decoder_start_token_id": END, "bos_token_id": BEGIN, "dropout": 0.0}
    return build(family, seed=seed, **shape)


def saved(folder: Path, family: str, **options: Any) -> str:
    made = network(family, **options)
    for field, usual in (("init_std", 0.02), ("initializer_range", 0.02)):  # for --init random
        if hasattr(made.config, field):
            setattr(made.config, field, usual)
    made.save_pretrained(folder)
    tokenizer(begins=family.startswith("Bart")).save_pretrained(folder)
    return str(folder)


def graph(names: list[str] = NAMES, triples: list[tuple[int, int, int]] | None = None) -> KnowledgeGraph:
    """Entities e0, e1, … in places 0, 1, … and relations r0, r1; the last three triples are validation and test."""
    triples = triples or [(at, at % 2, (at + 3) % len(names)) for at in range(len(names))]
    ids = [(f"e{head}", f"r{relation}", f"e{tail}") for head, relation, tail in triples]
    called = {f"e{number}": name for number, name in enumerate(names)} | {"r0": "w22", "r1": "w23"}
    whole = KnowledgeGraph.from_triples(ids, called)
    numbers = np.array([int(id_[1:]) for id_ in whole.entities.column("id").to_pylist()])
    entities, (heads, tails) = whole.entities.take(np.argsort(numbers)), (numbers[whole.head], numbers[whole.tail])
    count = len(ids)
    splits = {"train": range(count - 3), "dev": range(count - 3, count - 1), "test": range(count - 1, count)}
    columns = heads.astype(np.int32), whole.relation, tails.astype(np.int32)
    return KnowledgeGraph(entities, whole.relations, *columns, splits)


def questions(count: int, entities: int, seed: int = 0) -> Links:
    """Random ones, each with up to three known answers beside the right one."""
    draw = np.random.default_rng(seed)
    answers = [draw.permutation(entities)[: 1 + draw.integers(4)] for _ in range(count)]
    nothing = np.zeros(count, dtype=np.int64)
    gold = np.array([some[0] for some in answers])
    return Links(nothing, nothing, nothing.astype(bool), gold, [some[1:] for some in answers])


def asked(family: str, count: int = 6, seed: int = 0) -> tuple[Decoder, EncodedQuestions]:
    """Questions of different lengths, in evaluation mode."""
    decoder = Decoder(network(family, seed), PAD if family.startswith("T5") else END)
    ids = torch.randint(4, 24, (count, 7), generator=torch.Generator().manual_seed(seed))
    mask = (torch.arange(7) < torch.arange(count)[:, None] % 5 + 3).long()
    return decoder, decoder.encode(ids, mask)


def one_by_one(decoder: Decoder, encoded: EncodedQuestions, sequences: list[list[int]]) -> torch.Tensor:
    """Every name of every question by the network's own forward pass, shape (questions, names)."""
    rows = []
    for number in range(len(encoded)):
        scores = []
        for ids in sequences:
            out = decoder.network(
                encoder_outputs=(encoded.states[number : number + 1],),
                attention_mask=encoded.mask[number : number + 1],
                decoder_input_ids=torch.tensor([[decoder.start, *ids[:-1]]]),
            )
            log_probs = torch.log_softmax(out.logits[0].double(), dim=-1)
            scores.append(sum(float(log_probs[place, token]) for place, token in enumerate(ids)))
        rows.append(scores)
    return torch.tensor(rows, dtype=torch.float64)


def sequences(names: list[str] = NAMES) -> list[list[int]]:
    return [[*(WORDS.index(word) for word in name.split()), END] for name in names]


# ------------------------------------------------------------------------------------------------------- searching


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_and_ranks_are_those_of_every_name_written_out(family: str) -> None:
    decoder, encoded = asked(family)
    answers, links = AnswerTrie(sequences()), questions(6, len(NAMES))
    with torch.inference_mode():
        naive = one_by_one(decoder, encoded, sequences())
        found = search(decoder, encoded, answers, links, Reach(10, 10, None, keep_scores=True))
    for row, one, expected in zip(naive.numpy(), found, rank_links(naive.float(), links, 10), strict=True):
        assert one.result.scores == pytest.approx(row, abs=1e-5)
        assert one.result.ranks == expected.ranks
        assert one.result.gold_ranks == expected.gold_ranks
        assert one.result.gold_scores == pytest.approx(expected.gold_scores, abs=1e-5)
        assert [score for _, score in one.result.top] == pytest.approx([score for _, score in expected.top], abs=1e-5)
        assert one.proven


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_pruned_changes_nothing(family: str, seed: int) -> None:
    """The bounds of full ranks and of the best three, each against the walk of the whole trie."""
    decoder, encoded = asked(family, seed=seed)
    answers, links = AnswerTrie(sequences()), questions(6, len(NAMES), seed)
    with torch.inference_mode():
        whole = search(decoder, encoded, answers, links, Reach(3, 3, None, keep_scores=True))
        full = search(decoder, encoded, answers, links, Reach(3, 3, None))
        narrow = search(decoder, encoded, answers, links, Reach(3, 3, 1, widest=len(NAMES)))
    assert sum(one.tokens_run for one in full) < sum(one.tokens_run for one in whole)
    for every, ranked, best in zip(whole, full, narrow, strict=True):
        assert ranked.result.ranks == every.result.ranks
        assert best.proven
        assert best.result.above == (3 if every.result.ranks.optimistic > 3 else None)
        assert best.result.ranks == (None if best.result.above else every.result.ranks)
        for one in (ranked, best):
            assert [place for place, _ in one.result.top] == [place for place, _ in every.result.top]


def test_a_walk_too_narrow_to_prove_its_answer_says_so() -> None:
    decoder, encoded = asked(FAMILIES[0])
    answers, links = AnswerTrie(sequences()), questions(6, len(NAMES))
    with torch.inference_mode():
        narrow = search(decoder, encoded, answers, links, Reach(10, 10, 1, widest=1))
        wide = search(decoder, encoded, answers, links, Reach(10, 10, 1, widest=100))
    assert not any(one.proven for one in narrow)  # eleven first tokens, and but one goes on: no ten answers
    assert all(one.proven for one in wide)
    assert all(one.tokens_run < other.tokens_run for one, other in zip(narrow, wide, strict=True))


class Spy(Decoder):
    """Notes the beginnings that are run: none but those of names may be."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__(decoder.network, decoder.start)
        self.written: dict[int, list[int]] = {}
        self.seen: list[list[int]] = []

    def step(self, encoded: EncodedQuestions, question: Any, tokens: Any, past: Any) -> Any:
        logits, grown = super().step(encoded, question, tokens, past)
        # Keys of the first layer say which beginning a row is: those of the parent are its own but for the last.
        for row in range(len(tokens)):
            before = self.written.get(_key(grown[0][0][row, :, :-1]), [])
            self.seen.append([*before, int(tokens[row])])
            self.written[_key(grown[0][0][row])] = self.seen[-1]
        return logits, grown


def _key(keys: torch.Tensor) -> int:
    return hash(keys.contiguous().numpy().tobytes())


@pytest.mark.parametrize("reach", [Reach(5, 5, None), Reach(5, 5, 2, widest=50), Reach(5, 5, None, keep_scores=True)])
@pytest.mark.parametrize("seed", range(3))
def test_decoding_never_leaves_the_trie(reach: Reach, seed: int) -> None:
    draw = np.random.default_rng(seed)
    names = [" ".join(f"w{word}" for word in draw.integers(4, 9, draw.integers(1, 5))) for _ in range(40)]
    decoder, encoded = asked(FAMILIES[1], seed=seed)
    spy = Spy(decoder)
    with torch.inference_mode():
        found = search(spy, encoded, AnswerTrie(sequences(names)), questions(6, 40, seed), reach)
    beginnings = {tuple(ids[:end]) for ids in sequences(names) for end in range(1, len(ids))}
    assert spy.seen
    assert all(tuple(ids) in beginnings for ids in spy.seen)
    assert all(0 <= place < 40 for one in found for place, _ in one.result.top)


def test_entities_of_one_name_tie() -> None:
    decoder, encoded = asked(FAMILIES[0], count=1)
    nothing = np.zeros(1, dtype=np.int64)
    links = Links(nothing, nothing, nothing.astype(bool), np.array([4]), [np.array([], dtype=np.int64)])
    with torch.inference_mode():
        [one] = search(decoder, encoded, AnswerTrie(sequences()), links, Reach(10, 10, None, keep_scores=True))
    assert NAMES[4] == NAMES[5]
    assert one.result.scores[4] == one.result.scores[5]
    assert one.result.ranks.pessimistic == one.result.ranks.optimistic + 1


def test_a_single_answer() -> None:
    decoder, encoded = asked(FAMILIES[0], count=2)
    links = Links(*np.zeros((2, 2), dtype=np.int64), np.zeros(2, bool), np.zeros(2, np.int64), [np.zeros(0, int)] * 2)
    with torch.inference_mode():
        found = search(decoder, encoded, AnswerTrie([[END]]), links, Reach(10, 10, 1, widest=4))
    assert [one.result.ranks for one in found] == [(1, 1), (1, 1)]
    assert all(one.proven and one.tokens_run == 0 for one in found)


def test_a_network_that_says_nothing_has_no_rank() -> None:
    decoder, encoded = asked(FAMILIES[0])
    broken = replace(encoded, states=encoded.states * math.nan, logits=encoded.logits * math.nan)
    with torch.inference_mode():
        found = search(decoder, broken, AnswerTrie(sequences()), questions(6, len(NAMES)), Reach(10, 10, None))
    assert all(one.result.ranks is None and "not a number" in one.result.unscored for one in found)


def test_a_cache_that_is_something_else_is_noticed() -> None:
    decoder, encoded = asked(FAMILIES[0])
    other = replace(encoded, cross=[(keys * 3, values * 3) for keys, values in encoded.cross])
    with pytest.raises(RunFailed, match="step by step"), torch.inference_mode():
        search(decoder, other, AnswerTrie(sequences()), questions(6, len(NAMES)), Reach(10, 10, None, keep_scores=True))


# -------------------------------------------------------------------------------------------------------- training


def predictor(kind: str, folder: Path, over: KnowledgeGraph | None = None, **said: Any) -> GenerativePredictor:
    family = FAMILIES[0] if kind == "kgt5" else FAMILIES[1]
    weights = str(folder) if (folder / "config.json").exists() else saved(folder, family, size=32)
    options: Generative = find(kind).options(weights=weights, **said)
    return find(kind).load()(over or graph(), options, None, CPU)


def test_the_loss_is_that_of_the_right_names_tokens(tmp_path: Path) -> None:
    """Mean of −log p over the tokens of the names and their end tokens; smoothed, 1 − ε of it and ε of all tokens'."""
    made = predictor("kgt5", tmp_path)
    made.network.eval()
    numbers = np.array([0, 1])
    batch = made._batch(
        numbers, made._read(training_links(made.graph, numbers))
    )  # (e0, r0, ?) is e3, (?, r0, e3) is e0
    assert made.questions(np.array([0, 3]), np.array([0, 0]), [False, True]) == [
        "predict tail: w4 | w22 |",
        "predict head: w4 w7 | w22 |",
    ]
    labels = [[WORDS.index("w4"), WORDS.index("w7"), END], [WORDS.index("w4"), END, -100]]
    assert batch.labels.tolist() == labels
    assert batch.before.tolist() == [[PAD, *labels[0][:2]], [PAD, WORDS.index("w4"), END]]
    with torch.inference_mode():
        logits = made.network(input_ids=batch.ids, attention_mask=batch.mask, decoder_input_ids=batch.before).logits
        log_probs = torch.log_softmax(logits.double(), dim=-1)
        places = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
        right = -sum(float(log_probs[row, at, labels[row][at]]) for row, at in places) / 5
        everything = -sum(float(log_probs[row, at].mean()) for row, at in places) / 5
        assert float(made._loss(batch)) == pytest.approx(right, abs=1e-5)
        own = made.network(input_ids=batch.ids, attention_mask=batch.mask, labels=batch.labels).loss
        assert float(own) == pytest.approx(right, abs=1e-5)
        made.options = made.options.model_copy(update={"label_smoothing": 0.1})
        assert float(made._loss(batch)) == pytest.approx(0.9 * right + 0.1 * everything, abs=1e-5)


def test_an_epoch_asks_everything_once_in_batches_alike_in_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generative, "WINDOW", 4)
    names = ["w4 " * (1 + number % 7) + f"w{5 + number}" for number in range(12)]
    over = graph(names, [(at % 12, at % 2, (at * 5 + 1) % 12) for at in range(26)])
    made = predictor("kgt5", tmp_path, over, batch_size=5, max_tokens=64)
    count = 2 * len(made.graph.training)
    epochs = [[read(batch) for batch in made._batches(count, epoch)] for epoch in (0, 0, 1)]
    everything = sorted(made._read(training_links(made.graph, np.arange(count))))
    for epoch in epochs:
        assert sorted(len(batch) for batch in epoch) == [1, *[5] * 9]  # 46 questions
        assert sorted(itertools.chain.from_iterable(epoch)) == everything
        for window in (epoch[:4], epoch[4:8], epoch[8:]):  # at most touching, in whatever order
            spans = sorted((min(map(len, batch)), max(map(len, batch))) for batch in window)
            assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
    assert epochs[0] == epochs[1] != epochs[2]
    spread = [[len(batch[0]) for batch in epoch[:4]] for epoch in epochs]
    assert any(one != sorted(one) for one in spread)


def read(batch: generative.NameBatch) -> list[list[int]]:
    return [ids[real].tolist() for ids, real in zip(batch.ids, batch.mask.bool(), strict=True)]


def two_rings() -> KnowledgeGraph:
    """Twelve entities, each with one tail and one head in each of two relations."""
    names = list(dict.fromkeys(NAMES))[:12]
    return graph(names, [(head, link, (head + 1 + 2 * link) % 12) for head in range(12) for link in range(2)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("kgt5", {"epochs": 50, "learning_rate": 1e-2}),
        ("genkgc", {"epochs": 70, "learning_rate": 6e-3, "demonstrations": 1, "label_smoothing": 0.0}),
    ],
)
def test_it_learns_a_small_graph(kind: str, said: dict[str, Any], tmp_path: Path) -> None:
    """Chance is one in twelve."""
    small = two_rings()
    alone = replace(small, splits={"train": small.splits["train"]})  # nothing to validate on
    made = predictor(kind, tmp_path / "weights", alone, batch_size=14, init="random", **said)
    (tmp_path / "out").mkdir()
    made.train(tmp_path / "out", lambda done, total: None)
    made.network.eval()
    with torch.inference_mode():
        found = made.rank(split_links(alone, "train"), 10)
    assert np.mean([one.ranks.optimistic == 1 for one in found]) > 0.75


@pytest.mark.parametrize(
    ("kind", "said"),
    [("kgt5", {"checkpoint_minutes": 1e-9}), ("kgt5", {"optimizer": "adamw"}), ("genkgc", {})],
)
def test_a_killed_training_goes_on_to_the_same_curve(kind: str, said: dict[str, Any], tmp_path: Path) -> None:
    """With the state kept at each step the second batch of three is where the epoch goes on, else the epoch's first."""
    curves, weights = {}, {}
    for name, last in (("whole", None), ("killed", 9)):
        (tmp_path / name).mkdir()
        for failing in [last, None] if last else [None]:
            made = predictor(kind, tmp_path / "weights", two_rings(), epochs=3, batch_size=8, patience=None, **said)
            if failing:
                _fail_at(made, failing)
            with pytest.raises(KeyboardInterrupt) if failing else nullcontext():
                made.train(tmp_path / name, lambda done, total: None)
        lines = (tmp_path / name / "curve.jsonl").read_text().splitlines()
        curves[name] = [_without_seconds(line) for line in lines]
        weights[name] = made.network.state_dict()
    assert len(curves["whole"]) == 3
    assert curves["killed"] == curves["whole"]
    assert all(torch.equal(weight, weights["killed"][key]) for key, weight in weights["whole"].items())


def _fail_at(made: GenerativePredictor, step: int) -> None:
    loss, steps = made._loss, itertools.count(1)

    def failing(batch: Any) -> torch.Tensor:
        if next(steps) == step:
            raise KeyboardInterrupt
        return loss(batch)

    made._loss = failing  # type: ignore[method-assign]


def _without_seconds(line: str) -> str:
    return line.split(', "seconds"', maxsplit=1)[0]


def test_the_same_shape_and_tokenizer_with_random_weights(tmp_path: Path) -> None:
    given = predictor("kgt5", tmp_path / "weights")
    random = predictor("kgt5", tmp_path / "weights", init="random")
    (tmp_path / "model").mkdir()
    random.describe(tmp_path / "model")
    opened = generative.Kgt5Predictor(graph(), random.options, tmp_path / "model", CPU)
    shapes = [
        {name: tuple(weight.shape) for name, weight in one.network.state_dict().items()} for one in (given, random)
    ]
    assert shapes[0] == shapes[1]
    assert not torch.equal(given.network.shared.weight, random.network.shared.weight)
    assert opened.questions(np.array([0]), np.array([0]), [False]) == given.questions(
        np.array([0]), np.array([0]), [False]
    )
    assert opened._names == given._names


def test_a_question_keeps_its_relation_and_loses_the_end_of_a_description(tmp_path: Path) -> None:
    plain = graph()
    described = plain.entities.set_column(
        plain.entities.column_names.index("description"), "description", [["w9 " * 30, *[""] * (len(NAMES) - 1)]]
    )
    long = KnowledgeGraph(described, plain.relations, plain.head, plain.relation, plain.tail, plain.splits)
    for kind in ("kgt5", "genkgc"):
        made = predictor(kind, tmp_path / kind, long, max_tokens=24)
        [ids] = made._read(Links(np.array([0]), np.array([0]), np.array([True]), np.array([1]), []))
        assert len(ids) <= 24
        assert {WORDS.index("w4"), WORDS.index("w22"), WORDS.index("w9")} <= set(ids)
        bare = predictor(kind, tmp_path / kind, long, max_tokens=24, descriptions=False)
        assert "w9 w9" not in bare.questions(np.array([0]), np.array([0]), [True])[0]


def test_demonstrations_never_mention_the_entity_asked_about(tmp_path: Path) -> None:
    made = predictor("genkgc", tmp_path)
    assert isinstance(made, generative.GenKgcPredictor)
    train = {(int(h), int(r), int(t)) for h, r, t in zip(*_training_columns(made), strict=True)}
    for entity in range(len(NAMES)):
        for relation in range(2):
            pairs = [pair for pair in made._demonstrations[relation] if entity not in pair]
            assert all((head, relation, tail) in train for head, tail in pairs)
            shown = made._shown(entity, relation)
            name = NAMES[pairs[0][0]], NAMES[pairs[0][1]], f"w{22 + relation}"
            assert shown[:2] == [f"{name[0]} {name[2]} {name[1]}", f"{name[1]} {name[2]} (reverse) {name[0]}"]
            assert len(shown) == 4  # two triples, each in both directions
    [text] = made.questions(np.array([0]), np.array([1]), [True])
    assert text.startswith(" </s> ".join(made._shown(0, 1)))
    assert text.endswith("</s> w4 w23 (reverse)")


def _training_columns(made: GenerativePredictor) -> list[Any]:
    span = made.graph.training
    return [column[span.start : span.stop] for column in (made.graph.head, made.graph.relation, made.graph.tail)]


def test_a_relation_without_training_triples_is_asked_without_demonstrations(tmp_path: Path) -> None:
    over = graph(triples=[(at, 0, at + 1) for at in range(8)] + [(0, 1, 2)])  # r1 is in the test split alone
    made = predictor("genkgc", tmp_path, over)
    assert made.questions(np.array([0]), np.array([1]), [False]) == ["w4 w23"]
    assert stated(made.notes(), "1 relations", "no training triple")
    made.network.eval()
    with torch.inference_mode():
        assert all(one.ranks is not None for one in made.rank(split_links(over, "test"), 10))


# ---------------------------------------------------------------------------------------------------------- asking


@pytest.mark.parametrize("kind", ["kgt5", "genkgc"])
def test_ranks_do_not_depend_on_who_is_asked_together(kind: str, tmp_path: Path) -> None:
    made = predictor(kind, tmp_path)
    made.network.eval()
    links = split_links(made.graph, "train")
    with torch.inference_mode():
        together = made.rank(links, 10)
        alone = [made.rank(links.take(np.array([number])), 10)[0] for number in range(len(links))]
        narrow = predictor(kind, tmp_path, full_rank=False, beams=1)
        narrow.network.eval()
        best = narrow.rank(links, 10)
    assert [one.ranks for one in together] == [one.ranks for one in alone]
    assert [one.gold_scores[0] for one in together] == pytest.approx([one.gold_scores[0] for one in alone], abs=1e-4)
    assert any(one.above == 10 for one in best)
    for one, other in zip(best, together, strict=True):
        assert one.ranks == other.ranks if one.above is None else other.ranks.optimistic > 10
    assert narrow.circumstances()["proven"].startswith(f"{len(links)} of {len(links)} answers")


def test_from_a_folder_to_a_run(tmp_path: Path) -> None:
    """Trained, opened again, asked through the probe: first for full ranks, then for the best ten alone."""
    data, weights, model = tmp_path / "data", saved(tmp_path / "weights", FAMILIES[0], size=32), tmp_path / "model"
    data.mkdir()
    called = {f"e{number}": name for number, name in enumerate(NAMES[:14])}
    (data / "entity2text.txt").write_text("".join(f"{id_}\t{text}\n" for id_, text in called.items()))
    (data / "relation2text.txt").write_text("r0\tw22\n")
    for split, places in {"train": range(12), "dev": [12], "test": [13]}.items():
        lines = [f"e{place}\tr0\te{(place + 1) % 14}\n" for place in places]
        (data / f"{split}.tsv").write_text("".join(lines))
    manifest = fathom_kgc.train_links("kgt5", data, model, weights=weights, epochs=1, device="cpu")
    assert stated(manifest["notes"], "2 of 14 entities", "tie")
    tables = []
    for name, asking in (("full", {}), ("ten", {"full_rank": False, "beams": 2})):
        run = fathom_kgc.evaluate_links(model, data, tmp_path / name, asking=asking, device="cpu")
        tables.append(run.table().to_pylist())
    assert [row["rank"] is not None for row in tables[0]] == [True, True]
    for full, ten in zip(*tables, strict=True):
        assert len(full["scores"]) == 14
        assert ten["scores"] is None
        assert full["scoring"] == "log-likelihood"
        assert (ten["rank"] == full["rank"]) if ten["rank_above"] is None else full["rank_optimistic"] > 10


def test_names_without_end_and_names_too_long_end_all_the_same(tmp_path: Path) -> None:
    names = ["w4", "w5 " * 40, "w5 " * 50, "w6"]
    made = predictor("kgt5", tmp_path, graph(names, [(0, 0, 1), (1, 0, 2), (2, 1, 3), (3, 1, 0)]), max_tokens=12)
    assert made._names[0] == [WORDS.index("w4"), END]
    assert made._names[1] == made._names[2] == [WORDS.index("w5")] * 11 + [END]
    assert stated(made.notes(), "2 of 4 entities", "tie")


def test_a_tokenizer_of_another_network_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path, FAMILIES[0])
    more = tokenizer()
    more.add_tokens(["one", "more"])
    more.save_pretrained(folder)
    with pytest.raises(BadInput, match=f"{len(WORDS) + 2} tokens, its network {len(WORDS)}"):
        generative.Kgt5Predictor(graph(), Kgt5(weights=folder), None, CPU)


@pytest.mark.parametrize("init", ["pretrained", "random"])
def test_a_network_of_another_kind_is_refused(init: Literal["pretrained", "random"], tmp_path: Path) -> None:
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    build("BertForMaskedLM", vocab_size=len(WORDS), **shape).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    with pytest.raises(BadInput, match="BertConfig"):
        generative.Kgt5Predictor(graph(), Kgt5(weights=str(tmp_path), init=init), None, CPU)


def test_defaults_are_those_of_the_published_scripts() -> None:
    """scripts/kgc/{kgt5,genkgc}.sh of LambdaKG (Xie et al. 2023); Adafactor: KGT5's own main_accelerate.py."""
    given = Kgt5(weights="t5-small"), Kgt5(weights="t5-small", optimizer="adamw"), GenKgc(weights="facebook/bart-base")
    assert [(one.epochs, one.batch_size, one.learning_rate, one.beams) for one in given] == [
        (40, 96, 1e-2, 10),
        (40, 96, 1e-4, 10),
        (10, 64, 1e-4, 10),
    ]
    assert given[0].optimizer == "adafactor"
    assert Kgt5(weights="t5-small", optimizer="adamw", learning_rate=1e-3).learning_rate == 1e-3


@pytest.mark.parametrize(("optimizer", "rate"), [("adafactor", 2e-2), ("adamw", 1e-3)])
def test_a_step_of_adafactor_is_a_share_of_the_weight(
    optimizer: Literal["adafactor", "adamw"], rate: float, tmp_path: Path
) -> None:
    """The first update has the root mean square 1 (the second moment is the gradient's own): times the weight's own
    root mean square where steps are relative, times 1 where they are not."""
    made = predictor("kgt5", tmp_path, epochs=1, optimizer=optimizer, learning_rate=rate, weight_decay=0.0)
    [stage] = made.stages()
    bias = torch.nn.Parameter(torch.tensor([3.0, 4.0, 0.0, 0.0, 0.0]))  # root mean square: √(25 / 5)
    chosen = stage.optimizer([{"params": [bias], "weight_decay": 0.0}], rate)
    bias.grad = torch.tensor([1.0, -2.0, 5.0, -0.1, 7.0])
    chosen.step()
    moved = bias.detach() - torch.tensor([3.0, 4.0, 0.0, 0.0, 0.0])
    size = rate * math.sqrt(5) if optimizer == "adafactor" else rate
    assert moved.tolist() == pytest.approx([-size, size, -size, size, -size], rel=1e-3)
