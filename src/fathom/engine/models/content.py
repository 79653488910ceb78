"""The content hash of a model's files, computed without loading a model library."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fathom.base.reading import opened

HASHED = {".json", ".safetensors", ".bin", ".model", ".txt", ".py", ".spm", ".tiktoken", ".jinja"}
"""Suffixes of the files of a model: configuration, weights, tokenizer, code."""
UNHASHED = {"planting.json", "pretraining.json"}
"""Manifests of Fathom's own trainings."""
GGUF = ".gguf"
POOLING = Path("1_Pooling", "config.json")
"""How a sentence encoder makes one vector of its states."""


def gguf_file(name: str | os.PathLike[str]) -> Path | None:
    """Return the GGUF file that *name* is, or the only one of a folder without other files of a model; else None."""
    path = Path(name)
    if path.suffix.lower() == GGUF and not os.path.isdir(name):
        return path if os.path.exists(name) else None
    files = sorted(path.iterdir()) if os.path.isdir(name) else []
    found = [file for file in files if file.suffix.lower() == GGUF]
    return found[0] if len(found) == 1 and not any(file.suffix in HASHED for file in files) else None


def is_trained_here(name: str) -> bool:
    """Return whether Fathom planted or pre-trained the model in this folder."""
    return any(Path(name, file).is_file() for file in UNHASHED)


def files_of(name: str) -> list[Path]:
    """Return the files that make a model, an adapter or a tokenizer; none if it is on the hub."""
    if (file := gguf_file(name)) is not None:
        return [file]
    folder = [*sorted(Path(name).iterdir()), Path(name) / POOLING] if os.path.isdir(name) else []
    return [file for file in folder if file.is_file() and file.suffix in HASHED and file.name not in UNHASHED]


def content_hash(names: Sequence[str], config: Any = None) -> str:
    """Digest the hub's commit and the local files of *names*: configuration, weights, tokenizer.

    A GGUF file may be renamed.

    :param config: of the weights, which has the commit; not needed for a folder.
    """
    commit = getattr(config, "_commit_hash", None)
    digest = hashlib.blake2b(str(commit).encode(), digest_size=8)
    for file in (file for name in names for file in files_of(name)):
        digest.update(GGUF.encode() if file.suffix.lower() == GGUF else file.name.encode())
        with opened(file, unpack=False) as content:
            digest.update(hashlib.file_digest(content, "blake2b").digest())
    return digest.hexdigest()
