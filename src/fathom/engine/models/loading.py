"""Loading of models by name, from a folder or from memory, with clear errors for what does not fit."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForMaskedLM, AutoTokenizer, PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.base.progress import LOG
from fathom.base.reading.replies import excerpt_of
from fathom.engine.models.base import Attention, Identity
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.models.hub import from_pretrained, parsed, quantisation_of
from fathom.engine.models.local import Encoder, LocalModel, embeddings, lacks_head
from fathom.engine.models.model_files import content_hash, gguf_file, trained_pooling
from fathom.engine.models.parts import (
    KINDS,
    Parts,
    attention_of,
    attention_of_class,
    check_ids,
    check_origin,
    check_tokenizer,
    config_of,
    loader,
    parts_of,
    with_adapters,
)
from fathom.engine.models.weights import (
    DeviceMap,
    check_map,
    check_precision,
    each_weight,
    keep_layers,
    precision_of,
    quantised_options,
    remedy,
    share_by_shape,
    spreading,
    weights_on_meta,
)

TIMED_LAYERS = 1
"""Layers of a model without weights, if all are alike."""
_HEADLESS = re.compile(r"(?!.*LMHead).*(Model|Classification|QuestionAnswering)")
"""Names of architectures of encoders without a language-model head."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load(
    name: str | os.PathLike[str],
    *,
    dtype: str = "float32",
    device: str | None = None,
    device_map: DeviceMap | None = None,
    revision: str | None = None,
    tokenizer: str | None = None,
    kind: str | None = None,
    quantize: str | None = None,
    adapter: str | Sequence[str] | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
) -> LocalModel | EncoderDecoder:
    """Load a language model of `transformers` by name, from a local folder or from a GGUF file.

    :param name: of the model, fetched (``fathom model fetch``) or on the hub, or of a PEFT adapter, which names its
        model itself.
    :param revision: of *name* on the hub, not of another tokenizer or adapter.
    :param dtype: "float32", "bfloat16", "float16", or "auto" for the precision in which the weights were saved.
    :param device: e.g. "cpu", "cuda:1"; None takes a GPU if there is one.
    :param device_map: "auto", "balanced", "sequential" or the place of each module: accelerate spreads the model over
        all devices, memory and disk.
    :param tokenizer: name or folder of another tokenizer than the model's own.
    :param kind: "causal", "masked" or "seq2seq" if the configuration does not determine it.
    :param quantize: "4bit" or "8bit": bitsandbytes quantises the linear layers while they are loaded.
    :param adapter: folders or names of PEFT adapters; their changes add up.
    :param trust_remote_code: run code that comes with the model.
    :param allow_pickle: read ``.bin`` weights too.
    :raises BadInput: a problem with the model or the options, and what to type instead.
    :raises MissingExtra: a library for adapters or quantisation is not installed.

    >>> fathom.load_model("gpt2", device="cpu").identity.name
    'gpt2'
    """
    adapters = [adapter] if isinstance(adapter, str) else adapter or ()
    if device_map is not None:
        check_map(device_map, {"device": device, "adapter": ",".join(adapters)})
    place = device_of(device)
    name = os.fspath(name)
    parts = parts_of(name, adapters, tokenizer, revision)
    options: dict[str, Any] = {"trust_remote_code": trust_remote_code}
    config, attention, encoder = _described(parts, name, kind, options)
    check_precision(dtype, config, place)
    hashing = ThreadPoolExecutor(1).submit(content_hash, parts.folders, config)  # while the weights are read
    options |= {"dtype": DTYPES.get(dtype, dtype), "use_safetensors": None if allow_pickle else True}
    quantised = quantised_options(quantize, config, parts.weights.name, place)
    network = _read_network(loader(config, attention), parts, encoder, config, options | quantised, device_map)
    check_ids(embeddings(network), encoder, name)
    if not quantised and device_map is None:
        _move(network, place, name)
    identity = Identity(name, revision, precision_of(network), hashing.result())
    try:
        model = _model(network, encoder, attention, identity)
    except BadInput as error:
        if not quantised:
            raise
        cause = remedy(identity.dtype) or f"its weights are quantised, {identity.dtype}"
        raise BadInput(f"{error} ({cause})") from error
    model.made_of = tuple(parts.folders)
    model.pooling = trained_pooling(parts.weights.name)
    model.dequantised_from = quantisation_of(parts.weights.name)
    parsed.cache_clear()
    return model


