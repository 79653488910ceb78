"""The guarded way to what others wrote: no file and no reply hangs a reader, fills memory or shows a traceback."""

from __future__ import annotations

import ast
import bz2
import gzip
import io
import json
import os
import signal
import socket
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fathom.base import reading
from fathom.base.errors import BadInput
from fathom.base.reading import NotData, Unreadable, bounds, files, json_value, replies
from fathom.base.reading.bounds import Bound
from fathom.base.reading.text import Faults, line_of, read_json, read_json_lines
from tests.messages import correspond, mentioned, mentions

SRC = Path(__file__).parents[2] / "src"
DEEP = "[" * 150_000 + "]" * 150_000
HUGE = '{"x": ' + "9" * 6000 + "}"


@contextmanager
def within(seconds: int):
    """A reader that waits for ever fails the test instead of stopping it."""

    def late(*_):
        raise AssertionError(f"still waiting after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fault_of(read, *args, **options) -> str:
    def whole():
        found = read(*args, **options)
        return list(found) if hasattr(found, "__next__") else found

    with within(20), pytest.raises(Unreadable) as caught:
        whole()
    assert len(caught.value.faults) == 1
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---------------------------------------------------------------------------------------------------- what is a file


def folder(path: Path):
    path.mkdir()


def loop(path: Path):
    path.symlink_to(path.name)


def dangling(path: Path):
    path.symlink_to("nowhere")


def device(path: Path):
    path.symlink_to(os.devnull)


def socket_file(path: Path):
    here = Path.cwd()
    os.chdir(path.parent)  # names of sockets must be short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


NO_FILES = {
    folder: "a folder",
    os.mkfifo: "a named pipe",
    socket_file: "a socket",
    device: "a device",
    loop: "to itself",
    dangling: "nowhere, which is missing",
    (lambda path: None): "file is missing",
}
READERS = {
    "bytes": reading.read_bytes,
    "text": reading.read_text,
    "lines": reading.text_lines,
    "json": reading.json_file,
    "json lines": reading.json_lines,
    "yaml": reading.yaml_file,
    "parquet": reading.parquet_file,
    "safetensors": lambda path: reading.tensors_file(path, "make it anew"),
}


@pytest.mark.parametrize("make", NO_FILES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file(tmp_path, reader, make):
    path = tmp_path / "given"
    make(path)
    assert mentioned(fault_of(READERS[reader], path), f"{path}: ", NO_FILES[make])


def test_a_file_that_may_be_absent(tmp_path):
    assert not reading.file_exists(tmp_path / "none")
    assert not reading.file_exists(tmp_path / "no" / "folder")
    assert not reading.stands(tmp_path / "a\0b")
    (tmp_path / "one").write_text("")
    assert reading.file_exists(tmp_path / "one")
    (tmp_path / "linked").symlink_to("one")
    assert reading.file_exists(tmp_path / "linked")
    for make in (loop, dangling, folder, os.mkfifo):
        make(tmp_path / make.__name__)
        assert reading.stands(tmp_path / make.__name__)
        assert fault_of(reading.file_exists, tmp_path / make.__name__)
        faults = Faults()
        assert not faults.there(tmp_path / make.__name__)
        assert len(faults.found) == 1


# ---------------------------------------------------------------------------------------------------- text and lines


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.integers(1, 9), st.booleans())
@example("a\r\nb\u2028c\x85d\n\n", 2, False)
def test_lines_end_with_line_feeds_alone(tmp_path_factory, content, block, packed):
    path = tmp_path_factory.mktemp("lines") / ("a.gz" if packed else "a")
    raw = content.encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    expected = content.removeprefix("\ufeff").removesuffix("\n").split("\n") if content else []
    if content in ("\ufeff", "\ufeff\n"):
        expected = [""]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "BLOCK", block)
        assert list(reading.text_lines(path)) == expected
    assert reading.read_text(path) == content.removeprefix("\ufeff")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([b"ab", b"\xc3\xa9", b""]), max_size=6), st.integers(1, 5))
