"""What `transformers` and its kin load by name or from a folder, and what to type where it cannot be had."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import constants
from huggingface_hub import errors as hub
from transformers.utils import logging as transformers_logging

from fathom.errors import BadInput
from fathom.reading import Faults, read_json, shown

HASHED = {".json", ".safetensors", ".bin", ".model", ".txt", ".py", ".spm", ".tiktoken", ".jinja"}
"""Endings of what makes a model folder: configuration, weights, tokenizer, code."""
CONFIGURATIONS = {
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "adapter_config.json",
}
"""Small files that are checked before the libraries read them."""

ANSWERS = {
    hub.HFValidationError: "no such folder here, and no name that a model on the hub can have",
    hub.GatedRepoError: "the model is gated: accept its licence on its page on the hub, then type: hf auth login",
    hub.RevisionNotFoundError: "the hub has the model, but no such --revision of it",
    hub.RepositoryNotFoundError: "no such folder here, and the hub has no model of that name that you may see "
    "(for a private one, type: hf auth login)",
}
"""What the hub's answers mean, and what to type; the narrower class first."""


def from_pretrained(kind: Any, name: str, options: dict[str, Any]) -> Any:
    """``kind.from_pretrained(name, **options)``.

    :raises BadInput: in one line, whatever goes wrong in it, with what to type instead.
    """
    check_folder(Path(name))
    try:
        with _quiet():
            return kind.from_pretrained(name, **options)
    except Exception as error:  # whatever a stranger's file makes a library raise
        raise BadInput(f"cannot load '{name}': {_reason(name, error)}") from error


def check_folder(folder: Path) -> None:
    """:raises BadInput: what stands in a file's place is none (a named pipe would be waited for), or a configuration is
    no object of JSON."""
    if not os.path.isdir(folder):  # Path.is_dir raises for a name of thousands of letters
        return
    faults = Faults()
    for file in sorted(folder.iterdir()):
        if file.suffix in HASHED and faults.there(file) and file.name in CONFIGURATIONS:
            content = read_json(file, faults)
            if not isinstance(content, dict | None):
                faults.add(file, 1, f"expected an object {{…}}, found {shown(content)}")
    faults.stop_if_any()


def _reason(name: str, error: Exception) -> str:
    """What went wrong, and what to type."""
    if "trust_remote_code" in str(error):
        return "it comes with code of its own; --trust-remote-code runs it, if you trust who wrote it"
    told = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if os.path.exists(name):
        hint = " (only safetensors weights are read; --allow-pickle reads .bin files you trust)"
        return told + (hint if "safetensors" in str(error) else "")
    return _hub_reason(name, _causes(error)) or f"{told} (no such folder here, and not found by that name on the hub)"


def _hub_reason(name: str, causes: list[BaseException]) -> str | None:
    """Of a name that is no folder: what the hub answered, or why it was not asked."""
    for cause in causes:
        for kind, told in ANSWERS.items():
            if isinstance(cause, kind):
                return told
    if constants.HF_HUB_OFFLINE:
        return (
            "no such folder here, and HF_HUB_OFFLINE keeps the hub from being asked: "
            f"unset HF_HUB_OFFLINE, or where there is a network: hf download {name}"
        )
    if any(isinstance(cause, hub.OfflineModeIsEnabled | hub.LocalEntryNotFoundError) for cause in causes):
        return f"no such folder here, and the hub cannot be reached; where it can, type: hf download {name}"
    return None


def _causes(error: BaseException | None) -> list[BaseException]:
    """An error and what it was raised from, the last first."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """No reports of `transformers` (what they say is checked here, in one line), and no bars but in a terminal."""
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    if not sys.stderr.isatty():
        transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)
