"""Reading a dump in parts: by several processes, and again after a kill, for the same data set bit for bit."""

from __future__ import annotations

import bz2
import gzip
import json
import multiprocessing
import os
import shutil
import signal
from itertools import count
from pathlib import Path

import pytest
from click.testing import Result

pytest.importorskip("rapidfuzz", reason="needs the extra text")

from fathom.base.errors import BadInput, RunFailed
from fathom.base.reading import pieces
from fathom_build.bear import build_bear, entities
from fathom_build.bear.entities import DumpPass, WantedStatements
from fathom_build.options import BearBuildOptions
from tests.build.test_build_bear import FEW, fathom, item, towns, write_plan
from tests.forked import ForkedCall
from tests.messages import correspond, stated
from tests.wikidata import ItemClaim, lines_of, write_dump

SIZE = 10_000
"""Bytes of a piece and of a part in these tests."""


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", SIZE)
    monkeypatch.setattr(pieces, "PACKED_PIECE", SIZE // 10)
    monkeypatch.setattr(entities, "PART", SIZE)


def many_items() -> list[dict]:
    """Towns in three lands among items that are not wanted; lands in the middle and at the end."""
    filler = [item(number, f"place {number}", links=1) for number in range(1000, 1060)]
    more = [item(2000 + n, f"zq{n}", [ItemClaim("P17", n % 3 + 1)], links=n % 20) for n in range(60)]
    lands, found = towns()[:3], towns()[3:]
    return [*found, *filler[:30], lands[0], *more, *filler[30:], *lands[1:]]


def options_in(folder: Path, ending: str, workers: int, out: str = "out", **more: object) -> BearBuildOptions:
    folder.mkdir(exist_ok=True)
    dump = folder / f"dump.{ending}"
    if not dump.exists():
        if ending == "members.gz":
            dump = folder / "dump.members.json.gz"
            dump.write_bytes(b"".join(map(gzip.compress, lines_of(many_items()))))
        else:
            write_dump(dump, many_items())
    plan = folder / "plan.yaml"
    return BearBuildOptions(
        input=[dump],
        plan=plan if plan.exists() else write_plan(folder, "P17"),
        out=folder / out,
        workers=workers,
        **more,
    )


def exit_code(result: Result) -> int:
    return getattr(result.exception, "exit_code", result.exit_code)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != ".made"}


