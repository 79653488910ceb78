"""Limits of containers, processes of other containers, adapters that are broken, and misspelt formats."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from transformers import GPT2LMHeadModel

import fathom as library
from fathom.base.errors import BadInput
from fathom.engine.scoring.memory import free_bytes, left_in_groups
from fathom.store.files import clear_temporaries, whole_file
from tests.messages import mentioned, mentions

MEGABYTE = 1 << 20


def group(folder, version, limit, use, inactive):
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in zip(names, (limit, use), strict=True):
        (folder / name).write_text(f"{value}\n")
    name = "inactive_file" if version == 2 else "total_inactive_file"
    (folder / "memory.stat").write_text(f"anon 5\n{name} {inactive}\nfile 7\n")


def processes(root, line):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(line)


@pytest.mark.parametrize(("version", "line", "mount"), [
    (2, "0::/jobs/mine\n", "sys/fs/cgroup"),
    (1, "4:cpu,memory:/jobs/mine\n3:cpuset:/\n0::/\n", "sys/fs/cgroup/memory"),
])  # fmt: skip
def test_the_limit_of_a_job_or_of_one_above_it(tmp_path, version, line, mount):
    processes(tmp_path, line)
    unlimited = "max" if version == 2 else 9223372036854771712
    group(tmp_path / mount / "jobs/mine", version, 900 * MEGABYTE, 300 * MEGABYTE, 50 * MEGABYTE)
    group(tmp_path / mount / "jobs", version, 500 * MEGABYTE, 400 * MEGABYTE, 0)
    group(tmp_path / mount, version, unlimited, 999 * MEGABYTE, 0)
    assert sorted(left_in_groups(tmp_path)) == [100 * MEGABYTE, 650 * MEGABYTE]


def test_a_container_that_sees_its_own_group_as_the_root(tmp_path):
    processes(tmp_path, "0::/host/path/of/container\n")
    group(tmp_path / "sys/fs/cgroup", 2, 512 * MEGABYTE, 12 * MEGABYTE, 0)
    assert list(left_in_groups(tmp_path)) == [500 * MEGABYTE]


def test_no_groups(tmp_path):
    assert list(left_in_groups(tmp_path)) == []


def test_free_memory_is_the_least_of_all(monkeypatch):
    monkeypatch.setattr("fathom.engine.scoring.memory.left_in_groups", lambda: [3 * MEGABYTE, 2 * MEGABYTE])
    assert free_bytes(torch.device("cpu")) == 2 * MEGABYTE


def test_temporary_files_are_left_to_writers_that_live(tmp_path):
    """A writer elsewhere, whose number no process here has, and one that has ended, whose number is in use."""
    script = (
        "import sys; from pathlib import Path; from fathom.store.files import whole_file\n"
        "with whole_file(Path(sys.argv[1])) as file:\n"
        "    file.write_text('new'); print('writing', flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "table")]
    writer = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert writer.stdout.readline() == "writing\n"
        ended = tmp_path / f".other.00c0ffee.{os.getppid()}.tmp"
        ended.touch()
        clear_temporaries(tmp_path)
        assert not ended.exists()
        writer.communicate()
    finally:
        writer.kill()
    assert [file.name for file in tmp_path.iterdir()] == ["table"]


def test_ones_own_temporary_file_is_kept(tmp_path):
    with whole_file(tmp_path / "a") as file:
        file.write_text("x")
        clear_temporaries(tmp_path)
    assert (tmp_path / "a").read_text() == "x"


def test_an_adapter_with_values_that_are_not_numbers(model, tmp_path):
    peft = pytest.importorskip("peft", reason="needs the extra peft")
    plain = GPT2LMHeadModel.from_pretrained(model)
    adapted = peft.get_peft_model(plain, peft.LoraConfig(r=2, target_modules=["c_fc"], fan_in_fan_out=True))
    with torch.no_grad():
        next(value for key, value in adapted.named_parameters() if "lora_A" in key)[0, 0] = float("nan")
    adapted.save_pretrained(tmp_path)
    with pytest.raises(BadInput, match=mentions(str(tmp_path), "lora_A", "not numbers")):
        library.load_model(str(model), adapter=str(tmp_path))


@pytest.mark.parametrize(("typed", "meant"), [("markdown", "md"), ("Tex", "text"), ("cvs", "csv"), ("jsn", "json")])
def test_a_format_that_is_spelt_out_or_misspelt(fathom, typed, meant):
    code, _, err = fathom("data", "info", "geography", "--format", typed)
    assert code == 2
    assert mentioned(err, f"found '{typed}'", f"did you mean {meant}?")


def test_libraries_that_are_not_used_print_nothing():
    script = "import logging, fathom.engine.models.hub; print(logging.getLogger('bitsandbytes.cpu').isEnabledFor(30))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
