"""From a name or a folder to a model behind the seam, saying clearly what does not fit."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import logging as transformers_logging

from fathom.errors import BadInput, MissingExtra
from fathom.models.base import Attention, Identity
from fathom.models.local import LocalModel
from fathom.reading import Faults, opened, read_json, shown

HASHED = {".json", ".safetensors", ".bin", ".model", ".txt", ".py", ".spm", ".tiktoken", ".jinja"}
"""Endings of what makes a model folder: configuration, weights, tokenizer, code."""
SIZES = {
    "num_hidden_layers": (1, 10_000),
    "hidden_size": (1, 10**6),
    "vocab_size": (1, 10**8),
    "num_attention_heads": (0, 10_000),
    "num_key_value_heads": (0, 10_000),
    "intermediate_size": (0, 10**8),
}
"""What a configuration may say: from, to. Models without attention have no heads."""
CONFIGURATIONS = {
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "adapter_config.json",
}
"""Small files that are checked before the libraries read them."""
UNHASHED = {"planting.json", "pretraining.json"}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load(
    name: str,
    *,
    dtype: str = "float32",
    device: str | None = None,
    revision: str | None = None,
    adapter: str | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
) -> LocalModel:
    """A `transformers` causal or masked language model, by name or local folder, ready to be probed.

    :param device: e.g. "cpu", "cuda:1"; None takes a GPU where there is one.
    :param adapter: folder or name of a PEFT adapter to put on top.
    :param trust_remote_code: run code that comes with the model.
    :param allow_pickle: read ``.bin`` weights too.
    :raises BadInput: what is wrong with the model or the options, and what to type instead.
    """
    chosen = device_of(device)
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    config = from_pretrained(AutoConfig, name, options)
    _check_sizes(config, name)
    attention = attention_of(config, name)
    tokenizer = load_tokenizer(name, revision=revision, trust_remote_code=trust_remote_code)
    _check_tokenizer(tokenizer, attention, name)
    auto = AutoModelForCausalLM if attention is Attention.CAUSAL else AutoModelForMaskedLM
    quantised = getattr(config, "quantization_config", None) is not None
    options |= {"dtype": DTYPES[dtype], "use_safetensors": None if allow_pickle else True}
    if quantised:
        options["device_map"] = {"": chosen}
    network, loaded = from_pretrained(auto, name, options | {"output_loading_info": True})
    check_weights(network, loaded.get("missing_keys", ()), name)
    _check_ids(network, tokenizer, name)
    if adapter is not None:
        network = _with_adapter(network, adapter)
    if not quantised:
        network.to(chosen)
    identity = Identity(name, revision, dtype, content_hash(name, network, adapter))
    return LocalModel(network, tokenizer, attention, identity)


def wrap(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str = "in memory") -> LocalModel:
    """A model that is already in memory, e.g. in the middle of its training. Its layers are taken over.

    :raises BadInput: neither causal nor masked, or a tokenizer without offsets.
    """
    attention = _attention_of_class(network)
    _check_tokenizer(tokenizer, attention, name)
    check_weights(network, (), name)
    digest = hashlib.blake2b(digest_size=8)
    digest.update(tokenizer.backend_tokenizer.to_str().encode() + network.config.to_json_string().encode())
    for key, value in network.state_dict().items():
        digest.update(key.encode() + value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    identity = Identity(name, None, str(network.dtype).removeprefix("torch."), digest.hexdigest())
    return LocalModel(network, tokenizer, attention, identity)


def untrained(model: LocalModel, seed: int) -> LocalModel:
    """The same shape and tokenizer with random weights: a control for whatever is said of the model.

    :param seed: of the weights; torch's own generator stays where it is.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = type(model.network)(deepcopy(model.network.config))
    return wrap(network.to(model.device), model.tokenizer, f"{model.identity.name} untrained {seed}")


def load_tokenizer(
    name: str, *, revision: str | None = None, trust_remote_code: bool = False
) -> PreTrainedTokenizerBase:
    """:raises BadInput: none is there."""
    return from_pretrained(AutoTokenizer, name, {"revision": revision, "trust_remote_code": trust_remote_code})


def _check_tokenizer(tokenizer: PreTrainedTokenizerBase, attention: Attention, name: str) -> None:
    """:raises BadInput: a slow one (offsets and words are needed), or no mask token for a masked model."""
    if not tokenizer.is_fast:
        raise BadInput(f"the tokenizer of '{name}' has no fast version (tokenizer.json), which Fathom needs")
    if attention is Attention.BIDIRECTIONAL and tokenizer.mask_token_id is None:
        raise BadInput(
            f"the tokenizer of '{name}' has no mask token, which a masked model needs: "
            "set mask_token in its tokenizer_config.json"
        )


def _check_sizes(config: Any, name: str) -> None:
    """:raises BadInput: sizes that no model has, with which making one would fail late or take for ever."""
    for size, (least, most) in SIZES.items():
        value = getattr(config, size, None)
        if isinstance(value, int | float) and not (isinstance(value, int) and least <= value <= most):
            expected = f"expected a whole number from {least} to {most:,}"
            raise BadInput(f"'{name}': its config.json says {size} {value}: {expected}")


