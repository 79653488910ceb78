"""Real models through every probe, comparison and study: what their runs say is sound, or has its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import fathom as library
from fathom import BadInput, RunFolder
from fathom.engine.models.loading import load
from fathom.probes import PROBES
from fathom.studies import STUDIES
from tests.messages import mentioned
from tests.real import real_model

Command = Callable[..., tuple[int, str, str]]
SMALL, BASE = "SmolLM2-135M-Instruct", "Gemma-3-270m"
CAPITALS: dict[str, Any] = {"relations": ("capital",), "limit": 100, "templates": (0,), "max_rank": 1, "top_k": 1}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def small() -> Any:
    return load(real_model(SMALL), device="cpu")


def test_a_gguf_file_ranks_as_its_folder(small: Any, tmp_path: Path) -> None:
    """The folder has the dequantised weights, read by transformers alone."""
    folder = real_model(SMALL)
    [file] = folder.glob("*.gguf")
    network = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name, dtype=torch.float32)
    fresh = AutoModelForCausalLM.from_config(network.config)  # one from a GGUF file cannot be saved
    fresh.load_state_dict(network.state_dict())
    fresh.save_pretrained(tmp_path / "folder")
    AutoTokenizer.from_pretrained(folder, gguf_file=file.name).save_pretrained(tmp_path / "folder")
    about = {"data": "geography", "limit": 20, "templates": (0,), "max_rank": 10}
    ranks = [
        library.probe("statement", model, **about).table().select(["rank", "rank_above"]).to_pylist()
        for model in (small, str(tmp_path / "folder"))
    ]
    assert ranks[0] == ranks[1]


def test_a_chat_names_answers_in_its_replies(small: Any) -> None:
    run = library.probe("generation", small, "geography", chat=True, shots=0, score=("contains",), limit=24)
    assert np.mean(run.table().column("correct").to_numpy()) >= 0.3


@pytest.mark.parametrize("name", [SMALL, BASE])
def test_no_scoring_of_choice_measures_length(name: str) -> None:
    """Length in tokens; each way chooses the longest option, or one as long, in 60 % of questions at most."""
    model = load(real_model(name), device="cpu")
    run = library.probe("choice", model, "geography", limit=20, options=6, score=("letter", "text-sum"))
    longest: dict[str, list[bool]] = {}
    for row in run.table().to_pylist():
        _, names = run.folder.candidates()[row["candidates"]]
        tokens = [len(model.tokenizer(f" {name}", add_special_tokens=False).input_ids) for name in names]
        longest.setdefault(row["scoring"], []).append(tokens[int(np.argmax(row["scores"]))] == max(tokens))
    assert set(longest) == {"letter", "text-sum"}
    assert all(np.mean(own) <= 0.6 for own in longest.values()), longest


def test_a_chat_template_changes_little(small: Any) -> None:
    """Accuracy on 100 capitals, as a reply and as a plain statement, within 15 points."""
    runs = [library.probe("statement", small, "geography", chat=chat, **CAPITALS) for chat in (False, True)]
    accuracy = [np.mean([rank == 1 for rank in run.table()["rank"].to_pylist()]) for run in runs]
    assert min(accuracy) > 0.2
    assert abs(accuracy[0] - accuracy[1]) <= 0.15


PROBED: dict[str, dict[str, Any]] = {
    "statement": {"templates": (0, 1)}, "embedding": {}, "vocabulary": {}, "generation": {"max_new_tokens": 8},
    "choice": {"options": 4},
}  # fmt: skip
REASONS = {
    "agreement": ("generation", "written answers and no ranks"),
    "length-bias": ("generation", "written answers and no ranks"),
    "repeated": ("generation", "written answers and no ranks"),
    "rankings": ("generation", "written answers and no ranks"),
    "relations": ("generation", "written answers and no ranks"),
    "perplexity": ("generation", "written answers and no ranks"),
    "ontology": ("generation", "lacks the ranks"),
    "calibration": ("embedding", "no confidence"),
    "validity": ("no planted.jsonl", "--design"),
    "items": ("several runs of", "give one of each model"),
    "choice": ("expected a run on OntoProbe's", "found no memorising task"),
    "compute-time": ("was not timed", "exclusive: true"),
}
"""Why a study says nothing of the runs of all probes; the others print findings."""
RANKING = ("statement", "embedding")
REASONS_OF_RANKING = {name: REASONS[name] for name in ("calibration", "validity", "choice", "compute-time")} | {
    "rankings": ("two models", "alone"),
    "perplexity": ("no perplexities", "--perplexity"),
    "items": REASONS["items"],
}


@pytest.fixture(scope="module")
def runs(small: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each probe that asks a causal model about facts."""
    folder, own = tmp_path_factory.mktemp("runs"), {"limit": 24, "relations": ("continent",)}
    for probe, options in PROBED.items():
        library.probe(probe, small, "geography", folder / probe, **own, **options)
    return {probe: folder / probe for probe in PROBED}


def test_the_other_probes_say_what_they_need(fathom: Command, tmp_path: Path) -> None:
    needs = {"cloze": ("mask", "causal"), "ontology": ("mask", "causal")}
    assert set(PROBED) | set(needs) == {entry.name for entry in PROBES.entries() if entry.needs == "language model"}
    for probe, words in needs.items():
        code, _, said = fathom(
            "probe", probe, "--model", real_model(SMALL), "--data", "geography", "--out", tmp_path / probe
        )
        assert code == 2, said
        assert mentioned(said, *words)


def test_every_run_opens_and_compares(runs: dict[str, Path], fathom: Command, tmp_path: Path) -> None:
    for run in runs.values():
        code, printed, said = fathom("metrics", run)
        assert code == 0, said
        assert mentioned(printed, "correct")
    code, printed, said = fathom("compare", *runs.values())
    assert code == 0, said
    assert mentioned(printed, "of 10 pairs", *PROBED)
    code, printed, said = fathom("report", *runs.values(), "--out", tmp_path / "report.html")
    assert code == 0, said
    assert mentioned(printed, "5 of 5 runs")


@pytest.mark.parametrize("name", [study.name for study in STUDIES.entries() if study.takes == "runs"])
def test_every_study_concludes_or_says_why_not(name: str, runs: dict[str, Path]) -> None:
    """Of the studies of the command line and of those that only plans make."""
    study = STUDIES[name]
    for some, reasons in ((PROBED, REASONS), (RANKING, REASONS_OF_RANKING)):
        folders = [RunFolder.open(runs[probe]) for probe in some]
        if reason := reasons.get(name):
            with pytest.raises(BadInput) as raised:
                study.analyse(folders)
            assert mentioned(str(raised.value), *reason)
        else:
            findings = study.analyse(folders)
            assert study.tables(findings)
            study.conclude(findings)
