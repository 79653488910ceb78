"""Options as a paper had them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fathom.base.errors import BadInput
from fathom_kgc.links import LINKS, PRESETS, find
from tests.data.test_knowledge import small

PAPER = PRESETS["sakai2024"]


@pytest.mark.parametrize("kind", PAPER)
def test_every_kind_of_it_is_in_the_table_and_takes_its_options(kind: str) -> None:
    assert kind in LINKS
    needed = {"weights": "vicuna"} if kind == "prompted" else {}
    made = find(kind).parse(kind, {"preset": "sakai2024", **needed})
    assert made == find(kind).options(**PAPER[kind], **needed)
    assert "preset" not in made.identity()


def test_what_lambdakg_sets() -> None:
    """scripts/kgc/{knnkge,kgt5,genkgc}.sh of github.com/zjunlp/PromptKG."""
    knn, kgt5, genkgc, simkgc = (
        find(kind).parse(kind, {"preset": "sakai2024"}) for kind in ("knn-kge", "kgt5", "genkgc", "simkgc")
    )
    assert (knn.batch_size, knn.accumulate, knn.learning_rate, knn.max_tokens) == (16, 4, 2e-5, 256)
    assert knn.knn_weight == 0
    assert (kgt5.optimizer, kgt5.learning_rate, kgt5.epochs, kgt5.batch_size) == ("adamw", 1e-4, 40, 96)
    assert (genkgc.learning_rate, genkgc.epochs, genkgc.batch_size, genkgc.demonstrations) == (1e-4, 10, 64, 0)
    assert (simkgc.epochs, simkgc.batch_size, simkgc.learning_rate) == (10, 96, 3e-5)


def test_what_is_said_wins() -> None:
    made = find("kgt5").parse("kgt5", {"preset": "sakai2024", "epochs": 2, "optimizer": "adafactor"})
    assert (made.epochs, made.optimizer, made.batch_size) == (2, "adafactor", 96)


@pytest.mark.parametrize(
    ("model", "name", "expected"),
    [
        ("simkgc", "sakai", "--preset: expected sakai2024, found 'sakai'"),
        ("simkgc", 5, "--preset: expected sakai2024, found 5"),
        ("TransE", "sakai2024", "--preset sakai2024: .*pykeen"),
    ],
)
def test_bad_presets(model: str, name: Any, expected: str) -> None:
    with pytest.raises(BadInput, match=expected):
        find(model).parse(model, {"preset": name})


def test_the_command_line_refuses_in_one_line(tmp_path: Path, fathom: Any) -> None:
    out = tmp_path / "model"
    said = ["--preset", "sakai", "--data", small(tmp_path / "g"), "--out", out]
    code, _, err = fathom("kgc", "train", "simkgc", *said)
    assert code == 2
    [line] = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "--preset" in line
    assert "sakai2024" in line
    assert not out.exists()
    code, _, err = fathom("kgc", "train", "pykeen", "--model", "TransE", *said)
    assert code == 2  # a kind without presets
    assert "no option --preset" in err
