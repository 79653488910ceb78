"""GGUF files, whose configuration, tokenizer and dequantised weights `transformers` reads."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer

from fathom.base.errors import BadInput, optional
from fathom.base.reading import Unreadable
from fathom.base.reading.gguf import GgufHeader, gguf_header
from fathom.engine.models.content import gguf_file

LIBRARIES = ("gguf", "accelerate")
TOKENS = "tokenizer.ggml.tokens"
_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$", re.IGNORECASE)


def check_gguf(file: Path, kind: Any) -> None:
    """:param kind: the class of `transformers` that is to read it.
    :raises BadInput: no GGUF file, a damaged one, one of several, or one without a tokenizer.
    :raises MissingExtra: a library that reads such files is not installed.
    """
    settings = header_of(file).settings
    if kind is AutoTokenizer and TOKENS not in settings:
        raise BadInput(f"'{file}' holds no tokenizer; to take another model's: --tokenizer NAME_OR_FOLDER")


def header_of(file: Path) -> GgufHeader:
    """See :func:`check_gguf`."""
    for library in LIBRARIES:
        optional(library, "gguf")
    if part := _PART.search(file.name):
        raise Unreadable(
            file, None, f"is one of {int(part[1])} files of a model: join them with llama-gguf-split --merge"
        )
    return _header(file, os.stat(file).st_mtime_ns)


@lru_cache(maxsize=4)
def _header(file: Path, modified: int) -> GgufHeader:
    return gguf_header(file)


def quantisation_of(name: str) -> str | None:
    """Return the quantisation of a GGUF file, such as "Q4_1"; None for plain numbers and other models."""
    file = gguf_file(name)
    return None if file is None else header_of(file).quantisation


@contextmanager
def isolated(file: Path) -> Iterator[dict[str, str]]:
    """Yield arguments of ``from_pretrained`` for a file in a folder of its own, as it would read others next to it.

    Inside, `transformers` parses the file once, and without a progress bar.
    """
    from transformers import modeling_gguf_pytorch_utils as library

    gguf: Any = optional("gguf", "gguf")
    reader, progress = gguf.GGUFReader, library.tqdm
    with tempfile.TemporaryDirectory(prefix="fathom-gguf-") as folder:
        link = Path(folder) / "model.gguf"
        link.symlink_to(file.resolve())
        gguf.GGUFReader = lambda _: parsed(file, os.stat(file).st_mtime_ns)
        library.tqdm = lambda values, **_: values
        try:
            yield {"pretrained_model_name_or_path": folder, "gguf_file": link.name}
        finally:
            gguf.GGUFReader, library.tqdm = reader, progress


@lru_cache(maxsize=1)
def parsed(file: Path, modified: int) -> Any:
    """Return the library's reader of a file; ``parsed.cache_clear()`` frees its memory."""
    from gguf.gguf_reader import GGUFReader

    class Reader(GGUFReader):
        """A reader of a plain array: slicing numpy's class of memory maps takes five times as long."""

        @property
        def data(self) -> Any:
            return self._data

        @data.setter
        def data(self, content: Any) -> None:
            self._data = content.view(np.ndarray)

    return Reader(file)
