"""Safe readers of foreign files and server replies.

- :mod:`~fathom.base.reading.files`: bytes, text and lines of regular files, plain and compressed, of bounded size.
- :mod:`~fathom.base.reading.text`: JSON, JSON Lines and YAML of bounded depth; readers of data collect all faults.
- :mod:`~fathom.base.reading.binary`: Parquet and safetensors.
- :mod:`~fathom.base.reading.replies`: replies of servers.

All raise :class:`~fathom.base.reading.files.Unreadable`: one line with file, line, what was found, what was expected.
Nothing else opens foreign files; ``tests/base/test_reading.py`` lists the exceptions.
"""

from fathom.base.reading.binary import parquet_file, shapes_in, tensors_file
from fathom.base.reading.files import (
    Missing,
    Unreadable,
    check_file,
    file_exists,
    first_few,
    located,
    opened,
    read_bytes,
    read_text,
    resolve_packed,
    short_place,
    shown,
    stands,
    text_lines,
)
from fathom.base.reading.text import (
    Faults,
    Json,
    NotData,
    as_read_back,
    json_file,
    json_lines,
    json_value,
    line_of,
    read_json,
    read_json_items,
    read_json_lines,
    read_lines,
    repetition,
    yaml_file,
    yaml_lines,
    yaml_value,
)

__all__ = [
    "Faults",
    "Json",
    "Missing",
    "NotData",
    "Unreadable",
    "as_read_back",
    "check_file",
    "file_exists",
    "first_few",
    "json_file",
    "json_lines",
    "json_value",
    "line_of",
    "located",
    "opened",
    "parquet_file",
    "read_bytes",
    "read_json",
    "read_json_items",
    "read_json_lines",
    "read_lines",
    "read_text",
    "repetition",
    "resolve_packed",
    "shapes_in",
    "short_place",
    "shown",
    "stands",
    "tensors_file",
    "text_lines",
    "yaml_file",
    "yaml_lines",
    "yaml_value",
]  # fmt: skip
