"""A run as a folder: what was asked of which model, the predictions so far, and enough to repeat or resume it.

``manifest.json`` holds the *identity* (everything that can change a number), the *plan* (which shards there are, fixed
before the first is asked) and the *circumstances* (where and how fast). ``predictions/part-<shard>.parquet`` are whole
or absent, so a killed run has lost at most the shard in work. Where several processes share a run, each keeps its
circumstances in a file of ``parts/``, and readers of the manifest are given them all together.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fathom.errors import BadInput, FathomError
from fathom.reading import Missing, Unreadable, as_read_back, json_lines, parquet_file, shown, stands
from fathom.reading.files import printable
from fathom.store.files import AT_WORK, CLAIMS, clear_temporaries, write_json, write_table
from fathom.store.manifest import FORMAT, PARTS, RUN, RunManifest, read_manifest, read_parts
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
        ("frequency_optimistic", pa.int64()),
        ("frequency_pessimistic", pa.int64()),
    ]
)
"""``queries.parquet``; runs of version 0.1.0 lack some of the columns."""
CANDIDATES = pa.schema([("set", pa.string()), ("position", pa.int64()), ("id", pa.string()), ("name", pa.string())])
_ANEW = "make the run anew"
_ASKED = ("query_id", "fact_id", "relation", "direction", "gold", "candidates", "groups")


class RunFolder:
    """:param path: the folder; :meth:`start` makes or resumes it, reading needs it to exist.
    :param part: where this process shares the run with others: which part it is, such as "1/4".
    """

    def __init__(self, path: str | Path, part: str | None = None) -> None:
        self.path, self.part = Path(path), part
        session = f"{(part or '').replace('/', '-of-')}-{secrets.token_hex(4)}"
        self._notes: dict[str, Any] = {"part": part, "shards": 0, "circumstances": {}}
        self._notes_at = self.path / PARTS / f"{session}.json"
        self._more_groups: dict[str, dict[str, str]] = {}

    def __repr__(self) -> str:
        return f"<RunFolder {str(self.path)!r}: {self.told()}>"

    def told(self) -> str:
        """What it holds, in a few words."""
        try:
            manifest = self.manifest
        except Missing:
            return "no run yet"
        except FathomError:
            return "a run that cannot be read"
        of, there = manifest["identity"], len(self.finished() & set(manifest["plan"]))
        state = "finished" if there == len(manifest["plan"]) else f"{there:,} of {len(manifest['plan']):,} shards"
        return printable(f"{of['probe']} probe of {of['model']['name']} on {of['data']['name']}, {state}")

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """A run to read. :raises BadInput: not a run, or made by a newer Fathom."""
        folder = cls(path)
        try:
            folder.manifest  # noqa: B018 # read to be checked
        except Missing as error:
            raise BadInput(f"{path} is not a run: it has no manifest.json; give the folder that --out named") from error
        return folder

    def has_manifest(self) -> bool:
        """Whether a run has begun there."""
        return stands(self.path / RUN)

    @property
    def manifest(self) -> dict[str, Any]:
        """The content of manifest.json, checked, with the circumstances of all parts. :raises BadInput: it is no
        manifest of a run."""
        manifest, parts = read_manifest(self.path, RunManifest), read_parts(self.path)
        for part in parts:
            add_up(manifest["circumstances"], part["circumstances"])
        if parts:
            manifest["circumstances"]["parts"] = [_in_short(part) for part in parts]
        return manifest

    def start(
        self,
        identity: Mapping[str, Any],
        plan: Sequence[str],
        queries: pa.Table,
        candidates: pa.Table,
        shows: Mapping[str, Any] | None = None,
        idle: Collection[str] = (),
    ) -> set[str]:
        """Make the folder, or go on with it.

        :param idle: names of options that change no number of this run, in which it may differ.

        :param shows: what the probe declares of its numbers; it decides nothing about what may resume.
        :returns: the shards already finished.
        :raises BadInput: it holds something else, or a run of another identity (the differing fields are named).
        """
        if self.has_manifest():
            began, now = compared(self.manifest["identity"], idle), compared(as_read_back(identity), idle)
            differing = list(differences(began, now))
            if differing:
                raise BadInput([f"{self.path} belongs to another run: choose another --out", *differing])
            if not self.is_complete() and self.manifest["plan"] != list(plan):
                raise BadInput(
                    f"{self.path} was cut into {len(self.manifest['plan']):,} shards, this version of Fathom cuts it "
                    f"into {len(plan):,}: go on with the version that began it, or choose another --out"
                )
            return self.finished()
        self._refuse_what_is_not_ours()
        clear_temporaries(self.path)
        write_table(self.path / "queries.parquet", queries)
        write_table(self.path / "candidates.parquet", candidates)
        manifest = {"format": FORMAT, "identity": identity, "plan": list(plan), "circumstances": {}}
        write_json(self.path / "manifest.json", manifest | ({"shows": shows} if shows else {}))
        return set()

    def _refuse_what_is_not_ours(self) -> None:
        """A run killed before its manifest was written has left nothing but our own names."""
        if self.path.exists() and not self.path.is_dir():
            raise BadInput(f"{self.path} is a file: choose another --out")
        own = {"queries.parquet", "candidates.parquet", AT_WORK, CLAIMS}
        if self.path.exists() and any(f.name not in own and f.suffix != ".tmp" for f in self.path.iterdir()):
            raise BadInput(f"{self.path} is not empty and not a run: choose another --out")

    def finished(self) -> set[str]:
        """Names of the shards whose predictions are there."""
        return {part.stem.removeprefix("part-") for part in (self.path / "predictions").glob("part-*.parquet")}

    def is_complete(self) -> bool:
        """Whether all shards of the plan are finished."""
        return set(self.manifest["plan"]) <= self.finished()

    def add_shard(self, shard: str, rows: pa.Table | Sequence[Mapping[str, Any]]) -> None:
        """Keep the predictions of one shard, whole or not at all. :raises RunFailed: the disk is full."""
        write_table(self.file_of(shard), rows if isinstance(rows, pa.Table) else as_table(rows))
        self._notes["shards"] += 1

    def file_of(self, shard: str) -> Path:
        """Where its predictions are, or will be."""
        return self.path / "predictions" / f"part-{shard}.parquet"

    def add_circumstances(self, **facts: Any) -> None:
        """Add to what is recorded; numbers add up over the sessions that a resumed run took. A part writes a file of
        its own: two processes that add to one file would lose what the other has added."""
        if self.part is not None:
            add_up(self._notes["circumstances"], facts)
            write_json(self._notes_at, self._notes)
            return
        manifest = read_manifest(self.path, RunManifest)
        add_up(manifest["circumstances"], facts)
        write_json(self.path / RUN, manifest)

    def predictions(self, without: Collection[str] = ()) -> pa.Table:
        """All rows of the finished shards, in the order of the plan. :param without: columns that are not read."""
        done = self.finished()
        parts = [self.file_of(shard) for shard in self.manifest["plan"] if shard in done]
        if not parts:
            return SCHEMA.empty_table()
        return pa.concat_tables((_part(part, without) for part in parts), promote_options="default")

    def queries(self) -> pa.Table:
        """A row per query, with the groups that :meth:`grouped_by` has added."""
        kinds = {field.name: field.type for field in QUERIES}
        file = self.path / "queries.parquet"
        table = parquet_file(file, kinds, _ASKED, filled=("query_id",), what_to_do=_ANEW)
        if not self._more_groups:
            return table
        ids, groups = table.column("query_id").to_pylist(), table.column("groups").to_pylist()
        merged = [
            list((dict(group) | self._more_groups.get(id_, {})).items()) for id_, group in zip(ids, groups, strict=True)
        ]
        column = pa.array(merged, table.schema.field("groups").type)
        return table.set_column(table.schema.get_field_index("groups"), "groups", column)

    def grouped_by(self, file: Path) -> RunFolder:
        """The same run, its queries with further groups to break down by.

        :param file: JSON Lines with ``query_id`` and any other fields, such as a planted model's ``planted.jsonl``.
        :raises BadInput: the file is missing, or a line is not such an object.
        """
        grouped = RunFolder(self.path)
        for number, row in json_lines(file):
            if not isinstance(row, dict) or not isinstance(row.get("query_id"), str):
                raise BadInput(f'{file}:{number}: expected {{"query_id": "…", "group": …}}, found {shown(row, 40)}')
            query = row.pop("query_id")
            grouped._more_groups[query] = {key: str(value) for key, value in row.items()}
        return grouped

    def candidates(self) -> dict[str, tuple[list[str], list[str]]]:
        """Ids and names of each candidate set, in order."""
        sets: dict[str, tuple[list[str], list[str]]] = {}
        kinds, needed = {field.name: field.type for field in CANDIDATES}, ("set", "id", "name")
        file = self.path / "candidates.parquet"
        for row in parquet_file(file, kinds, needed, filled=needed, what_to_do=_ANEW).to_pylist():
            ids, names = sets.setdefault(row["set"], ([], []))
            ids.append(row["id"])
            names.append(row["name"])
        for name, (ids, _) in sets.items():
            if len(set(ids)) < len(ids):
                raise BadInput(f"{file}: the set {name!r} has a candidate twice: {_ANEW}")
        return sets


def _part(file: Path, without: Collection[str]) -> pa.Table:
    """The predictions of a shard. :raises Unreadable: it cannot be what Fathom wrote."""
    again = "delete it and type the probe's command again"
    kinds = {field.name: field.type for field in SCHEMA}
    needed = [name for name in kinds if name not in LATER and name not in without]
    table = parquet_file(file, kinds, needed, filled=("query_id", "scoring"), without=without, what_to_do=again)
    if not {"top_ids", "top_scores"} & set(without):
        ids, scores = (pc.list_value_length(table.column(name)) for name in ("top_ids", "top_scores"))
        if pc.any(pc.not_equal(ids, scores)).as_py():
            raise Unreadable(file, None, f"top_ids and top_scores are of unequal length: {again}")
    return table


def add_up(recorded: dict[str, Any], facts: Mapping[str, Any]) -> None:
    """Add to circumstances those of a later session: numbers are summed, of all else the later is kept."""
    for name, value in facts.items():
        before = recorded.get(name)
        numbers = isinstance(value, int | float) and isinstance(before, int | float)
        recorded[name] = before + value if numbers else value


def _in_short(part: Mapping[str, Any]) -> dict[str, Any]:
    """What one process did of a run that several share."""
    noted = part["circumstances"]
    return {"part": part["part"], "shards": part["shards"]} | {
        name: noted[name] for name in ("host", "device", "threads", "seconds") if name in noted
    }


def compared(identity: Mapping[str, Any], idle: Collection[str] = ()) -> dict[str, Any]:
    """What two identities must have in common: without names of what a content hash tells, so that two ways to spell a
    folder, or another name of it, are one model or one data set.

    :param idle: options that change nothing here.
    """
    hashed = {part: said for part, said in identity.items() if isinstance(said, dict) and said.get("content_hash")}
    nameless = {part: {key: value for key, value in said.items() if key != "name"} for part, said in hashed.items()}
    options = {key: value for key, value in identity.get("options", {}).items() if key not in idle}
    return {**identity, **nameless, "options": options}


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """One line for each field in which two identities differ. A field that an earlier version did not have yet, and
    that now says no or nothing, is none."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | {key for key, value in new.items() if value}):
            yield from differences(old.get(key), new.get(key), f"{where}.{key}" if where else key)
    elif old != new:
        yield f"  {where}: there {old!r}, here {new!r}"
