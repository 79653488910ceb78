"""Options of probes: one frozen model each, from which command line, YAML and manifest are made."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from fathom.errors import BadInput
from fathom.models.options import ReplyOptions, ServerOptions, SpokenOptions
from fathom.options import CIRCUMSTANCE, EVERYTHING, LATER, Group, opt, separated
from fathom.probes.shared_options import DIRECTIONS, ClusterOptions, Directions, EvaluationOptions, Numbers, Words

if TYPE_CHECKING:  # not needed to show --help
    from fathom.data.queries import QuerySet
    from fathom.data.selection.filters import Selection
    from fathom.models.base import Model
    from fathom.models.chat import ChatTemplate
    from fathom.models.likelihoods import LikelihoodServer
    from fathom.models.server import ChatServer
    from fathom.prompts.wording import FewShot


ALREADY_LOADED = "{}: the model is loaded already; give its name or folder to have it loaded so"
PERPLEXITY = "Also the perplexity of every prompt with the right answer in it (masked models: pseudo-perplexity)."


FormName = Literal["auto", "sentinel", "mask", "split"]
FORM = (
    "Encoder-decoders: what is read and what is said of it: sentinel (T5: the answer's span), mask (BART: the whole "
    "statement), split (what follows what stands before the answer); auto takes the first that the tokenizer has "
    "tokens for."
)


class ProbeOptions(ClusterOptions, EvaluationOptions):
    """What every probe can be told: which model, loaded how, and which part of the data."""

    group: ClassVar = Group.SELECTION
    takes_likelihoods: ClassVar = False
    """Whether likelihoods of texts, from a server, are all that the probe needs."""

    dtype: Literal["float32", "bfloat16", "float16", "auto"] = opt(
        "float32",
        "Precision of the model (auto: as its weights were saved); softmax and sums stay in float32.",
        Group.MODEL,
    )
    device_map: Literal["auto", "balanced", "sequential"] | None = opt(
        None,
        "Spread a model that is larger than one device over all devices, memory and a disk, by accelerate.",
        Group.MODEL,
        CIRCUMSTANCE,
    )
    tokenizer: str | None = opt(None, "Name or folder of another tokenizer than the model's own.", Group.MODEL, LATER)
    kind: Literal["causal", "masked", "seq2seq"] | None = opt(
        None, "What the model is, where its configuration does not tell (a class of your own).", Group.MODEL, LATER
    )
    quantize: Literal["4bit", "8bit"] | None = opt(
        None, "Quantise the linear layers while loading, by bitsandbytes.", Group.MODEL, LATER
    )
    revision: str | None = opt(None, "Revision on the hub of what --model names.", Group.MODEL)
    adapter: str | None = opt(
        None, "Folders or names of PEFT adapters to load on top of the model, separated by commas.", Group.MODEL
    )
    trust_remote_code: bool = opt(False, "Run code that comes with the model.", Group.MODEL)
    allow_pickle: bool = opt(
        False, "Also read .bin weights, which can run code, not only safetensors.", Group.MODEL, CIRCUMSTANCE
    )
    subset: str | None = opt(None, "A named part of the data, e.g. lite for BEAR, or all of it.")
    exclude_tails: Words = opt((), "Leave out queries with these gold answers (names or ids).")
    tail_tokens: str | None = opt(
        None, "Ask only queries whose gold answer has this many tokens for the model: 1, or a range such as 2-4."
    )
    single_token: bool = opt(
        False, "Keep only queries and candidates whose name is one token for the model, as LAMA requires."
    )
    tokens_after_space: bool = opt(
        False, "Count a name's tokens as they are after a space; otherwise alone, as in the DEER paper."
    )
    candidates: Literal["all", "asked"] = opt(
        "all", "Which entities of a knowledge graph are candidates: all, or heads and tails of the queries asked."
    )
    reading: Literal["auto", "template-based", "template-free"] = opt(
        "auto",
        "How to ask facts that have both: by the relation's template, or by the fact's natural "
        "sentence (auto: by template where there is one).",
    )
    sentences: Literal["first", "all"] = opt(
        "first", "Which of a fact's natural sentences to ask: the first that fits, or all, averaged per fact."
    )
    any_surface: bool = opt(
        False, "Also ask natural sentences in which other words than the answer's name were masked."
    )
    alter: Literal["no", "negated", "misprimed", "paraphrased", "truncated"] = opt(
        "no",
        "Ask each fact in another wording, as the data have it, or made by rule: negated (only as the data "
        "have it), misprimed (a wrong candidate called out in front), paraphrased (further templates), truncated "
        "(behind the answer).",
        LATER,
    )
    pool: str | None = opt(
        None,
        "Which candidates a query is ranked against: relation (the answer space given by the data), "
        "data (the answers of all relations together), or a file with one name per line.",
    )
    add_candidates: Path | None = opt(
        None,
        "File with more candidates, one name per line.",
        CIRCUMSTANCE,  # what it says goes into the identity, not where it lies
    )

    def loading(self) -> dict[str, Any]:
        """What :func:`fathom.models.loading.load` is to be told."""
        names = {"dtype", "device", "device_map", "revision", "tokenizer", "kind", "quantize", "trust_remote_code"}
        given = self.adapter or ""
        adapters = (given,) if os.path.isdir(given) else tuple(part for part in given.split(",") if part)
        return self.model_dump(include=names | {"allow_pickle", "screen"}) | {"adapter": adapters or None}

    def open_model(self, name: str) -> Model | ChatServer | LikelihoodServer:
        """The model of that name, or in that folder.

        :raises BadInput: there is none, or it cannot be loaded so.
        """
        from fathom.models.loading import load

        return load(name, **self.loading())

    def check_loaded(self, model: Model | ChatServer) -> None:
        """:raises BadInput: these options ask to load *model* otherwise, or want more of it than text."""
        if ignored := self._said_of_loading():
            raise BadInput(ALREADY_LOADED.format(ignored))
        if model.tokenizer is None:
            raise BadInput("a chat server only writes, this probe needs likelihoods or states: use choice, generation")
        self._check_needs(model)

    def _check_needs(self, model: Any) -> None:
        """:raises BadInput: a server that scores texts, which is not enough for this probe."""
        from fathom.models.likelihoods import LikelihoodServer

        if isinstance(model, LikelihoodServer) and not self.takes_likelihoods:
            raise BadInput("a server that scores texts is not enough for this probe: use statement, vocabulary, choice")

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
            subset=None if self.subset == EVERYTHING else self.subset,
            exclude_tails=self.exclude_tails,
            tail_tokens=self.tail_tokens,
            single_token=self.single_token,
            after_space=self.tokens_after_space,
            limit=self.limit,
            seed=self.seed,
            candidates=self.candidates,
            reading=self.reading,
            alter=self.alter,
            sentences=self.sentences,
            any_surface=self.any_surface,
            pool=self.pool,
            add_candidates=self.add_candidates,
            reverse=isinstance(self, ReversibleOptions) and self.reverse,
        )


class LikelihoodOptions(ServerOptions, ProbeOptions):
    """What probes can be told that take likelihoods from a server in place of a model at hand."""

    group: ClassVar = Group.SERVER
    takes_likelihoods: ClassVar = True

    server: str | None = opt(
        None,
        "Base URL of an OpenAI-compatible server that gives log-probabilities of prompts, to ask instead "
        "of loading the model here; --tokenizer then says where the model's tokenizer is.",
        LATER,
    )
    unlisted: bool = opt(False, "Accept a server that does not list the model.", LATER)

    def open_model(self, name: str) -> Model | ChatServer | LikelihoodServer:
        """With ``--server`` what it calls *name*.

        :raises BadInput: see :meth:`ProbeOptions.open_model`; also a server that cannot give what is to be scored.
        """
        if self.server is None:
            return super().open_model(name)
        return self.served(name)

    def served(self, name: str) -> LikelihoodServer:
        """The model that the server calls *name*.

        :raises BadInput: see :meth:`open_model`.
        """
        if ignored := self.model_copy(update={"tokenizer": None})._said_of_loading():
            raise BadInput(f"{ignored}: what a server does is for it to say; leave them out, or --server")
        if self.tokenizer is None:
            raise BadInput(f"--server: to score texts, --tokenizer must say where the tokenizer of '{name}' is")
        model = self.connect_for_likelihoods(name, self.tokenizer)
        if model.adds_bos and getattr(self, "bos", "auto") == "none":
            raise BadInput("--bos none: this server takes texts alone and puts BOS before each; leave --bos out")
        if model.lacks_first and "full" in getattr(self, "score", ()) and not getattr(self, "chat", False):
            raise BadInput(
                "--score full: this server tells no log-probability of a text's first token (llama-cpp-python): take "
                "--score conditional, or llama.cpp's own server"
            )
        return model

    def check_loaded(self, model: Model | ChatServer) -> None:
        """:raises BadInput: see :meth:`ProbeOptions.check_loaded`."""
        if self.server is not None:
            raise BadInput(ALREADY_LOADED.format("--server"))
        super().check_loaded(model)


class ServedOptions(ServerOptions, ReplyOptions, ProbeOptions):
    """What probes can be told that take a server's model in place of one at hand."""

    group: ClassVar = Group.SERVER

    sampling_temperature: float | None = opt(0.0, "Sampling temperature of a server's replies.", ge=0)

    def open_model(self, name: str) -> Model | ChatServer | LikelihoodServer:
        """With ``--server`` what it calls *name*.

        :raises BadInput: see :meth:`ProbeOptions.open_model`.
        """
        if self.server is None:
            return super().open_model(name)
        if ignored := self._said_of_loading():
            raise BadInput(f"{ignored}: what a server does is for it to say; leave them out, or --server")
        return self.connect(name)

    def check_loaded(self, model: Model | ChatServer) -> None:
        """A model behind a server will do.

        :raises BadInput: see :meth:`ProbeOptions.check_loaded`.
        """
        if ignored := self._said_of_loading() or ("--server" if self.server is not None else ""):
            raise BadInput(ALREADY_LOADED.format(ignored))
        self._check_needs(model)

    def template(self, model: Any) -> ChatTemplate | None:
        """None also for a server, which has its own. :raises BadInput: see :meth:`ReplyOptions.template`."""
        if model.tokenizer is not None:
            return super().template(model)
        for name in ("chat", "shuffle_chat"):
            if getattr(self, name):
                flag = f"--{name.replace('_', '-')}"
                raise BadInput(f"{flag}: a server puts its own chat template around questions; leave {flag} out")
        return None