def load_shape(
    name: str,
    *,
    dtype: str = "float32",
    device: str | None = None,
    revision: str | None = None,
    tokenizer: str | None = None,
    kind: str | None = None,
    adapter: Sequence[str] | None = None,
    trust_remote_code: bool = False,
) -> LocalModel | EncoderDecoder:
    """Make a model of the shape of :func:`load`'s without reading weights, to time its passes.

    The weights are random, and all of one name and shape share their memory. ``parameters`` counts those of the model.
    Of layers that are alike there is one, which stands for ``for_each_layer`` of them.

    :raises BadInput: a problem with configuration, tokenizer or options.
    """
    place, parts = device_of(device), parts_of(name, adapter or (), tokenizer, revision)
    options = {"trust_remote_code": trust_remote_code}
    config, attention, encoder = _described(parts, name, kind, options)
    check_precision(dtype, config, place)
    precision = DTYPES.get(dtype) or getattr(config, "dtype", None) or torch.float32
    with weights_on_meta():
        network = loader(config, attention).from_config(config, dtype=precision, **options)
    check_ids(embeddings(network), encoder, name)
    parameters = sum(weight.numel() for weight in network.parameters())
    if attention is Attention.BIDIRECTIONAL and all(map(_HEADLESS.fullmatch, config.architectures or ("",))):
        network = network.base_model
    for_each_layer = keep_layers(network, TIMED_LAYERS)
    share_by_shape(network, place)
    model = _model(network, encoder, attention, Identity(name, revision, precision_of(network), "none"))
    model.parameters, model.for_each_layer = parameters, for_each_layer
    return model


def _described(
    parts: Parts, name: str, kind: str | None, options: dict[str, Any]
) -> tuple[PretrainedConfig, Attention, PreTrainedTokenizerBase]:
    """Return configuration, attention and tokenizer. :raises BadInput: they do not fit."""
    config = config_of(parts, name, options)
    attention = attention_of(config, parts.weights.name, kind)
    tokenizer = from_pretrained(AutoTokenizer, parts.tokenizer, options)
    check_tokenizer(tokenizer, attention, parts.tokenizer.name)
    check_origin(parts, tokenizer)
    return config, attention, tokenizer


def _read_network(
    auto: Any, parts: Parts, encoder: Any, config: Any, options: dict[str, Any], device_map: DeviceMap | None
) -> PreTrainedModel:
    """Read the weights and add the adapters, on a CPU unless *options* or *device_map* place them."""
    folder = None
    if device_map is not None:
        spread, folder = spreading(device_map)
        options = options | spread
    options = options | {"output_loading_info": True, "ignore_mismatched_sizes": True}  # _check_loaded refuses these
    if gguf_file(parts.weights.name) is not None:
        options |= {"config": config}  # else the file would be parsed again
    network, loaded = from_pretrained(auto, parts.weights, options)
    _forget_quantisation(network, parts.weights.name)
    if auto is AutoModelForMaskedLM and lacks_head(network, set(loaded.get("missing_keys", ()))):
        loaded, network = loaded | {"missing_keys": ()}, network.base_model
    _check_loaded(network, loaded, parts.weights.name)
    network = with_adapters(network, encoder, parts.adapters, allow_pickle=options["use_safetensors"] is None)
    network.fathom_weights = folder  # kept as long as the network is
    return network


