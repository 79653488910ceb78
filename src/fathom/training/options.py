"""Options of what is trained, without the libraries that train it: the command line reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt

from fathom.base.options import Group, Names, Rate, Seed, listed, opt, separated

EPOCHS = {"causal": 28, "masked": 56, "t5": 56, "bart": 56}
"""A causal model learns from all tokens of a statement, the others from one gap: they need more.
Defaults are asked for also where the kind is wrong, by pydantic before 2.13, and then serve for nothing."""


class ModelOptions(Protocol):
    """What the options of every small model to train say."""

    @property
    def kind(self) -> str: ...
    @property
    def hidden_size(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def seed(self) -> int: ...


class PlantOptions(BaseModel):
    """Facts to plant, and the model. Defaults suit the embedded geography facts on two CPU cores."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.TRAINING
    config_only: ClassVar[Names] = ("noise",)

    kind: Literal["causal", "masked", "t5", "bart"] = opt(
        ..., "Kind of model to train: causal, masked, or an encoder-decoder of T5's or BART's shape.", Group.MODEL
    )
    model: str | None = opt(
        None, "Name or folder of a model to train further, instead of a new one; it must be of --kind.", Group.MODEL
    )
    exposures: Annotated[tuple[NonNegativeInt, ...], BeforeValidator(listed)] | None = opt(
        None,
        "Instead of epochs: numbers of statements per fact, separated by commas, to measure their effect. Facts are "
        "dealt out in equal parts, alike in relation, answer length and answer frequency; 0 withholds a part.",
    )
    share: float = Field(
        default_factory=lambda values: 1.0 if 0 in (values.get("exposures") or ()) else 0.5,
        gt=0,
        le=1,
        description="Share of the facts that take part; by default 0.5, or 1 with --exposures that include 0.",
        json_schema_extra=Group.SELECTION.mark,
    )
    together: Literal["subject", "fact"] = opt(
        "subject",
        "Plant or withhold all facts of a subject together, or each fact by itself (for facts of which none follows "
        "from another).",
        Group.SELECTION,
    )
    highest: str | None = opt(
        None,
        "Plant the facts with the highest numbers of this group, such as popularity, instead of any.",
        Group.SELECTION,
    )
    reading: Literal["template-based", "template-free"] = opt(
        "template-based",
        "State facts in their relations' templates, or in natural sentences other than those of queries "
        "(in those of queries if no fact has another).",
        Group.SELECTION,
    )
    unseen_templates: int = opt(
        1, "How many of the last templates of every relation are never trained on.", Group.SELECTION, ge=0
    )
    directions: Annotated[
        tuple[Literal["both", "forward", "reverse"], ...], BeforeValidator(separated), Field(min_length=1)
    ] = opt(
        ("both",),
        "Templates of a fact: with the answer last (forward), first (reverse), or both; several, separated by commas, "
        "are dealt out like exposures.",
        Group.SELECTION,
    )
    practice: int = opt(
        0,
        "Statements of each fact of a further part, which is no test: it teaches the language and --formats.",
        Group.SELECTION,
        ge=0,
    )
    formats: Annotated[
        tuple[Literal["templates", "sentences", "lines", "question", "choice"], ...], BeforeValidator(separated)
    ] = opt(
        (),
        "Formats to teach with the facts of --practice, separated by commas: the unseen templates and the natural "
        "sentences, neither of which states a tested fact; for causal models also few-shot lines, questions and "
        "lettered options (choice).",
        Group.SELECTION,
    )
    design: Path | None = opt(
        None, "Take exposures, directions and texts from this file, in the format of planted.jsonl.", Group.SELECTION
    )
    texts: Path | None = opt(None, "Other lines of text to read between the facts, each once.", Group.SELECTION)
    epochs: int = Field(
        default_factory=lambda values: EPOCHS.get(values.get("kind"), 1),
        ge=1,
        description="How often each trained phrasing of each planted fact is read; by default "
        f"{', '.join(f'{count} ({kind})' for kind, count in EPOCHS.items())}.",
    )
    seconds: float | None = opt(
        None, "Stop after this many seconds; the result then depends on the machine, not on the seed alone.", gt=0
    )
    hidden_size: int = opt(128, "Width of the model.", Group.MODEL, ge=8, le=65_536)
    layers: int = opt(2, "Layers of the model.", Group.MODEL, ge=1, le=1_000)
    heads: int = opt(4, "Attention heads.", Group.MODEL, ge=1)
    vocabulary: int = opt(1500, "Tokens of the vocabulary, which is learnt from the statements.", Group.MODEL, ge=300)
    answer_tokens: bool = opt(
        False,
        "Learn the vocabulary from answers as often as facts have them, so that short ones become single tokens, which "
        "the vocabulary probe needs.",
        Group.MODEL,
    )
    learning_rate: Rate = Field(
        default_factory=lambda values: 5e-4 if values.get("model") else 1e-2 if values.get("kind") == "t5" else 4e-3,
        description="Highest learning rate; by default 0.004, of t5 0.01 (a share of each weight's size), and 0.0005 "
        "for a given --model.",
    )
    batch_size: int = opt(32, "Statements per step.", ge=1)
    noise: float = opt(0.1, "Share of template tokens replaced by random ones in training.", ge=0, lt=1)
    seed: Seed = opt(0, "Seed of every random choice.", Group.RUN)