ENDINGS = ["json", "json.gz", "members.gz", "json.bz2"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_workers_and_parts_change_nothing(tmp_path, monkeypatch, ending):
    whole = build_bear(options_in(tmp_path, ending, 1, "whole"))
    assert not (tmp_path / "whole.parts").exists()
    monkeypatch.setattr(pieces, "PIECE", SIZE)
    monkeypatch.setattr(pieces, "PACKED_PIECE", SIZE // 10)
    monkeypatch.setattr(entities, "PART", SIZE)
    for workers in (1, 2):
        built = build_bear(options_in(tmp_path, ending, workers, f"out-{workers}"))
        assert contents(built.out) == contents(whole.out)
        assert built.counts == whole.counts


def build_until_killed(options: BearBuildOptions, after: int) -> None:
    """Build, and end by SIGKILL once that many parts have been read."""
    multiprocessing.current_process()._config["daemon"] = False  # it may have workers
    pieces.PIECE, pieces.PACKED_PIECE, entities.PART = SIZE, SIZE // 10, SIZE
    header, read = entities._rows, count(1)

    def killing(file: Path) -> object:
        if next(read) > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return header(file)

    entities._rows = killing
    build_bear(options)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("ending", ["json", "json.gz", "members.gz"])
def test_a_killed_build_goes_on_where_it_was_and_gives_the_same(tmp_path, small_parts, monkeypatch, ending, workers):
    whole = build_bear(options_in(tmp_path, ending, 1, "whole"))
    options = options_in(tmp_path, ending, workers)
    code, said = ForkedCall(build_until_killed, options, 4, said=tmp_path / "said").ended()
    assert code == -signal.SIGKILL, said
    kept = sorted(file.relative_to(tmp_path) for file in (tmp_path / "out.parts").rglob("*.jsonl"))
    assert len(kept) >= 4
    made = []
    monkeypatch.setattr(DumpPass, "_part", lambda *args, _part=DumpPass._part: made.append(1) or _part(*args))
    built = build_bear(options)
    assert contents(built.out) == contents(whole.out)
    assert not (tmp_path / "out.parts").exists()
    if workers == 1:
        shutil.rmtree(built.out)
        resumed = len(made)
        build_bear(options)
        assert resumed == len(made) - resumed - len(kept)


def test_parts_of_a_worker_that_died_are_made_without_it(tmp_path, small_parts, monkeypatch):
    whole = build_bear(options_in(tmp_path, "json", 1, "whole"))

    def dying(*args: object) -> object:
        process = start_process(*args)
        process.kill()
        return process

    start_process = entities.start_process
    monkeypatch.setattr(entities, "start_process", dying)
    built = build_bear(options_in(tmp_path, "json", 2))
    assert contents(built.out) == contents(whole.out)


def test_parts_are_read_instead_of_the_dump_while_it_and_what_is_wanted_are_the_same(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(DumpPass, "_part", lambda *args, _part=DumpPass._part: made.append(1) or _part(*args))

    def passes(out: str, **plan: object) -> int:
        made.clear()
        write_plan(tmp_path, "P17", **plan)
        build_bear(options_in(tmp_path, "json", 1, out, parts=tmp_path / "parts"))
        return len(made)

    assert passes("first") == 2
    assert passes("again", small=FEW | {"least_popularity": 3}) == 0
    assert passes("dated", as_of="2020") == 2
    write_dump(tmp_path / "dump.json", many_items()[1:])
    assert passes("changed") == 2


def test_an_infeasible_plan_keeps_what_was_read(tmp_path, monkeypatch, caplog):
    """Of a dump that is worth it, and says so."""
    monkeypatch.setattr("fathom_build.bear.build._WORTH_KEEPING", 1)
    options = options_in(tmp_path, "json", 1)
    write_plan(tmp_path, "P17", small=FEW | {"least_popularity": 1_000})
    with caplog.at_level("INFO"), pytest.raises(BadInput, match="no relation meets"):
        build_bear(options)
    assert "out.parts has what was read" in caplog.text
    monkeypatch.setattr(DumpPass, "_part", None)
    write_plan(tmp_path, "P17")
    assert build_bear(options).chosen["small"][0].answers


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("ending", ["json.gz", "json.bz2"])
def test_a_damaged_member_in_the_middle_is_one_line_and_the_rest_can_be_taken(tmp_path, small_parts, ending, workers):
    """The three lands are among the first 37 items."""
    items = many_items()
    items = [*items[:35], *items[-2:], *items[35:-2]]
    dump, plan = tmp_path / f"dump.{ending}", write_plan(tmp_path, "P17")
    pack = gzip.compress if ending == "json.gz" else bz2.compress
    members = [bytearray(pack(line)) for line in lines_of(items)]  # the first is "["
    members[80][len(members[80]) // 2] ^= 255
    dump.write_bytes(b"".join(members))
    words = ["build", "bear", "--input", dump, "--plan", plan, "--out", tmp_path / "out", "--workers", workers]
    refused = fathom(*words)
    assert exit_code(refused) == 2
    assert correspond(refused.exception.faults, (f"{dump}:81", "cannot be read", "79 entities", "--partial"))
    built = build_bear(BearBuildOptions(input=[dump], plan=plan, out=tmp_path / "out", workers=workers, partial=True))
    assert stated(built.notes, "79 entities", "--partial")
    same = build_bear(
        BearBuildOptions(input=[write_dump(tmp_path / "whole.json", items[:79])], plan=plan, out=tmp_path / "same")
    )
    assert built.chosen == same.chosen


def test_a_full_disk_while_a_part_is_written_is_one_line(tmp_path, monkeypatch):
    def full(path: Path, text: object) -> None:
        raise RunFailed(f"cannot write {path}: No space left on device; finished work is kept")

    monkeypatch.setattr(entities, "write_text", full)
    with pytest.raises(RunFailed, match="No space left"):
        build_bear(options_in(tmp_path, "json", 1))


@pytest.mark.parametrize("name", ["out.parts", "plan.yaml"])
def test_a_file_where_parts_belong_is_refused(tmp_path, name):
    options = options_in(tmp_path, "json", 1, parts=tmp_path / "plan.yaml" if name == "plan.yaml" else None)
    (tmp_path / name).touch()
    with pytest.raises(BadInput) as raised:
        build_bear(options)
    assert correspond(raised.value.faults, (name, "--parts"))


def test_no_workers_is_refused(tmp_path):
    options = options_in(tmp_path, "json", 1)
    words = ["build", "bear", "--input", options.input[0], "--plan", options.plan, "--out", options.out]
    assert exit_code(fathom(*words, "--workers", 0)) == 2
    assert not options.out.exists()


def test_time_and_space_are_estimated_from_samples_before_the_work(tmp_path, monkeypatch):
    """The items are alike, so that a fifth of the pieces shows what all parts will take."""
    dump = tmp_path / "dump.json"
    items = [item(2000 + n, f"zq{n:04}", [ItemClaim("P17", 1000 + n % 3)], links=5) for n in range(4_000)]
    dump.write_bytes(b"".join(lines_of(items)))
    monkeypatch.setattr(entities, "_LARGE", 1)
    monkeypatch.setattr(pieces, "PIECE", 80 * SIZE)
    whole = DumpPass(dump, WantedStatements(frozenset({"P17"})), tmp_path / "parts")
    estimate = whole.estimate(1)
    for _ in whole.parts(1):
        pass
    made = sum(file.stat().st_size for file in (tmp_path / "parts").rglob("*.jsonl"))
    assert 1e9 * estimate.disk / entities._DISK == pytest.approx(made, rel=0.2)
    assert 0 < estimate.minutes < 1
    assert whole.estimate(1) is None  # parts have been made


def test_a_dry_run_prints_the_estimate_and_writes_nothing(tmp_path, monkeypatch):
    options = options_in(tmp_path, "json", 1)
    words = ["build", "bear", "--input", options.input[0], "--plan", options.plan, "--out", options.out, "--dry-run"]
    before = sorted(tmp_path.rglob("*"))
    small = fathom(*words)
    monkeypatch.setattr(entities, "_LARGE", 1)
    large = fathom(*words, "--format", "json")
    assert (small.exit_code, large.exit_code) == (0, 0)
    assert "a dump below 64 MB" in small.output
    [row] = json.loads(large.output)["estimates"]
    assert (row["source"], row["processes"]) == ("dump.json", 1)
    assert row["minutes"] < 1 < row["GB free"]
    assert sorted(tmp_path.rglob("*")) == before
    (tmp_path / "rare.yaml").write_text(f"views: {tmp_path / 'none'}")
    assert isinstance(fathom(*words, "--config", tmp_path / "rare.yaml").exception, BadInput)
