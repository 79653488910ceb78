"""Options of probes: one frozen model each, from which command line, YAML and manifest are made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from fathom.errors import BadInput
from fathom.models.options import ServerOptions
from fathom.options import CIRCUMSTANCE, marked, separated

if TYPE_CHECKING:  # not needed to show --help
    from fathom.data.queries import QuerySet
    from fathom.data.selection.filters import Selection
    from fathom.models.base import Model
    from fathom.models.server import ChatServer
    from fathom.prompts.fewshot import FewShot


Words = Annotated[tuple[str, ...], BeforeValidator(separated)]
Numbers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(separated)]

ALREADY_LOADED = "{}: the model is loaded already; give its name or folder to have it loaded so"
PERPLEXITY = "Also the perplexity of every prompt with the right answer in it (masked models: pseudo-perplexity)."


class AskingOptions(BaseModel):
    """What everything that asks can be told: which part of the data, where, and from what seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    device: str | None = Field(
        None, description="cpu, cuda, cuda:1, …; by default a GPU where there is one.", json_schema_extra=CIRCUMSTANCE
    )
    relations: Words = Field((), description="Only these relations, separated by commas.")
    split: str | None = Field(None, description="Split of a knowledge graph to ask: train, dev or test (the default).")
    limit: int | None = Field(None, ge=1, description="Only so many queries, drawn at random by --seed.")
    seed: int = Field(0, description="Seed of every random choice.")
    batch_tokens: int | None = Field(
        None,
        ge=1,
        description="Tokens per forward pass; by default 2,048 on a CPU, 16,384 elsewhere; halved where memory ends.",
        json_schema_extra=CIRCUMSTANCE,
    )

    def selection(self) -> Selection:
        """Which queries and candidates."""
        from fathom.data.selection.filters import Selection

        return Selection(split=self.split, relations=self.relations, limit=self.limit, seed=self.seed)

    def as_asked(self, data: QuerySet) -> QuerySet:
        """What the probe makes of the selected queries before it is made: most ask them as they are."""
        return data

    def identity(self) -> dict[str, Any]:
        """The fields that can change a number."""
        return self.model_dump(mode="json", exclude=marked(type(self), "circumstance"))


