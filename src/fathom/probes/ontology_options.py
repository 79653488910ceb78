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
    """Options of the ontology probe (OntoProbe): those of the cloze probe, and learnt templates."""

    group: ClassVar = Group.TRAINING

    subset: str | None = opt(
        None, "A named part of the data, or all; by default all, or test with --soft or for OntoProbe's data."
    )
    pool: str | None = opt(
        "relation",
        "Candidates of a query: relation (classes, or properties), data (both together), or a file with one name "
        "per line.",
    )
    own_templates: Path | None = opt(
        None,
        'File of JSON Lines {"relation": "type", "template": "[X] is a kind of [Y] ."}, used instead'
        " of the data's templates of the same relation.",
        Group.PROMPTS,
        CIRCUMSTANCE,  # its content is part of the identity, its path is not
    )
    soft: bool = opt(
        False,
        "Put three learnt tokens between subject and answer instead of words; trained once per run.",
        Group.PROMPTS,
    )
    soft_init: Literal["random", "words"] = opt("random", "Initial values of learnt tokens.")
    loss: Literal["bce", "nll"] = opt(
        "bce",
        "Loss of learnt tokens: bce (each candidate right or wrong), or nll (of one gold answer).",
    )
    cross_validate: bool = opt(
        False,
        "Evaluate each item once, with templates learnt from other folds of its task; no items are held out.",
        LATER,
    )
    folds: int | None = opt(
        None,
        "With --cross-validate: folds of each task's items, drawn by --seed; each is evaluated with templates learnt "
        f"from the others, one of which chooses the epoch; by default {FOLDS}.",
        LATER,
        ge=3,
    )
    epochs: int = opt(100, "Passes over the training items.", ge=1)
    learning_rate: Rate = opt(0.5, "Initial learning rate; it falls linearly to zero.")
    batch_size: int = opt(8, "Training items per step.", ge=1)


class EntailmentOptions(OntologyOptions):
    """Options of the runs of ``fathom study entailment``: the ontology probe's, for texts about pseudowords."""

    group: ClassVar = Group.PROMPTS

    subset: str | None = opt("test", "A named part of the data; training uses train and dev.")
    masks: Annotated[tuple[Literal["several", "one"], ...], BeforeValidator(separated)] = opt(
        ("several",),
        "Masks in the slot: as many as the candidate has tokens (several), or one for all (one).",
        min_length=1,
        max_length=1,
    )
    reduction: Annotated[tuple[Literal["mean", "max", "first"], ...], BeforeValidator(separated)] = opt(
        ("mean",), "How a candidate's token log-probabilities become its score.", min_length=1, max_length=1
    )
    pairs: int = opt(10, "Pairs of pseudowords for each rule, drawn by --seed.", ge=1, le=100)
    alpha: float = opt(
        0.5,
        "Distance of pseudowords from the mask token, as a share of the distance of its nearest other token; for "
        "causal models from the mean embedding, as a share of the median distance of tokens.",
        gt=0,
        lt=1,
    )
    soft_conjunction: bool = opt(
        False, "Put learnt tokens between premises and hypothesis, trained together with the other learnt tokens."
    )
    learnt: Path | None = opt(
        None,
        "Folder of templates learnt by a run of the ontology probe.",
        CIRCUMSTANCE,  # their content is part of the identity, their path is not
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