class FewShotOptions(ProbeOptions):
    """How a query becomes a few-shot prompt (figure 4 of the DEER paper), see :mod:`fathom.prompts.wording`."""

    group: ClassVar = Group.PROMPTS

    directions: Directions = opt(("tail",), DIRECTIONS, Group.SELECTION, LATER)
    shots: int = opt(8, "Lines (head, relation, tail) before the question, drawn by --seed.", ge=0)
    per_query_shots: bool = opt(False, "Draw new lines for each query instead of the same for all.")
    trailing_space: bool = opt(False, "End the prompt with a space, as the reference code does.")
    describe_head: bool = opt(
        False,
        'Put a line "head - description" before the question, as the reference code can; where the head is '
        "asked for, of the tail.",
    )
    bos: Literal["auto", "add", "none"] = opt(
        "auto", "Causal models: show a BOS token first (auto: where the tokenizer has one)."
    )

    def selection(self) -> Selection:
        """Which queries and candidates."""
        return replace(super().selection(), directions=self.directions)

    def few_shot(self, data: QuerySet) -> FewShot:
        """:raises BadInput: the data has no graph to draw from, or one with too few triples."""
        from fathom.prompts.wording import FewShot

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


class ScreenedOptions(BaseModel):
    """Options of probes that can ask a rough copy of the model first (:mod:`fathom.scoring.screening`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    screen: Literal["bfloat16", "float16"] | None = opt(
        None,
        "Score everything in this precision first, and again in that of --dtype whatever could change a "
        "rank, a list of the best or a first answer; the margin is measured in the run, not proven.",
        Group.MODEL,
        LATER,
    )


class ReversibleOptions(BaseModel):
    """Options of probes whose templates can be read from their other end."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reverse: bool = opt(
        False,
        "Give the answer and ask for the subject, among those of the relation, by the same templates.",
        Group.SELECTION,
        LATER,
    )