def _forget_quantisation(network: PreTrainedModel, name: str) -> None:
    """Let the dequantised weights of a GGUF file count as plain ones, which can be copied and moved."""
    if gguf_file(name) is not None and getattr(network, "hf_quantizer", None) is not None:
        network.hf_quantizer.remove_quantization_config(network)


def wrap(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str = "in memory", *, kind: str | None = None
) -> LocalModel | EncoderDecoder:
    """Wrap a model in memory, e.g. during its training; its mode, gradients and layers remain unmodified.

    The weights are shared, so training changes both sides. Only GPT-2's kind of linear layers are copied, on a CPU, for
    speed: wrap such a network again at each checkpoint.

    :param tokenizer: or the processor that holds it, for a multimodal model.
    :param kind: "causal", "masked" or "seq2seq" if the class does not determine it.
    :raises BadInput: a network of no such kind, or a tokenizer without offsets.

    >>> from transformers import AutoModelForCausalLM, AutoTokenizer
    >>> network, tokenizer = AutoModelForCausalLM.from_pretrained("gpt2"), AutoTokenizer.from_pretrained("gpt2")
    >>> str(fathom.wrap_model(network, tokenizer).attention)
    'causal'
    """
    twin = share_weights(network)
    tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise BadInput(
            f"expected the network's tokenizer, found a {type(tokenizer).__name__}: "
            "AutoTokenizer.from_pretrained(NAME) loads one"
        )
    attention = KINDS[kind] if kind is not None else attention_of_class(type(twin).__name__, twin.config)
    if attention is None:
        raise BadInput(
            f"a {type(twin).__name__} has no language-model head that Fathom knows: wrap a …ForCausalLM, …LMHeadModel, "
            "…ForMaskedLM or …ForConditionalGeneration, or state its kind: kind='causal', 'masked' or 'seq2seq'"
        )
    check_tokenizer(tokenizer, attention, name)
    check_weights(twin, (), name)
    digest = hashlib.blake2b(digest_size=8)
    digest.update(tokenizer.backend_tokenizer.to_str().encode() + twin.config.to_json_string().encode())
    for key, value in twin.state_dict().items():
        digest.update(key.encode() + value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return _model(twin, tokenizer, attention, Identity(name, None, precision_of(twin), digest.hexdigest()))


def share_weights(network: nn.Module) -> PreTrainedModel:
    """Copy the modules of *network* but share its weights, so that mode, gradients, hooks and layers can be changed.

    Wrappers by `torch.compile`, data parallelism, mixed precision or PEFT are dropped; adapters stay in its layers.

    :raises BadInput: no model of `transformers`, or one whose modules cannot be copied.
    """
    plain = _unwrapped(network)
    if not isinstance(plain, PreTrainedModel):
        raise BadInput(
            f"expected a model of transformers in memory, found a {type(plain).__name__}: load_model(NAME) takes the "
            "name or the folder of one"
        )
    memo: dict[int, Any] = {id(buffer): buffer for buffer in plain.buffers()}
    for weight in plain.parameters():
        # Quantised weights are of classes of their own, and never trained.
        plain_weight = type(weight) is nn.Parameter
        memo[id(weight)] = nn.Parameter(weight.detach(), requires_grad=False) if plain_weight else weight
    try:
        twin = deepcopy(plain, memo)
    except Exception as error:  # any error of foreign modules
        raise BadInput(
            f"a {type(plain).__name__} cannot be shared ({type(error).__name__}: {str(error)[:100]}): "
            "save it with save_pretrained and give Fathom the folder"
        ) from error
    for module in twin.modules():
        module._compiled_call_impl = None
        if hasattr(module, "_original_forward"):  # accelerate's mixed precision calls the modules of *network*
            del module.forward
    return twin


def _unwrapped(network: Any) -> Any:
    while True:
        if hasattr(network, "_orig_mod"):  # torch.compile
            network = network._orig_mod
        elif isinstance(network, nn.DataParallel | nn.parallel.DistributedDataParallel):
            network = network.module
        elif hasattr(network, "get_base_model"):  # PEFT
            network = network.get_base_model()
        else:
            return network


def _model(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, attention: Attention, identity: Identity
) -> LocalModel | EncoderDecoder:
    if attention is Attention.SEQ2SEQ:
        return EncoderDecoder(network, tokenizer, identity)
    if attention is Attention.BIDIRECTIONAL and network.base_model is network:
        return Encoder(network, tokenizer, attention, identity)
    return LocalModel(network, tokenizer, attention, identity)


def _move(network: PreTrainedModel, device: torch.device, name: str) -> None:
    """:raises BadInput: it does not fit there."""
    try:
        network.to(device)
    except torch.OutOfMemoryError as error:
        size = sum(weight.numel() * weight.element_size() for weight in network.parameters()) / 2**30
        raise BadInput(
            f"the weights of '{name}' take {size:.1f} GiB, more than is free on {device}: try --dtype bfloat16, "
            "--quantize 4bit, another --device or a smaller model"
        ) from error


def untrained(model: LocalModel, seed: int) -> LocalModel | EncoderDecoder:
    """Make a model of the same shape and tokenizer with random weights, as a control.

    :param seed: of the weights; torch's global generator is unaffected.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = type(model.network)(deepcopy(model.network.config))
    return wrap(network.to(model.device), model.tokenizer, f"{model.identity.name} untrained {seed}")


def check_weights(network: PreTrainedModel, missing: Collection[str], name: str) -> None:
    """:raises BadInput: weights missing in the checkpoint, which would be random, or a NaN, which some kernels hide."""
    if missing:
        in_body = any(key.startswith(f"{network.base_model_prefix}.") for key in missing)
        why = "its config.json is of another model" if in_body else "it has no language-model head"
        raise BadInput(
            f"'{name}' lacks {len(missing)} weights of a {type(network).__name__}, such as {sorted(missing)[0]}: "
            f"{why}{'' if in_body else ' (a classifier or a bare encoder?)'}"
        )
    for key, value in each_weight(network):
        if value.is_floating_point() and value.numel() and not torch.isfinite(torch.stack(value.aminmax())).all():
            raise BadInput(f"'{name}': the weights {key} hold values that are not numbers")


def _check_loaded(network: PreTrainedModel, loaded: dict[str, Any], name: str) -> None:
    """:raises BadInput: the weights are not those that config.json describes, or see :func:`check_weights`."""
    for key, shape, expected in sorted(loaded.get("mismatched_keys", ())):
        is_, says = (" × ".join(map(str, sizes)) for sizes in (shape, expected))
        raise BadInput(f"'{name}': the weights {key} are {is_}, its config.json says {says}: they are not of one model")
    check_weights(network, loaded.get("missing_keys", ()), name)
    note_unused(network, loaded.get("unexpected_keys", ()), name)


def note_unused(network: PreTrainedModel, unexpected: Collection[str], name: str) -> None:
    """Log weights of the checkpoint that belong to used parts of the network, such as a further layer or a bias."""
    keys = network.state_dict().keys()
    parts = {key.rpartition(".")[0] for key in keys}
    unused = sorted(
        key for key in unexpected if re.sub(r"\.\d+\.", ".0.", key, count=1) in keys or key.rpartition(".")[0] in parts
    )
    if unused:
        LOG.warning(
            "'%s' holds %d weights that its config.json does not count, such as %s: they are not used",
            *(name, len(unused), unused[0]),
        )


def device_of(device: str | None) -> torch.device:
    """Return the device, e.g. of "cpu"; None takes a GPU if there is one.

    :raises BadInput: there is no such device.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=device).item()  # "meta" makes tensors, without content
        return torch.device(device)
    except Exception as error:  # any error of a backend, which may lack its module
        available = ", ".join(["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))])
        reason = excerpt_of(next(iter(str(error).splitlines()), type(error).__name__), 200)
        raise BadInput(f"--device {device}: {reason}; available: {available}") from error
