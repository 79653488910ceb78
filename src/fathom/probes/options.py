"""Options of probes: one frozen model each, from which command line, YAML and manifest are made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from fathom.base.errors import BadInput
from fathom.base.options import (
    CIRCUMSTANCE,
    CLUSTER,
    EVERYTHING,
    FOLDS,
    LATER,
    Group,
    Names,
    Rate,
    identity_of,
    opt,
    separated,
)
from fathom.data.selection.options import BasicSelectionOptions, Directions, SelectionOptions
from fathom.engine.models.options import ReplyOptions, ServerOptions, SpokenOptions

if TYPE_CHECKING:
    from fathom.data.queries import QuerySet


Numbers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(separated)]
DIRECTIONS = (
    "Directions of a graph's triples: (head, relation, ?), (?, relation, tail), or both; --limit counts triples."
)


def _tokens_or_auto(value: object) -> Any:
    """:raises ValueError: neither a number from 1 on nor "auto"."""
    if value is None or value == "auto":
        return value
    if isinstance(value, bool) or not str(value).strip().isdecimal() or int(str(value)) < 1:
        raise ValueError(f"expected a number of tokens, 1 or more, or auto, found {value!r}")
    return int(str(value))


def _part_or_auto(value: object) -> Any:
    """:raises ValueError: neither i/n with 1 ≤ i ≤ n nor "auto"."""
    if value is None or value == "auto":
        return value
    number, slash, of = str(value).replace(" ", "").partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise ValueError(f"expected i/n with i from 1 to n, such as 1/4, or auto, found {value!r}")
    return f"{int(number)}/{int(of)}"


Part = Annotated[str | None, BeforeValidator(_part_or_auto)]
BatchTokens = Annotated[int | str | None, BeforeValidator(_tokens_or_auto)]


HERE: Final = "here"
"""The engine that is this process."""


class ClusterOptions(BaseModel):
    """Options for where shards run. These options never affect results."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.CLUSTER
    config_only: ClassVar[Names] = ("gpus_per_worker", "cpus_per_worker")

    engine: Literal["here", "ray"] = opt(
        HERE, "Where shards run: this process, or workers of a Ray cluster.", CIRCUMSTANCE
    )
    workers: int | None = opt(
        None,
        "With --engine ray: workers, each with the model loaded; by default one per GPU, or one.",
        CIRCUMSTANCE,
        ge=1,
    )
    gpus_per_worker: float | None = opt(
        None,
        "With --engine ray: GPUs of each worker, or a share of one, such as 0.5; by default 1 if the cluster has any.",
        CIRCUMSTANCE,
        ge=0,
    )
    cpus_per_worker: int = opt(1, "With --engine ray: CPUs of each worker, and its threads.", CIRCUMSTANCE, ge=1)
    ray_address: str | None = opt(
        None,
        "With --engine ray: address of a running cluster, HOST:PORT or auto; by default RAY_ADDRESS, or "
        "else a cluster on this machine for this run alone.",
        CIRCUMSTANCE,
    )

    @field_validator("workers", "gpus_per_worker", "cpus_per_worker", "ray_address")
    @classmethod
    def _only_with_ray(cls, value: object, info: ValidationInfo) -> Any:
        if info.data.get("engine") == HERE and value != cls.model_fields[str(info.field_name)].default:
            raise ValueError("expected only with --engine ray")
        return value


class EvaluationOptions(ClusterOptions, BasicSelectionOptions):
    """Options shared by all probes: data selection, device, seed, and where shards run."""

    device: str | None = opt(None, "cpu, cuda, cuda:1, …; by default a GPU if there is one.", Group.RUN, CIRCUMSTANCE)
    batch_tokens: BatchTokens = opt(
        None,
        "Tokens per forward pass; by default 2,048 on a CPU, 16,384 elsewhere; auto: by the free memory, "
        "up to four times that; halved when memory runs out.",
        Group.RUN,
        CIRCUMSTANCE,
    )
    cluster: str = opt("", CLUSTER, Group.OUTPUT, CIRCUMSTANCE)
    part: Part = opt(
        None,
        "Evaluate one part of a run that several processes share: i/n, such as 1/4, or auto, as set by SLURM or "
        "torchrun; in one folder, or in folders of their own for fathom merge.",
        Group.RUN,
        CIRCUMSTANCE,
    )

    def identity(self) -> dict[str, Any]:
        return identity_of(self)


