"""Foreign Parquet and safetensors files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.base.reading.bounds import ROWS, grown, most_unpacked
from fathom.base.reading.files import DAMAGED, Unreadable, check_file

INDEX = "__index_level_"
"""Start of the name of a column that pandas makes of an index without a name."""
_BYTES = 8
"""Least bytes of a value in memory."""

if TYPE_CHECKING:
    import pyarrow as pa


def parquet_file(
    path: Path,
    expected: Mapping[str, pa.DataType] | None = None,
    needed: Collection[str] = (),
    *,
    filled: Collection[str] = (),
    without: Collection[str] = (),
    what_to_do: str = "make it anew",
) -> pa.Table:
    """Read and validate a table.

    :param expected: types of columns; similar types are cast.
    :param filled: columns without nulls.
    :param without: columns to skip.
    :param what_to_do: end of the message.
    :raises Unreadable: no file, not Parquet, too large, or a column is missing or of another type.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = check_file(path).st_size
    try:
        wanted = [name for name in pq.read_schema(path).names if name not in without] if without else None
        about = pq.read_metadata(path)
        if about.num_rows > ROWS.most:
            raise Unreadable(path, None, ROWS.fault())
        if about.num_rows * about.num_columns * _BYTES > most_unpacked(size):  # as of one value repeated
            raise Unreadable(path, None, f"{grown(size)} ({about.num_rows:,} rows of {about.num_columns} columns)")
        table = pq.read_table(path, columns=wanted, partitioning=None, page_checksum_verification=True)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        details = " ".join(str(error).split())[:200]
        raise Unreadable(path, None, f"{DAMAGED}: {what_to_do} ({details})") from error
    if missing := [name for name in needed if name not in table.column_names]:
        columns = ", ".join(table.column_names[:8]) or "none"
        raise Unreadable(path, None, f"has no column {', '.join(missing)}, found {columns}: {what_to_do}")
    for name in filled:
        if name in table.column_names and (count := table.column(name).null_count):
            raise Unreadable(path, None, f"column {name} is empty in {count:,} of {len(table):,} rows: {what_to_do}")
    return _cast(path, table, expected or {}, what_to_do)


def index_columns(table: pa.Table) -> list[str]:
    """Return the columns that are the index of a table written by pandas, by its metadata or by their names."""
    try:
        names = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
    except (ValueError, KeyError, TypeError, RecursionError):
        names = ()
    names = names if isinstance(names, list) else ()
    return [name for name in table.column_names if name in names or name.startswith(INDEX)]


def _cast(path: Path, table: pa.Table, expected: Mapping[str, pa.DataType], what_to_do: str) -> pa.Table:
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        kind, actual = expected.get(name), table.schema.field(place).type
        if kind is None or actual == kind:
            continue
        try:
            if not _is_similar(actual, kind):
                raise pa.ArrowInvalid(f"{actual} is no {kind}")
            table = table.set_column(place, name, table.column(place).cast(kind))
        except pa.ArrowException as error:
            raise Unreadable(path, None, f"column {name} must be {kind}, found {actual}: {what_to_do}") from error
    return table


def _is_similar(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether types differ in width alone; a column of nulls matches any type."""
    from pyarrow import types

    def is_text(kind: pa.DataType) -> bool:
        return bool(types.is_string(kind) or types.is_large_string(kind))

    def is_list(kind: pa.DataType) -> bool:
        return bool((types.is_list(kind) or types.is_large_list(kind)) and not types.is_map(kind))

    if types.is_null(actual) or actual == wanted:
        return True
    if is_list(actual) and is_list(wanted):
        return _is_similar(actual.value_type, wanted.value_type)
    if types.is_map(actual) and types.is_map(wanted):
        return _is_similar(actual.key_type, wanted.key_type) and _is_similar(actual.item_type, wanted.item_type)
    if types.is_floating(wanted):
        return bool(types.is_floating(actual) or types.is_integer(actual))
    return any(is_kind(actual) and is_kind(wanted) for is_kind in (is_text, types.is_integer))


def tensors_file(path: Path, what_to_do: str, framework: str = "pt") -> dict[str, Any]:
    """Read the tensors of a safetensors file by name. :raises Unreadable: no file, or damaged."""
    with _tensors(path, what_to_do, framework) as content:
        return {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 # not a mapping


def shapes_in(path: Path, what_to_do: str) -> dict[str, list[int]]:
    """Read the shapes of the tensors of a safetensors file by name, as :func:`tensors_file` does."""
    with _tensors(path, what_to_do, "np") as content:
        return {name: content.get_slice(name).get_shape() for name in content.keys()}  # noqa: SIM118 # not a mapping


@contextmanager
def _tensors(path: Path, what_to_do: str, framework: str) -> Iterator[Any]:
    from safetensors import safe_open

    check_file(path)
    try:
        with safe_open(path, framework=framework) as content:
            yield content
    except Exception as error:  # safetensors' own errors differ between versions
        details = " ".join(str(error).split())[:200]
        raise Unreadable(path, None, f"{DAMAGED}: {what_to_do} ({details})") from error
