"""Several processes that share a run: whoever asks, it is the run of one process, bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom.base.options import parse_options
from fathom.probes import PROBES
from fathom.probes.options import StatementOptions
from fathom.probes.run import RunRequest, run
from fathom.probes.run.shards import Part
from fathom.store.folder import RunFolder
from fathom.store.locks import AT_WORK, CLAIMS, exclusive_folder, shared_folder
from fathom.store.merging import merge_runs
from tests.messages import mentioned, mentions
from tests.probes.test_contract import CASES, data, model, options, scripted  # noqa: F401 # fixtures
from tests.sharing import asked_twice, begin, ended, make_model


def predictions(folder: RunFolder | Path):
    return RunFolder.open(getattr(folder, "path", folder)).predictions()


@pytest.fixture
def finely(monkeypatch):
    """Cuts runs into a shard for each query and template."""

    def cut(probe: str) -> None:
        module = sys.modules[PROBES[probe].load()._cut.__module__]
        for size in ("SHARD_QUERIES", "SHARD_STATEMENTS"):
            if hasattr(module, size):
                monkeypatch.setattr(module, size, 1)

    return cut


@pytest.mark.parametrize("probe", CASES)
def test_parts_of_one_folder_are_the_run_of_one(probe, model, data, tmp_path, finely):  # noqa: F811
    """Begun by two of three parts, finished without any."""
    finely(probe)
    whole = run(RunRequest(probe, model, data, options(probe)), tmp_path / "whole")
    for part in ("1/3", "3/3"):
        folder = run(RunRequest(probe, model, data, options(probe, part=part)), tmp_path / "shared")
    plan = whole.manifest["plan"]
    assert len(plan) >= 4
    assert folder.finished() == {*plan[0::3], *plan[2::3]}
    folder = run(RunRequest(probe, model, data, options(probe)), tmp_path / "shared")
    assert folder.predictions().equals(whole.predictions())
    assert {file.name for file in folder.path.iterdir()} == {file.name for file in whole.path.iterdir()} | {"parts"}


@pytest.mark.parametrize("probe", CASES)
def test_parts_in_folders_of_their_own_are_merged(probe, model, data, tmp_path, finely):  # noqa: F811
    finely(probe)
    whole = run(RunRequest(probe, model, data, options(probe)), tmp_path / "whole")
    parts = [run(RunRequest(probe, model, data, options(probe, part=f"{n}/2")), tmp_path / f"part-{n}") for n in (1, 2)]
    assert not any(part.is_complete() for part in parts)
    merged = merge_runs(parts, tmp_path / "merged")
    assert merged.predictions().equals(whole.predictions())
    assert merged.queries().equals(whole.queries())
    assert merged.manifest["identity"] == whole.manifest["identity"]
    artifacts = {file.name: file.read_bytes() for file in (whole.path / "artifacts").glob("*")}
    assert {file.name: file.read_bytes() for file in (merged.path / "artifacts").glob("*")} == artifacts
    before = merged.path.stat().st_mtime_ns
    assert run(RunRequest(probe, model, data, options(probe)), tmp_path / "merged").is_complete()  # it is the same run
    assert before == merged.path.stat().st_mtime_ns or not (merged.path / AT_WORK).exists()


def test_a_merged_run_of_which_shards_are_left_is_finished_by_its_command(model, data, tmp_path, finely):  # noqa: F811
    finely("statement")
    whole = run(RunRequest("statement", model, data, options("statement")), tmp_path / "whole")
    parts = [
        run(RunRequest("statement", model, data, options("statement", part=f"{n}/3")), tmp_path / str(n))
        for n in (1, 3)
    ]
    merged = merge_runs(parts, tmp_path / "merged")
    assert not merged.is_complete()
    run(RunRequest("statement", model, data, options("statement")), merged.path)
    assert merged.predictions().equals(whole.predictions())


def test_a_merge_is_whole_and_can_be_repeated(model, data, tmp_path, fathom, monkeypatch):  # noqa: F811
    """Killed while it computes the metrics, it leaves nothing; made before, it says so and is left alone."""
    parts = [
        run(RunRequest("statement", model, data, options("statement", part=f"{n}/2")), tmp_path / str(n))
        for n in (1, 2)
    ]
    out, words = tmp_path / "merged", ("merge", tmp_path / "1", tmp_path / "2", "--out", tmp_path / "merged")

    def killed(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr("fathom.api.result.Result.keep_metrics", killed)
        assert fathom(*words)[0] == 130
    assert not out.exists()
    assert fathom(*words)[0] == 0
    assert (out / "metrics.json").is_file()
    before = {file: file.stat().st_mtime_ns for file in out.rglob("*")}
    code, _, log = fathom(*words)
    assert code == 0
    assert str(out) in log
    assert {file: file.stat().st_mtime_ns for file in out.rglob("*")} == before
    (parts[0].path / "artifacts").mkdir()
    (parts[0].path / "artifacts" / "x.json").symlink_to("/etc/hostname")
    with pytest.raises(BadInput, match=mentions(parts[0].path / "artifacts" / "x.json")):
        merge_runs(parts, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_circumstances_of_parts_add_up(model, data, tmp_path, finely):  # noqa: F811
    finely("statement")
    whole = run(RunRequest("statement", model, data, options("statement")), tmp_path / "whole").manifest[
        "circumstances"
    ]
    for part in ("1/2", "2/2"):
        folder = run(RunRequest("statement", model, data, options("statement", part=part)), tmp_path / "shared")
    noted = folder.manifest["circumstances"]
    assert noted["statements"] == whole["statements"] > 0
    assert noted["sessions"] == 2
    assert [(part["part"], part["shards"]) for part in noted["parts"]] == [("1/2", 4), ("2/2", 4)]
    assert noted["seconds"] == pytest.approx(sum(part["seconds"] for part in noted["parts"]))


def test_vectors_are_made_once_whoever_makes_them(data, tmp_path, monkeypatch):  # noqa: F811
    """Pieces of one vector each; the second part finds those of the first."""
    monkeypatch.setattr("fathom.store.vectors.PIECE", 1)
    for part in ("1/2", "2/2"):
        folder = run(
            RunRequest("embedding", scripted("embedding"), data, options("embedding", part=part)), tmp_path / "shared"
        )
    assert folder.manifest["circumstances"]["encoded_candidate_texts"] == 4
    assert len(list((folder.path / "artifacts").glob("vectors-*.npy"))) == 4


def test_a_piece_is_made_by_whoever_has_claimed_it(data, tmp_path, monkeypatch):  # noqa: F811
    """While another has one in hand the rest is made; then it is waited for."""
    from fathom.probes.embedding import EmbeddingProbe

    monkeypatch.setattr("fathom.store.vectors.PIECE", 1)
    asked = EmbeddingProbe(options("embedding"), scripted("embedding"), data)
    first, *rest = asked.pieces(tmp_path)
    assert len(rest) == 3
    asked.make_piece(tmp_path, rest[0])
    assert asked.pieces(tmp_path) == [first, *rest[1:]]


# --- what is claimed, and by whom


def test_a_part_takes_over_what_parts_of_its_folder_have_left(model, data, tmp_path, monkeypatch, finely):  # noqa: F811
    """The first is killed at its second shard; the second, which has met it there, asks the rest. Of a part that never
    came it knows nothing."""
    finely("statement")
    kind = PROBES["statement"].load()
    ask, asked = kind.evaluate, []

    def dies(self, shard):
        if len(asked) == 1:
            raise KeyboardInterrupt
        asked.append(shard)
        return ask(self, shard)

    monkeypatch.setattr(kind, "evaluate", dies)
    with pytest.raises(KeyboardInterrupt):
        run(RunRequest("statement", model, data, options("statement", part="1/3")), tmp_path / "r")
    monkeypatch.setattr(kind, "evaluate", ask)
    folder = run(RunRequest("statement", model, data, options("statement", part="2/3")), tmp_path / "r")
    plan = folder.manifest["plan"]
    assert folder.finished() == {*plan[0::3], *plan[1::3]}


def test_a_shard_in_other_hands_is_left_to_them(model, data, tmp_path, finely):  # noqa: F811
    finely("statement")
    with shared_folder(tmp_path / "r") as claims, claims.claimed("00002") as ours:
        assert ours
        folder = run(RunRequest("statement", model, data, options("statement", part="1/1")), tmp_path / "r")
        assert set(folder.manifest["plan"]) - folder.finished() == {"00002"}
    assert run(RunRequest("statement", model, data, options("statement", part="1/1")), tmp_path / "r").is_complete()
    assert not (tmp_path / "r" / CLAIMS).exists()
    assert not (tmp_path / "r" / AT_WORK).exists()


def test_who_works_alone_and_who_shares_keep_each_other_out(model, data, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr("fathom.store.locks.PATIENCE", 0.1)
    with (
        exclusive_folder(tmp_path / "r"),
        pytest.raises(BadInput, match=mentions(f"process {os.getpid()} on ", "--part")),
    ):
        run(RunRequest("statement", model, data, options("statement", part="1/2")), tmp_path / "r")
    with shared_folder(tmp_path / "r"), pytest.raises(BadInput, match=mentions(f"process {os.getpid()} on ")):
        run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_without_locks_shards_are_still_whole(model, data, tmp_path, monkeypatch, finely):  # noqa: F811
    """As on a file system that has none: nobody is kept out, and the run is the same."""
    finely("statement")
    whole = run(RunRequest("statement", model, data, options("statement")), tmp_path / "whole")

    def none(*_):
        raise OSError("Function not implemented")

    monkeypatch.setattr("fcntl.flock", none)
    for part in ("1/2", "2/2", "2/2"):
        folder = run(RunRequest("statement", model, data, options("statement", part=part)), tmp_path / "r")
    assert folder.predictions().equals(whole.predictions())


def test_what_writers_leave_is_removed_only_by_who_is_alone(model, data, tmp_path):  # noqa: F811
    run(RunRequest("statement", model, data, options("statement", part="1/2")), tmp_path / "r")
    left = tmp_path / "r" / "predictions" / ".part-00001.parquet.00c0ffee.4194305.tmp"
    left.write_text("half")
    with shared_folder(tmp_path / "r"):
        left.write_text("half")  # by a process of another machine, say
        run(RunRequest("statement", model, data, options("statement", part="1/2")), tmp_path / "r")
        assert left.exists()
    run(RunRequest("statement", model, data, options("statement", part="2/2")), tmp_path / "r")
    assert not left.exists()


# --- processes


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    return make_model(tmp_path_factory.mktemp("planted") / "model")


@pytest.fixture(scope="module")
def alone(planted, tmp_path_factory):
    """The predictions of one process that nobody disturbs."""
    folder = tmp_path_factory.mktemp("alone")
    ended(begin(planted, folder / "run", log=folder / "log"))
    return predictions(folder / "run")


@pytest.mark.slow
@pytest.mark.parametrize("parts", [("1/3", "2/2"), ("1/2", "1/2")], ids="+".join)
def test_processes_race_and_ask_nothing_twice(parts, planted, alone, tmp_path):
    """Shares of different cuts, and the same share."""
    said = ended(*(begin(planted, tmp_path / "r", "--part", part, log=tmp_path / "log", pause=0.05) for part in parts))
    if parts != ("1/2", "1/2"):
        ended(begin(planted, tmp_path / "r", log=tmp_path / "log"))
    else:
        assert any("of 196 queries" in one for one in said)
        ended(begin(planted, tmp_path / "r", "--part", "2/2", log=tmp_path / "log"))
    assert predictions(tmp_path / "r").equals(alone)
    assert asked_twice(tmp_path / "log") == []


def test_killed_parts_lose_nothing(planted, alone, tmp_path):
    """Both are killed in their work; one goes on to the end."""
    both = [begin(planted, tmp_path / "r", "--part", part, log=tmp_path / "log", pause=0.2) for part in ("1/2", "2/2")]
    _until_both_ask(tmp_path / "log", [process.pid for process in both])
    for process in both:
        process.send(signal.SIGKILL)
        assert process.ended()[0] == -signal.SIGKILL
    assert not RunFolder.open(tmp_path / "r").is_complete()
    ended(begin(planted, tmp_path / "r", "--part", "2/2", log=tmp_path / "log"))
    folder = RunFolder.open(tmp_path / "r")
    assert folder.is_complete()  # it has taken over what the other left
    assert folder.predictions().equals(alone)
    assert not list(folder.path.rglob(".*"))


def _until_both_ask(log: Path, processes: list[int]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        told = log.read_text() if log.exists() else ""
        if all(f" {process}\n" in told for process in processes):
            return
        time.sleep(0.05)
    raise AssertionError("the parts did not begin")


# --- what is refused


@pytest.mark.parametrize("said", ["5/4", "0/4", "1", "a/b", "1/0", "-1/2", "1/2/3", 3])
def test_no_part(said):
    with pytest.raises(BadInput, match=mentions("--part", "i/n", "1/4", "auto", repr(said))):
        parse_options(StatementOptions, {"part": said})


def test_a_part_that_is_none_is_one_line(fathom, tmp_path):
    code, _, said = fathom(
        "probe", "statement", "--model", "m", "--data", "geography", "--out", tmp_path / "r", "--part", "5/4"
    )
    assert (code, said.count("--part: expected i/n")) == (2, 1)
    assert not (tmp_path / "r").exists()


AUTO = {
    "array": ({"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "4"}, "1/4"),
    "array from 1": (
        {"SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_MIN": "1", "RANK": "9"}, "4/4",
    ),
    "array in steps": (
        {
            "SLURM_ARRAY_TASK_ID": "20", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "10",
            "SLURM_ARRAY_TASK_STEP": "5",
        },
        "3/3",
    ),
    "torchrun": ({"RANK": "1", "WORLD_SIZE": "2"}, "2/2"),
    "step": ({"SLURM_PROCID": "7", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "3"}, "8/8"),
}  # fmt: skip


@pytest.mark.parametrize("case", AUTO)
def test_a_part_by_its_surroundings(case):
    surroundings, expected = AUTO[case]
    assert str(Part.parse("auto", surroundings)) == expected


def test_the_script_for_slurm_asks_parts(tmp_path):
    """As a task of its array would run it, with a stand-in for the command."""
    page = (Path(__file__).parents[2] / "docs" / "howto" / "cluster.md").read_text(encoding="utf-8")
    (tmp_path / "job.sh").write_text(page.partition("```bash\n")[2].partition("```")[0])
    stand_in = tmp_path / "fathom"
    stand_in.write_text('#!/bin/sh\necho "$OMP_NUM_THREADS $@"\n')
    stand_in.chmod(0o755)
    told = {
        "MODEL": "m",
        "DATA": "d",
        "OUT": "o",
        "SLURM_CPUS_PER_TASK": "4",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    ran = subprocess.run(["bash", tmp_path / "job.sh"], env=told, capture_output=True, text=True, check=True)
    assert ran.stdout == "4 probe statement --model m --data d --out o --part auto --quiet\n"
    assert "#SBATCH --array=1-8\n" in (tmp_path / "job.sh").read_text()


def test_surroundings_that_say_no_part():
    with pytest.raises(BadInput, match=mentions("--part auto", "SLURM_ARRAY_TASK_ID", "RANK")):
        Part.parse("auto", {})
    with pytest.raises(BadInput, match=mentions("RANK and WORLD_SIZE", "part 4 of 2")):
        Part.parse("auto", {"RANK": "3", "WORLD_SIZE": "2"})


def test_parts_of_different_options_do_not_mix(model, data, tmp_path):  # noqa: F811
    run(RunRequest("statement", model, data, options("statement", part="1/2")), tmp_path / "r")
    with pytest.raises(BadInput, match="another run") as error:
        run(RunRequest("statement", model, data, options("statement", part="2/2", capitalize=False)), tmp_path / "r")
    assert "options.capitalize: there True, here False" in str(error.value)


def test_a_run_that_was_cut_otherwise_is_not_gone_on_with(model, data, tmp_path, finely):  # noqa: F811
    run(RunRequest("statement", model, data, options("statement", part="1/2")), tmp_path / "r")
    finely("statement")
    with pytest.raises(BadInput, match=mentions("2 shards", "8")):
        run(RunRequest("statement", model, data, options("statement", part="2/2")), tmp_path / "r")


def test_what_does_not_belong_together_is_not_merged(model, data, tmp_path, fathom):  # noqa: F811
    first = run(RunRequest("statement", model, data, options("statement", part="1/2")), tmp_path / "1")
    same = run(RunRequest("statement", model, data, options("statement", part="1/2")), tmp_path / "same")
    other = run(
        RunRequest("statement", model, data, options("statement", part="2/2", capitalize=False)), tmp_path / "other"
    )
    fewer = replace(data, queries=data.queries[:2])
    less = run(RunRequest("statement", model, fewer, options("statement", part="2/2")), tmp_path / "less")
    with pytest.raises(BadInput) as error:
        merge_runs([first, other, less], tmp_path / "out")
    said = str(error.value)
    assert mentioned(said, other.path, first.path)
    assert "  options.capitalize: there True, here False" in said
    assert "  data.asked: there " in said
    with pytest.raises(BadInput, match=mentions("1 of the shards", "00000")):
        merge_runs([first, same], tmp_path / "out")
    with pytest.raises(BadInput, match=mentions("1 of the shards")):
        merge_runs([first, first], tmp_path / "out")
    with pytest.raises(BadInput, match=r"found 1$"):
        merge_runs([first], tmp_path / "out")
    second = run(RunRequest("statement", model, data, options("statement", part="2/2")), tmp_path / "2")
    with shared_folder(second.path), pytest.raises(BadInput, match="at work here"):
        merge_runs([first, second], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert fathom("merge", first.path, second.path, "--out", tmp_path / "out")[:2] == (
        0, f"written to {tmp_path / 'out'}: statement probe of scripted on tiny, finished\n",
    )  # fmt: skip
    code, _, told = fathom("merge", first.path, second.path, "--out", tmp_path / "out")
    assert (code, "there already" in told) == (0, True)  # the same command
    code, _, told = fathom("merge", first.path, tmp_path, "--out", tmp_path / "new")
    assert (code, "not a run" in told) == (2, True)


def test_notes_of_a_part_that_are_none_are_told(model, data, tmp_path):  # noqa: F811
    folder = run(RunRequest("statement", model, data, options("statement", part="1/2")), tmp_path / "r")
    [file] = (folder.path / "parts").iterdir()
    file.write_text('{"part": "x", "shards": 1, "circumstances": {}}')
    with pytest.raises(BadInput, match=mentions(".json: part")):
        folder.manifest  # noqa: B018


def test_a_server_has_no_parts(serve, data, tmp_path):  # noqa: F811
    from fathom.engine.models.server import ChatServer

    server = serve()
    asked = ChatServer(server.url, "m", unlisted=True)
    with pytest.raises(BadInput, match=mentions("--part 1/2", "--concurrency")):
        run(RunRequest("generation", asked, data, options("generation", part="1/2")), tmp_path / "r")


def test_studies_want_whole_runs(fathom, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("part: 1/2\n")
    for said in (["--part", "1/2"], ["--config", config]):
        asked = ("study", "entailment", "--models", "m", "--data", "geography", "--out", tmp_path / "s")
        code, _, told = fathom(*asked, *said)
        assert code == 2
        assert "--part" in told