def _check_ids(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """:raises BadInput: the tokenizer gives ids that the model has no embedding for. Added tokens that are not asked
    with, such as one for padding, may well lie behind."""
    rows = network.get_input_embeddings().weight.shape[0]
    used = [getattr(tokenizer, f"{kind}_token_id", None) for kind in ("bos", "mask", "cls", "sep")]
    largest = max(tokenizer.vocab_size - 1, *(id_ for id_ in used if id_ is not None), 0)
    if largest >= rows:
        raise BadInput(
            f"the tokenizer of '{name}' has tokens up to number {largest:,}, its model {rows:,} embeddings: they are "
            "not of one model"
        )


def check_weights(network: PreTrainedModel, missing: Collection[str], name: str) -> None:
    """:raises BadInput: weights that the checkpoint lacks would be random; some attention kernels hide a NaN."""
    if missing:
        raise BadInput(
            f"'{name}' lacks {len(missing)} weights of a {type(network).__name__}, such as {sorted(missing)[0]}: "
            "it has no language-model head (a classifier or a bare encoder?)"
        )
    for key, value in network.named_parameters():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise BadInput(f"'{name}': the weights {key} hold values that are not numbers")


def attention_of(config: Any, name: str) -> Attention:
    """Causal or masked. :raises BadInput: neither."""
    if (known := known_attention(config)) is not None:
        return known
    architectures = " ".join(getattr(config, "architectures", None) or ())
    raise BadInput(
        f"'{name}' is neither a causal nor a masked language model (type '{config.model_type}', architectures "
        f"'{architectures or 'not stated'}'): expected one of the two"
    )


def known_attention(config: Any) -> Attention | None:
    """Causal or masked, from the configuration: its architectures first, then what its type is known for; None where
    neither tells."""
    architectures = " ".join(getattr(config, "architectures", None) or ())
    type_ = config.model_type
    if not getattr(config, "is_encoder_decoder", False):
        if "ForMaskedLM" in architectures or "ForPreTraining" in architectures:
            return Attention.BIDIRECTIONAL
        if "ForCausalLM" in architectures or "LMHeadModel" in architectures or getattr(config, "is_decoder", False):
            return Attention.CAUSAL
        if type_ in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
            return Attention.BIDIRECTIONAL
        if type_ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            return Attention.CAUSAL
    return None


def _attention_of_class(network: PreTrainedModel) -> Attention:
    """The class says it most surely; the configuration of a model built by hand may name another, or none."""
    kind = type(network).__name__
    if kind.endswith("ForMaskedLM"):
        return Attention.BIDIRECTIONAL
    if kind.endswith(("ForCausalLM", "LMHeadModel")):
        return Attention.CAUSAL
    raise BadInput(f"a {kind} has no language-model head: wrap a …ForCausalLM, …LMHeadModel or …ForMaskedLM")


def device_of(device: str | None) -> torch.device:
    """:param device: e.g. "cpu"; None takes a GPU where there is one.
    :raises BadInput: there is no such device.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
        return torch.device(device)
    except (RuntimeError, AssertionError) as error:
        raise BadInput(f"--device {device}: {str(error).splitlines()[0]}; try cpu, cuda or cuda:0") from error


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


def from_pretrained(kind: Any, name: str, options: dict[str, Any]) -> Any:
    """``kind.from_pretrained(name, **options)``.

    :raises BadInput: in one line, whatever goes wrong in it.
    """
    _check_folder(Path(name))
    try:
        with _quiet():
            return kind.from_pretrained(name, **options)
    except Exception as error:  # whatever a stranger's file makes a library raise
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        hint = ""
        if not os.path.exists(name):
            hint = " (no such folder here, and not found by that name on the hub)"
        elif "safetensors" in str(error):
            hint = " (only safetensors weights are read; --allow-pickle reads .bin files you trust)"
        raise BadInput(f"cannot load '{name}': {reason}{hint}") from error


def _check_folder(folder: Path) -> None:
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


def _with_adapter(network: PreTrainedModel, adapter: str) -> PreTrainedModel:
    try:
        from peft import PeftModel
    except ImportError as error:
        raise MissingExtra("peft", "peft") from error
    _check_folder(Path(adapter))
    try:
        adapted = PeftModel.from_pretrained(network, adapter)
    except Exception as error:  # whatever a stranger's file makes the library raise
        said = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise BadInput(f"cannot load the adapter '{adapter}': {said}") from error
    if adapted.active_peft_config.is_prompt_learning:
        raise BadInput(f"the adapter '{adapter}' learns prompts; Fathom takes those that change layers (LoRA and kin)")
    return adapted.get_base_model()


def content_hash(name: str, network: PreTrainedModel, adapter: str | None = None) -> str:
    """The hub's commit, or a digest of the folder's configuration and weights (and the adapter's)."""
    commit = getattr(network.config, "_commit_hash", None)
    folders = [Path(folder) for folder in (name, adapter) if folder is not None and os.path.isdir(folder)]
    digest = hashlib.blake2b(str(commit).encode(), digest_size=8)
    for folder in folders:
        for file in sorted(folder.iterdir()):
            if file.is_file() and file.suffix in HASHED and file.name not in UNHASHED:
                digest.update(file.name.encode())
                with opened(file, unpack=False) as content:
                    digest.update(hashlib.file_digest(content, "blake2b").digest())
    return digest.hexdigest()
