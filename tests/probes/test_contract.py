"""What every probe must keep, whatever it asks: order decides nothing, ties are reported, nothing gets lost."""

from __future__ import annotations

import fcntl
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

from fathom.base.errors import BadInput, RunFailed
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.probes import PROBES
from fathom.probes.options import StatementOptions
from fathom.probes.run import RunRequest, run
from fathom.store import folder as folder_module
from fathom.store.folder import RunFolder
from fathom.store.predictions import SCHEMA
from tests.messages import correspond, mentioned, mentions, stated
from tests.scripted import ScriptedModel

WORDS = ["The", "capital", "of", "is", "France", "Italy", "Spain", "Paris", "Rome", "Madrid", "Lima", "lies", "in", "."]
# France and Italy are known; Spain's answer is given the same weight as all others: a tie of four. A few-shot prompt
# ends with ",", which is not a word of the vocabulary.
ANSWERS = {"Paris": 4.0, "Rome": 2.0, "Madrid": 2.0, "Lima": 1.0}
KNOWS = {"France": {"is": 2.0}, "is": ANSWERS, "<unk>": ANSWERS}


@dataclass(frozen=True)
class Case:
    """How a probe is asked here, and what it must say.

    :param options: to ask it with. :param key: template and scoring of the row that is looked at.
    :param tie: optimistic and pessimistic rank of Italy's answer; None for a probe that does not rank.
    :param window: tokens that the model takes, one fewer than France's prompt has. :param too_long: what is said of it.
    :param not_a_number: what is said where the model gives NaN.
    :param unit: of its scores.
    """

    options: dict[str, Any]
    key: tuple[int, str]
    tie: tuple[int, int] | None
    window: int
    too_long: tuple[str, ...]
    not_a_number: tuple[str, ...]
    unit: str = "nats"


CASES = {
    "statement": Case(
        {"templates": (), "score": ("full", "answer"), "reduction": ("sum", "mean")},
        (0, "sum/full"),
        (2, 3),  # Rome and Madrid have the same weight after "is"
        7,  # "<s> The capital of France is Paris ." has 8 tokens
        ("8 tokens", "window of 7"),
        ("4 of 4 statements", "not a number"),
    ),
    "embedding": Case(
        {"shots": 1, "tail_template": "{name}"},
        (-1, "cosine"),
        (1, 4),  # the states are one-hot: that of "," is at right angles to all four names
        12,  # "<s> ( Italy , capital , Rome ) ( France , capital ," has 13
        ("13 tokens", "window of 12"),
        ("the prompt", "not a number"),
        "cosine",
    ),
    "vocabulary": Case(
        {"shots": 1},
        (-1, "token"),
        (2, 3),  # Rome and Madrid have the same weight after ","
        12,
        ("13 tokens", "window of 12"),
        ("the prompt", "not a number"),
    ),
    "cloze": Case(
        {"templates": (0,), "masks": ("several", "one"), "reduction": ("mean", "max", "first")},
        (0, "mask-mean"),
        (2, 3),  # Rome and Madrid have the same weight behind "is"
        6,  # "The capital of France is <mask> ." has 7
        ("7 tokens", "window of 6"),
        ("4 of 4 candidates", "not a number"),
    ),
    "ontology": Case(
        {"subset": None, "templates": (0,), "masks": ("several", "one"), "reduction": ("mean", "max", "first")},
        (0, "mask-mean"),
        (2, 3),
        6,
        ("7 tokens", "window of 6"),
        ("4 of 4 candidates", "not a number"),
    ),
    "choice": Case(
        {"score": ("text-sum", "letter")},
        (-1, "text-sum"),
        (2, 3),  # "Answer:" ends in unknown words, behind which Rome and Madrid have the same weight
        34,  # <s>, 12 of the question, 4 of each option and 3 commas, "Answer : Paris"
        ("35 tokens", "window of 34"),
        ("4 of 4 options", "not a number"),
    ),
    "generation": Case(
        {"shots": 1, "max_new_tokens": 2},
        (-1, "f1"),
        None,
        12,
        ("13 tokens", "up to 2", "window of 12"),
        ("next token", "not a number"),
        "credit",
    ),
}
"""A probe that is not here fails :func:`test_every_probe_is_in_the_contract`."""
RANKING = [probe for probe, case in CASES.items() if case.tie is not None]


