"""The JSON files of a model: the types of those values that libraries take unchecked, or misname if they are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from fathom.errors import refuse
from fathom.reading import Faults, read_json
from fathom.reading.objects import Object, object_faults

Text = str | None
Mapping = dict[str, Any] | None
SpecialToken = Annotated[str | dict[str, Any] | None, Field(description="text or an object {…}")]


class ConfigFile(Object):
    """``config.json``."""

    model_type: Text = None
    architectures: Annotated[list[str] | None, Field(description="a list of class names")] = None
    auto_map: Mapping = None
    quantization_config: Mapping = None


class NamedTemplate(Object):
    """One of several chat templates."""

    name: str
    template: str


class TokenizerConfigFile(Object):
    """``tokenizer_config.json``."""

    tokenizer_class: Text = None
    model_max_length: float | None = None
    chat_template: Annotated[
        str | list[NamedTemplate] | dict[str, str] | None,
        Field(description="text, or a list of objects with name and template"),
    ] = None
    bos_token: SpecialToken = None
    eos_token: SpecialToken = None
    unk_token: SpecialToken = None
    sep_token: SpecialToken = None
    pad_token: SpecialToken = None
    cls_token: SpecialToken = None
    mask_token: SpecialToken = None
    added_tokens_decoder: dict[str, dict[str, Any]] | None = None


class GenerationFile(Object):
    """``generation_config.json``."""

    decoder_start_token_id: int | None = None


class AnyFile(Object):
    """A file of which only the libraries know what it contains."""


class AddedToken(Object):
    """A token that the vocabulary lacks."""

    id: Annotated[int, Field(ge=0)]
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False


class TokenizerModel(Object):
    """The vocabulary."""

    type: Text = None


class TokenizerFile(Object):
    """``tokenizer.json``."""

    added_tokens: list[AddedToken] = []
    model: TokenizerModel


SMALL: dict[str, type[Object]] = {
    "config.json": ConfigFile,
    "tokenizer_config.json": TokenizerConfigFile,
    "generation_config.json": GenerationFile,
    "special_tokens_map.json": AnyFile,
    "adapter_config.json": AnyFile,
}
"""Files that are checked before a library reads them."""
ATTRIBUTES = {
    "config.json": ("architectures", "auto_map"),
    "tokenizer_config.json": ("model_max_length", "chat_template"),
}
"""Values of these that libraries keep as they are."""
LARGE: dict[str, type[Object]] = {"tokenizer.json": TokenizerFile}
"""Files that are checked only after a library has failed, as they take long to read."""


def check_object(file: Path, kinds: dict[str, type[Object]], faults: Faults) -> None:
    """Add the faults of a JSON file; nothing but its syntax is checked if *kinds* lacks its name."""
    content = read_json(file, faults)
    if file.name in kinds and content is not None:
        faults.found += object_faults(file, kinds[file.name], content)


def check_attributes(loaded: Any, file: str, name: str) -> None:
    """Check what a library has read from a file, perhaps on the hub. :raises BadInput: a value of a wrong type."""
    content = {field: getattr(loaded, field, None) for field in ATTRIBUTES[file]}
    refuse(object_faults(Path(name) / file, SMALL[file], content))
