"""How much of a run is finished: by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom.store.folder import RunFolder, Work
from tests.answerers import answered, constant, world
from tests.messages import mentions

WORK = Work(6, {"0": {"P6": 2}, "1": {"P6": 2, "P19": 1}, "2": {"P19": 3, "P36": 4}})
"""Six queries in two templates: 4 prompts of P6, 4 of P19, 4 of P36."""


def test_queries_that_finished_shards_amount_to() -> None:
    """5 of 12 prompts are 2.5 queries, of which two are whole."""
    assert WORK.done([]) == (0, 6)
    assert WORK.done(["0", "1"]) == (2, 6)
    assert WORK.done(["0", "1", "2"]) == (6, 6)


def test_relations_that_are_missing() -> None:
    assert WORK.lacking([], {}) == "relations missing: P6, P19, P36"
    assert WORK.lacking([], {"P19": "place of birth"}) == "relations missing: P6, place of birth, P36"
    assert WORK.lacking(["0"], {}) == "relations missing: P19, P36; incomplete: P6 (50% done)"
    assert WORK.lacking(["0", "1"], {}) == "relations missing: P36; incomplete: P19 (25% done)"
    assert WORK.lacking(["0", "1", "2"], {}) == ""


def test_an_unfinished_run_names_its_relations(tmp_path: Path) -> None:
    run = answered(tmp_path / "run", constant, world([[0]] * 10))
    run.refuse_unfinished()
    for shard in run.finished():
        run.file_of(shard).unlink()
    assert run.lacking() == ""  # a run of an earlier version
    assert run.describe().endswith("0 of 1 shards")
    manifest = run.path / "manifest.json"
    content = json.loads(manifest.read_text())
    del content["digest"]
    content["work"] = {"queries": 10, "prompts": {content["plan"][0]: {"P6": 10}}}
    manifest.write_text(json.dumps(content))
    assert run.describe().endswith("0 of 10 queries")
    with pytest.raises(BadInput, match=mentions("unfinished", "missing", "P6")):
        run.refuse_unfinished()
    content["work"] = {"queries": 10, "prompts": {"00000": {"P6": "many"}}}
    manifest.write_text(json.dumps(content))
    with pytest.raises(BadInput, match=mentions("manifest.json", "work")):
        RunFolder.open(run.path)
