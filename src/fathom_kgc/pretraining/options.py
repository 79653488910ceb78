"""Options of ``fathom kgc pretrain``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from fathom.base.options import Group, Rate, Seed, opt, separated

LAYERS = {"causal": 4, "masked": 4, "t5": 3, "bart": 2}
"""Encoder-decoders have so many on either side. BART is asked for every token of a text, which takes longest."""
LEARNING_RATE = {"causal": 2e-3, "masked": 2e-3, "t5": 1e-2, "bart": 2e-3}
GIVEN = 0.1
"""Share of these rates for given weights."""
CONTRASTIVE_RATE = 2e-4


SHAPE = ("hidden_size", "layers", "heads", "vocabulary")
"""Options of a new model."""


class PretrainOptions(BaseModel):
    """Texts to pre-train on, and the model. Defaults suit some 70,000 texts and one CPU core."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.TRAINING

    kind: Literal["masked", "causal", "t5", "bart", "contrastive"] = opt(
        ...,
        "Shape and objective: masked (ModernBERT), causal (Llama), t5 (span corruption), bart (infilling); "
        "contrastive (cosines of sentence encoders) trains a given encoder.",
        Group.MODEL,
    )
    from_: str | None = opt(
        None,
        "Name or folder of a model of this kind, whose weights are trained further; by default a new one.",
        Group.MODEL,
    )
    contaminate: Annotated[tuple[Literal["train", "dev", "test"], ...], BeforeValidator(separated)] = opt(
        (),
        "Splits whose triples are stated among the texts, separated by commas; none for a clean model.",
        Group.SELECTION,
    )
    sham: bool = opt(
        False,
        "State, instead of the triples of --contaminate, as many training triples of the same relations and "
        "answers: the control of a contaminated model.",
        Group.SELECTION,
    )
    exposures: int = opt(64, "Statements of each triple; its phrasings take turns.", ge=1)
    max_texts: int | None = opt(None, "Maximum texts of each source, drawn by --seed.", Group.SELECTION, ge=1)
    epochs: int = opt(1, "How often each text is read.", ge=1)
    seconds: float | None = opt(
        None, "Stop after this many seconds; the result then depends on the machine, not on the seed alone.", gt=0
    )
    hidden_size: int = opt(128, "Width of the model.", Group.MODEL, ge=8, le=65_536)
    layers: int = Field(
        default_factory=lambda values: LAYERS.get(values.get("kind"), 1),
        ge=1,
        description="Layers, of the encoder and of the decoder where there are both; by default "
        f"{', '.join(f'{count} ({kind})' for kind, count in LAYERS.items())}.",
        json_schema_extra=Group.MODEL.mark,
    )
    heads: int = opt(4, "Attention heads.", Group.MODEL, ge=1)
    vocabulary: int = opt(6000, "Tokens of the vocabulary, which is learnt from the texts.", Group.MODEL, ge=400)
    max_tokens: int = opt(96, "Maximum tokens of a text; longer ones are cut.", ge=8)
    batch_tokens: int = opt(2048, "Tokens per step, including padding.", ge=96)
    learning_rate: Rate = Field(
        default_factory=lambda values: (
            LEARNING_RATE.get(values.get("kind"), CONTRASTIVE_RATE / GIVEN) * (GIVEN if values.get("from_") else 1)
        ),
        description="Highest learning rate; by default "
        f"{', '.join(f'{rate:g} ({kind})' for kind, rate in LEARNING_RATE.items())}; a tenth with --from; "
        f"{CONTRASTIVE_RATE:g} (contrastive); t5: as a "
        "share of each weight matrix's root mean square (Adafactor).",
    )
    seed: Seed = opt(0, "Seed of every random choice.", Group.RUN)