OntologyT = TypeVar("OntologyT", bound="OntologyOptions")
BOS = "Causal models: begin with a BOS token (auto: if the tokenizer has one)."
PERPLEXITY = "Also record the perplexity of every prompt with its gold answer (masked models: pseudo-perplexity)."


FormName = Literal["auto", "sentinel", "mask", "split"]
FORM = (
    "Output of encoder-decoders: sentinel (T5: the answer's span), mask (BART: the whole statement), "
    "split (the text from the answer on); auto is the first for which the tokenizer has tokens."
)


class ProbeOptions(EvaluationOptions, SelectionOptions):
    """Options of probes of language models: how to load the model, and which part of the data to evaluate."""

    group: ClassVar = Group.MODEL
    config_only: ClassVar[Names] = (
        *("kind", "per_query_shots", "trailing_space", "describe_head", "sampling_temperature"),
        *("soft_init", "loss", "separator", "normalise"),
    )

    dtype: Literal["float32", "bfloat16", "float16", "auto"] = opt(
        "float32", "Precision of the model (auto: as its weights were saved); softmax and sums stay in float32."
    )
    device_map: Literal["auto", "balanced", "sequential"] | None = opt(
        None,
        "Spread a model that is larger than one device over all devices, memory and a disk, by accelerate.",
        CIRCUMSTANCE,
    )
    tokenizer: str | None = opt(None, "Name or folder of another tokenizer than the model's own.", LATER)
    kind: Literal["causal", "masked", "seq2seq"] | None = opt(
        None, "Kind of the model if its configuration does not determine it (a class of your own).", LATER
    )
    quantize: Literal["4bit", "8bit"] | None = opt(
        None, "Quantise the linear layers while loading, by bitsandbytes.", LATER
    )
    revision: str | None = opt(None, "Revision of --model on the hub.")
    adapter: str | None = opt(
        None, "Folders or names of PEFT adapters to load on top of the model, separated by commas.", Group.MODEL
    )
    trust_remote_code: bool = opt(False, "Run code that comes with the model.")
    allow_pickle: bool = opt(False, "Also read .bin weights, which can run code, not only safetensors.", CIRCUMSTANCE)


class LikelihoodOptions(ServerOptions, ProbeOptions):
    """Options for probes that can use the likelihoods of a model server."""

    group: ClassVar = Group.SERVER

    server: str | None = opt(
        None,
        "Base URL of an OpenAI-compatible server that gives log-probabilities of prompts, instead of a local "
        "model; needs --tokenizer with the model's tokenizer.",
        LATER,
    )
    unlisted: bool = opt(False, "Accept a server that does not list the model.", LATER)
    bos: Literal["auto", "add", "none"] = opt("auto", BOS, Group.PROMPTS)


class ServedOptions(ServerOptions, ReplyOptions, ProbeOptions):
    """Options for probes that query a model server."""

    group: ClassVar = Group.SERVER

    sampling_temperature: float | None = opt(0.0, "Sampling temperature of a server's replies.", ge=0)


class FewShotOptions(ProbeOptions):
    """Options of few-shot prompts (figure 4 of the DEER paper; :mod:`fathom.data.prompts.wording`)."""

    group: ClassVar = Group.PROMPTS

    directions: Directions = opt(("tail",), DIRECTIONS, Group.SELECTION, LATER)
    shots: int = opt(8, "Lines (head, relation, tail) before the question, drawn by --seed.", ge=0)
    per_query_shots: bool = opt(False, "Draw new lines for each query instead of the same for all.")
    trailing_space: bool = opt(False, "End the prompt with a space, as the reference code does.")
    describe_head: bool = opt(
        False,
        'Put a line "head - description" before the question, as the reference code can; for the tail '
        "if the query is for the head.",
    )
    bos: Literal["auto", "add", "none"] = opt("auto", BOS)


