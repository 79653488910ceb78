"""Options of what is trained, without the libraries that train it: the command line reads them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt

from fathom.options import separated

EPOCHS = {"causal": 28, "masked": 56}
"""A masked model learns from one gap per statement, a causal one from all tokens: it needs fewer."""


def _split(value: Any) -> Any:
    """Unlike :func:`fathom.options.separated`, a number may stand twice."""
    return tuple(value.split(",")) if isinstance(value, str) else value


class PlantOptions(BaseModel):
    """What to plant and in what model. Defaults suit the embedded geography facts on two CPU cores."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["causal", "masked"] = Field(description="Kind of model to train.")
    share: float = Field(0.5, gt=0, le=1, description="Share of the facts to plant; all facts of a subject together.")
    unseen_templates: int = Field(
        1, ge=0, description="The last so many templates of every relation are never trained on."
    )
    epochs: int = Field(
        default_factory=lambda given: EPOCHS[given["kind"]],
        ge=1,
        description=f"How often each trained phrasing of each planted fact is met; by default {EPOCHS['causal']} for "
        f"causal models, {EPOCHS['masked']} for masked ones.",
    )
    exposures: Annotated[tuple[PositiveInt, ...], BeforeValidator(_split)] | None = Field(
        None,
        description="Instead of epochs: planted facts are dealt out to these numbers of statements, at random and in "
        "equal parts, separated by commas, to see how a probe's answer depends on them.",
    )
    seconds: float | None = Field(
        None, gt=0, description="Stop after so long; the result then depends on the machine, not on the seed alone."
    )
    hidden_size: int = Field(128, ge=8, description="Width of the model.")
    layers: int = Field(2, ge=1, description="Layers of the model.")
    heads: int = Field(4, ge=1, description="Attention heads.")
    vocabulary: int = Field(1500, ge=300, description="Tokens of the vocabulary, which is learnt from the statements.")
    learning_rate: float = Field(4e-3, gt=0, description="Highest learning rate.")
    batch_size: int = Field(32, ge=1, description="Statements per step.")
    noise: float = Field(
        0.1, ge=0, lt=1, description="Share of template tokens that are replaced by random ones when read."
    )
    seed: int = Field(0, description="Seed of every random choice.")


LAYERS = {"causal": 4, "masked": 4, "t5": 3, "bart": 2}
"""Encoder-decoders have so many on either side. BART is asked for every token of a text, which takes longest."""
LEARNING_RATE = {"causal": 2e-3, "masked": 2e-3, "t5": 1e-2, "bart": 2e-3}


class PretrainOptions(BaseModel):
    """What to pre-train on and in what model. Defaults suit some 70,000 texts and one CPU core."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["masked", "causal", "t5", "bart"] = Field(
        description="Shape and objective: masked (ModernBERT), causal (Llama), t5 (span corruption), bart (infilling)."
    )
    contaminate: Annotated[tuple[Literal["train", "dev", "test"], ...], BeforeValidator(separated)] = Field(
        (), description="Splits whose triples are told among the texts, separated by commas; none for a clean model."
    )
    exposures: int = Field(64, ge=1, description="Statements of each triple that is told, the phrasings taking turns.")
    max_texts: int | None = Field(None, ge=1, description="Of each source at most so many texts, drawn by the seed.")
    epochs: int = Field(1, ge=1, description="How often each text is read.")
    seconds: float | None = Field(
        None, gt=0, description="Stop after so long; the result then depends on the machine, not on the seed alone."
    )
    hidden_size: int = Field(128, ge=8, description="Width of the model.")
    layers: int = Field(
        default_factory=lambda given: LAYERS[given["kind"]],
        ge=1,
        description="Layers, of the encoder and of the decoder where there are both; by default "
        f"{', '.join(f'{count} ({kind})' for kind, count in LAYERS.items())}.",
    )
    heads: int = Field(4, ge=1, description="Attention heads.")
    vocabulary: int = Field(6000, ge=400, description="Tokens of the vocabulary, which is learnt from the texts.")
    max_tokens: int = Field(96, ge=8, description="Of a text; what is longer is cut.")
    batch_tokens: int = Field(2048, ge=96, description="Tokens per step, padding among them.")
    learning_rate: float = Field(
        default_factory=lambda given: LEARNING_RATE[given["kind"]],
        gt=0,
        description="Highest learning rate; by default "
        f"{', '.join(f'{rate:g} ({kind})' for kind, rate in LEARNING_RATE.items())}; t5: as a share of each weight "
        "matrix's root mean square (Adafactor).",
    )
    seed: int = Field(0, ge=0, description="Seed of every random choice.")
