"""A run folder knows its content: no damaged or edited file becomes another number."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fathom.base.errors import BadInput
from fathom.store.folder import RunFolder
from tests.answerers import without_digests
from tests.cli.test_cli import gpt2, save
from tests.messages import mentioned, mentions

Command = Callable[..., tuple[int, str, str]]
Rows = list[dict[str, Any]]
FLIPS = 300


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model"), gpt2())


@pytest.fixture
def probe(model: Path, fathom: Command, tmp_path: Path) -> Callable[..., Path]:
    def make(name: str = "run", *more: str) -> Path:
        words = ("--relations", "continent,capital", "--limit", "6", "--templates", "0")
        code, _, said = fathom(
            "probe", "statement", "--model", model, "--data", "geography", *words, "--out", tmp_path / name, *more
        )
        assert code == 0, said
        return tmp_path / name

    return make


def files_in(run: Path) -> list[Path]:
    return sorted(file for file in run.rglob("*") if file.is_file() and file.name not in ("metrics.json", ".at-work"))


def edited(file: Path, change: Callable[[Rows], object]) -> None:
    table = pq.read_table(file, partitioning=None)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)


@pytest.mark.parametrize("part", [(), ("--part", "1/1")], ids=["alone", "as a part"])
def test_no_flipped_bit_changes_a_number_in_silence(
    probe: Callable[..., Path], fathom: Command, part: tuple[str, ...]
) -> None:
    run, draw = probe("run", *part), random.Random(60)
    whole = fathom("metrics", run, "--all", "--by", "relation")
    assert whole[0] == 0
    files = files_in(run)
    assert any(file.parent.name == "parts" for file in files) == bool(part)
    refused = 0
    for number in range(FLIPS // 2):
        file = files[number % len(files)]
        content = file.read_bytes()
        bit = draw.randrange(8 * len(content))
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        code, output, said = fathom("metrics", run, "--all", "--by", "relation")
        if (code, output) != whole[:2]:
            assert (code, output, said.count("\n")) == (2, "", 1), f"{file.name}, bit {bit}: {said}"
            refused += 1
        file.write_bytes(content)
    assert refused > FLIPS // 4
    assert fathom("metrics", run, "--all", "--by", "relation")[:2] == whole[:2]


def reversed_scores(rows: Rows) -> None:
    for row in rows:
        row["scores"] = row["scores"][::-1]


EDITS: list[tuple[str, Callable[[Rows], object], str]] = [
    ("queries", lambda rows: rows[0].update(gold=rows[1]["gold"]), "gold_ranks"),
    ("queries", lambda rows: [row.update(fact_id=rows[0]["fact_id"]) for row in rows], "fact_id"),
    ("queries", lambda rows: rows[1].update(query_id=rows[0]["query_id"]), "query_ids"),
    ("queries", lambda rows: rows[0].update(filtered=10**6), "filtered"),
    ("queries", lambda rows: rows[0].update(filtered=-5), "filtered"),
    ("predictions", lambda rows: rows.pop(), "lacks 1 of 6"),
    ("predictions", lambda rows: rows[0].update(template=99), "different templates"),
    ("predictions", lambda rows: rows[0].update(scoring="mean/full"), "6 prompts"),
    (
        "predictions",
        lambda rows: rows[0].update(top_scores=[score + 1 for score in rows[0]["top_scores"]]),
        "top_scores",
    ),
    ("predictions", reversed_scores, "by its scores"),
    ("predictions", lambda rows: rows[0].update(rank_pessimistic=1, rank=1.5, rank_optimistic=1), "rank"),
    ("predictions", lambda rows: rows[0].update(rank_optimistic=9, rank_pessimistic=9, rank=9.0), "rank_optimistic"),
    ("predictions", lambda rows: rows[0].update(rank_pessimistic=10**6), "number of candidates"),
    ("predictions", lambda rows: rows[0].update(gold_ranks=[0.5]), "gold_ranks"),
    ("predictions", lambda rows: rows[0].update(gold_ranks=[1e6]), "gold_ranks"),
    ("predictions", lambda rows: rows[0].update(top_ids=["Q0", *rows[0]["top_ids"][1:]]), "top_ids"),
    ("predictions", lambda rows: rows[0].update(top_ids=rows[0]["top_ids"][::-1]), "top_ids"),
]


@pytest.mark.parametrize(("name", "change", "named"), EDITS)
def test_an_edited_run_is_refused(
    probe: Callable[..., Path], fathom: Command, name: str, change: Callable[[Rows], object], named: str
) -> None:
    """By its digests; without them, as of an earlier version, by what its values say of each other."""
    run = probe()
    assert "verified: 6 predictions, the ranks of 6 against" in fathom("show", run, "--verify")[1]
    file = next(file for file in files_in(run) if name in str(file.relative_to(run)))
    edited(file, change)
    code, _, said = fathom("metrics", run)
    assert (code, said.count("\n"), file.name in said) == (2, 1, True)
    code, _, said = fathom("show", without_digests(run), "--verify")
    assert (code, said.count("\n")) == (2, 1)
    assert mentioned(said, run, named)


def test_equal_scores_at_the_cut_of_the_best_answers_are_no_edit(fathom: Command, tmp_path: Path) -> None:
    """Names that a small model cuts to the same end have the same vector; the embedding probe records any of them."""
    run = tmp_path / "run"
    model = save(tmp_path / "model", gpt2())
    line = ("probe", "embedding", "--model", model, "--data", "geography", "--limit", 6, "--out", run)
    assert fathom(*line)[0] == 0
    code, printed, said = fathom("show", run, "--verify")
    assert (code, said) == (0, "")
    assert "the ranks of 6 against their scores" in printed


def test_a_run_of_an_earlier_version_opens_and_resumes(probe: Callable[..., Path], fathom: Command) -> None:
    numbers = fathom("metrics", without_digests(probe()))
    assert numbers[0] == 0
    run = probe()
    assert fathom("metrics", run) == numbers
    assert "no digests" in fathom("show", run, "--verify")[1]


def test_a_shard_that_a_kill_left_unrecorded_is_recorded_later(probe: Callable[..., Path]) -> None:
    """A kill may come between a shard and its record; a damaged shard may be deleted and made again."""
    for more in ((), ("--part", "1/1")):
        run = probe(f"run{len(more)}", *more)
        first, second = sorted((run / "predictions").iterdir())[:2]
        for file in (run / "manifest.json", *(run / "parts").glob("*.json")):
            content = json.loads(file.read_text())
            content["digests"].pop(f"predictions/{first.name}", None)
            content.pop("digest")
            file.write_text(json.dumps(content))
        recorded = RunFolder(run).digests()
        assert f"predictions/{first.name}" not in recorded
        second.unlink()
        probe(run.name, *more)
        assert recorded.keys() < RunFolder(run).digests().keys()
        edited(first, lambda rows: rows[0].update(prompt="another"))
        with pytest.raises(BadInput, match=mentions(first.name, "damaged")):
            RunFolder(run).predictions()


def test_parts_with_different_queries_are_not_merged(
    probe: Callable[..., Path], fathom: Command, tmp_path: Path
) -> None:
    parts = [probe(name, "--part", f"{number}/2") for number, name in ((1, "one"), (2, "two"))]
    assert fathom("merge", *parts, "--out", tmp_path / "whole")[0] == 0
    assert "files against their digests" in fathom("show", tmp_path / "whole", "--verify")[1]
    edited(without_digests(parts[1]) / "queries.parquet", lambda rows: rows[0].update(gold=rows[1]["gold"]))
    code, _, said = fathom("merge", *parts, "--out", tmp_path / "other")
    assert (code, "queries.parquet" in said, (tmp_path / "other").exists()) == (2, True, False)