class ProbeOptions(AskingOptions):
    """What every probe can be told: which model, loaded how, and which part of the data."""

    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="Precision of the model; soft-max and sums stay in float32."
    )
    revision: str | None = Field(None, description="Revision of the model on the hub.")
    adapter: str | None = Field(None, description="Folder or name of a PEFT adapter to put on the model.")
    trust_remote_code: bool = Field(False, description="Run code that comes with the model.")
    allow_pickle: bool = Field(
        False, description="Read .bin weights (they can run code) besides safetensors.", json_schema_extra=CIRCUMSTANCE
    )
    subset: str | None = Field(None, description="A named part of the data, e.g. lite for BEAR.")
    exclude_tails: Words = Field((), description="Leave out queries with these gold answers (names or ids).")
    tail_tokens: str | None = Field(
        None, description="Only queries whose gold answer has so many tokens for the model: 1, or a range such as 2-4."
    )
    single_token: bool = Field(
        False, description="Only queries and candidates whose name is one token for the model, as LAMA needs it."
    )
    tokens_after_space: bool = Field(
        False, description="Count a name's tokens as they stand after a space; else, as in the DEER paper, alone."
    )
    candidates: Literal["all", "asked"] = Field(
        "all", description="Entities of a knowledge graph to choose from: all, or heads and tails of the queries asked."
    )
    reading: Literal["auto", "template-based", "template-free"] = Field(
        "auto",
        description="Facts that have both: ask by the relation's template or by the fact's natural sentence (auto: by "
        "template where there is one).",
    )
    sentences: Literal["first", "all"] = Field(
        "first", description="Of a fact's natural sentences the first that fits, or all, averaged per fact."
    )
    any_surface: bool = Field(
        False, description="Also natural sentences in which other words than the answer's name were masked."
    )
    pool: str | None = Field(
        None,
        description="Which candidates a query is ranked against: relation (the answer space that the data gives), data "
        "(those of all relations together), or a file with one name per line.",
    )
    add_candidates: Path | None = Field(
        None,
        description="File with further candidates, one name per line.",
        json_schema_extra=CIRCUMSTANCE,  # what it says goes into the identity, not where it lies
    )

    def loading(self) -> dict[str, Any]:
        """What :func:`fathom.models.loading.load` is to be told."""
        names = {"dtype", "device", "revision", "adapter", "trust_remote_code", "allow_pickle"}
        return self.model_dump(include=names)

    def open_model(self, name: str) -> Model | ChatServer:
        """The model of that name, or in that folder. :raises BadInput: there is none, or it cannot be loaded so."""
        from fathom.models.loading import load

        return load(name, **self.loading())

    def check_loaded(self, model: Model | ChatServer) -> None:
        """:raises BadInput: these options ask to load *model* otherwise, or want more of it than text."""
        if ignored := self._said_of_loading():
            raise BadInput(ALREADY_LOADED.format(ignored))
        if model.tokenizer is None:
            raise BadInput("a chat server only writes, this probe needs likelihoods or states: use the choice probe")

    def _said_of_loading(self) -> str:
        """The flags that say how to load a model here, where they are not at their defaults."""
        given, usual = self.loading(), type(self)().loading()
        return ", ".join(f"--{name.replace('_', '-')}" for name, value in usual.items() if given[name] != value)

    def selection(self) -> Selection:
        """Which queries and candidates."""
        from fathom.data.selection.filters import Selection

        return Selection(
            split=self.split,
            relations=self.relations,
            subset=self.subset,
            exclude_tails=self.exclude_tails,
            tail_tokens=self.tail_tokens,
            single_token=self.single_token,
            after_space=self.tokens_after_space,
            limit=self.limit,
            seed=self.seed,
            candidates=self.candidates,
            reading=self.reading,
            sentences=self.sentences,
            any_surface=self.any_surface,
            pool=self.pool,
            add_candidates=self.add_candidates,
        )


class FewShotOptions(ProbeOptions):
    """How a query becomes a few-shot prompt (figure 4 of the DEER paper), see :mod:`fathom.prompts.fewshot`."""

    shots: int = Field(8, ge=0, description="Lines (head, relation, tail) before the question, drawn by --seed.")
    per_query_shots: bool = Field(False, description="Draw other lines for each query, instead of the same for all.")
    trailing_space: bool = Field(False, description="End the prompt with a space, as the reference code does.")
    describe_head: bool = Field(
        False, description='A line "head - description" before the question, as the reference code can put it.'
    )
    bos: Literal["auto", "add", "none"] = Field(
        "auto", description="Causal models: show a BOS token first (auto: where the tokenizer has one)."
    )

    def few_shot(self, data: QuerySet) -> FewShot:
        """:raises BadInput: the data has no graph to draw from, or one with too few triples."""
        from fathom.prompts.fewshot import FewShot

        if data.graph is None:
            raise BadInput(
                f"{data.name} has no graph of facts, so there are no lines for a few-shot prompt: use a knowledge "
                "graph, a BEAR folder or a folder of facts"
            )
        return FewShot(
            data.graph,
            data.relations,
            data.queries,
            shots=self.shots,
            seed=self.seed,
            per_query=self.per_query_shots,
            trailing_space=self.trailing_space,
            description=self.describe_head,
        )


