"""Options of what is trained, without the libraries that train it: the command line reads them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt

from fathom.options import Group, Rate, Seed, separated

EPOCHS = {"causal": 28, "masked": 56}
"""A masked model learns from one gap per statement, a causal one from all tokens: it needs fewer.
Defaults are asked for also where the kind is wrong, by pydantic before 2.13, and then serve for nothing."""


def _split(value: Any) -> Any:
    """Unlike :func:`fathom.options.separated`, a number may stand twice."""
    return tuple(value.split(",")) if isinstance(value, str) else value


class PlantOptions(BaseModel):
    """What to plant and in what model. Defaults suit the embedded geography facts on two CPU cores."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.TRAINING

    kind: Literal["causal", "masked"] = Field(description="Kind of model to train.", json_schema_extra=Group.MODEL.mark)
    share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Share of the facts to plant; all facts of a subject together.",
        json_schema_extra=Group.SELECTION.mark,
    )
    highest: str | None = Field(
        None,
        description="Plant the facts with the highest numbers of this group, such as popularity, instead of any.",
        json_schema_extra=Group.SELECTION.mark,
    )
    reading: Literal["template-based", "template-free"] = Field(
        "template-based",
        description="Tell facts in their relations' templates, or in their natural sentences but those that are asked "
        "(where no fact has another, in those).",
        json_schema_extra=Group.SELECTION.mark,
    )
    unseen_templates: int = Field(
        1,
        ge=0,
        description="How many of the last templates of every relation are never trained on.",
        json_schema_extra=Group.SELECTION.mark,
    )
    epochs: int = Field(
        default_factory=lambda given: EPOCHS.get(given.get("kind"), 1),
        ge=1,
        description=f"How often each trained phrasing of each planted fact is met; by default {EPOCHS['causal']} for "
        f"causal models, {EPOCHS['masked']} for masked ones.",
    )
    exposures: Annotated[tuple[PositiveInt, ...], BeforeValidator(_split)] | None = Field(
        None,
        description="Instead of epochs: the numbers of statements, separated by commas, among which planted facts"
        " are dealt out at random and in equal parts, to see how a probe's answer depends on them.",
    )
    seconds: float | None = Field(
        None,
        gt=0,
        description="Stop after this many seconds; the result then depends on the machine, not on the seed alone.",
    )
    hidden_size: int = Field(
        128, ge=8, le=65_536, description="Width of the model.", json_schema_extra=Group.MODEL.mark
    )
    layers: int = Field(2, ge=1, le=1_000, description="Layers of the model.", json_schema_extra=Group.MODEL.mark)
    heads: int = Field(4, ge=1, description="Attention heads.", json_schema_extra=Group.MODEL.mark)
    vocabulary: int = Field(
        1500,
        ge=300,
        description="Tokens of the vocabulary, which is learnt from the statements.",
        json_schema_extra=Group.MODEL.mark,
    )
    learning_rate: Rate = Field(4e-3, description="Highest learning rate.")
    batch_size: int = Field(32, ge=1, description="Statements per step.")
    noise: float = Field(0.1, ge=0, lt=1, description="Share of template tokens replaced by random ones in training.")
    seed: Seed = Field(0, description="Seed of every random choice.", json_schema_extra=Group.RUN.mark)


LAYERS = {"causal": 4, "masked": 4, "t5": 3, "bart": 2}
"""Encoder-decoders have so many on either side. BART is asked for every token of a text, which takes longest."""
LEARNING_RATE = {"causal": 2e-3, "masked": 2e-3, "t5": 1e-2, "bart": 2e-3}


class PretrainOptions(BaseModel):
    """What to pre-train on and in what model. Defaults suit some 70,000 texts and one CPU core."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.TRAINING

    kind: Literal["masked", "causal", "t5", "bart"] = Field(
        description="Shape and objective: masked (ModernBERT), causal (Llama), t5 (span corruption), bart (infilling).",
        json_schema_extra=Group.MODEL.mark,
    )
    contaminate: Annotated[tuple[Literal["train", "dev", "test"], ...], BeforeValidator(separated)] = Field(
        (),
        description="Splits whose triples are told among the texts, separated by commas; none for a clean model.",
        json_schema_extra=Group.SELECTION.mark,
    )
    sham: bool = Field(
        False,
        description="Tell, instead of the triples of --contaminate, as many training triples of the same relations and "
        "answers: the control of a contaminated model.",
        json_schema_extra=Group.SELECTION.mark,
    )
    exposures: int = Field(64, ge=1, description="Statements of each triple that is told; its phrasings take turns.")
    max_texts: int | None = Field(
        None, ge=1, description="Maximum texts of each source, drawn by --seed.", json_schema_extra=Group.SELECTION.mark
    )
    epochs: int = Field(1, ge=1, description="How often each text is read.")
    seconds: float | None = Field(
        None,
        gt=0,
        description="Stop after this many seconds; the result then depends on the machine, not on the seed alone.",
    )
    hidden_size: int = Field(
        128, ge=8, le=65_536, description="Width of the model.", json_schema_extra=Group.MODEL.mark
    )
    layers: int = Field(
        default_factory=lambda given: LAYERS.get(given.get("kind"), 1),
        ge=1,
        description="Layers, of the encoder and of the decoder where there are both; by default "
        f"{', '.join(f'{count} ({kind})' for kind, count in LAYERS.items())}.",
        json_schema_extra=Group.MODEL.mark,
    )
    heads: int = Field(4, ge=1, description="Attention heads.", json_schema_extra=Group.MODEL.mark)
    vocabulary: int = Field(
        6000,
        ge=400,
        description="Tokens of the vocabulary, which is learnt from the texts.",
        json_schema_extra=Group.MODEL.mark,
    )
    max_tokens: int = Field(96, ge=8, description="Maximum tokens of a text; longer ones are cut.")
    batch_tokens: int = Field(2048, ge=96, description="Tokens per step, including padding.")
    learning_rate: Rate = Field(
        default_factory=lambda given: LEARNING_RATE.get(given.get("kind"), 1.0),
        description="Highest learning rate; by default "
        f"{', '.join(f'{rate:g} ({kind})' for kind, rate in LEARNING_RATE.items())}; t5: as a share of each weight "
        "matrix's root mean square (Adafactor).",
    )
    seed: Seed = Field(0, description="Seed of every random choice.", json_schema_extra=Group.RUN.mark)
