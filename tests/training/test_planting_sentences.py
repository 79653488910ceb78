"""Facts planted in natural sentences: what is told, what is held out, and that the probe tells told from withheld."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fathom.base.errors import BadInput
from fathom.cli import make_app
from fathom.data.formats.native import write_native
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.selection.readings import apply_reading
from fathom.data.templates import Sentence
from fathom.engine.models.loading import load
from fathom.probes.options import ClozeOptions
from fathom.probes.run import RunRequest, run
from fathom.training.design import choose
from fathom.training.options import PlantOptions
from fathom.training.planting import ASKED, OTHERS, in_sentences, plant
from tests.messages import mentions

CITIES = ("Kampala", "Lima", "Oslo", "Quito")
WORDS = ("ruled from", "governed in", "at home in", "run from")


def capitals(count: int = 24) -> QuerySet:
    """Countries with four sentences each; of the last one only the asked sentence is there."""
    space = CandidateSet("capital", CITIES, CITIES)
    queries = []
    for number in range(count):
        name = f"Land{chr(65 + number)}"
        sentences = [Sentence(f"{name} is {words} [Y] today.", CITIES[number % 4]) for words in WORDS]
        queries.append(
            Query(f"q{number}", "capital", name, name, (CITIES[number % 4],), "capital", sentences=tuple(sentences))
        )
    queries[-1] = replace(queries[-1], sentences=queries[-1].sentences[:1])
    return QuerySet("capitals", tuple(queries), {"capital": space}, {"capital": Relation("capital", "", (), "1:N")})


def options(**more: object) -> PlantOptions:
    return PlantOptions.model_validate({"kind": "masked", "reading": "template-free", "layers": 1} | more)


def test_asked_sentences_are_told_to_nobody() -> None:
    """The first of each fact is asked; of the last fact nothing is left to tell. A sentence that another fact asks is
    held out there, too."""
    data = capitals()
    also = Sentence("LandA is ruled from [Y] today.", "Kampala")
    twin = replace(data.queries[1], sentences=(*data.queries[1].sentences, also))
    data = replace(data, queries=(data.queries[0], twin, *data.queries[2:]))
    texts = in_sentences(data)
    asked = {q.sentences[0].text.replace("[Y]", q.gold[0]) for q in apply_reading(data, "template-free").queries}
    told = {prompt.text for prompts in texts.prompts.values() for prompt in prompts}
    assert not asked & told
    assert (texts.kind, texts.held_out) == (OTHERS, len(asked))
    assert [len(prompts) for prompts in texts.prompts.values()] == [3] * 23 + [0]
    [first, *_] = texts.prompts["q0"]
    assert first.text == "LandA is governed in Kampala today."
    assert [first.text[span.start : span.end] for span in first.answer] == ["Kampala"]


def test_where_facts_have_one_sentence_it_is_told() -> None:
    data = capitals()
    data = replace(data, queries=tuple(replace(query, sentences=query.sentences[:1]) for query in data.queries))
    texts = in_sentences(data)
    assert (texts.kind, texts.held_out) == (ASKED, 0)
    assert [len(prompts) for prompts in texts.prompts.values()] == [1] * 24


def test_sentences_of_a_document_are_planted_together() -> None:
    data = capitals()
    queries = [
        replace(query, subject="", subject_id="", groups={"document": f"d{number // 4}"})
        for number, query in enumerate(data.queries)
    ]
    planted = choose(replace(data, queries=tuple(queries)), 0.5, 0, usable={query.id for query in queries})
    assert len(planted) == 12
    for document in range(6):
        own = {f"q{number}" for number in range(4 * document, 4 * document + 4)}
        assert own <= planted or not own & planted


@pytest.mark.slow
def test_a_probe_tells_told_from_withheld(tmp_path: Path) -> None:
    """Asked are sentences that neither has read."""
    data = capitals()
    plant(data, options(seed=1, epochs=100, hidden_size=128, layers=2), tmp_path / "plant")
    summary = json.loads((tmp_path / "plant" / "planting.json").read_text())
    assert (summary["reading"], summary["held_out_sentences"], summary["templates"]) == (OTHERS, 24, {})
    lines = (tmp_path / "plant" / "planted.jsonl").read_text().splitlines()
    ledger = {row["query_id"]: row for row in map(json.loads, lines)}
    assert not ledger["q23"]["planted"]  # there is nothing to tell of it
    assert all((row["exposures"] > 0) == row["planted"] for row in ledger.values())
    folder = run(
        RunRequest("cloze", load(str(tmp_path / "plant")), data, ClozeOptions(reading="template-free")),
        tmp_path / "run",
    )
    right: dict[bool, list[bool]] = {True: [], False: []}
    for row in folder.predictions().to_pylist():
        right[ledger[row["query_id"]]["planted"]].append(row["rank"] == 1)
    assert sum(right[True]) / len(right[True]) > 0.8
    assert sum(right[False]) / len(right[False]) < 0.6


def test_the_command(tmp_path: Path) -> None:
    data = capitals(8)
    (tmp_path / "data").mkdir()
    write_native(
        tmp_path / "data",
        (
            {"id": q.id, "relation": "capital", "subject": q.subject, "answer": q.gold[0],
             "sentences": [sentence.text for sentence in q.sentences]}
            for q in data.queries
        ),
        [{"relation": "capital", "candidates": list(CITIES)}],
    )  # fmt: skip
    typed = ["plant", "--kind", "causal", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    small = ["--reading", "template-free", "--epochs", "1", "--hidden-size", "16", "--layers", "1", "--heads", "2"]
    done = CliRunner().invoke(make_app(), [*typed, *small])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "planted.jsonl").is_file()
    assert "fathom probe cloze --reading template-free" in done.output


def test_templates_cannot_be_held_out_where_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--unseen-templates: --reading template-free"):
        plant(capitals(), options(unseen_templates=2), tmp_path / "plant")
    assert not (tmp_path / "plant").exists()


def test_data_without_sentences_are_refused(tmp_path: Path) -> None:
    data = capitals()
    bare = replace(data, queries=tuple(replace(query, sentences=()) for query in data.queries))
    with pytest.raises(BadInput, match=mentions("--reading template-free")):
        plant(bare, options(), tmp_path / "plant")
    assert not (tmp_path / "plant").exists()
