"""What kind of language model a configuration or a class describes, and which of `transformers`' classes loads it."""

from __future__ import annotations

from typing import Any

import transformers
from transformers.models.auto import modeling_auto as auto

from fathom.errors import BadInput
from fathom.models.base import Attention

KINDS = {"causal": Attention.CAUSAL, "masked": Attention.BIDIRECTIONAL, "seq2seq": Attention.SEQ2SEQ}
"""What ``--kind`` may say."""
OWN_CLASSES = {
    "AutoModelForCausalLM": Attention.CAUSAL,
    "AutoModelForMaskedLM": Attention.BIDIRECTIONAL,
    "AutoModelForSeq2SeqLM": Attention.SEQ2SEQ,
}
"""What a model that brings code of its own registers its class as."""
CAUSAL, MASKED = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
SEQ2SEQ = auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
MULTIMODAL = auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
"""Texts and images in, text out: their text half is a causal model, as is that of some that hear (in SEQ2SEQ)."""
UNSUITABLE = (
    "'{name}' is neither a causal nor a masked language model, nor an encoder-decoder (type '{type}', architectures "
    "'{architectures}'): expected one of these; if it is one of a class of your own, say which: --kind causal, masked "
    "or seq2seq (with --trust-remote-code)"
)


def attention_of(config: Any, name: str, kind: str | None = None) -> Attention:
    """What the model of this configuration sees.

    :param kind: what the user says that it is, one of :data:`KINDS`.
    :raises BadInput: nothing says.
    """
    found = KINDS[kind] if kind is not None else known_attention(config)
    if found is None:
        architectures = " ".join(getattr(config, "architectures", None) or ()) or "not stated"
        raise BadInput(UNSUITABLE.format(name=name, type=config.model_type, architectures=architectures))
    return found


def known_attention(config: Any) -> Attention | None:
    """From the configuration: its architecture first, then what its type is known for; None where neither tells."""
    architectures = getattr(config, "architectures", None) or ()
    for architecture in architectures:
        if (found := attention_of_class(architecture, config)) is not None:
            return found
    own = getattr(config, "auto_map", None) or {}  # of a class that comes with the model
    for kind, attention in OWN_CLASSES.items():
        if kind in own:
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
    """From the name of a class; the configuration decides where one class is of two kinds (XLM's, say)."""
    if getattr(config, "is_encoder_decoder", False) and _generates_from_source(architecture):
        return Attention.SEQ2SEQ
    if getattr(config, "is_encoder_decoder", False) and not architecture.endswith("ForCausalLM"):
        return None
    if architecture in MASKED.values() and architecture in CAUSAL.values():
        return Attention.CAUSAL if getattr(config, "causal", False) else Attention.BIDIRECTIONAL
    if architecture.endswith(("ForMaskedLM", "ForPreTraining")) or architecture in MASKED.values():
        return Attention.BIDIRECTIONAL
    known = any(architecture in table.values() for table in (CAUSAL, MULTIMODAL, SEQ2SEQ))
    return Attention.CAUSAL if known or architecture.endswith(("ForCausalLM", "LMHeadModel")) else None


def _generates_from_source(architecture: str) -> bool:
    return architecture in SEQ2SEQ.values() or architecture.endswith("ForConditionalGeneration")


def loader(config: Any, attention: Attention) -> Any:
    """The class of `transformers` whose ``from_pretrained`` makes the model with its head: of those that know its type
    the one that makes the stated architecture."""
    if attention is Attention.BIDIRECTIONAL:
        return transformers.AutoModelForMaskedLM
    tables = [
        (CAUSAL, transformers.AutoModelForCausalLM),
        (SEQ2SEQ, transformers.AutoModelForSeq2SeqLM),
        (MULTIMODAL, transformers.AutoModelForImageTextToText),
    ]
    if attention is Attention.SEQ2SEQ:
        tables = tables[1:]
    stated = getattr(config, "architectures", None) or ()
    fitting = [kind for table, kind in tables if table.get(config.model_type) in stated]
    known = [kind for table, kind in tables if config.model_type in table]
    return [*fitting, *known, tables[0][1]][0]
