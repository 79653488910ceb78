"""Models for probes: opened as the options say, or checked if the caller has loaded them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fathom.base.errors import BadInput
from fathom.data.fetch_model import folder_or_name
from fathom.engine.models.model_files import content_hash
from fathom.engine.models.options import ServerOptions
from fathom.probes.options import LikelihoodOptions, ProbeOptions, ServedOptions, StatementOptions

if TYPE_CHECKING:
    from fathom.engine.models.base import AnyModel, Model
    from fathom.engine.models.chat import ChatTemplate
    from fathom.engine.models.encoder_decoder import EncoderDecoder
    from fathom.engine.models.likelihoods import LikelihoodServer
    from fathom.engine.models.local import LocalModel
    from fathom.engine.models.server import ChatServer
    from fathom.probes.options import ChoiceOptions, GenerationOptions

_LOADING = {
    "dtype", "device", "device_map", "revision", "tokenizer", "kind", "quantize", "trust_remote_code", "allow_pickle",
}  # fmt: skip


def open_model(name: str, options: ProbeOptions) -> Model | ChatServer | LikelihoodServer:
    """Load a model by name or folder; with ``--server``, connect to the server's model of that name.

    :raises BadInput: no such model, or it cannot be loaded or served as the options say.
    """
    if not isinstance(options, ServerOptions) or options.server is None:
        from fathom.engine.models.loading import load

        return load(name, **_loading(options))
    tokenizer = served_tokenizer(name, options)
    if isinstance(options, ServedOptions) and tokenizer is None:
        return options.connect(name)
    return _likelihood_server(name, options, tokenizer)


def served_tokenizer(name: str, options: ProbeOptions) -> str | None:
    """Return the tokenizer of a served model that scores texts; None of one that writes.

    :raises BadInput: it is missing, or options say how to load the model.
    """
    tokenizer: str | None = getattr(options, "tokenizer", None)
    if isinstance(options, ServedOptions) and not (isinstance(options, LikelihoodOptions) and tokenizer):
        _refuse_loading(options)
        return None
    _refuse_loading(options.model_copy(update={"tokenizer": None}))
    if tokenizer is None:
        raise BadInput(f"--server: to score texts, give the tokenizer of '{name}' with --tokenizer")
    return tokenizer


def open_shape(name: str, options: ProbeOptions) -> LocalModel | EncoderDecoder:
    """Make a model of the shape of a named one without reading its weights. :raises BadInput: there is none."""
    from fathom.engine.models.loading import load_shape

    unread = {"device_map", "quantize", "allow_pickle"}
    return load_shape(name, **{key: value for key, value in _loading(options).items() if key not in unread})


def check_model(name: str, options: ProbeOptions) -> None:
    """Check that a model to be loaded here exists. :raises BadInput: it does not."""
    if not is_served(options):
        _find(name, options)


def model_hash(name: str, options: ProbeOptions) -> str | None:
    """Return the content hash of a model on this disk, as in a run's identity; None of one on the hub or a server."""
    is_here = os.path.exists(folder_or_name(name))
    return content_hash(*_find(name, options)) if is_here and not is_served(options) else None


def is_served(options: ProbeOptions) -> bool:
    """Return whether a server runs the model."""
    return isinstance(options, ServerOptions) and options.server is not None


def _find(name: str, options: ProbeOptions) -> tuple[list[str], Any]:
    from fathom.engine.models.parts import find_model

    loading = _loading(options)
    return find_model(name, **{key: loading[key] for key in ("revision", "tokenizer", "adapter", "trust_remote_code")})


def loading_key(options: ProbeOptions) -> dict[str, Any]:
    """Return the options that decide how a model is loaded or served; equal ones open the same model."""
    return _loading(options) | options.model_dump(mode="json", include=set(ServerOptions.model_fields))


def check_loaded(model: AnyModel, options: ProbeOptions) -> None:
    """:raises BadInput: the options say how to load the model, or the probe needs more than the model gives."""
    from fathom.engine.models.likelihoods import LikelihoodServer

    if ignored := "--server" if is_served(options) else _loading_flags(options):
        raise BadInput(f"{ignored}: the model is loaded already; give its name or folder instead")
    if model.tokenizer is None and not isinstance(options, ServedOptions):
        raise BadInput("a chat server only writes, this probe needs likelihoods or states: use choice, generation")
    if isinstance(model, LikelihoodServer) and not isinstance(options, LikelihoodOptions):
        raise BadInput("a server that scores texts is not enough for this probe: use statement, vocabulary, choice")


def chat_template(model: Any, options: StatementOptions | ChoiceOptions | GenerationOptions) -> ChatTemplate | None:
    """Return the model's chat template; None without ``--chat`` and for a server, which applies its own.

    :raises BadInput: there is no template, it fails, or conflicting options.
    """
    if model.tokenizer is None:
        names = [name for name in ("chat", "shuffle_chat", "chat_arguments") if getattr(options, name)]
        if names:
            flag = f"--{names[0].replace('_', '-')}"
            raise BadInput(f"{flag}: a server applies its own chat template to questions; remove {flag}")
        return None
    if not options.chat:
        for name in ("system", "chat_arguments", "shuffle_chat"):
            if getattr(options, name):
                raise BadInput(f"--{name.replace('_', '-')}: only with --chat")
        return None
    if model.attention != "causal":
        raise BadInput(f"--chat: this model is {model.attention} and takes no turns; remove --chat")
    if options.bos != "auto":
        raise BadInput(f"--bos {options.bos}: the chat template determines the first tokens; remove --bos or --chat")
    from fathom.engine.models.chat import ChatTemplate, ShuffledChat

    if options.shuffle_chat:
        return ShuffledChat(model.tokenizer, options.system, options.chat_arguments, options.seed)
    return ChatTemplate(model.tokenizer, options.system, options.chat_arguments)


def _likelihood_server(name: str, options: Any, tokenizer: str | None) -> LikelihoodServer:
    model: LikelihoodServer = options.connect_for_likelihoods(name, tokenizer)
    if model.adds_bos and options.bos == "none":
        raise BadInput("--bos none: this server puts BOS in front of all texts; remove --bos")
    if model.lacks_first and isinstance(options, StatementOptions) and "full" in options.score and not options.chat:
        raise BadInput(
            "--score full: this server gives no log-probability of a text's first token (llama-cpp-python): use "
            "--score conditional, or llama.cpp's own server"
        )
    return model


def _refuse_loading(options: ProbeOptions) -> None:
    if ignored := _loading_flags(options):
        raise BadInput(f"{ignored}: only for models loaded here; remove them, or --server")


def _loading(options: ProbeOptions) -> dict[str, Any]:
    """Return the arguments of :func:`fathom.engine.models.loading.load`."""
    adapter = options.adapter or ""
    adapters = (adapter,) if os.path.isdir(adapter) else tuple(part for part in adapter.split(",") if part)
    return options.model_dump(include=_LOADING) | {"adapter": adapters or None}


def _loading_flags(options: ProbeOptions) -> str:
    defaults = _loading(type(options).model_construct())
    changed = [name for name, value in _loading(options).items() if value != defaults[name]]
    return ", ".join(f"--{name.replace('_', '-')}" for name in changed)
