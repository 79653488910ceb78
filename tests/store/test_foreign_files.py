"""Data, runs, link predictors, model folders and servers that are damaged or foreign: one line each, never a traceback
and never a wait without end. Each of these cases failed before there was :mod:`fathom.base.reading`."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import threading
import time
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fathom.base.errors import BadInput, RunFailed
from fathom.base.reading.replies import Elsewhere, guard
from fathom.data.formats import examine, locate, read
from fathom.engine.models.server import ChatRequest, ChatServer
from fathom.results.rows import Rows
from fathom.results.summary import summarise
from fathom.store.folder import RunFolder
from fathom.store.journal import Journal
from fathom.store.vectors import VectorStore
from fathom_build.cloze.corpora import check_encoding, find_sources
from fathom_kgc.links.base import read_curve, read_manifest
from tests.base.test_reading import DEEP, HUGE, dangling, device, folder, loop, within
from tests.messages import mentions, stated

OLD = Path(__file__).parents[1] / "golden" / "version-0.1.0-runs"


def lines(*rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


TOWNS = [("Uganda", "Kampala"), ("France", "Paris"), ("Peru", "Lima")]
DATA = {
    "native": {
        "facts.jsonl": lines(*({"subject": s, "relation": "capital", "answer": a, "known": [a]} for s, a in TOWNS)),
        "relations.jsonl": lines(
            {"relation": "capital", "templates": ["The capital of [X] is [Y]."], "domains": ["x"]}
        ),
        "dataset.json": '{"name": "tiny", "version": "1", "licence": "CC0"}',
    },
    "bear": {
        "metadata_relations.json": json.dumps(
            {"P36": {"templates": ["[X] has [Y]."], "answer_space_labels": ["Kampala", "Paris", "Lima"]}}
        ),
        "P36.jsonl": lines(
            *(
                {"sub_id": s, "sub_label": s, "sub_aliases": ["x"], "obj_id": a, "obj_label": a, "answer_idx": n}
                for n, (s, a) in enumerate(TOWNS)
            )
        ),
        "relation_info.json": '{"P36": {"domains": ["Geographic"]}}',
        "bear_lite_indices.json": '{"P36": [0, 1]}',
    },
    "bear-big": {
        "metadata_relations.json": '{"P36": {"templates": ["[X] has [Y]."]}}',
        "P36.jsonl": lines(
            *({"sub_id": s, "sub_label": s, "sub_aliases": [], "obj_id": a, "obj_label": a} for s, a in TOWNS)
        ),
        "bear_lite_indices.json": '{"P36": [0, 1]}',
    },
    "kamel": {
        "question-templates.csv": "P36, What is the capital of [S]?\n",
        "P36/test.jsonl": lines(
            *(
                {"sub_label": s, "obj_uri": [a], "obj_label": [{"chosen": a, "rdf": a, "alternative": ["x"]}]}
                for s, a in TOWNS
            )
        ),
        "P36/train.jsonl": lines({"sub_label": "Mali", "obj_label": ["Bamako"]}),
    },
    "lama": {
        "P36.jsonl": lines(*({"uuid": s, "sub_label": s, "obj_label": a, "obj_aliases": ["x"]} for s, a in TOWNS)),
        "relations.jsonl": lines({"relation": "P36", "template": "[X] has [Y] ."}),
    },
    "squad": {
        "test.jsonl": lines(*({"id": s, "obj_label": a, "masked_sentences": [f"{s} has [MASK]."]} for s, a in TOWNS)),
    },
    "biolama": {
        "wikidata_triples.jsonl": lines(
            *(
                {"predicate_id": "P36", "sub_uri": s, "sub_label": s, "obj_uris": [a], "obj_labels": [a]}
                | {"sub_aliases": ["x"], "obj_aliases": [["y"]]}
                for s, a in TOWNS
            )
        ),
        "templates.jsonl": lines({"source": "wikidata", "relation": "P36", "template": "[X] has [Y] ."}),
    },
    "popqa": {
        "test.tsv": "id\tsubj\tprop\tobj\ts_uri\to_uri\ts_aliases\to_aliases\ts_pop\to_pop\tquestion"
        + "\tpossible_answers\n"
        + "".join(f'{s}\t{s}\tcapital\t{a}\tx/{s}\tx/{a}\t[]\t["x"]\t7\t9\tIs {s} large?\t["{a}"]\n' for s, a in TOWNS),
    },
    "counterfact": {
        "counterfact.json": json.dumps(
            [
                {
                    "case_id": n,
                    "requested_rewrite": {
                        "prompt": "The capital of {} is",
                        "relation_id": "P36",
                        "subject": s,
                        "target_true": {"str": a, "id": a},
                        "target_new": {"str": "x", "id": "z"},
                    },
                    "paraphrase_prompts": [f"{s} has"],
                    "neighborhood_prompts": ["x"],
                }
                for n, (s, a) in enumerate(TOWNS)
            ],
            indent=1,
        ),
    },
    "zsre": {
        "zsre_mend_eval.json": json.dumps(
            [
                {"subject": s, "src": "x", "rephrase": "x", "alt": "z", "answers": ["x"], "loc": "y", "loc_ans": a}
                for s, a in TOWNS
            ],
            indent=1,
        ),
    },
    "tofu": {
        "forget10_perturbed.json": lines(
            *(
                {"question": s, "answer": a, "perturbed_answer": ["x"], "paraphrased_answer": "y"}
                | {"paraphrased_question": "z"}
                for s, a in TOWNS
            )
        ),
    },
    "lre": {
        "factual/capital.json": json.dumps(
            {
                "name": "x",
                "prompt_templates": ["{} has"],
                "prompt_templates_zs": ["The capital of {} is"],
                "properties": {"relation_type": "x"},
                "samples": [{"subject": s, "object": a} for s, a in TOWNS],
            },
            indent=1,
        ),
    },
    "entityquestions": {
        "relation_query_templates.json": '{"P36": "What is the capital of [X]?"}',
        "test/P36.test.json": json.dumps(
            [{"question": f"What is the capital of {s}?", "answers": [a, "x"]} for s, a in TOWNS], indent=1
        ),
        "dev/P36.dev.json": '[{"question": "What is the capital of Mali?", "answers": ["x"]}]',
    },
    "bmlama": {
        f"{language}.tsv": "Prompt\tAns\tCandidate Ans\tSubject\n"
        + "".join(f"<mask> {s}\t{a}\tx, {a}\t{s}\n" for s, a in TOWNS)
        for language in ("de", "en")
    },
    "dyknow": {
        "grc_generated.json": json.dumps(
            {
                "P36": {
                    s: {"questions": {"generic": "x"}, "answers": [f"{a} |S: +2015-02-03T00:00:00Z"]} for s, a in TOWNS
                }
            },
            indent=1,
        ),
    },
    "choices": {
        "type.jsonl": lines(
            {"prompt": "What is it? (a) work, (b) city", "gold": "(b) city", "cands": ["work", "city"]}
        ),
    },
    "kg": {
        "train.tsv": "a\tr\tb\nb\tr\tc\n",
        "test.tsv": "a\tr\tc\n",
        "entity2text.txt": "a\tA\nb\tB\nc\tC\n",
        "relation2text.txt": "r\tR\n",
        "entity2textlong.txt": "a\tlong\n",
        "entity2wikidata.json": '{"a": {"label": "x", "description": "y", "alternatives": ["z"]}}',
    },
    "rdf": {"graph.nt": "<http://x/a> <http://x/r> <http://x/b> .\n"},
}
PLACES = [(name, file) for name, files in DATA.items() for file in files]


def write(place: Path, name: str) -> Path:
    for file, content in DATA[name].items():
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text(content)
    return place


@pytest.mark.parametrize("name", DATA)
def test_the_data_are_good(tmp_path, name):
    assert len(read(write(tmp_path, name)).queries)


@pytest.mark.parametrize(("name", "file"), PLACES)
@pytest.mark.parametrize("make", [os.mkfifo, folder, loop, dangling, device], ids=lambda make: make.__name__)
def test_what_stands_in_the_place_of_data_is_said(tmp_path, name, file, make):
    path = write(tmp_path / "data", name) / file
    path.unlink()
    make(path)
    with within(20):
        _, faults = examine(tmp_path / "data")
    expected = {
        "mkfifo": "a named pipe",
        "folder": "a folder",
        "loop": "itself",
        "dangling": "nowhere",
        "device": "a dev",
    }
    said = [fault for fault in faults.found if expected[make.__name__] in fault and path.name in fault]
    assert said or any("no format fits" in fault for fault in faults.found)
    assert len(said) <= 1


@pytest.mark.parametrize(("name", "file"), PLACES)
def test_content_that_no_reader_expects(tmp_path, name, file):
    path = write(tmp_path / "data", name) / file
    good = path.read_bytes()
    values = [
        b"null",
        b"7",
        b'"x"',
        b"[]",
        b"{}",
        b"[1]",
        b'[["x"]]',
        b"[{}]",
        b'["\\ud800"]',
        HUGE.encode(),
        DEEP.encode(),
    ]
    first, _, rest = good.partition(b"\n")
    contents = [b"", b"\0\xff" * 50, good.decode().encode("utf-16"), *values]
    contents += [first + b"\n" + value + b"\n" + rest for value in values]
    contents += [
        good.replace(part, value) for value in values for part in (b'["x"]', b'"x"', b'"P36"', b'["z"]', b"[0, 1]")
    ]
    for content in dict.fromkeys(contents):
        path.write_bytes(content)
        with within(20):
            found, faults = examine(tmp_path / "data")
        assert (found is None) == bool(faults.found), content[:80]
        assert all("\n" not in fault and len(fault) < 2000 for fault in faults.found)


def test_a_pipe_given_as_data(tmp_path):
    os.mkfifo(tmp_path / "data.tsv")
    with pytest.raises(BadInput, match=mentions("data.tsv")):
        locate(tmp_path / "data.tsv")


def test_null_for_metadata(tmp_path):
    (write(tmp_path, "bear") / "metadata_relations.json").write_text("null")
    with pytest.raises(BadInput, match=mentions("metadata_relations.json:1")):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "file", "before", "after", "said"),
    [
        ("bear", "P36.jsonl", '"sub_aliases": ["x"]', '"sub_aliases": [1]', ("P36.jsonl:1:", "'sub_aliases'")),
        (
            "biolama",
            "wikidata_triples.jsonl",
            '"sub_aliases": ["x"]',
            '"sub_aliases": [[]]',
            "triples.jsonl:1: 'sub_alias",
        ),
        ("choices", "type.jsonl", '["work", "city"]', '[["work"], {}]', ("type.jsonl:1:", "'cands'", "2 options")),
        ("native", "facts.jsonl", '"known": ["Paris"]', '"known": [["Paris"]]', ("facts.jsonl:2:", "'known'")),
        ("native", "relations.jsonl", '["x"]', "[1, {}]", ("relations.jsonl:1:", "'domains'")),
        ("native", "dataset.json", '"tiny"', "[1]", ("dataset.json:", "'name'", "[1]")),
    ],
)
def test_lists_of_wrong_kinds(tmp_path, name, file, before, after, said):
    path = write(tmp_path, name) / file
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after, 1))
    with pytest.raises(BadInput) as caught:
        read(tmp_path)
    assert stated(caught.value.faults, said), caught.value.faults


@pytest.mark.parametrize("damage", [lambda p: p[:-9], lambda p: b"garbage", lambda p: p + b"x", lambda p: b"\x1f\x8b"])
def test_a_damaged_gz_is_no_choices_and_said(tmp_path, damage):
    packed = damage(gzip.compress(DATA["choices"]["type.jsonl"].encode()))
    (tmp_path / "type.jsonl.gz").write_bytes(packed)
    assert examine(tmp_path / "type.jsonl.gz")[0] is None


def test_a_gz_of_templates_that_is_damaged_is_not_passed_over(tmp_path):
    write(tmp_path, "lama")
    good = (tmp_path / "relations.jsonl").read_bytes()
    (tmp_path / "relations.jsonl").unlink()
    (tmp_path / "relations.jsonl.gz").write_bytes(gzip.compress(good))
    assert read(tmp_path).relations["P36"].templates
    (tmp_path / "relations.jsonl.gz").write_bytes(gzip.compress(good)[:-12])
    with pytest.raises(BadInput, match=mentions("relations.jsonl.gz")):
        read(tmp_path)


# ---------------------------------------------------------------------------------------------------- runs


@pytest.fixture
def run(tmp_path) -> Path:
    return Path(shutil.copytree(OLD / "statement-causal", tmp_path / "run"))


def whole(path: Path) -> None:
    """What readers of a run do."""
    opened = RunFolder.open(path)
    opened.is_complete()
    rows = Rows(opened)
    for place in range(len(rows.query)):
        rows.top_answers(place)
    summarise(opened, [], "")


def without_a_row(table):
    return table.slice(1)


def without_ranks(table):
    return table.drop_columns("rank")


def with_an_answer_less(table):
    shorter = [answers[1:] for answers in table.column("top_ids").to_pylist()]
    return table.set_column(table.column_names.index("top_ids"), "top_ids", pa.array(shorter, pa.list_(pa.string())))


@pytest.mark.parametrize(("change", "said"), [
    (without_a_row, ("lacks 1 of ", "every part")),
    (without_ranks, ("part-00001.parquet:", "no column rank")),
    (with_an_answer_less, ("part-00001.parquet:", "top_ids", "top_scores", "unequal")),
])  # fmt: skip
def test_a_part_that_lacks_something_is_not_taken_for_whole(run, change, said):
    part = run / "predictions" / "part-00001.parquet"
    pq.write_table(change(pq.read_table(part)), part)
    with pytest.raises(BadInput, match=mentions(said)):
        whole(run)


def wheres(content, above=()):
    """Paths of all values."""
    yield above
    for key, value in (
        content.items() if isinstance(content, dict) else enumerate(content if isinstance(content, list) else ())
    ):
        yield from wheres(value, (*above, key))


def changed(content, where, value):
    if not where:
        return value
    new = deepcopy(content)
    at = new
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = value
    return new


KINDS = (None, 5, -1.5, "text", True, [], [None], {}, {"a": [1]}, [[["x"]]])


@pytest.mark.slow
def test_a_manifest_with_values_of_wrong_kinds(run):
    """Whatever a value becomes: it opens, or one line names file and field."""
    good = json.loads((run / "manifest.json").read_text())
    good["shows"] = {
        "scorings": {"sum/full": {"unit": "nats"}},
        "headline": "metrics",
        "cuts": [1],
        "further": [],
        "usual": {},
    }
    refused = 0
    for number, where in enumerate(wheres(good)):
        values = KINDS if len(where) < 3 else KINDS[number % 2 :: 2]
        for value in values:
            (run / "manifest.json").write_text(json.dumps(changed(good, where, value)))
            try:
                RunFolder.open(run)
                Rows(RunFolder.open(run), with_scores=False)
            except BadInput as error:
                said = (f"{run / 'manifest.json'}: ", f"{run} was written by a newer version")
                assert all(fault.startswith(said) for fault in error.faults)  # noqa: PT017
                refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("null", ("manifest.json:", "{…}", "null")),
        ("[]", ("manifest.json:", "{…}", "[]")),
        ("{}", "manifest.json: identity is missing"),
        ('{"format": 99}', "newer version"),
        ('{"identity": {"probe": 5}, "plan": [1]}', ("manifest.json:", "identity.probe", "string", "5")),
        (DEEP, ("manifest.json:", "100 deep")),
        (HUGE, ("manifest.json:1:", "of digits")),
        ('{"identity": {"probe": "\\ud800"}}', "manifest.json:1: a single surrogate"),
        ("{\n", "manifest.json:2: not JSON"),
    ],
)
def test_a_manifest_that_is_none(run, content, said):
    (run / "manifest.json").write_text(content)
    with pytest.raises(BadInput, match=mentions(said)):
        RunFolder.open(run)


def test_a_plan_stays_in_its_folder(run):
    manifest = json.loads((run / "manifest.json").read_text()) | {"plan": ["../../secret"]}
    (run / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(BadInput, match=mentions("manifest.json", "plan")):
        RunFolder.open(run)


@pytest.mark.parametrize(
    "file", ["manifest.json", "queries.parquet", "candidates.parquet", "predictions/part-00000.parquet"]
)
@pytest.mark.parametrize("make", [os.mkfifo, folder, loop, dangling, device], ids=lambda make: make.__name__)
def test_what_stands_in_the_place_of_a_file_of_a_run(run, file, make):
    (run / file).unlink()
    make(run / file)
    with within(20), pytest.raises(BadInput, match=Path(file).name):
        whole(run)


def retype(table: pa.Table) -> pa.Table:
    return pa.table({name: [str(row) for row in range(len(table))] for name in table.column_names})


def emptied(table: pa.Table) -> pa.Table:
    return pa.table({field.name: pa.nulls(len(table), field.type) for field in table.schema}, schema=table.schema)


@pytest.mark.parametrize("file", ["queries.parquet", "candidates.parquet", "predictions/part-00000.parquet"])
@pytest.mark.parametrize(
    "change",
    [
        lambda table: pa.table({"x": [1, 2]}),
        retype,
        emptied,
        lambda table: pa.concat_tables([table, table]),
        lambda table: pa.table({name: pa.nulls(len(table)) for name in table.column_names}),
    ],
    ids=["other columns", "other types", "empty", "twice", "no types"],
)
def test_tables_of_a_run_that_hold_something_else(run, file, change):
    table = pq.read_table(run / file, partitioning=None)
    pq.write_table(change(table), run / file)
    try:
        whole(run)
    except BadInput as error:
        assert len(error.faults) == 1  # noqa: PT017
    else:
        assert (file, change(table).num_rows) == ("queries.parquet", 2 * table.num_rows)


@pytest.mark.parametrize(
    "line", ["[1]", "5", "null", '{"x": 1}', '{"query_id": [1]}', DEEP, HUGE, '{"query_id": "\\ud800"}']
)
def test_groups_that_are_none(run, tmp_path, line):
    (tmp_path / "groups.jsonl").write_text('{"query_id": "x", "a": 1}\n' + line + "\n")
    with pytest.raises(BadInput, match=r"groups\.jsonl(:2)?: "):
        RunFolder.open(run).grouped_by(tmp_path / "groups.jsonl")


def test_groups_of_a_query_in_two_lines(run, tmp_path):
    lines = '{"query_id": "x", "a": 1}\n{"query_id": "y", "a": 1}\n\n{"query_id": "x", "b": 2}\n'
    (tmp_path / "groups.jsonl").write_text(lines)
    with pytest.raises(BadInput, match=r"groups\.jsonl:4: .*'x'.* line 1 "):
        RunFolder.open(run).grouped_by(tmp_path / "groups.jsonl")


@pytest.mark.parametrize(
    "vectors", [np.zeros((3, 2)), np.array(["a", "b", "c"]), np.zeros(3, np.float32), b"", b"x" * 99]
)
def test_vectors_that_are_none(tmp_path, vectors):
    store = VectorStore(tmp_path, 3)
    if isinstance(vectors, bytes):
        (tmp_path / "vectors-00000.npy").write_bytes(vectors)
    else:
        np.save(tmp_path / "vectors-00000.npy", vectors)
    with pytest.raises(BadInput, match=mentions("00000.npy")):
        store.take(np.array([0]))


def test_vectors_of_another_width(tmp_path):
    store = VectorStore(tmp_path, 3)
    store.write(0, np.zeros((3, 2), np.float32))
    store.refuse_width(2)
    with pytest.raises(BadInput, match="width 2, expected 4"):
        store.refuse_width(4)


# ---------------------------------------------------------------------------------------------------- link predictors


@pytest.fixture
def link(tmp_path) -> Path:
    return Path(shutil.copytree(OLD / "links", tmp_path / "links"))


def test_a_link_manifest_with_values_of_wrong_kinds(link):
    good = json.loads((link / "link.json").read_text())
    refused = 0
    for where in wheres(good):
        for value in KINDS:
            (link / "link.json").write_text(json.dumps(changed(good, where, value)))
            try:
                read_manifest(link)
            except BadInput as error:
                assert all(str(link) in fault for fault in error.faults)  # noqa: PT017
                refused += 1
    assert refused > 100


@pytest.mark.parametrize("content", ["", "null", "[]", "{}", DEEP, HUGE, '{"format": "x"}', "{'a'"])
def test_a_link_manifest_that_is_none(link, content):
    (link / "link.json").write_text(content)
    with pytest.raises(BadInput, match=r"link\.json"):
        read_manifest(link)


@pytest.mark.parametrize("make", [os.mkfifo, folder, loop, dangling], ids=lambda make: make.__name__)
@pytest.mark.parametrize("file", ["link.json", "curve.jsonl"])
def test_what_stands_in_the_place_of_a_file_of_a_predictor(link, file, make):
    (link / file).unlink(missing_ok=True)
    make(link / file)
    with within(20), pytest.raises(BadInput, match=file):
        (read_manifest if file == "link.json" else read_curve)(link)


@pytest.mark.parametrize("line", ["[1]", "null", "{}", HUGE, "x"])
def test_a_curve_that_is_none(link, line):
    (link / "curve.jsonl").write_text(line + "\n")
    with pytest.raises(BadInput, match=r"curve\.jsonl:1: "):
        read_curve(link)


def test_weights_and_checkpoints_that_are_none(tmp_path):
    import torch

    from fathom.training.saving import TrainingFolder, load_weights

    network, training = torch.nn.Linear(2, 2), TrainingFolder(tmp_path)
    for content in (b"", b"x" * 100, b"\x02\0\0\0\0\0\0\0{}"):
        training.weights.write_bytes(content)
        with pytest.raises(BadInput, match=mentions("weights.safetensors")):
            load_weights(network, training.weights)
        (tmp_path / "checkpoint.pt").write_bytes(content)
        with pytest.raises(BadInput, match=mentions("checkpoint.pt")):
            training.checkpoint(torch.device("cpu"))
    torch.save([1], tmp_path / "checkpoint.pt")
    with pytest.raises(BadInput, match="found list"):
        training.checkpoint(torch.device("cpu"))
    torch.save({"x": Path}, tmp_path / "checkpoint.pt")  # what would be executed is not
    with pytest.raises(BadInput, match=r"checkpoint\.pt is damaged"):
        training.checkpoint(torch.device("cpu"))


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_pipe_in_a_model_folder(tmp_path, file):
    from fathom.engine.models.loading import load

    (tmp_path / "config.json").write_text("{}")
    (tmp_path / file).unlink(missing_ok=True)
    os.mkfifo(tmp_path / file)
    with within(60), pytest.raises(BadInput, match=mentions(file, "named pipe")):
        load(str(tmp_path))


# ------------------------------------------------------------------------------------------------ texts to build from


@pytest.mark.parametrize("name", ["rot13", "base64", "zip", "hex", "undefined", "quopri", "a\0b", "x" * 500, ""])
def test_encodings_that_make_no_text(name):
    with pytest.raises(BadInput, match="--encoding"):
        check_encoding(name)


@pytest.mark.parametrize("name", ["utf-8", "latin-1", "utf-16", "utf_16_le", "U8", "cp1252", "ascii"])
def test_encodings_that_do(name):
    check_encoding(name)


@pytest.mark.parametrize("make", [os.mkfifo, folder, loop], ids=lambda make: make.__name__)
def test_a_pipe_among_the_texts(tmp_path, make):
    make(tmp_path / "a.txt")
    if make is not folder:  # a folder of texts may have any name
        with pytest.raises(BadInput, match=r"--input .*a\.txt: is"):
            find_sources([tmp_path / "a.txt"], [])
        with pytest.raises(BadInput, match=r"--input .*a\.txt: is"):
            find_sources([tmp_path], [])


# ---------------------------------------------------------------------------------------------------- servers


def completion(**change) -> dict:
    return {"choices": [{"message": {"role": "assistant", "content": "a"} | change, "finish_reason": "stop"}]}


@pytest.fixture
def serve():
    """A server that answers with given bytes and headers, maybe a byte at a time."""
    servers = []

    def start(body: bytes, status: int = 200, pause: float = 0, **headers: str) -> ChatServer:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    for part in (body[at : at + 1] for at in range(len(body))) if pause else [body]:
                        self.wfile.write(part)
                        time.sleep(pause)
                except OSError:
                    pass

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        return ChatServer(url, "m", unlisted=True, retries=0, timeout_s=1.0, wait=lambda seconds: None)

    pytest.importorskip("openai")
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def ask(server: ChatServer):
    with within(30):
        return server.ask([ChatRequest("q")])[0]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32"])
def test_replies_in_other_encodings(serve, encoding):
    assert ask(serve(json.dumps(completion(content="é")).encode(encoding))).texts == ("é",)


@pytest.mark.parametrize(
    ("content", "text"),
    [([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"), (None, ""), ("x\ud800", "x\ufffd")],
)
def test_content_in_parts(serve, content, text):
    assert ask(serve(json.dumps(completion(content=content)).encode())).texts == (text,)


@pytest.mark.parametrize("content", [5, {"a": 1}, True, [1], [{"type": "text"}], [["a"]]])
def test_content_that_is_no_text(serve, content):
    assert "chat completion" in ask(serve(json.dumps(completion(content=content)).encode())).fault


@pytest.mark.parametrize(
    "body", [b"", DEEP.encode(), HUGE.encode(), b"\xff\xff", b"null", b"[]", b'{"choices": {"0": 1}}']
)
def test_replies_that_are_none(serve, body):
    assert "expected" in ask(serve(body)).fault


@pytest.mark.parametrize(
    "usage", ["many", [1], {"prompt_tokens": "x"}, {"prompt_tokens": 10**40}, {"prompt_tokens": True}]
)
def test_counts_that_are_none(serve, usage):
    reply = ask(serve(json.dumps(completion() | {"usage": usage}).encode()))
    assert reply.prompt_tokens == 0


def test_a_reply_that_drips_does_not_last(serve):
    began = time.monotonic()
    assert "not complete in time" in ask(serve(json.dumps(completion()).encode() + b" " * 500, pause=0.05)).fault
    assert time.monotonic() - began < 10


def test_a_packed_reply_does_not_fill_memory(serve, monkeypatch):
    monkeypatch.setattr("fathom.base.reading.bounds.REPLY.most", 1 << 20)
    body = gzip.compress(json.dumps(completion()).encode() + b" " * (1 << 24))
    assert "more than 1 MB" in ask(serve(body, Content_Encoding="gzip")).fault


@pytest.mark.parametrize(("said", "ends"), [("\u00b2", False), ("9" * 400, True), ("999999999", True), ("nan", False)])
def test_absurd_pauses(serve, said, ends):
    server = serve(b'{"error": {"message": "slow"}}', 429, Retry_After=said)
    if ends:
        with pytest.raises(RunFailed, match="asks to wait"):
            ask(server)
    else:
        assert "slow" in ask(server).fault


@pytest.mark.parametrize("charset", ["rot13", "evil", "utf-16", "undefined"])
@pytest.mark.parametrize("status", [200, 400])
def test_charsets_of_replies(serve, charset, status):
    reply = ask(serve(json.dumps(completion()).encode(), status, Content_Type=f"application/json; charset={charset}"))
    assert reply.texts == ("a",) if status == 200 else reply.fault


@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_a_key_that_a_server_sends_back_is_neither_shown_nor_kept(serve, monkeypatch, tmp_path, status):
    monkeypatch.setenv("MY_KEY", "sk-S3CRET-S3CRET")
    echo = "you are sk-S3CRET-S3CRET"
    said = completion(content=echo) if status == 200 else {"error": {"message": echo}}
    url, journal = serve(json.dumps(said).encode(), status).base_url, Journal(tmp_path / "j")
    asked = ChatServer(url, "m", key_env="MY_KEY", unlisted=True, retries=0, journal=journal)
    try:
        reply = ask(asked)
        shown = f"{reply.texts}{reply.fault}"
    except RunFailed as error:
        shown = str(error)
    assert "[the key]" in shown
    assert "S3CRET" not in shown
    assert not (tmp_path / "j").exists() or b"S3CRET" not in (tmp_path / "j").read_bytes()


@pytest.mark.parametrize("to", ["http://localhost:{port}/v1", "http://127.0.0.1:{port}/v1", "//127.0.0.2:{own}/v1"])
def test_questions_and_keys_go_to_no_other_host_or_port(serve, to):
    other = serve(json.dumps(completion(content="caught")).encode())
    port = urlsplit(other.base_url).port
    asked = serve(b"{}", 307, Location=to.format(port=port, own=port))
    reply = ask(asked)
    assert not reply.texts
    assert "queries nor keys" in reply.fault


@pytest.mark.parametrize(("asked", "to", "is_safe"), [
    ("http://a/v1", "/v2", True),
    ("http://a/v1", "https://a/v1", True),
    ("http://a:8000/v1", "https://a:8000/v1", True),
    ("https://a/v1", "https://a:443/v2", True),
    ("https://a/v1", "http://a/v1", False),
    ("https://a/v1", "https://a:8443/v1", False),
    ("https://a/v1", "https://a.b/v1", False),
    ("https://a/v1", "//b/v1", False),
    ("http://a:8000/v1", "https://a/v1", False),
])  # fmt: skip
def test_where_a_server_may_send_on_to(asked, to, is_safe):
    reply = SimpleNamespace(has_redirect_location=True, url=asked, headers={"location": to}, iter_bytes=list)
    if is_safe:
        guard("")(reply)
    else:
        with pytest.raises(Elsewhere):
            guard("")(reply)


@pytest.mark.parametrize(("column", "value"), [("rank", -5.0), ("rank", 0.0), ("rank", 1e9), ("correct", 7.0)])
def test_numbers_that_cannot_be_are_refused(run, column, value):
    part = next((run / "predictions").glob("*.parquet"))
    table = pq.read_table(part)
    at = table.column_names.index(column)
    values = [value, *table.column(column).to_pylist()[1:]]
    pq.write_table(table.set_column(at, column, pa.array(values, table.schema.field(column).type)), part)
    with pytest.raises(BadInput, match=mentions(column, "damaged")):
        Rows(RunFolder.open(run))