def test_the_line_that_is_not_utf8_is_named(tmp_path_factory, lines, block):
    path = tmp_path_factory.mktemp("bad") / "a"
    path.write_bytes(b"\n".join([*lines, b"x\xff", b"behind"]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "BLOCK", block)
        for read in (reading.text_lines, reading.read_text):
            assert mentioned(fault_of(read, path), f"{path}:{len(lines) + 1}:", "UTF-8")


def test_utf_16_is_told(tmp_path):
    (tmp_path / "a").write_bytes("one\ntwo".encode("utf-16"))
    assert mentioned(fault_of(reading.read_text, tmp_path / "a"), ":1:", "UTF-16", "save it as UTF-8")


def test_surrogates_in_utf8_are_no_text(tmp_path):
    (tmp_path / "a").write_bytes(b"a\n\xed\xa0\x80\n")
    assert ":2: not UTF-8 text" in fault_of(reading.text_lines, tmp_path / "a")


def test_bounds(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_text("short\n" + "x" * 5000)
    monkeypatch.setattr(files, "BLOCK", 100)
    monkeypatch.setattr(bounds.LINE, "most", 1000)
    assert f"{path}:2: " in fault_of(reading.text_lines, path)
    assert "characters" in fault_of(reading.read_text, path, Bound(1000, "characters"))
    assert reading.read_text(path, Bound(5006, "characters"))


@pytest.mark.parametrize("damage", [lambda p: p[: len(p) * 2 // 3], lambda p: p[:-6], lambda p: p + b"garbage"])
def test_a_damaged_gz_says_how_far_it_could_be_read(tmp_path, damage):
    path = tmp_path / "a.jsonl.gz"
    rows = "".join(f'{{"number": {number}, "more": "{number**5 % 99991}"}}\n' for number in range(40_000))
    path.write_bytes(damage(gzip.compress(rows.encode())))
    said = fault_of(reading.text_lines, path)
    assert said.startswith(f"{path}:")
    assert "cannot be read" in said
    assert "lines above" in said
    reached = int(said.removeprefix(f"{path}:").split(":")[0])
    assert 10_000 < reached <= 40_001
    faults = Faults()
    good = list(read_json_lines(path, {}, faults))
    assert len(good) == reached - 1
    assert faults.found == [said]


@pytest.mark.parametrize("content", [b"not packed", b"\x1f\x8b", gzip.compress(b"abc", mtime=0)[:12]])
def test_what_is_no_gz(tmp_path, content):
    (tmp_path / "a.gz").write_bytes(content)
    assert "cannot be read" in fault_of(reading.text_lines, tmp_path / "a.gz")
    assert "cannot be read" in fault_of(reading.read_bytes, tmp_path / "a.gz")


@pytest.mark.parametrize(("pack", "name"), [(gzip.compress, "a.gz"), (bz2.compress, "a.bz2")])
def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch, pack, name):
    monkeypatch.setattr(bounds.GROWS_FREELY, "most", 1 << 18)
    (tmp_path / name).write_bytes(pack(b"\0" * (1 << 23)))
    for read in (reading.text_lines, reading.read_bytes):
        assert "over 300 times its size" in fault_of(read, tmp_path / name)
    text_ = json.dumps(np.random.default_rng(0).integers(0, 9, 1 << 19).tolist()).encode()
    (tmp_path / name).write_bytes(pack(text_))  # data that is packed well is none
    assert reading.read_bytes(tmp_path / name) == text_


# ---------------------------------------------------------------------------------------------------- JSON and YAML

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(VALUES, st.booleans())
def test_json_is_read_as_python_reads_it(value, ascii_):
    written = json.dumps(value, ensure_ascii=ascii_)
    try:
        written.encode()
    except UnicodeEncodeError:
        return  # a key with half of a character
    try:
        assert json_value(written) == value
    except NotData as error:
        assert "single surrogate" in error.why  # noqa: PT017
        assert "\\ud" in written


@settings(max_examples=300, deadline=None)
@given(st.text('[]{}",:0123456789eE+-.\\ud8dftrunlsaINy\n ', max_size=40))
@example("\\")
@example('"\\ud83d\\ude00"')
@example('"\\\\ud800"')
def test_no_text_makes_json_raise_anything_else(content):
    try:
        value = json_value(content)
    except NotData as error:
        assert error.why  # noqa: PT017
        assert error.line is None or 1 <= error.line <= content.count("\n") + 1  # noqa: PT017
    else:
        json.dumps(value, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (DEEP, None, "more than 100 deep"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, None, "more than 100 deep"),
        ("[" * 102 + "]" * 102, None, "more than 100 deep"),
        ("{\n" + HUGE[1:], 2, "thousands of digits"),
        ('{"a": 1,\n"b": "\\ud800x"}', 2, "single surrogate"),
        ('["\\ude00"]', 1, "single surrogate"),
        ('{"a": 1,\nb}', 2, ("property name", "column 1")),
        ("", 1, ("Expecting value", "column 1")),
        ('{"a": 1,\n"b": 2,\n"a": 1}', 3, ("'a'", "twice", "line 1")),
        ('[{"a": 1},\n{"a": 2, "a": 3}]', None, ("'a'", "twice")),
    ],
)
def test_json_that_cannot_be_used(tmp_path, content, line, why):
    with pytest.raises(NotData) as caught:
        json_value(content)
    assert caught.value.line == line
    assert mentioned(caught.value.why, why)
    (tmp_path / "a.json").write_text(content)
    where = f"{tmp_path / 'a.json'}:" + (f"{line}:" if line else "")
    assert fault_of(reading.json_file, tmp_path / "a.json").startswith(where)
    faults = Faults()
    assert read_json(tmp_path / "a.json", faults) is None
    assert len(faults.found) == 1


def test_json_that_can():
    assert json_value("[" * 100 + "]" * 100)
    assert json_value('"\\ud83d\\ude00"') == "\U0001f600"
    assert json_value('"\\\\ud800"') == "\\ud800"
    assert json_value("[" + "[]," * 500 + "[]]")
    assert np.isnan(json_value("NaN"))


def test_json_lines_name_their_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"a": 1}}\n\n{HUGE}\n{DEEP}\n[1]\nnull\n{{"a": "\\udfff"}}\n{{"a": 2}}\n')
    faults = Faults()
    assert [number for number, _ in read_json_lines(path, {"a": int}, faults)] == [1, 8]
    assert [fault.removeprefix(f"{path}:")[:2] for fault in faults.found] == ["3:", "4:", "5:", "6:", "7:"]
    with pytest.raises(Unreadable, match=mentions("a.jsonl:3")):
        list(reading.json_lines(path))


def test_null_is_no_data(tmp_path):
    (tmp_path / "a.json").write_text("null")
    faults = Faults()
    assert read_json(tmp_path / "a.json", faults) is None
    assert correspond(faults.found, (f"{tmp_path / 'a.json'}:1:", "null"))
    assert line_of(tmp_path / "none", "x") is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("a: [", "not YAML"),
        ("a: " + "[" * 5000, "deep"),
        ("a: &m {b: *m}", "deep"),
        ("a: " + "9" * 6000, "invalid YAML"),
        ("a: !!python/object:os.system x", ("not YAML", "constructor")),
        ("a: \0", "not YAML"),
        ("a: 1\nb: {c: 1,\n  c: 2}", (":3:", "'c'", "twice", "line 2")),
        ("a: 1\n? a\n: 2", (":2:", "'a'", "twice")),
        ("a: " + "1" * 1_100_000, "MB"),
        ("a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)), "deep"),
    ],
)
def test_yaml_that_cannot_be_used(tmp_path, content, why):
    (tmp_path / "a.yaml").write_text(content)
    assert mentioned(fault_of(reading.yaml_file, tmp_path / "a.yaml"), why)