def scripted(probe: str, max_tokens: int | None = None) -> ScriptedModel:
    return ScriptedModel(WORDS, KNOWS, max_tokens, masked=probe in ("cloze", "ontology"))


@pytest.fixture
def model(request) -> ScriptedModel:
    """Of the kind that the test's probe asks."""
    case = getattr(request.node, "callspec", None)
    return scripted(case.params.get("probe", "statement") if case else "statement")


@pytest.fixture
def data() -> QuerySet:
    space = CandidateSet("capital", ("p", "r", "m", "l"), ("Paris", "Rome", "Madrid", "Lima"))
    templates = (Template("The capital of [X] is [Y]."), Template("[Y] is in [X]."))
    facts = [("France", "p"), ("Italy", "r"), ("Spain", "m"), ("", "l")]
    queries = tuple(
        Query(
            f"capital/{number}", "capital", subject, subject or "?", (gold,), "capital",
            groups={"cardinality": "1:1"}, unscored=None if subject else "the subject has no name",
        )
        for number, (subject, gold) in enumerate(facts)
    )  # fmt: skip
    relations = {"capital": Relation("capital", "capital", templates, "1:1")}
    names = {"p": "Paris", "r": "Rome", "m": "Madrid", "l": "Lima"}
    graph = KnowledgeGraph.from_triples([(subject, "capital", gold) for subject, gold in facts[:3]], names)
    return QuerySet("tiny", queries, {"capital": space}, relations, graph=graph)


def options(probe: str, **more: object):
    return PROBES[probe].options(**(CASES[probe].options | more))


def rows_of(folder: RunFolder) -> dict[tuple[str, int, str], dict]:
    return {(row["query_id"], row["template"], row["scoring"]): row for row in folder.predictions().to_pylist()}


def without_case() -> set[str]:
    """Probes that the contract does not know. The link probe, which asks link predictors, has its in test_links.py."""
    return {entry.name for entry in PROBES.entries() if entry.needs == "language model"} - set(CASES)


def test_every_probe_is_in_the_contract():
    assert not without_case()


@pytest.mark.parametrize("probe", CASES)
def test_scorings_are_declared(probe, model, data, tmp_path):
    """Each row is of a scoring that the probe declares, with a unit, and each scoring has rows."""
    kind = PROBES[probe].load()
    asked = kind.create(options(probe), model, kind.prepare_queries(options(probe), data))
    scorings = {
        row["scoring"]
        for row in run(RunRequest(probe, model, data, options(probe)), tmp_path).predictions().to_pylist()
    }
    assert [scoring.name for scoring in asked.scorings] == list(dict.fromkeys(s.name for s in asked.scorings))
    assert {scoring.name for scoring in asked.scorings} == scorings
    assert {scoring.unit for scoring in asked.scorings} == {CASES[probe].unit}


def test_scores_worked_out_by_hand(model, data, tmp_path):
    """16 words in the vocabulary (14 and <s>, <unk>); a word that no weight names has weight 1.

    "The capital of France is Paris.": <s>→The 1/16, The→capital 1/16, capital→of 1/16, of→France 1/16,
    France→is 2/(2+15), is→Paris 4/(4+2+2+1+12) = 4/21, Paris→. 1/16.
    """
    row = rows_of(run(RunRequest("statement", model, data, options("statement")), tmp_path / "r"))[
        "capital/0", 0, "sum/full"
    ]
    expected = 4 * math.log(1 / 16) + math.log(2 / 17) + math.log(4 / 21) + math.log(1 / 16)
    assert row["gold_scores"] == [pytest.approx(expected, abs=1e-5)]
    assert (row["rank"], row["rank_optimistic"], row["rank_pessimistic"]) == (1.0, 1, 1)
    assert (row["scored_tokens"], row["num_candidates"], row["top_ids"][0]) == (7, 4, "p")
    assert row["prompt"] == "The capital of France is [Y]."


