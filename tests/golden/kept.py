"""What a golden run leaves behind, as JSON; and how it is compared with what an earlier version left."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

CIRCUMSTANCES = {"host", "device", "sessions", "batch_tokens", "seconds"} | {
    *("versions", "earlier_versions", "platform", "begun", "resumed", "attention_kernel", "command")
}
"""Where, when and how fast: these differ from one time to the next."""
EXACT = {"rank", "rank_optimistic", "rank_pessimistic", "rank_above", "gold_ranks"}
"""Columns of predictions whose numbers must be the very same."""
TOLERANCE = 1e-5
DIGITS = 7
DIGESTS = {"model": "content_hash", "weights": "content_hash", "resolved": "learnt"}
"""What has a digest of weights in it, under which key: the last bits of trained weights differ between processors."""
LONGEST_TEXT = 400_000
RECORD = ".written.json"
"""Names and digests of the files that a command has written."""
NOT_KEPT = (".json", ".jsonl", ".csv", ".tsv", ".txt")
"""Files of which only the name was kept where they were long."""
UNSTABLE = {
    r"\bmodel:[^|]+": lambda models: re.sub("@[0-9a-f]+", "", models[0]),  # the recipe of a metric
    r"\|fathom:[^|]+": "",
}
"""What stands in texts and differs from one time, machine or version to the next → what is kept of it."""
VERSIONS = {"version", "fathom"}
PROSE = {"note", "notes", "recipe", "verdict", "conclusion", "because", "why", "formula", "reasons", "what"}
"""Keys whose texts are sentences for a reader: their wording may change, so nothing of them is kept."""
SAID = "…"
"""What is kept of a reason: that there is one."""
LONG = 40
"""What is of so many letters or more and stands several times in a file stands once in it, at its beginning."""


def is_prose(value: Any) -> bool:
    """Whether these are the sentences above a study's tables."""
    return isinstance(value, list) and all(isinstance(one, str) and one.endswith(".") for one in value)


def tidy(content: Any, name: str = "") -> Any:
    """Drop circumstances, prose, digests of weights and versions of libraries; keep seven digits of numbers."""
    if isinstance(content, dict):
        left_out = CIRCUMSTANCES | {DIGESTS.get(name)}
        return {
            str(key): tidy(value, str(key))
            for key, value in content.items()
            if key not in left_out | PROSE
            and not (key == "answer" and is_prose(value))
            and not (key in VERSIONS and re.match(r"\d+\.\d+\.\d+", str(value)))
        }
    if isinstance(content, list | tuple):
        if len(content) > 1 and all(isinstance(value, dict) for value in content):
            return tidy(columns(content), name)
        return [tidy(value, name) for value in content]
    if isinstance(content, float):
        return float(f"{content:.{DIGITS}g}") if math.isfinite(content) else str(content)
    if isinstance(content, str) and name == "unscored":
        return SAID
    if isinstance(content, str):
        for pattern, instead in UNSTABLE.items():
            content = re.sub(pattern, instead, content)
    return content


def printed_tables(content: Any) -> Any:
    """Number the tables of ``--format json``: their titles, and the answer above them, are prose."""
    titled = isinstance(content, dict) and all(isinstance(rows, dict | list) for rows in content.values())
    tables = [rows for title, rows in content.items() if title != "answer"] if titled else []
    return {f"table {place}": rows for place, rows in enumerate(tables, 1)} if titled else content


def columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Rows as column → cells, None where a row has none."""
    return {key: [row.get(key) for row in rows] for row in rows for key in row}


def number(cell: str) -> Any:
    """A cell of a CSV file; whole numbers stay whole."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def csv_tables(text: str) -> list[dict[str, list[Any]]]:
    """The tables of a file, an empty line between them, as column → cells."""
    found: list[dict[str, list[Any]]] = []
    for block in text.strip("\n").split("\n\n"):
        header, *rows = csv.reader(io.StringIO(block))
        found.append({name: [number(row[place]) for row in rows] for place, name in enumerate(header)})
    return found


def table(path: Path) -> dict[str, list[Any]]:
    return columns(pq.read_table(path).to_pylist())


