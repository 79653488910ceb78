"""The files of a model: their content hash, and the types of those values in JSON that libraries take unchecked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, create_model

from fathom.base.errors import BadInput, refuse
from fathom.base.progress import LOG
from fathom.base.reading import Faults, located, opened, read_json, shown
from fathom.base.reading.bounds import HEADS, INNER, LABELS, LAYERS, TOKENS, WIDTH
from fathom.base.reading.objects import Object, object_faults

HASHED = {".json", ".safetensors", ".bin", ".model", ".txt", ".py", ".spm", ".tiktoken", ".jinja"}
"""Suffixes of the files of a model: configuration, weights, tokenizer, code."""
CODE = (".py", ".jinja")
"""Suffixes of files that libraries also read in folders of a model."""
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
    if not os.path.isdir(name):
        return []
    inner = (file for suffix in CODE for file in Path(name).glob(f"*/**/*{suffix}"))
    files = [*sorted(Path(name).iterdir()), Path(name) / POOLING, *sorted(inner)]
    return [file for file in files if file.is_file() and file.suffix in HASHED and file.name not in UNHASHED]


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


Text = str | None
Mapping = dict[str, Any] | None
SpecialToken = Annotated[str | dict[str, Any] | None, Field(description="text or an object {…}")]


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


class Module(Object):
    """A module of a sentence encoder. :param type: of a class, with its package."""

    type: str


class ModulesFile(RootModel[list[Module]]):
    """``modules.json`` of a sentence encoder."""

    model_config = ConfigDict(strict=True, frozen=True)


PlainName = Annotated[str, Field(pattern=r"^[\w.|^$\\-]+$", max_length=500)]
"""A pattern of modules without groups and repetitions, which is matched in linear time; mostly a name."""


def _index_of(ending: str) -> type[BaseModel]:
    """Return the type of the files of weights in several: those of one ending, in this folder, by weights."""
    file = Annotated[str, Field(pattern=rf"^[^/\\]+\.{ending}$")]
    files = Annotated[dict[str, file], Field(description=f"files *.{ending} in this folder by weights")]
    return create_model(f"{ending.title()}Index", __base__=Object, weight_map=(files, ...))


AdapterSize = Annotated[int | None, Field(ge=0, le=WIDTH.most, description=f"a whole number up to {WIDTH.most:,}")]
Names = Annotated[
    Annotated[list[str], Field(max_length=100_000)] | str | None,
    Field(description="text or a list of up to 100,000 names of modules"),
]
PlainNames = Annotated[
    Annotated[list[PlainName], Field(max_length=2000)] | PlainName | None,
    Field(description="a list of up to 2,000 names of modules, none of them a pattern with ( or *"),
]


class QuantizationConfig(Object):
    """How weights were quantised; libraries match the names of modules as patterns."""

    quant_method: Text = None
    llm_int8_skip_modules: list[PlainName] | None = None
    modules_to_not_convert: list[PlainName] | None = None


class ConfigFile(Object):
    """``config.json``."""

    model_type: Text = None
    architectures: Annotated[list[str] | None, Field(description="a list of class names")] = None
    auto_map: Mapping = None
    quantization_config: QuantizationConfig | None = None


ByModule = Annotated[
    Annotated[dict[PlainName, float | list[bool]], Field(max_length=2000)] | None,
    Field(description="numbers by up to 2,000 names of modules, none of them a pattern with ( or *"),
]
Layers = Annotated[int | list[int] | None, Field(description="a layer or a list of layers")]
LayerPairs = Annotated[
    Annotated[list[list[int]], Field(max_length=100)] | None, Field(description="a list of up to 100 pairs of layers")
]
Initial = Annotated[
    bool | Annotated[str, Field(pattern=r"^\D*\d{0,2}$")] | None,
    Field(description="true, false or a method, up to 99 steps"),
]
Few = Annotated[int | None, Field(ge=0, le=100, description="a whole number up to 100")]
Finite = Annotated[float | None, Field(allow_inf_nan=False)]
LayerKind = Literal["ADALORA", "FOURIERFT", "HRA", "IA3", "LN_TUNING", "LOHA", "LOKR", "LORA", "OFT", "VERA"]
"""Kinds of adapters that change layers alone."""
ADAPTER_FILE = "adapter_config.json"
ADAPTER_SIZES = ("r", "init_r", "oft_block_size", "n_frequency")
"""Sizes of an adapter, none of them above those of its weights."""


def _optional(kind: Any, *names: str) -> dict[str, Any]:
    return dict.fromkeys(names, (kind, None))


AdapterFile = create_model(
    "AdapterFile",
    __base__=Object,
    __doc__="""``adapter_config.json``.

    peft matches names by regular expressions, takes as much memory as sizes say, and imports what megatron_core names.
    """,
    peft_type=(LayerKind, ...),
    megatron_config=(None, None),
    **_optional(Text, "base_model_name_or_path", "revision"),
    **_optional(AdapterSize, *ADAPTER_SIZES),
    **_optional(Few, "num_cayley_neumann_terms"),
    **_optional(Finite, "lora_alpha", "alpha"),
    **_optional(bool | None, "use_rslora", "use_dora", "fan_in_fan_out", "lora_bias"),
    **_optional(Names, "target_modules", "exclude_modules", "target_parameters"),
    **_optional(PlainNames, "modules_to_save", "layers_pattern", "feedforward_modules"),
    **_optional(ByModule, "rank_pattern", "alpha_pattern", "n_frequency_pattern"),
    **_optional(Layers, "layers_to_transform"),
    **_optional(LayerPairs, "layer_replication"),
    **_optional(Initial, "init_lora_weights", "init_weights"),
    **_optional(dict[str, Few] | None, "loftq_config"),
)


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
SMALL: dict[str, type[BaseModel]] = {
    "config.json": ConfigFile,
    "tokenizer_config.json": TokenizerConfigFile,
    "generation_config.json": GenerationFile,
    "special_tokens_map.json": AnyFile,
    ADAPTER_FILE: AdapterFile,
    "modules.json": ModulesFile,
    "model.safetensors.index.json": _index_of("safetensors"),
    "pytorch_model.bin.index.json": _index_of("bin"),
}
"""Files that are checked before a library reads them."""
WEIGHTS = (".safetensors", ".bin")
ATTRIBUTES = {
    "config.json": ("architectures", "auto_map"),
    "tokenizer_config.json": ("model_max_length", "chat_template"),
}
"""Values of these that libraries keep as they are."""
LARGE: dict[str, type[BaseModel]] = {"tokenizer.json": TokenizerFile}
"""Files that are checked only after a library has failed, as they take long to read."""


def check_object(file: Path, kinds: dict[str, type[BaseModel]], faults: Faults) -> None:
    """Add the faults of a JSON file; nothing but its syntax is checked if *kinds* lacks its name."""
    content = read_json(file, faults)
    if file.name in kinds and content is not None:
        faults.found += object_faults(file, kinds[file.name], content)
        if kinds[file.name] is ConfigFile:
            faults.found += size_faults(file, content)


def refuse_faults_of(file: Path) -> None:
    """Check one of :data:`SMALL` by itself. :raises BadInput: no JSON, or values of wrong types."""
    faults = Faults()
    check_object(file, SMALL, faults)
    faults.stop_if_any()


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


INNER_SIZES = (*SIZES[INNER], "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "head_dim", "d_kv")
"""Sizes within a layer, each of a matrix whose other size is the width."""


def check_sizes(config: Any, name: str) -> None:
    """Check what a configuration says before the model is built.

    :raises BadInput: impossible sizes, or more values than the bytes of the weights.
    """
    sizes = {names[0]: getattr(config, names[0], None) for names in SIZES.values()}
    refuse(size_faults(Path(name) / "config.json", sizes))
    weights = sum(file.stat().st_size for suffix in WEIGHTS for file in Path(name).glob(f"*{suffix}"))
    width, layers = sizes["hidden_size"] or 0, sizes["num_hidden_layers"] or 0
    needed = {"hidden_size": width**2, "num_hidden_layers": width * layers, "vocab_size": sizes["vocab_size"] or 0}
    for name_of_size in INNER_SIZES:
        size = getattr(config, name_of_size, None)
        if isinstance(size, int):
            sizes[name_of_size], needed[name_of_size] = size, size * width
    if weights and (beyond := next((size for size, values in needed.items() if values > weights), None)):
        raise BadInput(
            f"'{name}': its config.json says {beyond} {sizes[beyond]:,}, its weights have {weights:,} bytes: they are "
            "not of one model"
        )


MODULES = Path("modules.json")
MODE = "pooling_mode_"
POOLINGS = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last"}
"""Modes that the probe has, as `sentence-transformers` names them."""
APPLIED = ("Transformer", "Pooling", "Normalize")
"""Modules of sentence encoders that a cosine of pooled states includes."""


def trained_pooling(name: str) -> str | None:
    """Return how a sentence encoder in a folder was trained to pool its states; None if the folder does not state it.

    :raises BadInput: values of wrong types.
    """
    folder = Path(name)
    if not os.path.isfile(folder / POOLING):
        return None
    faults = Faults()
    content = read_json(folder / POOLING, faults)
    faults.found += object_faults(folder / POOLING, PoolingFile, content)
    modules = read_json(folder / MODULES, faults) if faults.there(folder / MODULES) else []
    faults.found += object_faults(folder / MODULES, ModulesFile, modules)
    faults.stop_if_any()
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    if left := [kind for kind in kinds if kind not in APPLIED]:
        LOG.warning("'%s': its vectors are used without %s, which modules.json names", name, ", ".join(left))
    modes = [key.removeprefix(MODE) for key, value in content.items() if key.startswith(MODE) and value is True]
    return " and ".join(POOLINGS.get(mode, mode) for mode in modes) or None
