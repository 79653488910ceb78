"""Headers of GGUF files, in which llama.cpp keeps a model: its settings and the table of its weights, not their values.

Every length is checked against the size of the file, so that the library that reads the weights meets none it trusts.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fathom.base.errors import optional
from fathom.base.reading.files import DAMAGED, Unreadable, check_file, opened

MAGIC = b"GGUF"
AGAIN = "copy or download it again"
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
_VERSIONS = (2, 3)
_ALIGNMENT = 32
"""Bytes, unless the file states another."""
_DIMENSIONS = 4
"""Most dimensions of a tensor."""
_PLAIN = ("F32", "F16", "BF16")
"""Types of tensors that hold plain numbers."""


class GgufHeader(NamedTuple):
    """:param settings: by name; for an array, its length.
    :param kinds: names of the types of its tensors, such as "F32" and "Q4_1", with how many tensors have each.
    :param size: bytes that the settings and weights need.
    """

    settings: Mapping[str, Any]
    kinds: Counter[str]
    size: int

    @property
    def quantisation(self) -> str | None:
        """Name of the quantisation, such as "Q4_1": as stated, else the most frequent type. None for plain numbers."""
        blocks = [kind for kind, _ in self.kinds.most_common() if kind not in _PLAIN]
        if not blocks:
            return None
        types = optional("gguf", "gguf").LlamaFileType
        number = self.settings.get("general.file_type")
        stated = [kind.name.removeprefix("MOSTLY_") for kind in types if kind.value == number]
        return str([*stated, *blocks][0])


def gguf_header(path: Path) -> GgufHeader:
    """Read and check the header of a GGUF file.

    :raises Unreadable: it is no GGUF file, damaged, or shorter than its header says.
    :raises MissingExtra: gguf is not installed.
    """
    size = check_file(path).st_size
    with opened(path, unpack=False) as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise Unreadable(path, None, f"is not a GGUF file: it does not begin with {MAGIC.decode()}; {AGAIN}")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                header = _Header(content).read()
            except (struct.error, ValueError, KeyError, RecursionError) as error:
                raise Unreadable(path, None, f"{DAMAGED} or incomplete: {AGAIN} ({error})") from error
    if header.size > size:
        raise Unreadable(path, None, f"has {size:,} bytes, its header says {header.size:,}: {AGAIN}")
    return header


class _Header:
    """A position in the bytes of a file, from which values are read."""

    def __init__(self, content: mmap.mmap) -> None:
        self.content, self.at = content, len(MAGIC)

    def read(self) -> GgufHeader:
        """:raises ValueError: a value is impossible, or see :mod:`struct`."""
        version, tensors, count = self._number("I"), self._number("Q"), self._number("Q")
        if version not in _VERSIONS:
            raise ValueError(f"version {version}, expected one of {_VERSIONS}")
        settings = {}
        for _ in range(count):
            name = self._text()
            settings[name] = self._value(self._number("I"))
        table = [self._tensor() for _ in range(tensors)]
        alignment = settings.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"alignment {alignment}")
        start, end = -(-self.at // alignment) * alignment, max((end for _, end in table), default=0)
        return GgufHeader(settings, Counter(kind for kind, _ in table), start + end)

    def _number(self, letter: str) -> Any:
        (value,) = struct.unpack_from(f"<{letter}", self.content, self.at)
        self.at += struct.calcsize(f"<{letter}")
        return value

    def _skip(self, length: int) -> int:
        """Return the present position, and move on. :raises ValueError: beyond the end of the file."""
        before = self.at
        self.at += length
        if self.at > len(self.content):
            raise ValueError(f"a value of {length:,} bytes at {before:,}, the file has {len(self.content):,}")
        return before

    def _text(self) -> str:
        length = self._number("Q")
        start = self._skip(length)
        return self.content[start : start + length].decode(errors="replace")

    def _value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self._text()
        if kind != _ARRAY:
            return self._number(_NUMBERS[kind])
        inner, count = self._number("I"), self._number("Q")
        if inner in _NUMBERS:
            self._skip(count * struct.calcsize(f"<{_NUMBERS[inner]}"))
            return count
        for _ in range(count):
            self._value(inner)
        return count

    def _tensor(self) -> tuple[str, int]:
        """Return the type of a tensor, and where its weights end, counted from the first weight."""
        self._text()
        dimensions = self._number("I")
        if dimensions > _DIMENSIONS:
            raise ValueError(f"a tensor of {dimensions:,} dimensions")
        sizes = [self._number("Q") for _ in range(dimensions)]
        library = optional("gguf", "gguf")
        kind, start = library.GGMLQuantizationType(self._number("I")), self._number("Q")
        block, width = library.GGML_QUANT_SIZES[kind]
        return kind.name, start + math.prod(sizes) // block * width
