"""Options of studies, one model each, from which the command line is generated; loads no model library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from fathom.base.options import (
    CIRCUMSTANCE,
    CLUSTER,
    FOLDS,
    KEYS,
    LATER,
    LEAST_POINTS,
    SAMPLE,
    SCORING,
    TWO_WAYS,
    Group,
    Names,
    Seed,
    opt,
    separated,
)
from fathom.data.selection.options import Words
from fathom.probes.options import ChoiceOptions, EntailmentOptions


class StudyOptions(BaseModel):
    group: ClassVar = Group.SELECTION

    model_config = ConfigDict(frozen=True, extra="forbid")


class RunsOptions(StudyOptions):
    """Options of studies of finished runs, each in one scoring."""

    scoring: Words = opt((), SCORING)
    cluster: str = opt("", CLUSTER, Group.OUTPUT)


class ComparisonOptions(StudyOptions):
    metrics: Words = opt(
        ("accuracy", "hits@10", "mrr"),
        "Metrics, separated by commas: accuracy, mrr, hits@K. Verdicts are on the first.",
    )
    scoring: Words = opt((), f"{SCORING} Several of one run are compared with each other.")
    to_first: bool = opt(False, "Compare each run only with the first, not all pairs.")
    margin: float | None = opt(
        None,
        "Largest difference of the primary metric that does not matter, in points: report which runs are equivalent, "
        "or not worse, within it.",
        ge=LEAST_POINTS,
        le=100,
    )
    detect: float | None = opt(
        None,
        "Also report how many facts, relations and seeds would detect this difference, in points, in 80 % of cases.",
        ge=LEAST_POINTS,
        le=100,
    )
    check: bool = opt(
        False,
        "Also simulate how often the verdicts would be wrong on these facts, in 200 draws without a true difference.",
    )
    seeds: int = opt(
        1, "Training seeds of each of two models; give all runs of one model, then all of the other.", ge=1
    )
    cluster: str = opt("", TWO_WAYS, Group.OUTPUT)


class AgreementOptions(RunsOptions):
    k: int = opt(10, "A rank up to k is a hit.", ge=1)


class LengthBiasOptions(RunsOptions):
    tokenizer: str | None = opt(None, "Model whose tokenizer counts the answers' tokens (after a space) for all runs.")


class ProfileOptions(RunsOptions):
    design: Path | None = opt(
        None, "planted.jsonl of a planted model, or a file in its format; by default the one in the model's folder."
    )
    above: float = opt(
        0.5, "A fact is known in a way if more than this share of its templates has the right answer.", ge=0, lt=1
    )


class CalibrationOptions(RunsOptions):
    seed: Seed = opt(0, "Seed of the halves between which temperatures are fitted and applied.")


class ValidityOptions(RunsOptions):
    design: Path | None = opt(None, "Design of models that have no planted.jsonl in their folder.", Group.DATA)
    seed: Seed = opt(0, "Seed of the two halves of the facts never read.")


class RepeatedOptions(RunsOptions):
    untrained: str = opt("", "Name of an untrained model among the runs: the control that every conclusion needs.")


class ItemsOptions(RunsOptions):
    listed: int = opt(10, "Facts to show in each list; the files of --out have all.", ge=1)
    seed: Seed = opt(0, "Seed of the permutations.")


class ChoiceStudyOptions(StudyOptions):
    cluster: str = opt(
        "",
        f"{KEYS}, such as premise; by default task or rule if there are ten or more, else the questions within each. "
        "Conclusions are for other items of each rule.",
        Group.OUTPUT,
    )


class OntologyStudyOptions(StudyOptions):
    examples: Words = opt(
        (), "Ids of queries to show, such as type/23, separated by commas; by default one of each task."
    )
    seed: Seed = opt(0, "Seed of the folds, and of the frequency baseline's order of unseen answers.")
    cross_validate: bool = opt(
        False, "Choose each model's best setting for each fold of the items on the other folds, which avoids a bias."
    )
    folds: int | None = opt(None, f"Number of folds of --cross-validate; by default {FOLDS}.", ge=2)
    cluster: str = opt("", f"{KEYS}; by default the items of each task.", Group.OUTPUT)


class TimeOptions(StudyOptions):
    total: int | None = opt(None, "Queries to extrapolate to; by default all of them.")


def _rules(value: object) -> Any:
    """Accept names and numbers, "9" for "rdfs9"; each once."""
    names = separated(value)
    if not isinstance(names, tuple):
        return names
    return tuple(dict.fromkeys(f"rdfs{name}" if str(name).isdecimal() else name for name in names))


Rules = Annotated[tuple[str, ...], BeforeValidator(_rules)]


class EntailmentStudyOptions(EntailmentOptions, ChoiceOptions):
    """Options of the study of entailment: its runs' own, the choice probe's for chat models, and the plan."""

    group: ClassVar = Group.SELECTION
    config_only: ClassVar[Names] = (
        EntailmentOptions.model_fields.keys() | ChoiceOptions.model_fields.keys()
    ).difference(
        ("device", "dtype", "tokenizer", "trust_remote_code", "allow_pickle", "server", "key_env", "engine", "workers"),
        ("ray_address", "subset", "limit", "seed", "pairs", "alpha", "soft", "cross_validate", "folds", "epochs"),
        ("options", "chat", "cluster", "masks"),
    )

    rules: Rules = opt(
        ("rdfs2", "rdfs3", "rdfs5", "rdfs7", "rdfs9", "rdfs11"), "Rules, by name or number, separated by commas."
    )
    subset: str | None = opt(
        None,
        "A named part of the data, or all; by default all, or test if something is learnt or the data is OntoProbe's.",
    )
    cross_validate: bool = opt(
        False,
        "For learnt wordings: evaluate every item once, with templates and conjunctions learnt from other folds of its "
        "task, instead of only test items.",
        LATER,
    )
    wordings: Annotated[
        tuple[Literal["words", "learnt-conjunction", "learnt-templates", "learnt"], ...], BeforeValidator(separated)
    ] = opt(("words",), "Parts that are learnt instead of phrased in words (learnt: both), separated by commas.")
    soft: bool = opt(False, "All four wordings.")
    score: Annotated[tuple[Literal["letter", "text-sum"], ...], BeforeValidator(separated)] = opt(
        ("text-sum",), "With --chat: score an option's text, or its letter.", Group.SCORING, min_length=1, max_length=1
    )
    options: int | None = opt(
        None,
        "Chat models: options of each question, the right one included; 20 by default.",
        Group.PROMPTS,
        ge=2,
        le=26,
    )
    untrained: int = opt(
        1,
        "Controls of each model: this many untrained models of the same shape and tokenizer.",
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
    depth: int = opt(3, "Facts of the longest chains.", ge=1, le=10)
    axioms: Annotated[
        tuple[Literal["inverse", "symmetric", "transitive", "disjoint"], ...], BeforeValidator(separated)
    ] = opt(
        (),
        "Also evaluate what follows from inverse, symmetric and transitive properties, and what must not from disjoint "
        "classes; separated by commas.",
    )
    forms: Annotated[tuple[Literal["plain", "paraphrased", "shuffled"], ...], BeforeValidator(separated)] = opt(
        ("plain", "paraphrased", "shuffled"),
        "Form of the premises: in order, in other words, or shuffled among unrelated facts; separated by commas.",
        min_length=1,
    )
    pairs: int = opt(2, "Pairs of pseudowords for each rule, drawn by --seed.", ge=2, le=100)
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
"""Options that the study sets, or that would select other items than the premises that they follow from."""
DECIDED_BY_CHAINS = (
    *DECIDED_BY_ENTAILMENT, "wordings", "soft", "soft_init", "loss", "cross_validate", "folds", "epochs",
    "learning_rate", "batch_size", "memory",
)  # fmt: skip
"""And those of memory and learnt tokens, which chains do not use."""