def test_yaml_that_can(tmp_path):
    """What a merge brings may be said otherwise, and a number and a text are two keys."""
    (tmp_path / "a.yaml").write_text("base: &b {k: 1, l: 2}\nmore: {<<: *b, k: 3}\n1: x\n'1': y\n")
    found = reading.yaml_file(tmp_path / "a.yaml")
    assert found == {"base": {"k": 1, "l": 2}, "more": {"k": 3, "l": 2}, 1: "x", "1": "y"}


# ---------------------------------------------------------------------------------------------------- tables, tensors


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=40), st.booleans())
def test_damaged_tables_and_tensors_are_said(tmp_path_factory, place, noise, cut):
    from safetensors.numpy import save_file

    where = tmp_path_factory.mktemp("binary")
    table = pa.table({"name": ["a", "b"] * 20, "number": list(range(40))})
    pq.write_table(table, where / "a.parquet")
    save_file({"x": np.arange(8.0)}, where / "a.safetensors")
    for file, read in (
        (where / "a.parquet", lambda path: reading.parquet_file(path).to_pylist()),
        (where / "a.safetensors", lambda path: reading.tensors_file(path, "make it anew", "numpy")),
    ):
        good = file.read_bytes()
        at = place % len(good)
        file.write_bytes(good[:at] if cut else good[:at] + noise + good[at + len(noise) :])
        try:
            read(file)
        except Unreadable as error:
            assert str(error).startswith(f"{file} is damaged")  # noqa: PT017


