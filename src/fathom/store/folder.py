"""A run as a folder: queries, predictions so far, and enough to repeat or resume it; see docs/run-folder.md."""

from __future__ import annotations

import secrets
import shlex
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fathom.base.errors import BadInput, FathomError
from fathom.base.progress import WRITERS, log
from fathom.base.reading import Missing, Unreadable, as_read_back, json_lines, parquet_file, repetition, shown, stands
from fathom.base.reading.files import DAMAGED, first_few, parted, printable, text_lines
from fathom.store.files import clear_temporaries, file_digest, refuse_foreign_files, write_table
from fathom.store.locks import AT_WORK, CLAIMS
from fathom.store.manifest import (
    CHAT_FRAME,
    CHAT_TOKENS,
    FORMAT,
    PARTS,
    RUN,
    RunManifest,
    read_manifest,
    read_parts,
    write_sealed,
)
from fathom.store.predictions import LATER, SCHEMA, as_table

QUERIES = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "fact_id", "relation", "direction", "subject_id")),
        ("gold", pa.list_(pa.string())),
        ("candidates", pa.string()),
        ("groups", pa.map_(pa.string(), pa.string())),
        ("sentences", pa.int64()),
        ("filtered", pa.int64()),
        ("known", pa.list_(pa.string())),
        ("distances", pa.list_(pa.int64())),
        ("frequency_optimistic", pa.int64()),
        ("frequency_pessimistic", pa.int64()),
    ]
)
"""``queries.parquet``; runs of version 0.1.0 lack some columns."""
CANDIDATES = pa.schema([("set", pa.string()), ("position", pa.int64()), ("id", pa.string()), ("name", pa.string())])
QUERIES_FILE = "queries.parquet"
LOG = "log.txt"
LOG_LINES = 50
"""Lines of a log that are shown."""
LARGEST_DIFFERENCE = "largest_difference"
"""Circumstance of a run: see :mod:`fathom.engine.scoring.memory`."""
SECONDS = "wall_seconds"
"""Circumstance of a run that a plan made: its time, from the selection of queries to the last shard."""
_RUN_AGAIN = "run the probe again"
_PART_AGAIN = "delete it and run the probe again"
_HINTS = {
    f"resolved.{CHAT_FRAME}": " (templates may write the day; --chat-arguments strftime_now=2026-07-26 fixes it from "
    "the start)"
}
_REQUIRED = ("query_id", "fact_id", "relation", "direction", "gold", "candidates", "groups")


class Work(NamedTuple):
    """The work of a run.

    :param prompts: number of prompts of each shard by relation: one for each query and template.
    """

    queries: int
    prompts: Mapping[str, Mapping[str, int]]

    def done(self, shards: Collection[str]) -> tuple[int, int]:
        """Return how many queries finished *shards* amount to, and how many there are.

        A query in two templates of which one is finished counts half.
        """
        total = _by_relation(self.prompts.values()).total()
        finished = _by_relation(self.prompts.get(shard, {}) for shard in shards).total()
        return self.queries * finished // max(1, total), self.queries

    def lacking(self, shards: Collection[str], labels: Mapping[str, str]) -> str:
        """Return which relations are missing or incomplete without the others; "" if none.

        :param labels: of relations whose ids are addresses.
        """
        totals = _by_relation(self.prompts.values())
        finished = _by_relation(self.prompts.get(shard, {}) for shard in shards)
        missing = [labels.get(relation, relation) for relation in totals if not finished[relation]]
        begun = [
            f"{labels.get(relation, relation)} ({finished[relation] / count:.0%} done)"
            for relation, count in totals.items()
            if 0 < finished[relation] < count
        ]
        parts = (("relations missing", missing), ("incomplete", begun))
        return "; ".join(f"{what}: {first_few(names)}" for what, names in parts if names)


