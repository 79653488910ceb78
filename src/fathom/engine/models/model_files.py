"""The JSON files of a model: the types of those values that libraries take unchecked, or misname if they are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from fathom.base.errors import BadInput, refuse
from fathom.base.reading import Faults, located, read_json, shown
from fathom.base.reading.bounds import HEADS, INNER, LABELS, LAYERS, TOKENS, WIDTH
from fathom.base.reading.objects import Object, object_faults

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


class PoolingFile(Object):
    """``1_Pooling/config.json`` of a sentence encoder."""

    pooling_mode_cls_token: bool = False
    pooling_mode_mean_tokens: bool = False
    pooling_mode_lasttoken: bool = False


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


SIZES = {
    LAYERS: ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"),
    WIDTH: ("hidden_size", "n_embd", "d_model"),
    TOKENS: ("vocab_size",),
    HEADS: ("num_attention_heads", "num_key_value_heads", "n_head", "num_heads"),
    INNER: ("intermediate_size", "n_inner", "d_ff"),
    LABELS: ("num_labels",),
}
"""Names of sizes in a configuration, the one of all models first."""
MAY_BE_ZERO = (HEADS, INNER, LABELS)
"""Models without attention have no heads."""
SMALL: dict[str, type[Object]] = {
    "config.json": ConfigFile,
    "tokenizer_config.json": TokenizerConfigFile,
    "generation_config.json": GenerationFile,
    "special_tokens_map.json": AnyFile,
    "adapter_config.json": AnyFile,
}
"""Files that are checked before a library reads them."""
WEIGHTS = (".safetensors", ".bin")
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
        if kinds[file.name] is ConfigFile:
            faults.found += size_faults(file, content)


def check_attributes(loaded: Any, file: str, name: str) -> None:
    """Check what a library has read from a file, perhaps on the hub. :raises BadInput: a value of a wrong type."""
    content = {field: getattr(loaded, field, None) for field in ATTRIBUTES[file]}
    refuse(object_faults(Path(name) / file, SMALL[file], content))


def size_faults(file: Path, content: Any) -> list[str]:
    """Return a line for each size beyond its bound, also in the configurations of a model's parts."""
    if not isinstance(content, dict):
        return []
    faults = [fault for part in content.values() for fault in size_faults(file, part)]
    for bound, names in SIZES.items():
        for name in names:
            value, least = content.get(name), int(bound not in MAY_BE_ZERO)
            if isinstance(value, int | float) and not (isinstance(value, int) and least <= value <= bound.most):
                expected = f"expected a whole number from {least} to {bound.most:,}"
                faults.append(located(file, None, f"{name} is {shown(value)}: {expected}"))
    return faults


def check_sizes(config: Any, name: str) -> None:
    """Check what a configuration says before the model is built.

    :raises BadInput: impossible sizes, or more values than the bytes of the weights.
    """
    sizes = {names[0]: getattr(config, names[0], None) for names in SIZES.values()}
    refuse(size_faults(Path(name) / "config.json", sizes))
    weights = sum(file.stat().st_size for suffix in WEIGHTS for file in Path(name).glob(f"*{suffix}"))
    width, layers = sizes["hidden_size"] or 0, sizes["num_hidden_layers"] or 0
    needed = {"hidden_size": width**2, "num_hidden_layers": width * layers, "vocab_size": sizes["vocab_size"] or 0}
    if weights and (beyond := next((size for size, values in needed.items() if values > weights), None)):
        raise BadInput(
            f"'{name}': its config.json says {beyond} {sizes[beyond]:,}, its weights have {weights:,} bytes: they are "
            "not of one model"
        )
