"""Options of link predictors, without the libraries that train them: the command line reads them.

The defaults are those of the original papers or of their authors' code; docs/methods/link-prediction.md gives the
source of each. Fields marked as *asking* may be changed when the trained model is asked.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

CIRCUMSTANCE: JsonDict = {"circumstance": True}
"""Changes how a training goes but none of its numbers."""
ASKING: JsonDict = {"asking": True}
"""May differ between training and asking."""


class LinkTraining(BaseModel):
    """What every link predictor can be told. Kinds change the defaults and add their own."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    epochs: int = Field(10, ge=0, description="At most so many passes over the training triples.")
    batch_size: int = Field(32, ge=1, description="Questions per step.")
    learning_rate: float = Field(5e-5, gt=0, description="Highest learning rate.")
    patience: int | None = Field(
        4, ge=1, description="Stop when Hits@10 on the validation split has not grown for so many epochs."
    )
    validate_on: int | None = Field(
        None, ge=1, description="Validate on so many triples, drawn by --seed; by default on all of the split."
    )
    seconds: float | None = Field(
        None, gt=0, description="Stop after so long; the result then depends on the machine, not on the seed alone."
    )
    seed: int = Field(0, ge=0, description="Seed of every random choice.")
    device: str | None = Field(
        None, description="cpu, cuda, cuda:1, …; by default a GPU where there is one.", json_schema_extra=CIRCUMSTANCE
    )

    def identity(self) -> dict[str, Any]:
        """The fields that can change a number."""
        return self.model_dump(mode="json", exclude=self._marked("circumstance"))

    @classmethod
    def asking(cls) -> set[str]:
        """Names of the fields that may be changed when the trained model is asked."""
        return cls._marked("asking")

    @classmethod
    def _marked(cls, mark: str) -> set[str]:
        return {
            name
            for name, field in cls.model_fields.items()
            if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get(mark)
        }


class TextTraining(LinkTraining):
    """Predictors that read the names and descriptions of entities and relations with a language model."""

    weights: str = Field(description="Name or folder of the language model to begin with.")
    init: Literal["pretrained", "random"] = Field(
        "pretrained",
        description="pretrained: begin with its weights; random: the same shape and tokenizer with random weights.",
    )
    descriptions: bool = Field(True, description="Read the entities' descriptions, too.")
    weight_decay: float = Field(1e-4, ge=0, description="Of matrices only.")
    warm_up: float = Field(0.1, ge=0, lt=1, description="Share of all steps over which the learning rate rises.")
    accumulate: int = Field(1, ge=1, description="Batches whose gradients are added up to one step.")
    clip: float = Field(1.0, gt=0, description="Longest gradient.")
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="Of the matrix products in training; weights stay in float32."
    )
    checkpoint_minutes: float = Field(
        10, gt=0, description="Also keep the state so often within an epoch.", json_schema_extra=CIRCUMSTANCE
    )


class Embedding(LinkTraining):
    """A knowledge graph embedding of PyKEEN."""


class SimKgc(TextTraining):
    """Wang et al. 2022."""


class KnnKge(TextTraining):
    """Zhang et al. 2022."""


class Kgt5(TextTraining):
    """Saxena et al. 2022."""


class GenKgc(TextTraining):
    """Xie et al. 2022."""


class Prompted(LinkTraining):
    """Xie et al. 2023 (LambdaKG)."""
