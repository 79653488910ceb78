"""Options of studies: one model each, from which the command line is made; loads no model library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from fathom.data.selection.options import Words
from fathom.options import CIRCUMSTANCE, CLUSTER, FOLDS, KEYS, LATER, SAMPLE, SCORING, Group, Seed, opt, separated
from fathom.probes.choice_options import ChoiceOptions
from fathom.probes.ontology_options import EntailmentOptions
from fathom.probes.options import EmbeddingOptions, FewShotOptions, StatementOptions
from fathom.probes.shared_options import HERE, ClusterOptions, Numbers, Part

__all__ = ["EmbeddingOptions", "StatementOptions"]


class StudyOptions(BaseModel):
    """Of a study that takes finished runs: none."""

    group: ClassVar = Group.SELECTION

    model_config = ConfigDict(frozen=True, extra="forbid")


class RunsOptions(StudyOptions):
    """Of studies that take finished runs, each in one scoring."""

    scoring: Words = opt((), SCORING)
    cluster: str = opt("", CLUSTER, Group.OUTPUT)


class AgreementOptions(RunsOptions):
    """Options of the study of two probes' agreement."""

    k: int = opt(10, "A rank up to k is a hit.", ge=1)


class LengthBiasOptions(RunsOptions):
    """Options of the study of token-length bias."""

    tokenizer: str | None = opt(
        None, "Model whose tokenizer counts the answers' tokens, alike for all runs (behind a space)."
    )


class RepeatedOptions(RunsOptions):
    """Options of the study of repeated answers."""

    untrained: str = opt(
        "", "Name of an untrained model among the runs: the control without which nothing is concluded."
    )


class RankingsOptions(RunsOptions):
    """Options of the study of rankings."""

    groups: Path | None = opt(
        None,
        "Groups of models, ranked each by itself, too, with the steps from each size to the next within "
        'them: JSON {"model": "group"}, or CSV model,group.',
    )
    facts: Literal["common", "own"] = opt(
        "common",
        "Of data asked in both readings: rank models on the facts that all ranked in both (common), or "
        "each reading on its own.",
    )


class ChoiceStudyOptions(StudyOptions):
    """Options of the study of what models choose."""

    cluster: str = opt(
        "",
        f"{KEYS}, such as premise; by default task or rule where there are ten or more, else the questions "
        "within each; of contrasts, what is asked of one premise.",
        Group.OUTPUT,
    )


class OntologyStudyOptions(StudyOptions):
    """Options of the study of what models remember of an ontology."""

    examples: Words = opt(
        (), "Ids of queries to show, such as type/23; by default one of each task; separated by commas."
    )
    seed: Seed = opt(0, "Seed of the order in which the frequency baseline lists what it has not seen, and of folds.")
    cross_validate: bool = opt(
        False,
        "Choose each model's best setting, for each fold of the items, on the others: the best of many is "
        "then not flattered.",
    )
    folds: int | None = opt(None, f"Of --cross-validate; by default {FOLDS}.", ge=2)
    cluster: str = opt("", f"{KEYS}; by default the items of each task.", Group.OUTPUT)


class SeveralProbesOptions(FewShotOptions):
    """Options of a study that asks several probes, each of which takes those that it has."""

    group: ClassVar = Group.SELECTION

    model_config = ConfigDict(extra="allow")

    probes: Words = opt(("embedding",), "Probes, separated by commas.")
    max_rank: int | None = opt(None, "Where the statement probe may stop.", ge=1)

    def given(self) -> dict[str, Any]:
        """What was said, for the probes."""
        own = set(type(self).model_fields) - set(FewShotOptions.model_fields) - {"max_rank"}
        return {name: getattr(self, name) for name in self.model_fields_set - own}


class SizesOptions(SeveralProbesOptions):
    """Options of the study of growth with the size of models."""

    probes: Words = opt(("embedding", "vocabulary", "statement"), "Probes, separated by commas.")
    max_rank: int | None = opt(None, "Where the statement probe may stop; by default 100, which Hits@100 needs.", ge=1)


class ComputeTimeOptions(SeveralProbesOptions):
    """Options of the study of compute time."""

    queries: Numbers = opt(
        (16, 31, 46, 61, 76, 91, 106, 121, 136, 151), "Numbers of queries to time, separated by commas."
    )
    repeats: int = opt(3, "How often each.", ge=1)
    total: int | None = opt(None, "Queries to extrapolate to; by default all of the data.")


def _is_run(folder: Path) -> Path:
    """Said together with the faults of the other options."""
    from fathom.errors import BadInput
    from fathom.store.folder import RunFolder

    try:
        return RunFolder.open(folder).path
    except BadInput as error:
        raise PydanticCustomError("run", "{fault}", {"fault": str(error)}) from error


def _rules(value: Any) -> Any:
    """By name or number, "9" for "rdfs9"; each once."""
    found = separated(value)
    if not isinstance(found, tuple):
        return found
    return tuple(dict.fromkeys(f"rdfs{one}" if str(one).isdecimal() else one for one in found))


Rules = Annotated[tuple[str, ...], BeforeValidator(_rules)]


