"""The content hash of a model's files, computed without loading a model library."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fathom.reading import opened

HASHED = {".json", ".safetensors", ".bin", ".model", ".txt", ".py", ".spm", ".tiktoken", ".jinja"}
"""Suffixes of the files of a model: configuration, weights, tokenizer, code."""
UNHASHED = {"planting.json", "pretraining.json"}


def content_hash(names: Sequence[str], config: Any = None) -> str:
    """Digest the hub's commit and the files of the folders among *names*: configuration, weights, tokenizer.

    :param config: of the weights, which has the commit; not needed for a folder.
    """
    commit = getattr(config, "_commit_hash", None)
    digest = hashlib.blake2b(str(commit).encode(), digest_size=8)
    for folder in (Path(name) for name in names if os.path.isdir(name)):
        for file in sorted(folder.iterdir()):
            if file.is_file() and file.suffix in HASHED and file.name not in UNHASHED:
                digest.update(file.name.encode())
                with opened(file, unpack=False) as content:
                    digest.update(hashlib.file_digest(content, "blake2b").digest())
    return digest.hexdigest()
