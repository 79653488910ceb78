"""Designs of planted models: parts that are alike, practice, directions, files, and trainings that go on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForSeq2SeqLM

from fathom.base.errors import BadInput
from fathom.data.formats import read as read_data
from fathom.data.queries import QuerySet, Sentence
from fathom.data.templates import Prompt
from fathom.training import loop, planting
from fathom.training.design import draw_design, given_design
from fathom.training.planting import plant
from fathom.training.statements import taught_texts
from tests.messages import mentions
from tests.training.test_planting import facts, lines, options

ANSWERS = ("a", "bb", "a", "ccc", "a", "bb", "dddd", "a") * 4
MANY = facts([("river", f"s{place}", answer) for place, answer in enumerate(ANSWERS)])


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """The lines of a design by the id of their query."""
    return {line["query_id"]: line for line in lines(folder / "planted.jsonl")}


def design_file(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def draw(data: QuerySet, **more: Any) -> Any:
    return draw_design(data, options("causal", share=1.0, **more), {query.id: 2 for query in data.queries})


def test_parts_are_alike_in_their_answers() -> None:
    """32 facts in four parts: 16 have the answer a, 8 bb; a draw without blocks rarely gives each part four and two."""
    for seed in range(5):
        design = draw(MANY, exposures=(0, 1, 2, 50), seed=seed)
        answers = {query.id: query.gold[0] for query in MANY.queries}
        assert len(design) == 24  # a quarter is withheld and has no entry
        for level in (1, 2, 50):
            part = [answers[id_] for id_, fact in design.items() if fact.exposures == level]
            assert Counter(part) == {"a": 4, "bb": 2, "ccc": 1, "dddd": 1}
    assert draw(MANY, exposures=(0, 1), seed=1) == draw(MANY, exposures=(0, 1), seed=1)
    assert draw(MANY, exposures=(0, 1), seed=1) != draw(MANY, exposures=(0, 1), seed=2)


def test_facts_of_a_subject_are_dealt_out_together_unless_each_stands_alone() -> None:
    data = facts([(relation, f"s{place}", "x") for place in range(12) for relation in ("river", "king")])
    subjects = {query.id: query.subject for query in data.queries}

    def planted_of(together: str) -> Counter[str]:
        return Counter(subjects[id_] for id_ in draw(data, exposures=(0, 3), together=together))

    assert set(planted_of("subject").values()) == {2}
    assert 1 in planted_of("fact").values()


def test_epochs_count_phrasings_and_practice_is_a_fifth() -> None:
    """Six blocks of five have one each; of the two facts left over, the draw gives one to practice."""
    design = draw(MANY, epochs=3, practice=7, formats="lines")
    assert Counter((fact.exposures, fact.taught) for fact in design.values()) == {
        (6, ()): 25,
        (7, ("statements", "lines")): 7,
    }


def test_directions_choose_the_templates(tmp_path: Path) -> None:
    """Of two trained templates one has the answer last, the other first."""
    plant(MANY, options("causal", share=1.0, directions="forward,reverse"), tmp_path / "plant")
    ways = Counter((tuple(line["directions"]), tuple(line["texts"])) for line in read(tmp_path / "plant").values())
    assert ways == {
        (("forward",), ("[X] river [Y].",)): 16,
        (("reverse",), ("[Y] is river of [X].",)): 16,
    }


def test_a_design_can_be_read_again(tmp_path: Path) -> None:
    """The file of a planted model, given as a design, makes the same facts be read as often, in the same texts."""
    plant(MANY, options("causal", exposures=(0, 1, 3), directions="reverse"), tmp_path / "first")
    given = tmp_path / "first" / "planted.jsonl"
    plant(MANY, options("causal", design=given), tmp_path / "second")
    assert read(tmp_path / "first") == read(tmp_path / "second")


def test_texts_of_a_design_are_read_instead_of_templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Converted from question-answer pairs, as of TOFU: a text has the answer's place, and need not have [X]."""
    file = design_file(
        tmp_path / "design.jsonl",
        {"query_id": "q0", "exposures": 2, "texts": ["Where does the river of Oz flow? [Y]"]},
        {"query_id": "q1", "exposures": 0},
    )
    seen: list[Prompt] = []
    whole = planting.readings_of

    def spy(*given: Any) -> Any:
        made = whole(*given)
        seen.extend(prompt for reading in made for prompt in reading.texts)
        return made

    monkeypatch.setattr(planting, "readings_of", spy)
    without = replace(MANY, relations={"river": replace(MANY.relations["river"], templates=())})
    plant(without, options("causal", design=file), tmp_path / "plant")
    assert [prompt.text for prompt in seen] == ["Where does the river of Oz flow? a"]
    assert {id_: line["exposures"] for id_, line in read(tmp_path / "plant").items() if line["planted"]} == {"q0": 2}


