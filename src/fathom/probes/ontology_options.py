"""Options of the probes of ontological knowledge and reasoning (OntoProbe)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BeforeValidator

from fathom.errors import BadInput
from fathom.options import CIRCUMSTANCE, EVERYTHING, FOLDS, LATER, Group, Rate, opt, separated
from fathom.probes.options import SlotOptions

if TYPE_CHECKING:  # not needed to show --help
    from fathom.data.queries import QuerySet

OntologyT = TypeVar("OntologyT", bound="OntologyOptions")


class OntologyOptions(SlotOptions):
    """Options of the ontology probe (OntoProbe): the cloze probe's, with learnt templates besides."""

    group: ClassVar = Group.TRAINING

    subset: str | None = opt(
        None, "A named part of the data, or all; by default all, with --soft and of OntoProbe's data test."
    )
    pool: str | None = opt(
        "relation",
        "Which candidates a query is ranked against: relation (classes, or properties), data (both "
        "together), or a file with one name per line.",
    )
    own_templates: Path | None = opt(
        None,
        'File of JSON Lines {"relation": "type", "template": "[X] is a kind of [Y] ."}, asked instead'
        " of the data's templates of the same relation.",
        Group.PROMPTS,
        CIRCUMSTANCE,  # what it says goes into the identity, not where it lies
    )
    soft: bool = opt(
        False,
        "Put three learnt tokens between subject and answer instead of words; trained once per run.",
        Group.PROMPTS,
    )
    soft_init: Literal["random", "words"] = opt("random", "Initial values of learnt tokens.")
    loss: Literal["bce", "nll"] = opt(
        "bce",
        "What learnt tokens minimise: bce (each candidate right or wrong), or nll (the loss of one right answer).",
    )
    cross_validate: bool = opt(
        False, "Ask every item once, by templates learnt from other folds of its task: nothing is kept back.", LATER
    )
    folds: int | None = opt(
        None,
        "With --cross-validate: parts of each task's items, drawn by --seed; each is asked by what the "
        f"others teach, one of which chooses the epoch; by default {FOLDS}.",
        LATER,
        ge=3,
    )
    epochs: int = opt(100, "How often each training item is seen.", ge=1)
    learning_rate: Rate = opt(0.5, "Initial learning rate; it falls linearly to zero.")
    batch_size: int = opt(8, "Training items per step.", ge=1)


class EntailmentOptions(OntologyOptions):
    """Options of the runs of ``fathom study entailment``: the ontology probe's, for texts about pseudowords."""

    group: ClassVar = Group.PROMPTS

    subset: str | None = opt("test", "A named part of the data to ask; training uses train and dev.")
    masks: Annotated[tuple[Literal["several", "one"], ...], BeforeValidator(separated)] = opt(
        ("several",),
        "What fills the slot: as many masks as the candidate has tokens (several), or one for all (one).",
        min_length=1,
        max_length=1,
    )
    reduction: Annotated[tuple[Literal["mean", "max", "first"], ...], BeforeValidator(separated)] = opt(
        ("mean",), "Which of a candidate's token log-probabilities make its score.", min_length=1, max_length=1
    )
    pairs: int = opt(10, "Pairs of pseudowords for each rule, drawn by --seed.", ge=1)
    alpha: float = opt(
        0.5,
        "Distance of pseudowords from the mask token, as a share of the distance of its nearest other"
        " token; of causal models from the mean embedding, as a share of the median distance of tokens.",
        gt=0,
        lt=1,
    )
    soft_conjunction: bool = opt(
        False, "Put learnt tokens between premises and hypothesis, trained together with all other learnt ones."
    )
    learnt: Path | None = opt(
        None,
        "Folder of templates learnt by a run of the ontology probe.",
        CIRCUMSTANCE,  # what they are goes into the identity, not where they lie
    )


def complete_folds(options: OntologyT, data: QuerySet) -> OntologyT:
    """Return the options with subset and folds. :raises BadInput: unused folds, or no items to test what is learnt."""
    if options.folds is not None and not options.cross_validate:
        raise BadInput(f"--folds {options.folds}: only with --cross-validate")
    chosen: dict[str, Any] = {"folds": options.folds or FOLDS} if options.cross_validate else {}
    if options.subset is None:
        held_out = data.usual or ("test" if options.soft else "")
        chosen["subset"] = EVERYTHING if options.cross_validate or not held_out else held_out
    if chosen.get("subset") == "test" and options.soft and not data.subsets.get("test"):
        raise BadInput(
            f"--soft: no task of {data.name} has both items to learn from and items to test on: use --cross-validate, "
            "which evaluates each item with templates learnt from the others"
        )
    return options.model_copy(update=chosen)