def test_columns_of_a_table(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": ["a", None], "n": pa.array([1, 2], pa.int32()), "no": pa.nulls(2)}), path)
    kinds = {"id": pa.string(), "n": pa.int64(), "no": pa.list_(pa.float64()), "other": pa.string()}
    found = reading.parquet_file(path, kinds, ("id", "n"))
    assert found.schema.types == [pa.string(), pa.int64(), pa.list_(pa.float64())]
    assert mentioned(fault_of(reading.parquet_file, path, None, ("x", "y")), "column x, y", "id, n, no")
    assert mentioned(fault_of(reading.parquet_file, path, {"n": pa.string()}), "column n", "string", "int32")
    assert mentioned(fault_of(reading.parquet_file, path, None, (), filled=("id",)), "column id", "1 of 2 rows")
    assert reading.parquet_file(path, without=("no",)).column_names == ["id", "n"]


# ---------------------------------------------------------------------------------------------------- replies


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_replies_in_any_unicode(encoding):
    assert replies.json_reply('{"é": "\\ud83d\\ude00"}'.encode(encoding)) == {"é": "\U0001f600"}


@pytest.mark.parametrize("body", [b"\xff\xff", DEEP.encode(), HUGE.encode(), b"", b"<html>", b'{"a": "\xff"}'])
def test_replies_that_cannot_be_used(body):
    with pytest.raises(NotData):
        replies.json_reply(body)


def test_half_a_character_of_a_reply_is_kept_as_a_sign():
    said = r'["\ud800", "a\udfffb", "\\ud800", "\ud83d\ude00\ud83d"]'
    assert replies.json_reply(said.encode()) == ["\ufffd", "a\ufffdb", "\\ud800", "\U0001f600\ufffd"]


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("5", 5), (" 7 ", 7), ("²", 0), ("٣", 0), ("5³", 0), ("-5", 0), ("1e9", 0), ("nan", 0), ("", 0), (None, 0)],
)
def test_pauses(said, seconds):
    assert replies.pause_asked(said) == seconds


def test_absurd_pauses_are_large_and_finite():
    assert replies.pause_asked("9" * 400) == replies.LONGEST_PAUSE_S


def test_a_reply_is_bounded_in_bytes_and_in_time(monkeypatch):
    assert replies.whole_reply(replies.parts_of(io.BytesIO(b"abc" * 50_000).read)) == b"abc" * 50_000
    monkeypatch.setattr(bounds.REPLY, "most", 1 << 20)
    with pytest.raises(replies.ReplyFault, match="more than 1 MB"):
        replies.whole_reply(b"x" * 1000 for _ in range(10**9))
    ended = threading.Event()
    with within(10), pytest.raises(replies.ReplyFault, match="in time"):
        replies.within(-0.9, lambda: replies.whole_reply(iter(lambda: ended.wait(0.01) or b"x", b"")))
    ended.set()


def test_what_a_call_raises_is_raised_where_it_was_asked():
    assert replies.within(5, lambda: 7) == 7
    with pytest.raises(KeyError, match="mine"):
        replies.within(5, lambda: {}["mine"])


@pytest.mark.parametrize(
    "address",
    ["", "x", "file:///etc/passwd", "ftp://h/", "http://", "http://[", "http://h:99999/", "http://h:0/", "http://h:x/",
     "http://a b/", "http://h\n/", "http://h\x00/"],
)  # fmt: skip
def test_addresses_that_are_none(address):
    with pytest.raises(BadInput, match=mentions("address of a server", "http://e/v1")):
        replies.host_of(address, "--server", "http://e/v1")


@pytest.mark.parametrize(
    "address", ["http://me:S3CRET@h/v1", "http://S3CRET@h/v1", "https://h/v1?key=S3CRET", "http://me:S3@CRET@h/v1"]
)
def test_addresses_that_hold_a_key_are_refused_without_it(address):
    with pytest.raises(BadInput, match="a user, key or query") as error:
        replies.host_of(address, "--server", "http://e/v1")
    assert "CRET" not in str(error.value)