@pytest.mark.parametrize("probe", RANKING)
def test_ties_are_reported_and_order_decides_nothing(probe, model, data, tmp_path):
    space = data.candidates["capital"]
    turned = CandidateSet("capital", space.ids[::-1], space.names[::-1])
    shuffled = replace(data, candidates={"capital": turned}, queries=data.queries[::-1])
    plain = rows_of(run(RunRequest(probe, model, data, options(probe)), tmp_path / "a"))
    other = rows_of(run(RunRequest(probe, model, shuffled, options(probe, batch_tokens=7)), tmp_path / "b"))
    row = plain["capital/1", *CASES[probe].key]
    optimistic, pessimistic = CASES[probe].tie
    assert (row["rank_optimistic"], row["rank_pessimistic"]) == (optimistic, pessimistic)
    assert row["rank"] == (optimistic + pessimistic) / 2
    assert plain.keys() == other.keys()
    for key, row in plain.items():
        assert {n: row[n] for n in ("rank", "top_ids", "unscored")} == {
            n: other[key][n] for n in ("rank", "top_ids", "unscored")
        }
        np.testing.assert_allclose(row["gold_scores"] or [], other[key]["gold_scores"] or [], atol=1e-4)


@pytest.mark.parametrize("probe", CASES)
def test_what_cannot_be_asked_stays_with_its_reason(probe, model, data, tmp_path):
    folder = run(RunRequest(probe, model, data, options(probe)), tmp_path / "r")
    assert folder.predictions().schema == SCHEMA
    rows = [row for key, row in rows_of(folder).items() if key[0] == "capital/3"]
    assert rows
    assert all(row["unscored"] == "the subject has no name" and row["rank"] is None for row in rows)


@pytest.mark.parametrize("probe", CASES)
def test_nan_is_unscored_never_first(probe, model, data, tmp_path, monkeypatch):
    monkeypatch.setattr(model, "hidden", lambda vectors, *_: torch.full_like(vectors, torch.nan))
    rows = rows_of(run(RunRequest(probe, model, data, options(probe)), tmp_path / "r")).values()
    assert all(row["rank"] is None for row in rows)
    assert stated({row["unscored"] or "" for row in rows}, CASES[probe].not_a_number)


@pytest.mark.parametrize("probe", CASES)
def test_over_long_prompts_are_unscored(probe, data, tmp_path):
    small = scripted(probe, max_tokens=CASES[probe].window)
    rows = rows_of(run(RunRequest(probe, small, data, options(probe)), tmp_path / "r"))
    assert mentioned(rows["capital/0", *CASES[probe].key]["unscored"], CASES[probe].too_long)
    if probe == "statement":
        assert rows["capital/0", 1, "sum/full"]["rank"] is not None  # its other template is shorter


@pytest.mark.parametrize("probe", CASES)
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, RuntimeError])
def test_killed_and_resumed_is_the_same_run(probe, interruption, model, data, tmp_path, monkeypatch):
    kind = PROBES[probe].load()
    if probe != "statement":  # which has a shard for each template
        monkeypatch.setattr(sys.modules[kind._cut.__module__], "SHARD_QUERIES", 2)
    whole = run(RunRequest(probe, model, data, options(probe)), tmp_path / "whole")
    ask, asked = kind.evaluate, []

    def dies_at_the_second(self, shard):
        asked.append(shard)
        if len(asked) == 2:
            raise interruption
        return ask(self, shard)

    monkeypatch.setattr(kind, "evaluate", dies_at_the_second)
    with pytest.raises(interruption):
        run(RunRequest(probe, model, data, options(probe)), tmp_path / "killed")
    killed = RunFolder.open(tmp_path / "killed")
    assert not killed.is_complete()
    assert killed.finished() == {"00000"}
    resumed = run(RunRequest(probe, model, data, options(probe)), tmp_path / "killed")
    assert asked == ["00000", "00001", "00001"]  # the finished shard is not asked again
    assert resumed.predictions().equals(whole.predictions())
    assert resumed.manifest["circumstances"]["sessions"] == 2