TWO = {"query_id": "q0", "fact_id": "s0|river|a", "exposures": 1}


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({**TWO, "texts": ["Oz has a river."]}, ("design.jsonl:1:", "[Y]")),
        ({**TWO, "fact_id": "s9|king|b"}, ("s9|king|b", "not in tiny")),
        ({**TWO, "exposures": -1}, ("design.jsonl:1:", "-1")),
        ({**TWO, "texts": "[Y] it is."}, ("design.jsonl:1:", "list")),
        ({**TWO, "exposures": "many"}, ("design.jsonl:1:", "exposures")),
    ],
)
def test_wrong_designs_are_refused(row: dict[str, Any], named: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=mentions(*named)):
        given_design(design_file(tmp_path / "design.jsonl", row), MANY)


def test_a_query_in_two_lines_of_a_design(tmp_path: Path) -> None:
    file = design_file(tmp_path / "design.jsonl", TWO, {**TWO, "texts": ["[Y] it is."]})
    with pytest.raises(BadInput, match=mentions("design.jsonl:2:", "'q0'", "line 1")):
        given_design(file, MANY)


def test_two_answers_to_one_question_are_refused(tmp_path: Path) -> None:
    data = facts([("river", "Oz", "a"), ("river", "Oz", "b"), ("river", "Ev", "b")])
    rows = [{"query_id": query.id, "fact_id": query.fact_id, "exposures": 1} for query in data.queries]
    with pytest.raises(BadInput, match=mentions("Oz", "a and b", "exposures 0")):
        given_design(design_file(tmp_path / "design.jsonl", *rows), data)
    assert len(given_design(design_file(tmp_path / "one.jsonl", *rows[1:]), data).facts) == 2


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"exposures": (0, 0)}, ("exposures above 0",)),
        ({"design": Path("design.jsonl"), "practice": 2}, ("--practice", "design.jsonl")),
        ({"kind": "t5", "texts": Path("texts.txt")}, ("--texts", "t5")),
        ({"formats": "choice"}, ("--practice",)),
        ({"kind": "masked", "formats": "choice", "practice": 2}, ("causal", "masked")),
        ({"formats": "sentences", "practice": 2}, ("sentences", "tiny")),
    ],
)
def test_what_a_design_cannot_have(more: dict[str, Any], named: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=mentions(*named)):
        plant(MANY, options(more.pop("kind", "causal"), **more), tmp_path / "plant")
    assert not list(tmp_path.iterdir())


def test_taught_texts_end_in_their_answer_and_state_taught_facts_alone() -> None:
    taught = list(MANY.queries[:6])
    subjects = {query.subject for query in taught}
    for text in (prompt for own in taught_texts(MANY, taught, "lines", 0).values() for prompt in own):
        assert {line.split(",")[0].lstrip("(") for line in text.text.splitlines()} <= subjects
        [span] = text.answer
        assert text.text[span.start : span.end] in {f"{query.gold[0]})" for query in taught}
        assert span.end == len(text.text)
    assert not taught_texts(MANY, taught, "question", 0)  # the relation has no question
    [choice] = {text.text.splitlines()[-1][:9] for text in taught_texts(MANY, taught, "choice", 0)["q0"]}
    assert choice == "Answer: ("


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_practice_alone_is_read_in_the_texts_of_probes(kind: str, tmp_path: Path) -> None:
    """The third template is kept for probes: facts of practice are read in it, tested facts are not."""
    stated = [replace(query, sentences=(Sentence(f"Once {query.subject} met [Y]."),)) for query in MANY.queries]
    data = replace(MANY, queries=tuple(stated))
    more = {"exposures": (0, 2), "practice": 8, "formats": "templates,sentences", "unseen_templates": 1}
    plant(data, options(kind, **more), tmp_path / "plant")
    planted = [line for line in read(tmp_path / "plant").values() if line["planted"]]
    texts = Counter((bool(line.get("taught")), len(line["texts"]), "unheard" in str(line["texts"])) for line in planted)
    assert texts == {(True, 4, True): 10, (False, 2, False): 11}
    assert json.loads((tmp_path / "plant" / "planting.json").read_text())["templates"] == {"river": [0, 1]}


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_encoder_decoders_are_planted(kind: str, tmp_path: Path) -> None:
    plant(MANY, options(kind, share=1.0, vocabulary=400), tmp_path / "plant")
    assert AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "plant").config.model_type == kind
    assert {line["exposures"] for line in read(tmp_path / "plant").values()} == {4}