class StatementOptions(SpokenOptions, ReversibleOptions, ScreenedOptions, LikelihoodOptions, FewShotOptions):
    """Options of the statement probe (BEAR)."""

    group: ClassVar = Group.SCORING

    templates: Numbers = opt((), "Ask only these templates, counted from 0, separated by commas.", Group.PROMPTS)
    reduction: Annotated[tuple[Literal["sum", "mean"], ...], BeforeValidator(separated)] = opt(
        ("sum",), "How token scores become one: sum (nats per statement), mean (nats per token), or both.", min_length=1
    )
    score: Annotated[tuple[Literal["full", "conditional", "answer"], ...], BeforeValidator(separated)] = opt(
        ("full",),
        "Which tokens are scored: full: all; conditional: from the answer on (causal) or the answer "
        "given the rest (masked); answer: those of the answer alone (causal models then ignore a "
        "subject that comes after it).",
        min_length=1,
    )
    pll: Literal["original", "within-word-l2r", "answer-l2r", "sentence-l2r"] = opt(
        "within-word-l2r", "Masked models: which tokens are masked together with the one scored."
    )
    form: FormName = opt("auto", FORM, LATER)
    capitalize: bool = opt(True, "Write the first letter of every statement in upper case.", Group.PROMPTS)
    perplexity: bool = opt(False, PERPLEXITY)
    closing: bool = opt(
        False, 'End few-shot statements with ")" after the answer, as their example lines do.', Group.PROMPTS
    )
    top_k: int = opt(10, "How many of the best answers to record.", Group.OUTPUT, ge=0)
    max_rank: int | None = opt(
        None, "Stop once the rank is known to be greater (Hits@k needs no more than k); much faster.", ge=1
    )
    prune: bool = opt(
        True,
        "With more than 1,000 candidates, or with --max-rank: skip those that cannot beat the right "
        "answer (the rank is exact either way).",
    )


