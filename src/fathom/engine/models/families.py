"""The kind of language model that a configuration or a class describes, and the class of `transformers` to load it."""

from __future__ import annotations

from typing import Any

import transformers
from transformers.models.auto import modeling_auto as auto

from fathom.base.errors import BadInput
from fathom.engine.models.base import Attention

KINDS = {"causal": Attention.CAUSAL, "masked": Attention.BIDIRECTIONAL, "seq2seq": Attention.SEQ2SEQ}
"""Values of ``--kind``."""
OWN_CLASSES = {
    "AutoModelForCausalLM": Attention.CAUSAL,
    "AutoModelForMaskedLM": Attention.BIDIRECTIONAL,
    "AutoModelForSeq2SeqLM": Attention.SEQ2SEQ,
}
"""Keys in ``auto_map`` of models with code of their own."""
CAUSAL, MASKED = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
SEQ2SEQ = auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
MULTIMODAL = auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
"""Text and images to text: their text half is a causal model, as is that of some speech models (in SEQ2SEQ)."""


def attention_of(config: Any, name: str, kind: str | None = None) -> Attention:
    """Return the attention of the model with this configuration.

    :param kind: given by the user, one of :data:`KINDS`; None to infer it.
    :raises BadInput: the configuration does not determine it.
    """
    attention = KINDS[kind] if kind is not None else known_attention(config)
    if attention is None:
        architectures = " ".join(_architectures(config)) or "not stated"
        raise BadInput(
            f"'{name}' is neither a causal nor a masked language model, nor an encoder-decoder (type "
            f"'{config.model_type}', architectures '{architectures}'): expected one of these; for a class of your own, "
            "state which: --kind causal, masked or seq2seq (with --trust-remote-code)"
        )
    return attention


def _architectures(config: Any) -> tuple[str, ...]:
    return tuple(getattr(config, "architectures", None) or ())


def known_attention(config: Any) -> Attention | None:
    """Infer the attention from the architecture, then from the model type; None if unknown."""
    architectures = _architectures(config)
    for architecture in architectures:
        if (attention := attention_of_class(architecture, config)) is not None:
            return attention
    auto_map = getattr(config, "auto_map", None) or {}  # of a class that comes with the model
    for kind, attention in OWN_CLASSES.items():
        if kind in auto_map:
            return attention
    type_ = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        return Attention.SEQ2SEQ if type_ in SEQ2SEQ else None
    if "LMHead" not in "".join(architectures) and getattr(config, "is_decoder", False):
        return Attention.CAUSAL
    if type_ in MASKED:
        return Attention.BIDIRECTIONAL
    return Attention.CAUSAL if any(type_ in table for table in (CAUSAL, MULTIMODAL, SEQ2SEQ)) else None


def attention_of_class(architecture: str, config: Any) -> Attention | None:
    """Infer the attention from a class name; the configuration decides if one class has two kinds (XLM's, say)."""
    if getattr(config, "is_encoder_decoder", False):
        if architecture in SEQ2SEQ.values() or architecture.endswith("ForConditionalGeneration"):
            return Attention.SEQ2SEQ
        if not architecture.endswith("ForCausalLM"):
            return None
    if architecture in MASKED.values() and architecture in CAUSAL.values():
        return Attention.CAUSAL if getattr(config, "causal", False) else Attention.BIDIRECTIONAL
    if architecture.endswith(("ForMaskedLM", "ForPreTraining")) or architecture in MASKED.values():
        return Attention.BIDIRECTIONAL
    known = any(architecture in table.values() for table in (CAUSAL, MULTIMODAL, SEQ2SEQ))
    return Attention.CAUSAL if known or architecture.endswith(("ForCausalLM", "LMHeadModel")) else None


def loader(config: Any, attention: Attention) -> Any:
    """Return the class of `transformers` whose ``from_pretrained`` makes the model with its head.

    Among classes that know the model type, the one that makes the stated architecture comes first.
    """
    if attention is Attention.BIDIRECTIONAL:
        return transformers.AutoModelForMaskedLM
    tables = [
        (CAUSAL, transformers.AutoModelForCausalLM),
        (SEQ2SEQ, transformers.AutoModelForSeq2SeqLM),
        (MULTIMODAL, transformers.AutoModelForImageTextToText),
    ]
    if attention is Attention.SEQ2SEQ:
        tables = tables[1:]
    fitting = [kind for table, kind in tables if table.get(config.model_type) in _architectures(config)]
    known = [kind for table, kind in tables if config.model_type in table]
    return [*fitting, *known, tables[0][1]][0]