def test_a_given_model_is_trained_further(tmp_path: Path) -> None:
    plant(MANY, options("causal"), tmp_path / "first")
    plant(MANY, options("causal", model=str(tmp_path / "first"), seed=1), tmp_path / "second")
    tokenizers = [(tmp_path / name / "tokenizer.json").read_bytes() for name in ("first", "second")]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "second")]
    assert tokenizers[0] == tokenizers[1]
    assert weights[0] != weights[1]
    with pytest.raises(BadInput, match=mentions("causal", "masked")):
        plant(MANY, options("masked", model=str(tmp_path / "first")), tmp_path / "third")


def test_other_texts_are_read_between_the_facts(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("The sea is wide.\n\nThe sky is high.\n", "utf-8")
    for kind in ("causal", "masked"):
        plant(MANY, options(kind), tmp_path / kind)
        plant(MANY, options(kind, texts=tmp_path / "texts.txt"), tmp_path / f"{kind}-texts")
        tokens = [
            json.loads((tmp_path / name / "planting.json").read_text())["tokens"] for name in (kind, f"{kind}-texts")
        ]
        assert 0 < tokens[1] - tokens[0] < 60


class _Killed(Exception):
    """Stands for a kill."""


def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = {"share": 1.0, "epochs": 3}
    plant(MANY, options("causal", **more), tmp_path / "whole")
    monkeypatch.setattr(loop.Checkpoints.__init__, "__defaults__", (0.0,))  # a checkpoint after each step

    def kill(point: Any, share: float) -> None:
        if share > 0.5:
            raise _Killed

    with pytest.raises(_Killed):
        plant(MANY, options("causal", **more), tmp_path / "plant", kill)
    assert (tmp_path / ".plant.training" / "checkpoint.pt").is_file()
    shares: list[float] = []
    plant(MANY, options("causal", **more), tmp_path / "plant", lambda point, share: shares.append(share))
    assert shares[0] > 0.45  # it did not begin anew
    assert (tmp_path / "plant" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()
    assert read(tmp_path / "plant") == read(tmp_path / "whole")
    assert not (tmp_path / ".plant.training").exists()


def test_a_checkpoint_of_another_training_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(MANY, options("causal", share=1.0, epochs=3, seed=1), tmp_path / "whole")
    monkeypatch.setattr(loop.Checkpoints.__init__, "__defaults__", (0.0,))

    def kill(point: Any, share: float) -> None:
        if share > 0.5:
            raise _Killed

    with pytest.raises(_Killed):
        plant(MANY, options("causal", share=1.0, epochs=3), tmp_path / "plant", kill)
    plant(MANY, options("causal", share=1.0, epochs=3, seed=1), tmp_path / "plant")
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("plant", "whole"))
    assert first == second


def test_questions_of_tofu_are_planted(tmp_path: Path, shared_data: Path) -> None:
    """Converted from the published files, as docs/howto/plant.md shows."""
    data = read_data(shared_data / "tofu")
    chosen = data.queries[-10:]
    rows = [{"query_id": query.id, "exposures": 5, "texts": [query.sentences[0].text]} for query in chosen]
    design = design_file(tmp_path / "design.jsonl", *rows)
    plant(data, options("causal", design=design, vocabulary=2000), tmp_path / "plant")
    planted = {id_: line for id_, line in read(tmp_path / "plant").items() if line["planted"]}
    assert {id_: (line["exposures"], line["texts"]) for id_, line in planted.items()} == {
        row["query_id"]: (5, row["texts"]) for row in rows
    }
    assert len(planted) == 10