def _by_relation(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for part in counts:
        total.update(part)
    return total


class RunFolder:
    """The folder of a run: manifest, queries, candidates and predictions.

    :param path: the folder; :meth:`start` creates or resumes it, reading needs it to exist.
    :param part: of a process that shares the run with others, such as "1/4".
    :param command: what makes the run, for its circumstances (:mod:`fathom.probes.run.request`).

    >>> fathom.RunFolder.open("reference:Gemma-3-270m").is_complete()
    True
    """

    def __init__(self, path: str | Path, part: str | None = None, command: Mapping[str, Any] | None = None) -> None:
        self.path, self.part, self.command = Path(path), part, command
        session = f"{(part or '').replace('/', '-of-')}-{secrets.token_hex(4)}"
        self._notes: dict[str, Any] = {"part": part, "shards": 0, "circumstances": {}, "digests": {}}
        self._notes_at = self.path / PARTS / f"{session}.json"
        self._more_groups: dict[str, dict[str, str]] = {}

    def __repr__(self) -> str:
        return f"<RunFolder {str(self.path)!r}: {self.describe()}>"

    def describe(self) -> str:
        """Return probe, model, data and progress in a few words."""
        try:
            manifest = self.manifest
        except Missing:
            return "no run yet"
        except FathomError:
            return "a run that cannot be read"
        identity, state = manifest["identity"], self.progress(manifest)
        return printable(
            f"{identity['probe']} probe of {identity['model']['name']} on {identity['data']['name']}, {state}"
        )

    def progress(self, manifest: Mapping[str, Any]) -> str:
        """Return "finished", or "30 of 50 queries"; of runs that do not record them, "3 of 5 shards"."""
        plan = manifest["plan"]
        shards = self.finished() & set(plan)
        if len(shards) == len(plan):
            return "finished"
        done, total, unit = len(shards), len(plan), "shards"
        if work := manifest.get("work"):
            (done, total), unit = Work(**work).done(shards), "queries"
        return f"{done:,} of {total:,} {unit}"

    def refuse_unfinished(self) -> None:
        """:raises BadInput: the run is unfinished; names what is missing."""
        if not self.is_complete():
            raise BadInput(f"{self.path} is unfinished: repeat its command, it resumes{self.lacking(' (', ')')}")

    def lacking(self, before: str = "", after: str = "") -> str:
        """Return which relations are missing or incomplete, between two texts; "" if that is unknown."""
        work = self.manifest.get("work")
        labels = self.manifest.get("shows", {}).get("relations", {})
        text = Work(**work).lacking(self.finished(), labels) if work else ""
        return f"{before}{text}{after}" if text else ""

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """Open a run to read.

        :param path: its folder, or ``reference:NAME`` (:func:`run_path`).
        :raises BadInput: not a run, or written by a newer Fathom.
        """
        folder = cls(run_path(path))
        try:
            folder.manifest  # noqa: B018 # validates it
        except Missing as error:
            depths = (f"*/{QUERIES_FILE}", f"*/*/{QUERIES_FILE}")  # of runs next to each other, and of a plan
            runs = [file.parent for depth in depths for file in sorted(folder.path.glob(depth))]
            why = "it has no manifest.json; give the folder that --out named"
            if runs:
                number = "a run" if len(runs) == 1 else f"{len(runs):,} runs"
                serve = f"fathom report --serve {shlex.quote(str(path))}"
                why = f"it contains {number}: give one of them, such as {runs[0]}, or type: {serve}"
            raise BadInput(f"{path} is not a run: {why}") from error
        return folder

    def has_manifest(self) -> bool:
        """Return whether a run was started in the folder."""
        return stands(self.path / RUN)

    @property
    def manifest(self) -> dict[str, Any]:
        """Content of manifest.json with the circumstances of all parts. :raises BadInput: it is invalid."""
        manifest, parts = read_manifest(self.path, RunManifest), read_parts(self.path)
        for part in parts:
            add_up(manifest["circumstances"], part["circumstances"])
        if parts:
            manifest["circumstances"]["parts"] = [_part_summary(part) for part in parts]
        return manifest

    def start(
        self,
        identity: Mapping[str, Any],
        plan: Sequence[str],
        queries: pa.Table,
        candidates: pa.Table,
        shows: Mapping[str, Any] | None = None,
        idle: Collection[str] = (),
        work: Work | None = None,
    ) -> set[str]:
        """Create or resume the run.

        :param shows: what the probe declares of its numbers; no part of the identity.
        :param idle: names of options that have no effect on this run and may differ.
        :returns: the finished shards.
        :raises BadInput: the folder contains something else, or a run of another identity.
        """
        if self.has_manifest():
            before, now = compared(self.manifest["identity"], idle), compared(as_read_back(identity), idle)
            if unrecorded := (now["resolved"].keys() & {CHAT_FRAME, CHAT_TOKENS}) - before["resolved"].keys():
                log(f"{self.path} was begun before runs recorded what a chat template writes: it may be another day's")
                now["resolved"] = {key: value for key, value in now["resolved"].items() if key not in unrecorded}
            self.refuse_differences(before, now)
            if not self.is_complete() and self.manifest["plan"] != list(plan):
                raise BadInput(
                    f"{self.path} has {len(self.manifest['plan']):,} shards, this Fathom makes {len(plan):,}: "
                    "resume with the version that started it, or choose another --out"
                )
            if recorded := self.digests():  # a kill may have come between a shard and its record
                for name in {self._name_of(shard) for shard in self.finished()} - recorded.keys():
                    self._notes["digests"][name] = file_digest(self.path / name)
            return self.finished()
        # A run that was killed before it wrote its manifest may have these.
        refuse_foreign_files(self.path, {QUERIES_FILE, "candidates.parquet", AT_WORK, CLAIMS}, "a run")
        clear_temporaries(self.path)
        self._write(QUERIES_FILE, queries)
        self._write("candidates.parquet", candidates)
        manifest = {"format": FORMAT, "identity": identity, "plan": list(plan), "circumstances": {}}
        more = {"shows": shows, "work": work and work._asdict(), "digests": self._notes["digests"]}
        write_sealed(self.path / RUN, manifest | {name: value for name, value in more.items() if value})
        return set()

    def refuse_differences(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """:raises BadInput: the identity *now* is not the one *before*."""
        if differing := list(differences(before, now)):
            raise BadInput([f"{self.path} belongs to another run: choose another --out", *differing])

    def finished(self) -> set[str]:
        """Return the names of the finished shards."""
        return {part.stem.removeprefix("part-") for part in (self.path / "predictions").glob("part-*.parquet")}

    def is_complete(self) -> bool:
        """Return whether all shards of the plan are finished."""
        return set(self.manifest["plan"]) <= self.finished()

    def add_shard(self, shard: str, rows: pa.Table | Sequence[Mapping[str, Any]]) -> None:
        """Write the predictions of a shard. :raises RunFailed: the disk is full."""
        self._write(self._name_of(shard), rows if isinstance(rows, pa.Table) else as_table(rows))
        self._notes["shards"] += 1

    def _write(self, name: str, table: pa.Table) -> None:
        write_table(self.path / name, table)
        self._notes["digests"][name] = file_digest(self.path / name)

    def file_of(self, shard: str) -> Path:
        """Return the path of a shard's predictions."""
        return self.path / self._name_of(shard)

    def _name_of(self, shard: str) -> str:
        return f"predictions/part-{shard}.parquet"

    def digests(self) -> dict[str, set[str]]:
        """Return the recorded digests of each file: several if it was written again, none in earlier versions."""
        recorded: dict[str, set[str]] = {}
        for session in (read_manifest(self.path, RunManifest), *read_parts(self.path)):
            for name, digest in session.get("digests", {}).items():
                recorded.setdefault(name, set()).add(digest)
        return recorded

    def _check_content(self, names: Iterable[str], what_to_do: str) -> None:
        """:raises Unreadable: a file is not the one that the run wrote."""
        recorded = self.digests()
        for name in names:
            if name in recorded and file_digest(self.path / name) not in recorded[name]:
                raise Unreadable(self.path / name, None, f"{DAMAGED}: not what the run wrote: {what_to_do}")

    def add_circumstances(self, **facts: object) -> None:
        """Add to the circumstances; numbers add up over all sessions. Each part writes its own file."""
        facts |= {"command": dict(self.command)} if self.command else {}
        if self.part is not None:
            add_up(self._notes["circumstances"], facts)
            write_sealed(self._notes_at, self._notes)
            return
        manifest = read_manifest(self.path, RunManifest)
        add_up(manifest["circumstances"], facts)
        manifest["digests"] = manifest.get("digests", {}) | self._notes["digests"]
        write_sealed(self.path / RUN, manifest)

    @contextmanager
    def logged(self) -> Iterator[None]:
        """Append the lines that are logged to the run's log, and the error that ends the work."""
        WRITERS.append(self.add_log)
        try:
            yield
        except BadInput:  # may be of a command that has nothing to do with this run
            raise
        except BaseException as error:
            self.add_log(f"{type(error).__name__}: {error}")
            raise
        finally:
            WRITERS.remove(self.add_log)

    def add_log(self, text: str) -> None:
        """Append a line to the run's log. Without a run, or if it cannot be written, nothing happens."""
        if self.has_manifest():
            with suppress(OSError), (self.path / LOG).open("a", encoding="utf-8") as file:
                file.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {printable(text)}\n")

    def last_log(self) -> list[str]:
        """Return the last lines of the run's log; none if there is none."""
        file = self.path / LOG
        if file.is_symlink() or not stands(file):  # a link may lead anywhere
            return []
        return [printable(line) for line in deque(text_lines(file), LOG_LINES)]

    def predictions(self, without: Collection[str] = ()) -> pa.Table:
        """Return the rows of the finished shards in the order of the plan. :param without: columns to skip."""
        done = self.finished()
        names = [self._name_of(shard) for shard in self.manifest["plan"] if shard in done]
        if not names:
            return SCHEMA.empty_table()
        parts = [_part(self.path / name, without) for name in names]
        self._check_content(names, _PART_AGAIN)
        return pa.concat_tables(parts, promote_options="default")

    def queries(self) -> pa.Table:
        """Return one row per query, with the groups that :meth:`grouped_by` added."""
        kinds = {field.name: field.type for field in QUERIES}
        file = self.path / QUERIES_FILE
        table = parquet_file(file, kinds, _REQUIRED, filled=("query_id",), what_to_do=_RUN_AGAIN)
        self._check_content([file.name], _RUN_AGAIN)
        if len(table) > (different := pc.count_distinct(table.column("query_id")).as_py()):
            raise Unreadable(file, None, f"has {len(table):,} queries with {different:,} query_ids: {_RUN_AGAIN}")
        if not self._more_groups:
            return table
        ids, groups = table.column("query_id").to_pylist(), table.column("groups").to_pylist()
        merged = [
            list((dict(group) | self._more_groups.get(id_, {})).items()) for id_, group in zip(ids, groups, strict=True)
        ]
        column = pa.array(merged, table.schema.field("groups").type)
        return table.set_column(table.schema.get_field_index("groups"), "groups", column)

    def grouped_by(self, file: Path) -> RunFolder:
        """Return the same run with further groups of its queries.

        :param file: JSON Lines with ``query_id`` and any other fields, such as a planted model's ``planted.jsonl``.
        :raises BadInput: the file is missing, a line is not such an object, or a query has two lines.
        """
        grouped, lines = RunFolder(self.path), dict[str, int]()
        for number, row in json_lines(file):
            if not isinstance(row, dict) or not isinstance(row.get("query_id"), str):
                raise BadInput(f'{file}:{number}: expected {{"query_id": "…", "group": …}}, found {shown(row, 40)}')
            query = row.pop("query_id")
            if why := repetition(lines, query, number, f"query_id {query!r}"):
                raise BadInput(f"{file}:{number}: {why}")
            grouped._more_groups[query] = {key: str(value) for key, value in row.items()}
        return grouped

    def candidates(self) -> dict[str, tuple[list[str], list[str]]]:
        """Return ids and names of each candidate set, in order."""
        sets: dict[str, tuple[list[str], list[str]]] = {}
        kinds, needed = {field.name: field.type for field in CANDIDATES}, ("set", "id", "name")
        file = self.path / "candidates.parquet"
        table = parquet_file(file, kinds, needed, filled=needed, what_to_do=_RUN_AGAIN)
        owners = table.column("set").combine_chunks().dictionary_encode()  # a text for each set, not for each row
        columns = owners.indices, table.column("id"), table.column("name")
        owned = [sets.setdefault(owner, ([], [])) for owner in owners.dictionary.to_pylist()]
        for owner, id_, name in zip(*(column.to_pylist() for column in columns), strict=True):
            ids, names = owned[owner]
            ids.append(id_)
            names.append(name)
        for name, (ids, _) in sets.items():
            if len(set(ids)) < len(ids):
                raise BadInput(f"{file}: the set {name!r} has a candidate twice: {_RUN_AGAIN}")
        self._check_content([file.name], _RUN_AGAIN)
        return sets


def _part(file: Path, without: Collection[str]) -> pa.Table:
    """Read the predictions of a shard. :raises Unreadable: the file is damaged."""
    kinds = {field.name: field.type for field in SCHEMA}
    needed = [name for name in kinds if name not in LATER and name not in without]
    table = parquet_file(file, kinds, needed, filled=("query_id", "scoring"), without=without, what_to_do=_PART_AGAIN)
    if not {"top_ids", "top_scores"} & set(without):
        ids, scores = (pc.list_value_length(table.column(name)) for name in ("top_ids", "top_scores"))
        if pc.any(pc.not_equal(ids, scores)).as_py():
            raise Unreadable(file, None, f"top_ids and top_scores are of unequal length: {_PART_AGAIN}")
    return table


def add_up(recorded: dict[str, Any], facts: Mapping[str, Any]) -> None:
    """Add the circumstances of a later session: sum numbers, take the largest difference, replace all else."""
    for name, value in facts.items():
        before = recorded.get(name)
        if name == LARGEST_DIFFERENCE:
            recorded[name] = max(value, before or 0.0)
            continue
        numbers = isinstance(value, int | float) and isinstance(before, int | float)
        recorded[name] = before + value if numbers else value


def _part_summary(part: Mapping[str, Any]) -> dict[str, Any]:
    circumstances = {"part": part["part"], "shards": part["shards"], **part["circumstances"]}
    names = ("part", "shards", "host", "device", "threads", "seconds")
    return {name: circumstances[name] for name in names if name in circumstances}


def compared(identity: Mapping[str, Any], idle: Collection[str] = ()) -> dict[str, Any]:
    """Return what two identities must share. Models and data with a content hash may differ in name."""
    nameless = {
        part: {key: value for key, value in content.items() if key != "name"}
        for part, content in identity.items()
        if isinstance(content, dict) and content.get("content_hash")
    }
    options = {key: value for key, value in identity.get("options", {}).items() if key not in idle}
    return {**identity, **nameless, "options": options}


def differences(old: object, new: object, where: str = "") -> Iterator[str]:
    """Yield a line for each field that differs, except new fields with an empty or false value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | {key for key, value in new.items() if value}):
            yield from differences(old.get(key), new.get(key), f"{where}.{key}" if where else key)
    elif old != new:
        there, here = parted(old, new) if isinstance(old, str) and isinstance(new, str) else (old, new)
        yield f"  {where}: there {there!r}, here {here!r}{_HINTS.get(where, '')}"


REFERENCES = Path(__file__).parent / "references"
"""A run folder for each model, named as in ``fathom model fetch``; ``make references`` makes them."""
PREFIX = "reference:"


def shown_path(path: Path) -> str:
    """Return what messages call the folder of a run: its path, or ``reference:NAME``."""
    return f"{PREFIX}{path.name}" if path.parent == REFERENCES else str(path)


def run_path(path: str | Path) -> Path:
    """Return the folder of a run that is given by its path, or as ``reference:NAME`` in any case.

    :raises BadInput: there is no such reference.
    """
    if not str(path).startswith(PREFIX):
        return Path(path)
    name = str(path).removeprefix(PREFIX)
    folders = {folder.name.casefold(): folder for folder in sorted(REFERENCES.glob("*"))}
    if name.casefold() not in folders:
        names = ", ".join(f"{PREFIX}{folder.name}" for folder in folders.values())
        raise BadInput(f"no run {path}: there is {names or 'none'}")
    return folders[name.casefold()]