def kept_run(folder: Path) -> dict[str, Any]:
    """A run: what it is, what it was asked, and every column of its predictions that is not empty."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    rows = [row for part in manifest["plan"] for row in pq.read_table(parts(folder, part)).to_pylist()]
    return {
        "identity": manifest["identity"],
        "plan": manifest["plan"],
        "circumstances": manifest["circumstances"],
        "queries": table(folder / "queries.parquet"),
        "candidates": table(folder / "candidates.parquet"),
        "predictions": {
            name: cells for name, cells in columns(rows).items() if any(cell is not None for cell in cells)
        },
    }


def parts(folder: Path, part: str) -> Path:
    return folder / "predictions" / f"part-{part}.parquet"


def is_run(folder: Path) -> bool:
    file = folder / "manifest.json"
    return file.exists() and "plan" in json.loads(file.read_text(encoding="utf-8"))


def kept_folder(folder: Path) -> dict[str, Any]:
    """Runs as runs, tables and texts as what they say, of anything else the name.

    :returns: path → content, for all files in *folder*.
    """
    runs = {file.parent for file in folder.rglob("manifest.json") if is_run(file.parent)}
    found: dict[str, Any] = {}
    for file in sorted(folder.rglob("*")):
        inside = next((run for run in runs if run == file or run in file.parents), None)
        name = str(file.relative_to(folder))
        if file in runs or (file == folder and folder in runs):
            found[name] = tidy(kept_run(file))
        elif file.is_file():
            own = inside is not None and (file.suffix == ".parquet" or file.name == "manifest.json")
            found[name] = None if own else tidy(kept_file(file))
    if folder in runs:
        found["."] = tidy(kept_run(folder))
    return found


def kept_file(file: Path) -> Any:
    if file.suffix == ".parquet":
        return table(file)
    if file.suffix not in (".json", ".jsonl", ".csv", ".tsv", ".txt"):
        return None
    text = file.read_text(encoding="utf-8-sig")
    if len(text) > LONGEST_TEXT or file.name.startswith(("tokenizer", "special_tokens", "config", "generation_config")):
        return None
    if file.suffix == ".json":
        return json.loads(text)
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return csv_tables(text) if file.suffix == ".csv" else text.splitlines()


def differences(kept: Any, now: Any, path: str = "", exact: bool = False) -> Iterator[tuple[str, str]]:
    """Where *now* lacks what is kept, or says something else; what is new in it is no difference.

    :returns: the path in the JSON, and both in words.
    """
    if path.endswith(RECORD):  # a digest changes with the last bit of any number; the files themselves are compared
        kept, now = sorted(kept), sorted(now)
    if isinstance(kept, dict) and isinstance(now, dict):
        for key, value in kept.items():
            where = f"{path}/{key}" if path else key
            if key not in now:
                yield where, f"was {shortened(value)}, is gone"
            else:
                yield from differences(value, now[key], where, exact or key in EXACT)
    elif kept is None and (path.endswith(NOT_KEPT) or (".csv/" in path and isinstance(now, list))):
        return  # of several tables in a file, one has got a column that another had before
    elif isinstance(kept, list) and isinstance(now, list):
        if len(kept) != len(now):
            yield path, f"were {len(kept)} entries, are {len(now)}"
        for place, (before, after) in enumerate(zip(kept, now, strict=False)):
            yield from differences(before, after, f"{path}/{place}", exact)
    elif not same(kept, now, exact):
        yield path, f"was {shortened(kept)}, is {shortened(now)}"


def same(kept: Any, now: Any, exact: bool) -> bool:
    """Whole numbers, texts and ranks exactly; other numbers within :data:`TOLERANCE`, relative or absolute."""
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (kept, now))
    if numbers and not exact and isinstance(kept, float):
        return math.isclose(kept, now, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if numbers:
        return bool(kept == now)
    if kept == "nan":  # a cell of a CSV file without a number, however it is written
        return now in ("nan", "")
    return type(kept) is type(now) and bool(kept == now)


def shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


BETWEEN = ",\n"


def dumped(content: dict[str, Any]) -> str:
    """JSON with a line for each column or row, neither for each number nor one for all."""
    shared = {text: place for place, text in enumerate(several_times(content))}

    def write(value: Any) -> str:
        whole = compact(value)
        if whole in shared:
            return f'"§{shared[whole]}"'
        if len(whole) <= 100 or not isinstance(value, dict | list):
            return whole
        rows = [write(one) for one in (value.values() if isinstance(value, dict) else value)]
        if isinstance(value, dict):
            rows = [f"{compact(key)}:{row}" for key, row in zip(value, rows, strict=True)]
        left, right = "{}" if isinstance(value, dict) else "[]"
        if isinstance(value, list) and not any("\n" in row for row in rows):
            return left + ",".join(rows) + right
        return "\n".join((left, BETWEEN.join(rows), right))

    return "\n".join(('{"shared":[', BETWEEN.join(shared), f'],"left":{write(content)}}}\n'))


def loaded(text: str) -> Any:
    """What :func:`dumped` was given."""
    content = json.loads(text)

    def resolved(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: resolved(one) for key, one in value.items()}
        if isinstance(value, list):
            return [resolved(one) for one in value]
        return content["shared"][int(value[1:])] if isinstance(value, str) and value.startswith("§") else value

    return resolved(content["left"])


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def several_times(content: Any) -> list[str]:
    """The texts, lists and objects that stand in *content* more than once, those inside of them aside."""
    count: Counter[str] = Counter()

    def visit(value: Any) -> None:
        whole = compact(value)
        if len(whole) >= LONG:
            count[whole] += 1
            if count[whole] == 1 and isinstance(value, dict | list):
                for one in value.values() if isinstance(value, dict) else value:
                    visit(one)

    visit(content)
    return [whole for whole, times in count.items() if times > 1]