def test_a_finished_run_asks_nothing(model, data, tmp_path):
    run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    before = model.tokens_run
    run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    assert model.tokens_run == before


def test_what_a_killed_writer_left_is_removed(model, data, tmp_path):
    """Its files are no longer locked; those of one that runs stay."""
    run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    left = tmp_path / "r" / ".manifest.json.4194305.tmp"  # beyond the largest number that Linux gives
    at_work = tmp_path / "r" / "predictions" / f".part-00000.parquet.{os.getppid()}.tmp"
    for file in (left, at_work):
        file.write_text("half")
    with at_work.open() as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    assert not left.exists()
    assert at_work.exists()


def test_another_identity_is_refused_and_named(model, data, tmp_path):
    run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    with pytest.raises(BadInput, match="another run") as error:
        run(RunRequest("statement", model, data, options("statement", capitalize=False)), tmp_path / "r")
    assert "options.capitalize: there True, here False" in str(error.value)


FLIPS = {"shots": 2, "per_query_shots": True, "trailing_space": True, "describe_head": True, "closing": True} | {
    "pll": "original",
    "bos": "none",
}


@pytest.mark.parametrize("probe", ["statement", "vocabulary"])
@pytest.mark.parametrize("masked", [False, True])
def test_an_option_that_changes_nothing_refuses_no_resume(probe, masked, data, tmp_path):
    """The run goes on, and asked anew with the option it has the very same rows: what is called idle is idle. Words are
    asked by template, or the vocabulary probe of a causal model, which needs lines."""
    model = ScriptedModel(WORDS, KNOWS, masked=masked)
    asked = PROBES[probe].load()(options(probe), model, data)
    lines = {"shots", "per_query_shots", "trailing_space", "describe_head"}
    expected = {
        ("statement", False): {*lines, "closing", "pll"},
        ("statement", True): {*lines, "closing", "bos"},
        ("vocabulary", False): set(),
        ("vocabulary", True): {*lines, "bos"},
    }[probe, masked]
    assert asked.idle().keys() == expected
    first = run(RunRequest(probe, model, data, options(probe)), tmp_path / "r")
    for name in expected:
        with_it = options(probe, **{name: FLIPS[name]})
        assert run(RunRequest(probe, model, data, with_it), tmp_path / "r").manifest == first.manifest
        assert rows_of(run(RunRequest(probe, model, data, with_it), tmp_path / name)) == rows_of(first)
    for name in FLIPS.keys() - expected & PROBES[probe].options.model_fields.keys():
        with pytest.raises(BadInput, match=f"options.{name}: there "):
            run(RunRequest(probe, model, data, options(probe, **{name: FLIPS[name]})), tmp_path / "r")


def test_of_data_without_templates_no_option_of_lines_is_idle(data, tmp_path):
    bare = replace(data, relations={"capital": Relation("capital", "capital", (), "1:1")})
    asked = PROBES["statement"].load()(options("statement", shots=1), scripted("statement"), bare)
    assert set(asked.idle()) == {"pll"}


def test_an_option_without_effect_is_told(model, data, tmp_path, caplog):
    caplog.set_level("INFO", "fathom")
    run(RunRequest("statement", model, data, options("statement", shots=3)), tmp_path / "r")
    assert correspond(caplog.messages, ("--shots 3", "no effect"))


