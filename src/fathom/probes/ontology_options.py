"""Options of the probes of ontological knowledge and reasoning (OntoProbe)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from fathom.errors import BadInput
from fathom.options import CIRCUMSTANCE, EVERYTHING, FOLDS, LATER, Group, Rate, separated
from fathom.probes.options import SlotOptions

if TYPE_CHECKING:  # not needed to show --help
    from fathom.data.queries import QuerySet


class OntologyOptions(SlotOptions):
    """Options of the ontology probe (OntoProbe): the cloze probe's, with learnt templates besides."""

    group: ClassVar = Group.TRAINING

    subset: str | None = Field(
        None,
        description="A named part of the data, or all; by default all, with --soft and of OntoProbe's data test.",
    )
    pool: str | None = Field(
        "relation",
        description="Which candidates a query is ranked against: relation (classes, or properties), data (both "
        "together), or a file with one name per line.",
    )
    own_templates: Path | None = Field(
        None,
        description='File of JSON Lines {"relation": "type", "template": "[X] is a kind of [Y] ."}, asked instead'
        " of the data's templates of the same relation.",
        json_schema_extra=CIRCUMSTANCE | Group.PROMPTS.mark,  # what it says goes into the identity, not where it lies
    )
    soft: bool = Field(
        False,
        description="Put three learnt tokens between subject and answer instead of words; trained once per run.",
        json_schema_extra=Group.PROMPTS.mark,
    )
    soft_init: Literal["random", "words"] = Field("random", description="Initial values of learnt tokens.")
    loss: Literal["bce", "nll"] = Field(
        "bce",
        description="What learnt tokens minimise: bce (each candidate right or wrong), or nll (the loss of one "
        "right answer).",
    )
    cross_validate: bool = Field(
        False,
        description="Ask every item once, by templates learnt from other folds of its task: nothing is kept back.",
        json_schema_extra=LATER,
    )
    folds: int | None = Field(
        None,
        ge=3,
        description="With --cross-validate: parts of each task's items, drawn by --seed; each is asked by what the "
        f"others teach, one of which chooses the epoch; by default {FOLDS}.",
        json_schema_extra=LATER,
    )
    epochs: int = Field(100, ge=1, description="How often each training item is seen.")
    learning_rate: Rate = Field(0.5, description="Initial learning rate; it falls linearly to zero.")
    batch_size: int = Field(8, ge=1, description="Training items per step.")

    def of(self, data: QuerySet) -> Self:
        """With subset and folds. :raises BadInput: folds of nothing, or nothing to test on what is learnt."""
        if self.folds is not None and not self.cross_validate:
            raise BadInput(f"--folds {self.folds}: they are those of --cross-validate: type it, too")
        chosen: dict[str, Any] = {"folds": self.folds or FOLDS} if self.cross_validate else {}
        if self.subset is None:
            held_out = data.usual or ("test" if self.soft else "")
            chosen["subset"] = EVERYTHING if self.cross_validate or not held_out else held_out
        if chosen.get("subset") == "test" and self.soft and not data.subsets.get("test"):
            raise BadInput(
                f"--soft: no task of {data.name} has items to learn from and others to test on: type --cross-validate, "
                "which asks every item by what others teach"
            )
        return self.model_copy(update=chosen)

    def as_asked(self, data: QuerySet) -> QuerySet:
        """With the fold of each query, where these matter."""
        if not (self.cross_validate and self.soft):
            return data
        from fathom.data.selection.folds import with_folds

        return with_folds(data, self.folds or FOLDS, self.seed)


class EntailmentOptions(OntologyOptions):
    """Options of the runs of ``fathom study entailment``: the ontology probe's, for texts about pseudowords."""

    group: ClassVar = Group.PROMPTS

    subset: str | None = Field("test", description="A named part of the data to ask; training uses train and dev.")
    masks: Annotated[tuple[Literal["several", "one"], ...], BeforeValidator(separated)] = Field(
        ("several",),
        min_length=1,
        max_length=1,
        description="What fills the slot: as many masks as the candidate has tokens (several), or one for all (one).",
    )
    reduction: Annotated[tuple[Literal["mean", "max", "first"], ...], BeforeValidator(separated)] = Field(
        ("mean",),
        min_length=1,
        max_length=1,
        description="Which of a candidate's token log-probabilities make its score.",
    )
    pairs: int = Field(10, ge=1, description="Pairs of pseudowords for each rule, drawn by --seed.")
    alpha: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="Distance of pseudowords from the mask token, as a share of the distance of its nearest other"
        " token; of causal models from the mean embedding, as a share of the median distance of tokens.",
    )
    soft_conjunction: bool = Field(
        False,
        description="Put learnt tokens between premises and hypothesis, trained together with all other learnt ones.",
    )
    learnt: Path | None = Field(
        None,
        description="Folder of templates learnt by a run of the ontology probe.",
        json_schema_extra=CIRCUMSTANCE,  # what they are goes into the identity, not where they lie
    )

    def as_asked(self, data: QuerySet) -> QuerySet:
        """As it is: texts have the folds of the facts that they are about."""
        return data