class StatementOptions(FewShotOptions):
    """Options of the statement probe (BEAR)."""

    templates: Numbers = Field((), description="Only these templates, counted from 0, separated by commas.")
    reduction: Annotated[tuple[Literal["sum", "mean"], ...], BeforeValidator(separated)] = Field(
        ("sum",), min_length=1, description="sum (nats per statement) and/or mean (nats per token)."
    )
    score: Annotated[tuple[Literal["full", "conditional", "answer"], ...], BeforeValidator(separated)] = Field(
        ("full",),
        min_length=1,
        description="full: all tokens; conditional: from the answer on (causal) or the answer given the rest (masked); "
        "answer: its tokens alone (causal models then ignore a subject that stands behind it).",
    )
    pll: Literal["original", "within-word-l2r", "answer-l2r", "sentence-l2r"] = Field(
        "within-word-l2r", description="Masked models: what is masked beside the scored token."
    )
    capitalize: bool = Field(True, description="First letter of every template's statement in upper case.")
    perplexity: bool = Field(False, description=PERPLEXITY)
    closing: bool = Field(False, description='Few-shot statements end with ")" behind the answer, as their lines do.')
    top_k: int = Field(10, ge=0, description="How many of the best answers to record.")
    max_rank: int | None = Field(
        None, ge=1, description="Stop where the rank is known to be greater (Hits@k needs no more than k); much faster."
    )
    prune: bool = Field(
        True,
        description="Answer spaces beyond 1,000, or with --max-rank: leave out what cannot beat the right answer "
        "(the rank is exact either way).",
    )


class EmbeddingOptions(FewShotOptions):
    """Options of the embedding probe (DEER)."""

    tail_template: str = Field(
        "deer",
        min_length=1,
        description="How a candidate is put into words: deer, A, B or C (figures 2, 12 to 14 of the paper), a text "
        "with {name} and, if wanted, {description} (\\n for a new line), or a file with such a text.",
    )
    pooling: Literal["auto", "last", "mean", "cls"] = Field(
        "auto", description="Which states make the vector; auto: last for causal models, mean for encoders."
    )


class VocabularyOptions(FewShotOptions):
    """Options of the vocabulary probe (LAMA)."""

    templates: Numbers = Field((), description="Masked models: only these templates, counted from 0.")
    capitalize: bool = Field(True, description="Masked models: first letter of every statement in upper case.")


class ClozeOptions(ProbeOptions):
    """Options of the cloze probe (entity ranking)."""

    templates: Numbers = Field((), description="Only these templates, counted from 0, separated by commas.")
    capitalize: bool = Field(True, description="First letter of every sentence in upper case.")
    pool: str | None = Field(
        "data",
        description="Which candidates a query is ranked against: data (the answers of all relations together), "
        "relation (the answer space that the data gives), or a file with one name per line.",
    )
    masks: Annotated[tuple[Literal["several", "one"], ...], BeforeValidator(separated)] = Field(
        ("several",),
        min_length=1,
        description="The slot holds as many masks as the candidate has tokens (several), or one for all; or both, with "
        "a comma between.",
    )
    reduction: Annotated[tuple[Literal["mean", "max", "first"], ...], BeforeValidator(separated)] = Field(
        ("mean",),
        min_length=1,
        description="Which of a candidate's token log-probabilities make its score; or several.",
    )
    perplexity: bool = Field(False, description=PERPLEXITY)


class OntologyOptions(ClozeOptions):
    """Options of the ontology probe (OntoProbe): the cloze probe's, with learnt templates besides."""

    subset: str | None = Field("test", description="A named part of the data; training takes train and dev.")
    pool: str | None = Field(
        "relation",
        description="Which candidates a query is ranked against: relation (classes, or properties), data (both "
        "together), or a file with one name per line.",
    )
    own_templates: Path | None = Field(
        None,
        description='File of JSON Lines {"relation": "type", "template": "[X] is a kind of [Y] ."}: asked instead of '
        "those of the same relation.",
        json_schema_extra=CIRCUMSTANCE,  # what it says goes into the identity, not where it lies
    )
    soft: bool = Field(
        False, description="Three learnt tokens between subject and answer instead of words; trained once per run."
    )
    soft_init: Literal["random", "words"] = Field("random", description="Where learnt tokens begin.")
    loss: Literal["bce", "nll"] = Field(
        "bce", description="What learnt tokens minimise: every candidate right or wrong, or one right answer's loss."
    )
    epochs: int = Field(100, ge=1, description="How often each training item is met.")
    learning_rate: float = Field(0.5, gt=0, description="At the beginning; it falls to zero in a straight line.")
    batch_size: int = Field(8, ge=1, description="Training items per step.")


