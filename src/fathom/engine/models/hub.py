"""Loading by name, from a folder or a GGUF file by `transformers` and its kin; one-line errors say what to type."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from huggingface_hub import constants
from huggingface_hub import errors as hub
from transformers import AutoConfig, AutoTokenizer
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, cached_file
from transformers.utils import logging as transformers_logging

from fathom.base.errors import BadInput, alike, is_panic, optional
from fathom.base.reading import Faults, Unreadable, first_few, shapes_in
from fathom.base.reading.gguf import GgufHeader, gguf_header
from fathom.base.reading.replies import excerpt_of
from fathom.data.fetch_model import folder_or_name, packaged_models
from fathom.engine.models.model_files import (
    ADAPTER_FILE,
    GGUF,
    HASHED,
    LARGE,
    SMALL,
    check_object,
    gguf_file,
    refuse_faults_of,
)

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


_NO_SUCH_CLASS = re.compile(r"Unrecognized configuration class .*?(\w+)'> for this kind of AutoModel: (\w+)")
ANSWERS = {
    hub.HFValidationError: "no such folder here, and no name that a model on the hub can have",
    hub.GatedRepoError: "the model is gated: accept its licence on its page on the hub, then type: hf auth login",
    hub.RevisionNotFoundError: "the hub has the model, but no such --revision of it",
    hub.RepositoryNotFoundError: "no such folder here, and the hub has no model of that name that you may see "
    "(for a private one, type: hf auth login)",
}
"""Meaning of the hub's answers, and what to type; the narrower class first."""
LONGEST = 400
"""Most characters shown of a library's message."""
TOKENIZERS = ("*token*", "*vocab*", "*.model", "*.spm", "*.tiktoken", "tekken.json")
"""Files of tokenizers; a folder without any has none."""


logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # it reports kernels that it lacks when peft imports it


class ModelPart(NamedTuple):
    """One part of a model: weights, an adapter, a tokenizer.

    :param name: on the hub, of a fetched model, or a folder.
    :param revision: of this part on the hub; None for its newest.
    """

    name: str
    revision: str | None = None


def from_pretrained(kind: Any, part: ModelPart, options: Mapping[str, Any]) -> Any:
    """Return ``kind.from_pretrained(name, **options)`` of the part's revision.

    :raises BadInput: one line on anything that goes wrong, with what to type instead.
    """
    part = part._replace(name=folder_or_name(part.name))
    name, file = part.name, gguf_file(part.name)
    if file is not None:
        return _from_gguf(kind, name, file, options)
    check_folder(Path(name))
    both = (os.path.isfile(os.path.join(name, file)) for file in ("config.json", ADAPTER_FILE))
    if kind is not AutoTokenizer and all(both):
        raise BadInput(
            f"'{excerpt_of(name)}' holds a model and an adapter ({ADAPTER_FILE}), which the library would apply in "
            "silence: move the adapter's files into a folder of its own, and type --model MODEL --adapter FOLDER"
        )
    if os.path.isdir(name) and (lacking := _lacking(kind, Path(name))) is not None:
        raise BadInput(f"cannot load '{excerpt_of(name)}': {lacking}")
    try:
        with quiet():
            if "use_safetensors" in options:  # weights are read
                _check_index(part)
            return kind.from_pretrained(name, revision=part.revision, **options)
    except BadInput:
        raise
    except BaseException as error:  # any error of a library on foreign files
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        if os.path.isdir(name):
            _check_files(Path(name))
        whose = "the tokenizer of " if kind is AutoTokenizer else ""
        where = _file_of(kind, error) if os.path.isdir(name) else ""
        raise BadInput(f"cannot load {whose}'{excerpt_of(name)}'{where}: {_reason(name, options, error)}") from error


def _check_index(part: ModelPart) -> None:
    """:raises BadInput: an index of the hub, as one in a folder, names files that are no ``.safetensors``."""
    index = cached_file(
        part.name, SAFE_WEIGHTS_INDEX_NAME, revision=part.revision, _raise_exceptions_for_missing_entries=False
    )
    if index is not None:
        refuse_faults_of(Path(index))


def _from_gguf(kind: Any, name: str, file: Path, options: Mapping[str, Any]) -> Any:
    """See :func:`from_pretrained`. :raises MissingExtra: a library that reads such files is not installed."""
    check_gguf(file, kind)
    try:
        with quiet(), isolated(file) as arguments:
            return kind.from_pretrained(**arguments, **options)
    except Exception as error:  # any error of a library on foreign files
        hint = "; a server of llama.cpp may run it: --server URL" if "architecture" in str(error) else ""
        raise BadInput(f"cannot load '{excerpt_of(name)}': {library_message(error)}{hint}") from error


def _file_of(kind: Any, error: BaseException) -> str:
    """Return the files that a library read when it failed, in brackets; it names none."""
    if kind is AutoConfig:
        return " (config.json)"
    if kind is AutoTokenizer:
        return " (tokenizer.json)" if " at line " in str(error) else " (tokenizer.json, tokenizer_config.json)"
    return ""