class ReversibleOptions(BaseModel):
    """Options of probes that can query subjects with the same templates."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reverse: bool = opt(
        False,
        "Query the subject of a given answer, among the subjects of the relation, with the same templates.",
        Group.SELECTION,
        LATER,
    )


class StatementOptions(SpokenOptions, ReversibleOptions, LikelihoodOptions, FewShotOptions):
    """Options of the statement probe (BEAR).

    >>> fathom.StatementOptions(templates=(0,), reduction=("sum", "mean")).reduction
    ('sum', 'mean')
    """

    group: ClassVar = Group.SCORING

    templates: Numbers = opt((), "Use only these templates, counted from 0, separated by commas.", Group.PROMPTS)
    reduction: Annotated[tuple[Literal["sum", "mean"], ...], BeforeValidator(separated)] = opt(
        ("sum",),
        "How token scores are combined: sum (nats per statement), mean (nats per token), or both.",
        min_length=1,
    )
    score: Annotated[tuple[Literal["full", "conditional", "answer"], ...], BeforeValidator(separated)] = opt(
        ("full",),
        "Scored tokens: full: all; conditional: from the answer on (causal) or the answer given the rest (masked); "
        "answer: those of the answer (causal models then ignore a subject after it).",
        min_length=1,
    )
    pll: Literal["original", "within-word-l2r", "answer-l2r", "sentence-l2r"] = opt(
        "within-word-l2r", "Masked models: tokens masked together with the scored one."
    )
    form: FormName = opt("auto", FORM, LATER)
    capitalize: bool = opt(True, "Write the first letter of every statement in upper case.", Group.PROMPTS)
    perplexity: bool = opt(False, PERPLEXITY)
    closing: bool = opt(
        False, 'End few-shot statements with ")" after the answer, as their example lines do.', Group.PROMPTS
    )
    top_k: int = opt(10, "How many of the best answers to record.", Group.OUTPUT, ge=0)
    keep_tokens: bool = opt(
        False,
        "Also record the log-probability of each token of the statements with the gold answer and with the first "
        "answer; the report shows them.",
        Group.OUTPUT,
        LATER,  # no circumstance: of a run that is resumed otherwise only some predictions would have them
    )
    max_rank: int | None = opt(
        None, "Stop once the rank is known to be greater (Hits@k needs no more than k); much faster.", ge=1
    )
    prune: bool = opt(
        True,
        "With more than 1,000 candidates, or with --max-rank: skip those that cannot beat the gold answer; the rank "
        "stays exact.",
    )


class EmbeddingOptions(FewShotOptions):
    """Options of the embedding probe (DEER).

    >>> fathom.EmbeddingOptions(shots=8).shots
    8
    """

    group: ClassVar = Group.SCORING
    config_only: ClassVar[Names] = (
        *("reading", "sentences", "any_surface", "alter", "pool", "add_candidates", "single_token", "bos"),
    )

    tail_template: str = opt(
        "deer",
        "Text of a candidate: deer, A, B or C (figures 2, 12 to 14 of the paper), or a text with {name} and optionally "
        "{description} (\\n for a new line).",
        Group.PROMPTS,
        min_length=1,
    )
    shorten: bool = opt(
        True,
        "Shorten candidates' descriptions to fit the model's window; otherwise these have no vector and no rank.",
        Group.PROMPTS,
    )
    pooling: Literal["auto", "last", "mean", "cls"] = opt(
        "auto", "Hidden states of the vector; auto: last for causal models, mean for encoders."
    )


class SlotOptions(ProbeOptions):
    """Options of probes that fill a slot of a sentence."""

    group: ClassVar = Group.SCORING
    config_only: ClassVar[Names] = ("capitalize", "form", "single_token")

    templates: Numbers = opt((), "Use only these templates, counted from 0, separated by commas.", Group.PROMPTS)
    capitalize: bool = opt(True, "Write the first letter of every sentence in upper case.", Group.PROMPTS)
    form: FormName = opt("auto", FORM, LATER)
    pool: str | None = opt(
        "data",
        "Candidates of a query: data (the answers of all relations together), relation (the answer space given by "
        "the data), or a file with one name per line.",
    )
    masks: Annotated[tuple[Literal["several", "one"], ...], BeforeValidator(separated)] = opt(
        ("several",),
        "Masks in the slot: as many as the candidate has tokens (several), one for all candidates (one), or both, "
        "separated by a comma.",
        min_length=1,
    )
    reduction: Annotated[tuple[Literal["mean", "max", "first"], ...], BeforeValidator(separated)] = opt(
        ("mean",),
        "How a candidate's token log-probabilities are combined; several are separated by commas.",
        min_length=1,
    )
    perplexity: bool = opt(False, PERPLEXITY)


class ClozeOptions(ReversibleOptions, SlotOptions):
    """Options of the cloze probe (entity ranking).

    >>> fathom.ClozeOptions(masks=("one",)).masks
    ('one',)
    """

    group: ClassVar = Group.SCORING

    prior: bool = opt(
        False,
        "Also score each candidate by how much likelier it is than without the subject: with the template's subject "
        "masked, or in an empty sentence instead of a natural one.",
        LATER,
    )


class VocabularyOptions(LikelihoodOptions, FewShotOptions):
    """Options of the vocabulary probe (LAMA).

    >>> fathom.VocabularyOptions(templates="0,1").templates
    (0, 1)
    """

    group: ClassVar = Group.PROMPTS
    config_only: ClassVar[Names] = (
        *("sentences", "any_surface", "add_candidates", "capitalize", "bos", "form", "requests_per_minute"),
    )

    templates: Numbers = opt((), "Masked models: use only these templates, counted from 0, separated by commas.")
    capitalize: bool = opt(True, "Masked models: write the first letter of every statement in upper case.")
    form: FormName = opt("auto", FORM, LATER)


class GenerationOptions(ServedOptions, FewShotOptions):
    """Options of the generation probe (KAMEL).

    >>> fathom.GenerationOptions(shots=5).shots
    5
    """

    group: ClassVar = Group.PROMPTS
    config_only: ClassVar[Names] = (
        *("reading", "sentences", "any_surface", "alter", "add_candidates", "single_token"),
        "bos",
    )

    server: str | None = opt(None, "Base URL of an OpenAI-compatible server, instead of a local model.", LATER)
    unlisted: bool = opt(False, "Accept a server that does not list the model.", LATER)
    sampling_temperature: float | None = opt(0.0, "Sampling temperature of a server's replies.", LATER, ge=0)

    shots: int = opt(
        5,
        "Solved questions of the relation (or lines, without questions) before the question, drawn by --seed; % ends "
        "each answer.",
        ge=0,
    )
    questions: Path | None = opt(
        None,
        "CSV file or JSON Lines with relation and question, the subject written [X]; by default the data's own "
        "questions, else lines (head, relation, tail).",
        CIRCUMSTANCE,  # its content is part of the identity, its path is not
    )
    instruction: str = opt(
        "Answer with the name only.", "Instruction below each question, in chats alone; empty for none."
    )
    score: Annotated[tuple[Literal["f1", "contains"], ...], BeforeValidator(separated)] = opt(
        (),
        "f1: the reply is the answers (KAMEL); contains: it names one first, among other words. By default contains in "
        "chats, else f1.",
        Group.SCORING,
        LATER,
    )
    max_new_tokens: int = opt(50, "Maximum tokens of an answer, including its reasoning.", Group.SCORING, ge=1)
    separator: str = opt("; ", "Separator between several answers.", pattern=r"\S")
    normalise: bool = opt(
        True,
        "Normalise spaces, punctuation, numbers and dates before comparing answers; otherwise only letter case.",
        Group.SCORING,
    )


class ChoiceOptions(ServedOptions, LikelihoodOptions):
    """Options of the choice probe (multiple choice).

    >>> fathom.ChoiceOptions(options=4).options
    4
    """

    group: ClassVar = Group.PROMPTS
    config_only: ClassVar[Names] = (
        *("columns", "split", "reading", "any_surface", "alter", "pool", "add_candidates", "single_token"),
        *("bos", "capitalize"),
    )

    server: str | None = opt(
        None,
        "Base URL of an OpenAI-compatible server, instead of a local model: by chat or, with --tokenizer, for the "
        "likelihoods of options.",
        Group.SERVER,
    )
    unlisted: bool = opt(False, "Accept a server that does not list the model.", Group.SERVER)
    limit: int | None = opt(
        None,
        "Evaluate at most this many questions, drawn at random by --seed. A reasoning question comes with the "
        "memorising question of its premise and all other questions of its item; all count.",
        ge=1,
    )
    options: int | None = opt(
        None,
        "Options per question, drawn by --seed from the query's candidates; 20 unless the data has its own.",
        ge=2,
        le=26,
    )
    orders: int = opt(
        1,
        "Number of orders of each question's options, drawn by --seed, each a separate call; an option's score is the "
        "mean over them. 1: as in the data.",
        LATER,
        ge=1,
        le=100,
    )
    replies: Literal["named", "strict"] = opt(
        "named",
        "Accepted replies of a server: an option in one of several forms (a boxed letter, 'Final answer: b', an "
        "option and an explanation), or strictly an option and nothing else.",
        Group.SERVER,
        LATER,  # older runs were strict and can be resumed: circumstances count the forms
    )
    score: Annotated[tuple[Literal["letter", "text-sum"], ...], BeforeValidator(separated)] = opt(
        ("text-sum",),
        "Causal models: score the option's text, or its letter, of which small models often prefer one.",
        Group.SCORING,
        min_length=1,
    )
    templates: Numbers = opt((), "Masked models: use only these statements, counted from 0, separated by commas.")
    sentences: Literal["first", "all"] = opt(
        "all", "Masked models: use the first of a question's own statements, or all, averaged per question."
    )
    capitalize: bool = opt(True, "Masked models: write the first letter of every statement in upper case.")
    instruction: str = opt(
        "Reply with the letter of one option and nothing else.",
        "Instruction below the options for chat models, and with --chat for causal ones.",
    )
    reply_tokens: int = opt(32, "Maximum tokens of a server's reply; reasoning models need more.", Group.SERVER, ge=1)


class OntologyOptions(SlotOptions):
    """Options of the ontology probe (OntoProbe): those of the cloze probe, and learnt templates.

    >>> fathom.OntologyOptions(soft=True).soft
    True
    """

    group: ClassVar = Group.TRAINING
    config_only: ClassVar[Names] = (
        *("columns", "split", "reading", "sentences", "any_surface", "alter", "add_candidates"),
    )

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
        "bce", "Loss of learnt tokens: bce (each candidate right or wrong), or nll (of one gold answer)."
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
    changes: dict[str, Any] = {"folds": options.folds or FOLDS} if options.cross_validate else {}
    if options.subset is None:
        held_out = data.usual or ("test" if options.soft else "")
        changes["subset"] = EVERYTHING if options.cross_validate or not held_out else held_out
    if changes.get("subset") == "test" and options.soft and not data.subsets.get("test"):
        raise BadInput(
            f"--soft: no task of {data.name} has both items to learn from and items to test on: use --cross-validate, "
            "which evaluates each item with templates learnt from the others"
        )
    return options.model_copy(update=changes)