class EmbeddingOptions(FewShotOptions):
    """Options of the embedding probe (DEER)."""

    group: ClassVar = Group.SCORING

    tail_template: str = opt(
        "deer",
        "How a candidate is put into words: deer, A, B or C (figures 2, 12 to 14 of the paper), a "
        "text with {name} and, if wanted, {description} (\\n for a new line), or a file with such a "
        "text.",
        Group.PROMPTS,
        min_length=1,
    )
    shorten: bool = opt(
        True,
        "Shorten descriptions of candidates that do not fit the model's window; otherwise these have no "
        "vector and cannot be ranked.",
        Group.PROMPTS,
    )
    pooling: Literal["auto", "last", "mean", "cls"] = opt(
        "auto", "Which hidden states make the vector; auto: last for causal models, mean for encoders."
    )


class SlotOptions(ProbeOptions):
    """Options of probes that fill a slot of a sentence."""

    group: ClassVar = Group.SCORING

    templates: Numbers = opt((), "Ask only these templates, counted from 0, separated by commas.", Group.PROMPTS)
    capitalize: bool = opt(True, "Write the first letter of every sentence in upper case.", Group.PROMPTS)
    form: FormName = opt("auto", FORM, LATER)
    pool: str | None = opt(
        "data",
        "Which candidates a query is ranked against: data (the answers of all relations together), "
        "relation (the answer space given by the data), or a file with one name per line.",
    )
    masks: Annotated[tuple[Literal["several", "one"], ...], BeforeValidator(separated)] = opt(
        ("several",),
        "What fills the slot: as many masks as the candidate has tokens (several), one for all (one),"
        " or both, separated by a comma.",
        min_length=1,
    )
    reduction: Annotated[tuple[Literal["mean", "max", "first"], ...], BeforeValidator(separated)] = opt(
        ("mean",),
        "Which of a candidate's token log-probabilities make its score; several are separated by commas.",
        min_length=1,
    )
    perplexity: bool = opt(False, PERPLEXITY)


class ClozeOptions(ReversibleOptions, ScreenedOptions, SlotOptions):
    """Options of the cloze probe (entity ranking)."""

    group: ClassVar = Group.SCORING

    prior: bool = opt(
        False,
        "Also score each candidate by how much likelier it is here than without what is asked about: with "
        "the template's subject masked, or, of a natural sentence, in an empty one.",
        LATER,
    )


class VocabularyOptions(LikelihoodOptions, FewShotOptions):
    """Options of the vocabulary probe (LAMA)."""

    group: ClassVar = Group.PROMPTS

    templates: Numbers = opt((), "Masked models: ask only these templates, counted from 0, separated by commas.")
    capitalize: bool = opt(True, "Masked models: write the first letter of every statement in upper case.")
    form: FormName = opt("auto", FORM, LATER)


class GenerationOptions(ServedOptions, FewShotOptions):
    """Options of the generation probe (KAMEL)."""

    group: ClassVar = Group.PROMPTS

    server: str | None = opt(
        None, "Base URL of an OpenAI-compatible server to ask instead of loading the model here.", LATER
    )
    unlisted: bool = opt(False, "Accept a server that does not list the model.", LATER)
    sampling_temperature: float | None = opt(0.0, "Sampling temperature of a server's replies.", LATER, ge=0)

    shots: int = opt(
        5,
        "Answered questions of the relation (or lines, without questions) before the question, drawn by --seed.",
        ge=0,
    )
    questions: Path | None = opt(
        None,
        "File with 'relation, question' lines or JSON Lines (relation, question), the subject written"
        " [X]; by default the data's own questions, else lines (head, relation, tail).",
        CIRCUMSTANCE,  # what it says goes into the identity, not where it lies
    )
    max_new_tokens: int = opt(50, "Maximum tokens of an answer, its reasoning included.", Group.SCORING, ge=1)
    separator: str = opt("; ", "What separates several answers.", pattern=r"\S")
    normalise: bool = opt(
        True,
        "Normalise spaces, punctuation, numbers and dates before comparing answers; otherwise only letter case.",
        Group.SCORING,
    )