class EntailmentOptions(OntologyOptions):
    """Options of the runs of ``fathom study entailment``: the ontology probe's, for texts about pseudowords."""

    masks: Annotated[tuple[Literal["several", "one"], ...], BeforeValidator(separated)] = Field(
        ("several",),
        min_length=1,
        max_length=1,
        description="The slot holds as many masks as the candidate has tokens (several), or one for all.",
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
        description="Distance of pseudowords from the mask token, as a share of its nearest other token's.",
    )
    soft_conjunction: bool = Field(
        False, description="Learnt tokens between premises and hypothesis, trained with all other learnt ones."
    )
    learnt: Path | None = Field(
        None,
        description="Folder of the templates that a run of the ontology probe has learnt.",
        json_schema_extra=CIRCUMSTANCE,  # what they are goes into the identity, not where they lie
    )


class ChoiceOptions(ServerOptions, ProbeOptions):
    """Options of the choice probe (multiple choice)."""

    limit: int | None = Field(
        None,
        ge=1,
        description="Only so many questions, drawn at random by --seed; a reasoning question comes with the memorising "
        "one that asks for its premise, and both count.",
    )
    options: int | None = Field(
        None,
        ge=2,
        le=26,
        description="Options of a question, drawn by --seed from the query's candidates: 20; data may have its own.",
    )
    score: Annotated[tuple[Literal["letter", "text-sum", "text-mean"], ...], BeforeValidator(separated)] = Field(
        ("letter",),
        min_length=1,
        description="Causal models: likelihood of the option's letter, or of its text (nats, or nats per token).",
    )
    bos: Literal["auto", "add", "none"] = Field(
        "auto", description="Causal models: show a BOS token first (auto: where the tokenizer has one)."
    )
    templates: Numbers = Field((), description="Masked models: only these statements, counted from 0.")
    sentences: Literal["first", "all"] = Field(
        "all", description="Masked models: of a question's own statements the first, or all, averaged per question."
    )
    capitalize: bool = Field(True, description="Masked models: first letter of every statement in upper case.")
    instruction: str = Field(
        "Reply with the letter of one option and nothing else.",
        description="What a chat model is told below the options.",
    )
    sampling_temperature: float | None = Field(0.0, ge=0, description="Of a server's replies.")
    reply_tokens: int = Field(32, ge=1, description="Longest reply of a server; models that think aloud need more.")

    def as_asked(self, data: QuerySet) -> QuerySet:
        """Each query with options of its own. :raises BadInput: --options for data that has them."""
        from fathom.prompts.choices import OPTIONS, check_options, choices

        check_options(data, self.options)
        return choices(data, self.options or OPTIONS, self.seed)

    def open_model(self, name: str) -> Model | ChatServer:
        """With ``--server`` what it calls *name*. :raises BadInput: see :meth:`ProbeOptions.open_model`."""
        if self.server is None:
            return super().open_model(name)
        if ignored := self._said_of_loading():
            raise BadInput(f"{ignored}: what a server does is for it to say; leave them out, or --server")
        return self.connect(name)

    def check_loaded(self, model: Model | ChatServer) -> None:
        """A model behind a server will do. :raises BadInput: see :meth:`ProbeOptions.check_loaded`."""
        if ignored := self._said_of_loading() or ("--server" if self.server is not None else ""):
            raise BadInput(ALREADY_LOADED.format(ignored))


class GenerationOptions(FewShotOptions):
    """Options of the generation probe (KAMEL)."""

    shots: int = Field(
        5, ge=0, description="Answered questions of the relation before the question, drawn by --seed; or lines (…)."
    )
    questions: Path | None = Field(
        None,
        description="File with 'relation, question' lines or JSON Lines (relation, question), the subject written [X]; "
        "by default the data's own, else lines (head, relation, tail).",
        json_schema_extra=CIRCUMSTANCE,  # what it says goes into the identity, not where it lies
    )
    max_new_tokens: int = Field(50, ge=1, description="Longest answer, in tokens.")
    separator: str = Field("; ", pattern=r"\S", description="What stands between several answers.")
    normalise: bool = Field(
        True,
        description="Even out spaces, punctuation, numbers and dates before comparing answers; else letter case alone.",
    )
