"""The toys of docs/howto/extend.md, installed as a stranger's package: each is there by its entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fathom import open_run
from tests.cli.test_cli import gpt2, save
from tests.conftest import write_graph_folder
from tests.messages import stated

TOYS = Path(__file__).parents[2] / "docs" / "toys"
CALL = """
import json, sys
from fathom.cli import main
for line in json.loads(sys.argv[1]):
    sys.argv = ["fathom", *line]
    print("==", *line)
    try:
        main()
    except SystemExit as stop:
        print("code", stop.code or 0)
"""


def install(folder: Path, extra: str = "") -> None:
    """What an installer leaves in a folder of packages."""
    points = tomllib.loads((TOYS / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    (folder / "fathom_toys-1.0.dist-info").mkdir(parents=True)
    (folder / "fathom_toys.py").write_bytes((TOYS / "fathom_toys.py").read_bytes())
    about = folder / "fathom_toys-1.0.dist-info"
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fathom-toys\nVersion: 1.0\n", encoding="utf-8")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(groups) + extra, encoding="utf-8")


def call(packages: Path, folder: Path, *lines: list[str]) -> tuple[str, str]:
    """Each line in one process that finds *packages*: standard output and error of all."""
    path = os.pathsep.join([str(packages), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", CALL, json.dumps(lines)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


def test_every_toy_is_on_the_command_line(tmp_path: Path) -> None:
    install(tmp_path / "packages")
    save(tmp_path / "model", gpt2())
    (tmp_path / "three.capitals").write_text("Uganda: Kampala\nFrance: Paris\nItaly: Rome\n", encoding="utf-8")
    triples = {"train": ["pa\tin\tfr", "ly\tin\tfr", "ro\tin\tit"], "test": ["ni\tin\tfr", "pi\tin\tit"]}
    entities = ["pa\tParis", "ly\tLyon", "ro\tRome", "ni\tNice", "pi\tPisa", "fr\tFrance", "it\tItaly"]
    write_graph_folder(tmp_path / "graph", triples, entities, "in\tlies in\n")
    out, err = call(
        tmp_path / "packages",
        tmp_path,
        ["data", "info", "three.capitals"],
        ["probe", "brevity", "--model", "model", "--data", "three.capitals", "--out", "run"],
        ["study", "easy-relations", "run", "--format", "json", "--out", "study"],
        ["study", "--help"],
        ["build", "alphabet", "--out", "letters", "--letters", "4"],
        ["data", "check", "letters"],
        ["kgc", "train", "popular", "--data", "graph", "--out", "popular"],
        ["kgc", "evaluate", "popular", "--data", "graph", "--out", "answers", "--directions", "tail"],
    )
    assert "code 1" not in out, out + err
    assert "code 2" not in out, out + err
    assert "three, content " in out
    # Rome is the shortest name, then Paris, then Kampala: of three facts one is first, and two are among the first two.
    [row] = json.loads((tmp_path / "study" / "easy-relations.json").read_text(encoding="utf-8"))["by relation"]
    assert row["accuracy"] == 1 / 3
    assert "probe:brevity" in row["recipe"]
    assert row["low"] < 1 / 3 < row["high"]
    found = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))["scorings"]["brevity"][
        "metrics"
    ]
    assert found["hits@2-or-half"]["value"] == 0.5
    assert "confidence" not in found  # of a score without a unit
    assert "easy-relations" in out
    assert "3 facts in letters" in out
    ranks = {row["query_id"]: row["rank"] for row in open_run(tmp_path / "answers").table().to_pylist()}
    assert ranks == {"test/0": 1, "test/1": 2}  # France answers two training triples, Italy one


@pytest.mark.slow
def test_an_entry_point_that_fails_is_one_line_that_names_the_package(tmp_path: Path) -> None:
    install(tmp_path / "packages", "\n[fathom.links]\nbroken = fathom_toys:NOTHING\n")
    lines = (tmp_path / "packages" / "fathom_toys-1.0.dist-info" / "entry_points.txt").read_text(encoding="utf-8")
    doubled = lines.replace("[fathom.probes]\n", "[fathom.probes]\nodd = no_such_package:PROBE\n")
    (tmp_path / "packages" / "fathom_toys-1.0.dist-info" / "entry_points.txt").write_text(doubled, encoding="utf-8")
    out, err = call(tmp_path / "packages", tmp_path, ["probe", "--help"], ["kgc", "train", "--help"])
    assert "brevity" in out
    notes = [line for line in err.splitlines() if line.startswith("note: ")]
    assert stated(notes, "fathom-toys", "probe 'odd'")
    assert stated(notes, "fathom-toys", "link predictor 'broken'")