class GridOptions(ClusterOptions):
    """Who makes the cells of a study of link predictors. None of it changes a number."""

    engine: Literal["here", "ray"] = opt(
        HERE, "Who makes cells: this machine, or workers of a Ray cluster.", CIRCUMSTANCE
    )
    workers: int | None = opt(
        None,
        "Cells to work on at a time, by default one; each then uses one core. With --engine ray: workers, "
        "by default one per GPU, or one.",
        CIRCUMSTANCE,
        ge=1,
    )

    part: Part = opt(
        None,
        "Be one of several processes that share a study: i/n, such as 1/4, or auto, by what SLURM or "
        "torchrun have set.",
        Group.RUN,
        CIRCUMSTANCE,
    )

    @field_validator("gpus_per_worker", "cpus_per_worker", "ray_address")
    @classmethod
    def _only_with_ray(cls, given: Any, info: ValidationInfo) -> Any:
        """As elsewhere, but for ``workers``, which are processes of this machine where there is no engine."""
        return super()._only_with_ray(given, info)


class EntailmentStudyOptions(EntailmentOptions, ChoiceOptions):
    """Options of the study of entailment: its runs' own, the choice probe's for chat models, and the plan."""

    group: ClassVar = Group.SELECTION

    rules: Rules = opt(
        ("rdfs2", "rdfs3", "rdfs5", "rdfs7", "rdfs9", "rdfs11"), "Rules, by name or number, separated by commas."
    )
    subset: str | None = opt(
        None,
        "A named part of the data, or all; by default all, test where something is learnt and of OntoProbe's data.",
    )
    cross_validate: bool = opt(
        False,
        "Of learnt wordings: ask every item once, by templates and conjunctions learnt from other folds of "
        "its task, instead of test items alone.",
        LATER,
    )
    wordings: Annotated[
        tuple[Literal["words", "learnt-conjunction", "learnt-templates", "learnt"], ...], BeforeValidator(separated)
    ] = opt(("words",), "What is learnt instead of worded (learnt: both), separated by commas.")
    soft: bool = opt(False, "All four wordings.")
    memory: Annotated[tuple[Annotated[Path, AfterValidator(_is_run)], ...], BeforeValidator(separated)] = opt(
        (),
        "Finished runs of the ontology probe on test items, to use instead of one made here, separated by "
        "commas. Only the items that all of them have asked are asked.",
    )
    options: int | None = opt(
        None,
        "Chat models: options of each question, the right one and others; 20 unless said.",
        Group.PROMPTS,
        ge=2,
        le=26,
    )
    untrained: int = opt(
        1,
        "Untrained twins of each model, of the same shape and tokenizer, to ask beside it: what they show "
        "is no reasoning.",
        CIRCUMSTANCE,
        ge=0,
        le=100,
    )
    cluster: str = opt(
        "",
        f"{SAMPLE}: item (in all its texts), fact (within its rule), pair (of pseudowords), rule, task, "
        "subject, answer or query (each text); by default item.",
        Group.OUTPUT,
        CIRCUMSTANCE,
    )


class ChainStudyOptions(EntailmentStudyOptions):
    """Options of the study of chains: the study of entailment's, for arguments of several steps."""

    group: ClassVar = Group.SELECTION

    rules: Rules = opt(
        ("rdfs2", "rdfs3", "rdfs9"),
        "Rules that chains begin with, separated by commas: rdfs2, 3, 5, 7, 9 or 11; further steps are "
        "sub-classes, of rdfs5 and rdfs7 sub-properties.",
    )
    depth: int = opt(3, "Steps of the longest chains; items with shorter ones are left out.", ge=1, le=10)
    axioms: Annotated[
        tuple[Literal["inverse", "symmetric", "transitive", "disjoint"], ...], BeforeValidator(separated)
    ] = opt(
        (),
        "Also ask what follows from inverse, symmetric and transitive properties, and what must not from "
        "disjoint classes; separated by commas.",
    )
    forms: Annotated[tuple[Literal["plain", "paraphrased", "shuffled"], ...], BeforeValidator(separated)] = opt(
        ("plain", "paraphrased", "shuffled"),
        "How premises are put: in order, in other words, or shuffled among facts of others; separated by commas.",
        min_length=1,
    )
    pairs: int = opt(2, "Pairs of pseudowords for each rule, drawn by --seed.", ge=2)
    cluster: str = opt(
        "",
        f"{SAMPLE}: item (in all its texts), pair (of pseudowords), rule, subject or answer; by default item.",
        Group.OUTPUT,
        CIRCUMSTANCE,
    )


DECIDED_BY_ENTAILMENT = (
    "relations", "split", "exclude_tails", "tail_tokens", "single_token", "tokens_after_space", "candidates",
    "reading", "alter", "sentences",
    "any_surface", "pool", "add_candidates", "templates", "perplexity", "own_templates",
    "soft_conjunction", "learnt", "score", "bos",
)  # fmt: skip
"""Options that the study decides, or that would ask other items than the premises that they follow from."""
DECIDED_BY_CHAINS = (
    *DECIDED_BY_ENTAILMENT, "wordings", "soft", "soft_init", "loss", "cross_validate", "folds", "epochs",
    "learning_rate", "batch_size", "memory",
)  # fmt: skip
"""And those of memory and learnt tokens, without which chains are asked."""
