"""Parquet and safetensors that others wrote; the libraries are loaded where they are used."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.reading.files import DAMAGED, Unreadable, check_file

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
    """A table, every text in it checked to be one.

    :param expected: the kinds of columns, where they are there; those of like kinds are brought to them.
    :param needed: columns that must be there.
    :param filled: columns that must have a value in every row.
    :param without: columns that are not read.
    :param what_to_do: ends the message of a damaged file.
    :raises Unreadable: no file, not Parquet, or a column is missing or of another kind.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_file(path)
    try:
        wanted = [name for name in pq.read_schema(path).names if name not in without] if without else None
        table = pq.read_table(path, columns=wanted, partitioning=None)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        said = " ".join(str(error).split())[:200]
        raise Unreadable(path, None, f"{DAMAGED}: {what_to_do} ({said})") from error
    if missing := [name for name in needed if name not in table.column_names]:
        found = ", ".join(table.column_names[:8]) or "none"
        raise Unreadable(path, None, f"has no column {', '.join(missing)}, found {found}: {what_to_do}")
    for name in filled:
        if name in table.column_names and (count := table.column(name).null_count):
            raise Unreadable(path, None, f"column {name} is empty in {count:,} of {len(table):,} rows: {what_to_do}")
    return _of_kinds(path, table, expected or {}, what_to_do)


def _of_kinds(path: Path, table: pa.Table, expected: Mapping[str, pa.DataType], what_to_do: str) -> pa.Table:
    """:raises Unreadable: a column is of another kind."""
    import pyarrow as pa

    for place, name in enumerate(table.column_names):
        kind, found = expected.get(name), table.schema.field(place).type
        if kind is None or found == kind:
            continue
        try:
            if not _is_like(found, kind):
                raise pa.ArrowInvalid(f"{found} is no {kind}")
            table = table.set_column(place, name, table.column(place).cast(kind))
        except pa.ArrowException as error:
            raise Unreadable(path, None, f"column {name} must be {kind}, found {found}: {what_to_do}") from error
    return table


def _is_like(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Texts, whole numbers and numbers may be of any width; a column of nulls alone is of no kind."""
    from pyarrow import types

    def is_text(kind: pa.DataType) -> bool:
        return bool(types.is_string(kind) or types.is_large_string(kind))

    def is_list(kind: pa.DataType) -> bool:
        return bool((types.is_list(kind) or types.is_large_list(kind)) and not types.is_map(kind))

    if types.is_null(found) or found == wanted:
        return True
    if is_list(found) and is_list(wanted):
        return _is_like(found.value_type, wanted.value_type)
    if types.is_map(found) and types.is_map(wanted):
        return _is_like(found.key_type, wanted.key_type) and _is_like(found.item_type, wanted.item_type)
    if types.is_floating(wanted):
        return bool(types.is_floating(found) or types.is_integer(found))
    return any(is_kind(found) and is_kind(wanted) for is_kind in (is_text, types.is_integer))


def tensors_file(path: Path, what_to_do: str, framework: str = "pt") -> dict[str, Any]:
    """The tensors of a safetensors file by name.

    :param what_to_do: ends the message of a damaged file.
    :raises Unreadable: no file, or damaged.
    """
    from safetensors import safe_open

    check_file(path)
    try:
        with safe_open(path, framework=framework) as content:
            return {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 # not a mapping
    except Exception as error:  # safetensors' own kinds of error differ between versions
        said = " ".join(str(error).split())[:200]
        raise Unreadable(path, None, f"{DAMAGED}: {what_to_do} ({said})") from error


def shapes_in(path: Path, what_to_do: str) -> dict[str, list[int]]:
    """The shapes of the tensors of a safetensors file by name; the tensors themselves are not read.

    :param what_to_do: ends the message of a damaged file.
    :raises Unreadable: no file, or damaged.
    """
    from safetensors import safe_open

    check_file(path)
    try:
        with safe_open(path, framework="np") as content:
            return {name: content.get_slice(name).get_shape() for name in content.keys()}  # noqa: SIM118 # not a mapping
    except Exception as error:  # safetensors' own kinds of error differ between versions
        said = " ".join(str(error).split())[:200]
        raise Unreadable(path, None, f"{DAMAGED}: {what_to_do} ({said})") from error