def check_folder(folder: Path) -> None:
    """:raises BadInput: no folder but a file, or a file in it that is no regular one or has values of wrong types."""
    faults = Faults()
    if os.path.isfile(folder):  # Path.is_file raises for a name of thousands of letters
        faults.add(folder, None, "a file; expected a model's folder, a GGUF file, or a name on the hub")
    for file in sorted(folder.iterdir()) if os.path.isdir(folder) else ():
        if file.suffix in HASHED and faults.there(file) and file.name in SMALL:
            check_object(file, SMALL, faults)
    faults.stop_if_any()


def _check_files(folder: Path) -> None:
    """Check each file after a library failed, as it does not say which file was at fault."""
    faults = Faults()
    for file in sorted(folder.iterdir()):
        if file.suffix == ".json":
            check_object(file, LARGE, faults)
        elif file.suffix == ".safetensors":
            try:
                shapes_in(file, "copy or download it again")
            except Unreadable as error:
                faults.keep(error)
    faults.stop_if_any()


def _lacking(kind: Any, folder: Path) -> str | None:
    """Check for files before loading, as `transformers` 5.1 invents an empty tokenizer if there is none."""
    if kind is AutoConfig and not (folder / "config.json").exists():
        inner = [path.parent.name for path in sorted(folder.glob("*/config.json"))]
        hint = f" (folders in it hold one: {first_few(inner)})" if inner else ""
        hint = _named_gguf(folder) or hint
        return f"the folder holds no config.json; expected config.json, weights and a tokenizer{hint}"
    if kind is AutoTokenizer and not any(file for pattern in TOKENIZERS for file in folder.glob(pattern)):
        return "the folder holds no tokenizer (tokenizer.json); to take another model's: --tokenizer NAME_OR_FOLDER"
    return None


def _named_gguf(folder: Path) -> str:
    """Return what to type for the GGUF files in a folder; "" without any."""
    names = sorted(file.name for file in folder.glob(f"*{GGUF}"))
    return f"; for a GGUF file, name it: --model {folder / names[0]} (found: {first_few(names)})" if names else ""


def _lacks_weights(folder: Path, *, allow_pickle: bool) -> str | None:
    pickled = any(folder.glob("*.bin"))
    if any(folder.glob("*.safetensors")) or (pickled and allow_pickle):
        return None
    hint = "; --allow-pickle reads its .bin files, if you trust who wrote them" if pickled else ""
    hint = _named_gguf(folder) or hint
    return f"the folder holds no weights (model.safetensors{' or .bin' if allow_pickle else ''}){hint}"


def library_message(error: BaseException) -> str:
    """Return a library's message on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].endswith(":"):
        lines[0] += f" {lines[1]}"
    if not lines or " " not in lines[0]:  # a KeyError, say, holds a bare key
        return f"a file of it is not what its name says ({' '.join([type(error).__name__, *lines[:1]])})"
    return excerpt_of(lines[0], LONGEST)


def _reason(name: str, options: Mapping[str, Any], error: BaseException) -> str:
    if "trust_remote_code" in str(error):
        return "it comes with code of its own; --trust-remote-code runs it, if you trust who wrote it"
    if wanted := _NO_SUCH_CLASS.search(str(error)):
        return (
            f"there is no {wanted[2]} for its {wanted[1]}, in transformers or by the auto_map of its config.json: it "
            "reads or writes something else than text, is of another --kind, or its auto_map must name its class under "
            f"{wanted[2]}"
        )
    if os.path.isdir(name):
        lacking = None
        if "use_safetensors" in options:  # weights were requested
            lacking = _lacks_weights(Path(name), allow_pickle=not options["use_safetensors"])
        return lacking or library_message(error)
    return (
        _hub_reason(name, error)
        or f"{library_message(error)} (no such folder here, and not found by that name on the hub)"
    )


def _hub_reason(name: str, error: BaseException) -> str | None:
    """Return the hub's answer to a name that is no folder, or why the hub was not asked."""
    if catalogued := alike(name, packaged_models(), 1, cutoff=0.9):
        return f"no such folder here; type fathom model fetch {catalogued[0]}, and give that name"
    causes = _causes(error)
    for cause in causes:
        for kind, reason in ANSWERS.items():
            if isinstance(cause, kind):
                return reason
    if constants.HF_HUB_OFFLINE:
        return (
            "no such folder here, and the hub is not used because HF_HUB_OFFLINE is set: "
            f"unset it, or download the model first: hf download {name}"
        )
    if any(isinstance(cause, hub.OfflineModeIsEnabled | hub.LocalEntryNotFoundError) for cause in causes):
        return f"no such folder here, and the hub cannot be reached; where it can, type: hf download {name}"
    return None


def _causes(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


@contextmanager
def quiet() -> Iterator[None]:
    """Silence reports of `transformers` and warnings of future changes; show progress bars in terminals only."""
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