@pytest.mark.parametrize(
    "address",
    ["http://me:S3CRET@/v1?key=S3CRET", "me:S3CRET@h", "me:S3CRET@h/v1", "http:/me:S3CRET@h", "http://me:S3/CRET@h"],
)
def test_a_key_in_what_is_no_address_is_not_shown_either(address):
    with pytest.raises(BadInput) as error:
        replies.host_of(address, "--server", "http://e/v1")
    assert "CRET" not in str(error.value)


# ---------------------------------------------------------------------------------------------------- nobody else reads

READS = {
    "json.load", "json.loads", "gzip.open", "gzip.GzipFile", "bz2.open", "bz2.BZ2File", "lzma.open", "yaml.safe_load",
    "yaml.load", "pq.read_table", "pq.read_schema", "pq.ParquetFile", "pa.input_stream", "safe_open", "load_file",
    "load_model", "torch.load", "np.load", "np.fromfile", "open", "csv.read_csv", "pa.csv.read_csv", "pickle.load",
}  # fmt: skip
"""Calls that read files or parse what was read."""
METHODS = {"read_text", "read_bytes", "open"}
"""Of paths."""
OWN, RESOURCE, GUARDED = "its own file, written a moment ago", "comes with the package", "behind check_file"
ALLOWED = {
    "fathom/training/small.py": {"json.loads": OWN, "read_text": OWN},
    "fathom/engine/scoring/memory.py": {"read_text": "files of the kernel"},
    "fathom/engine/models/chat.py": {"json.loads": "the value of an option, else a text"},
    "fathom/data/fetch_model.py": {"open": "joined and hashed, not parsed"},
    "fathom/probes/run/on_ray.py": {"read_bytes": "artefacts that the run has made, handed on as they are"},
    "fathom/store/locks.py": {"open": "a lock, written"},
    "fathom_build/cloze/rows.py": {"json.loads": OWN, "open": OWN, "np.fromfile": OWN},
    "fathom_build/bear/entities.py": {
        "json.loads": "the quickest parser for a TB; what it raises is a fault",
        "open": OWN,
        "read_text": RESOURCE,
    },
    "fathom_build/bear/facts.py": {"json.loads": OWN, "read_text": RESOURCE},
    "fathom_build/bear/sources.py": {"read_text": RESOURCE},
    "fathom_build/sheets.py": {"open": "writes"},
    "fathom_build/ontology/sources.py": {"read_text": RESOURCE, "open": GUARDED},
    "fathom/data/formats/kg.py": {"open": "writes"},
    "fathom/probes/run/exported.py": {"read_bytes": OWN},
    "fathom/studies/report/page.py": {"read_text": RESOURCE, "read_bytes": OWN},
    "fathom/store/folder.py": {"open": "writes"},
    "fathom/studies/report/serve.py": {
        "open": "its own secret",
        "read_text": "its own page, and the report that it has just made",
    },
    "fathom/cli/junit.py": {"open": "whether it has written the file itself"},
    "fathom/results/rows.py": {"json.loads": RESOURCE, "read_text": RESOURCE},
    "fathom/store/files.py": {"open": "writes"},
    "fathom/store/journal.py": {"open": "writes"},
    "fathom/store/vectors.py": {"np.load": GUARDED, "read_bytes": GUARDED},
    "fathom/training/saving.py": {"open": "writes", "torch.load": GUARDED, "load_model": GUARDED},
    "fathom/data/columns.py": {"pa.csv.read_csv": GUARDED},
}
"""By file and call, with the reason."""
NO_PATHS = {"RunFolder", "Image", "wave"}
"""Classes that have an ``open`` of their own."""


def calls(file: Path) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in READS:
                found.append((node.lineno, name))
            elif (
                isinstance(node.func, ast.Attribute)
                and node.func.attr in METHODS
                and name.split(".")[0] not in NO_PATHS
            ):
                found.append((node.lineno, node.func.attr))
    return found


def test_files_of_others_are_read_here_alone():
    rest = [file for file in sorted(SRC.rglob("*.py")) if "reading" not in file.relative_to(SRC).parts]
    used = {file.relative_to(SRC).as_posix(): calls(file) for file in rest}
    strange = [
        f"{file}:{line}: {name}: read it through fathom.base.reading, or say in ALLOWED why not"
        for file, found in used.items()
        for line, name in found
        if name not in ALLOWED.get(file, {})
    ]
    assert not strange, "\n".join(strange)
    idle = [
        (file, name) for file, names in ALLOWED.items() for name in names if name not in dict(map(reversed, used[file]))
    ]
    assert not idle
