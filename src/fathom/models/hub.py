"""What `transformers` and its kin load by name or from a folder, and what to type where it cannot be had."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import constants
from huggingface_hub import errors as hub
from transformers import AutoConfig, AutoTokenizer
from transformers.utils import logging as transformers_logging

from fathom.errors import BadInput
from fathom.models.folders import check_all, check_folder, lacks_configuration, lacks_tokenizer, lacks_weights
from fathom.reading.replies import words_of

_NO_SUCH_CLASS = re.compile(r"Unrecognized configuration class .*?(\w+)'> for this kind of AutoModel: (\w+)")
ANSWERS = {
    hub.HFValidationError: "no such folder here, and no name that a model on the hub can have",
    hub.GatedRepoError: "the model is gated: accept its licence on its page on the hub, then type: hf auth login",
    hub.RevisionNotFoundError: "the hub has the model, but no such --revision of it",
    hub.RepositoryNotFoundError: "no such folder here, and the hub has no model of that name that you may see "
    "(for a private one, type: hf auth login)",
}
"""What the hub's answers mean, and what to type; the narrower class first."""
LONGEST = 400
"""Signs of what a library says."""


class Part(NamedTuple):
    """One of what a model is put together from: weights, an adapter, a tokenizer.

    :param name: on the hub, or a folder.
    :param revision: of this part on the hub; None for its newest.
    """

    name: str
    revision: str | None = None


def from_pretrained(kind: Any, part: Part, options: Mapping[str, Any]) -> Any:
    """``kind.from_pretrained(name, **options)``, of the part's revision.

    :raises BadInput: in one line, whatever goes wrong in it, with what to type instead.
    """
    name = part.name
    check_folder(Path(name))
    if os.path.isdir(name) and (lacking := _lacking(kind, Path(name))) is not None:
        raise BadInput(f"cannot load '{words_of(name)}': {lacking}")
    try:
        with quiet():
            return kind.from_pretrained(name, revision=part.revision, **options)
    except Exception as error:  # whatever a stranger's file makes a library raise
        if os.path.isdir(name):
            check_all(Path(name))
        whose = "the tokenizer of " if kind is AutoTokenizer else ""
        raise BadInput(f"cannot load {whose}'{words_of(name)}': {_reason(name, options, error)}") from error


def _lacking(kind: Any, folder: Path) -> str | None:
    """Asked before loading, as `transformers` 5.1 makes up an empty tokenizer where there is none."""
    if kind is AutoConfig:
        return lacks_configuration(folder)
    return lacks_tokenizer(folder) if kind is AutoTokenizer else None


def said(error: Exception) -> str:
    """What a library's error says, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        lines[0] += f" {lines[1]}"
    if not lines or " " not in lines[0]:  # a KeyError, say, holds a bare key
        return f"a file of it is not what its name says ({' '.join([type(error).__name__, *lines[:1]])})"
    return words_of(lines[0], LONGEST)


def _reason(name: str, options: Mapping[str, Any], error: Exception) -> str:
    """What went wrong, and what to type."""
    if "trust_remote_code" in str(error):
        return "it comes with code of its own; --trust-remote-code runs it, if you trust who wrote it"
    if wanted := _NO_SUCH_CLASS.search(str(error)):
        return (
            f"there is no {wanted[2]} for its {wanted[1]}, in transformers or by the auto_map of its config.json: it "
            "reads or writes something else than text, is of another --kind, or its auto_map must name its class under "
            f"{wanted[2]}"
        )
    if os.path.isdir(name) and "use_safetensors" in options:  # weights were to be loaded
        return lacks_weights(Path(name), allow_pickle=not options["use_safetensors"]) or said(error)
    if os.path.isdir(name):
        return said(error)
    reason = _hub_reason(name, _causes(error))
    return reason or f"{said(error)} (no such folder here, and not found by that name on the hub)"


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
def quiet() -> Iterator[None]:
    """No reports of `transformers` (what they say is checked here, in one line), nothing of what will change in later
    versions, and no bars but in a terminal."""
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    if not sys.stderr.isatty():
        transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        transformers_logging.set_verbosity(before)