def test_data_of_another_name_are_the_same_data(model, data, tmp_path):
    """A folder that was renamed; what is in it tells, and other data of the same name are refused."""
    first = run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    renamed = replace(data, name="renamed")
    assert renamed.content_hash == data.content_hash
    assert run(RunRequest("statement", model, renamed, options("statement")), tmp_path / "r").manifest == first.manifest
    other = replace(data, queries=data.queries[:3])
    with pytest.raises(BadInput, match=r"data\.content_hash: there"):
        run(RunRequest("statement", model, other, options("statement")), tmp_path / "r")


def test_surroundings_are_circumstances(model, data, tmp_path, monkeypatch):
    """Versions, platform and time stand in the manifest; they are no part of the identity, and those of an earlier
    session are kept where they were others."""
    folder = run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    noted = folder.manifest["circumstances"]
    assert noted["versions"]["torch"] == version("torch")
    extra = {name for name in ("peft", "bitsandbytes") if find_spec(name) is not None}
    assert noted["versions"].keys() == {"fathom", "python", "torch", "transformers", "tokenizers", "numpy"} | extra
    assert datetime.fromisoformat(noted["begun"]).utcoffset() == timedelta(0)
    assert "resumed" not in noted
    next((tmp_path / "r" / "predictions").iterdir()).unlink()
    monkeypatch.setattr("fathom.store.surroundings.version", lambda name: "99")
    again = run(RunRequest("statement", model, data, options("statement")), tmp_path / "r").manifest["circumstances"]
    assert again["versions"]["torch"] == "99"
    assert again["earlier_versions"] == [noted["versions"]]
    assert (again["begun"], again["resumed"] >= noted["begun"]) == (noted["begun"], True)


def test_a_run_from_before_an_option_goes_on_without_it(model, data, tmp_path):
    run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    file = tmp_path / "r" / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["identity"]["options"]["perplexity"], manifest["digest"]
    file.write_text(json.dumps(manifest))
    assert run(RunRequest("statement", model, data, options("statement")), tmp_path / "r").is_complete()
    with pytest.raises(BadInput, match=r"options\.perplexity: there None, here True"):
        run(RunRequest("statement", model, data, options("statement", perplexity=True)), tmp_path / "r")


