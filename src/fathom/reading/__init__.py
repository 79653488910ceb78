"""The one guarded way to open what others wrote: files of every kind, and replies of servers.

- :mod:`~fathom.reading.files`: is it a file (not a folder, a pipe, a device, a link that loops)? Bytes, text and lines,
  plain and packed, within bounds.
- :mod:`~fathom.reading.text`: JSON, JSON Lines and YAML, with depth, digits and halves of characters in check; for
  readers of data, which go on and show all faults at once, too.
- :mod:`~fathom.reading.binary`: Parquet and safetensors.
- :mod:`~fathom.reading.replies`: what servers answer.

All raise :class:`~fathom.reading.files.Unreadable`: one line that says which file and line, what was found and what was
expected. Nothing else opens files that others wrote; ``tests/test_reading.py`` lists the exceptions.
"""

from fathom.reading.binary import parquet_file, shapes_in, tensors_file
from fathom.reading.files import (
    Missing,
    Unreadable,
    check_file,
    is_there,
    located,
    opened,
    plain_or_packed,
    read_bytes,
    read_text,
    shown,
    some_of,
    stands,
    text_lines,
)
from fathom.reading.text import (
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
    yaml_file,
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
    "is_there",
    "json_file",
    "json_lines",
    "json_value",
    "line_of",
    "located",
    "opened",
    "parquet_file",
    "plain_or_packed",
    "read_bytes",
    "read_json",
    "read_json_items",
    "read_json_lines",
    "read_lines",
    "read_text",
    "shapes_in",
    "shown",
    "some_of",
    "stands",
    "tensors_file",
    "text_lines",
    "yaml_file",
    "yaml_value",
]
