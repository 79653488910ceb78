"""A file that cannot be read is one fault: the facts in it are not reported as missing, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.data.formats import examine
from tests.messages import mentioned


@pytest.mark.parametrize("layout", ["native", "bear"])
def test_a_file_that_cannot_be_read_is_the_only_fault(tmp_path, layout):
    if layout == "native":
        relation = {"relation": "capital", "templates": ["The capital of [X] is [Y]."]}
        (tmp_path / "relations.jsonl").write_text(json.dumps(relation))
        file = tmp_path / "facts.jsonl"
    else:
        metadata = {"P36": {"templates": ["The capital of [X] is [Y]."], "answer_space_labels": ["Paris", "Rome"]}}
        (tmp_path / "metadata_relations.json").write_text(json.dumps(metadata))
        file = Path(tmp_path / "P36.jsonl")
    file.write_bytes(b"\xff\xfe\x00broken\n")
    queryset, faults = examine(tmp_path)
    assert queryset is None
    [fault] = faults.found
    assert mentioned(fault, str(file))