def test_a_folder_with_something_else_is_refused(model, data, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(BadInput, match="not a run"):
        run(RunRequest("statement", model, data, options("statement")), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_killed_before_the_manifest_is_no_obstacle(model, data, tmp_path):
    run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    for file in ("manifest.json", *(tmp_path / "r" / "predictions").iterdir()):
        (tmp_path / "r" / file).unlink()
    (tmp_path / "r" / "predictions").rmdir()
    assert run(RunRequest("statement", model, data, options("statement")), tmp_path / "r").is_complete()


def test_a_damaged_part_is_named(model, data, tmp_path):
    folder = run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    (tmp_path / "r" / "predictions" / "part-00001.parquet").write_bytes(b"no parquet")
    with pytest.raises(BadInput, match=mentions("part-00001.parquet")):
        folder.predictions()


def test_out_is_a_file(model, data, tmp_path):
    (tmp_path / "r").write_text("mine")
    with pytest.raises(BadInput, match="is a file"):
        run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")


def test_a_full_disk_keeps_what_is_finished(model, data, tmp_path, monkeypatch):
    written = []

    def write(path, table):
        written.append(path)
        if len(written) == 4:  # queries, candidates, first shard, then the disk is full
            raise RunFailed(f"cannot write {path}: No space left on device; what is finished is kept")
        return real(path, table)

    real = folder_module.write_table
    monkeypatch.setattr(folder_module, "write_table", write)
    with pytest.raises(RunFailed, match="No space left"):
        run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    monkeypatch.setattr(folder_module, "write_table", real)
    assert RunFolder.open(tmp_path / "r").finished() == {"00000"}
    assert run(RunRequest("statement", model, data, options("statement")), tmp_path / "r").is_complete()


def test_a_device_that_vanishes_keeps_what_is_finished(model, data, tmp_path, monkeypatch):
    """As a GPU that falls off its bus: torch raises the same for whatever is asked of it next."""
    from fathom.probes.statement import StatementProbe

    real, asked = StatementProbe.evaluate, []

    def ask(self, shard):
        asked.append(shard)
        if len(asked) == 2:
            raise RuntimeError("CUDA error: unspecified launch failure\nCompile with TORCH_USE_CUDA_DSA")
        return real(self, shard)

    monkeypatch.setattr(StatementProbe, "evaluate", ask)
    with pytest.raises(RunFailed, match=mentions("CUDA")):
        run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    monkeypatch.setattr(StatementProbe, "evaluate", real)
    assert RunFolder.open(tmp_path / "r").finished() == {"00000"}
    assert run(RunRequest("statement", model, data, options("statement")), tmp_path / "r").is_complete()


OTHER = {
    "tokenizer": "elsewhere",
    "kind": "masked",
    "quantize": "8bit",
    "prior": True,
    "form": "split",
    "dtype": "bfloat16", "device": "cuda", "revision": "x", "adapter": "x", "trust_remote_code": True,
    "allow_pickle": True, "columns": "htr",
    "relations": ("P1",), "split": "dev", "subset": "lite", "exclude_tails": ("Q1",),
    "tail_tokens": "2-4", "single_token": True, "tokens_after_space": True, "limit": 3, "seed": 7,
    "candidates": "asked", "batch_tokens": 5, "cluster": "query", "bos": "none", "shots": 3, "per_query_shots": True,
    "trailing_space": True, "describe_head": True, "templates": (1,), "reduction": ("mean",), "score": ("answer",),
    "pll": "original", "capitalize": False, "closing": True, "top_k": 3, "max_rank": 9, "prune": False,
    "tail_template": "A", "shorten": False, "pooling": "mean", "questions": "q.csv", "max_new_tokens": 3,
    "separator": ", ",
    "normalise": False, "reading": "template-free", "alter": "misprimed",
    "sentences": "all", "any_surface": True, "pool": "more.txt",
    "add_candidates": "more.txt", "perplexity": True, "keep_tokens": True, "masks": ("one",),
    "options": 5, "server": "http://localhost/v1", "instruction": "Choose.", "sampling_temperature": 1.0,
    "reply_tokens": 9, "unlisted": True, "key_env": "KEY", "concurrency": 2, "requests_per_minute": 9, "timeout_s": 9,
    "retries": 1, "part": "1/4", "orders": 3, "replies": "strict", "chat": True, "system": "x", "chat_user": "x",
    "chat_arguments": ("x=1",),
    "shuffle_chat": True,
    "engine": "ray", "workers": 2, "gpus_per_worker": 0.5, "cpus_per_worker": 2, "ray_address": "auto",
    "cut_reasoning": "think", "device_map": "auto",
    "directions": ("head",), "reverse": True, "own_templates": "t.jsonl", "soft": True, "soft_init": "words",
    "loss": "nll", "epochs": 3, "learning_rate": 0.1, "batch_size": 2, "cross_validate": True, "folds": 4,
}  # fmt: skip
"""Another value for each option of each probe."""
CIRCUMSTANCES = {
    "device", "device_map", "allow_pickle", "batch_tokens", "cluster", "questions", "add_candidates", "own_templates",
    "key_env", "concurrency", "requests_per_minute", "timeout_s", "retries", "part",
    "engine", "workers", "gpus_per_worker", "cpus_per_worker", "ray_address",
}  # fmt: skip
DEFAULTS = {
    ("cloze", "reduction"): ("first",),
    ("ontology", "reduction"): ("first",),
    ("choice", "sentences"): "first",
}
"""The same where :data:`OTHER` has the probe's own default."""


@pytest.mark.parametrize("probe", [entry.name for entry in PROBES.entries()])
def test_every_option_is_identity_or_circumstance(probe):
    """Flip each field: the identity must change, unless the field is marked a circumstance."""
    kind = PROBES[probe].options
    base = kind()
    for name in kind.model_fields:
        other = DEFAULTS.get((probe, name), OTHER[name])
        same = base.model_copy(update={name: other}).identity() == base.identity()
        assert same == (name in CIRCUMSTANCES), name


def test_the_manifest_repeats_the_run(model, data, tmp_path):
    folder = run(RunRequest("statement", model, data, options("statement", limit=2, seed=3)), tmp_path / "r")
    identity = json.loads((tmp_path / "r" / "manifest.json").read_text())["identity"]
    again = PROBES["statement"].options(**identity["options"])
    assert (
        run(RunRequest("statement", model, data, again), tmp_path / "again").predictions().equals(folder.predictions())
    )


def test_templates_that_are_not_there(model, data, tmp_path):
    with pytest.raises(BadInput, match=mentions("capital", "template 2", "0 to 1")):
        run(RunRequest("statement", model, data, options("statement", templates=(0, 2))), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_one_candidate_says_nothing(model, data, tmp_path):
    space = CandidateSet("capital", ("p",), ("Paris",))
    alone = replace(data, queries=data.queries[:1], candidates={"capital": space})
    folder = run(RunRequest("statement", model, alone, options("statement")), tmp_path / "r")
    assert correspond({row["unscored"] for row in folder.predictions().to_pylist()}, "one candidate")


def test_max_rank_is_one_rule_for_all_templates(model, data, tmp_path):
    """The second template begins with the answer, so it is scored in full; the first is searched."""
    folder = run(RunRequest("statement", model, data, PROBES["statement"].options(max_rank=1)), tmp_path / "r")
    rows = [row for row in folder.predictions().to_pylist() if row["unscored"] is None]
    assert {row["template"] for row in rows} == {0, 1}
    for row in rows:
        assert row["scores"] is None
        assert (row["rank"] is None) == (row["rank_above"] == 1)
        assert row["rank_optimistic"] in (None, 1)


def test_what_was_counted_survives_a_kill(model, data, tmp_path, monkeypatch):
    """The sums in the manifest are those of the finished shards, whatever ended the session."""
    real = RunFolder.add_shard

    def dies(folder, shard, rows):
        real(folder, shard, rows)
        if shard == "00001":
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "add_shard", dies)
    with pytest.raises(KeyboardInterrupt):
        run(RunRequest("statement", model, data, options("statement")), tmp_path / "r")
    assert RunFolder.open(tmp_path / "r").manifest["circumstances"]["statements"] == 12


def test_a_second_process_says_who_is_at_work_and_stops(model, data, tmp_path):
    """It asks nothing, and leaves the folder to the first."""
    from fathom.store.locks import AT_WORK, exclusive_folder

    code = """if True:
        import pathlib, sys
        from fathom.store.locks import exclusive_folder
        with exclusive_folder(pathlib.Path(sys.argv[1])):
            print("in", flush=True)
            input()
    """
    call = [sys.executable, "-c", code, str(tmp_path / "run")]
    first = subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with first:
        first.stdout.readline()
        with pytest.raises(BadInput, match=mentions(f"process {first.pid} ")):
            run(RunRequest("statement", model, data, StatementOptions()), tmp_path / "run")
        assert [file.name for file in (tmp_path / "run").iterdir()] == [AT_WORK]
        first.kill()
        first.wait()
    folder = run(RunRequest("statement", model, data, StatementOptions()), tmp_path / "run")
    assert folder.is_complete()
    assert not (folder.path / AT_WORK).exists()
    with exclusive_folder(tmp_path / "new"):
        assert (tmp_path / "new" / AT_WORK).read_text().startswith(f"process {os.getpid()} on ")
    assert not (tmp_path / "new").exists()
