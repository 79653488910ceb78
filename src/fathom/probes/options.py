"""Options of probes: one frozen model each, from which command line, YAML and manifest are made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from fathom.data.selection.options import Directions, SelectionOptions
from fathom.models.options import ReplyOptions, ServerOptions, SpokenOptions
from fathom.options import CIRCUMSTANCE, LATER, Group, opt, separated
from fathom.probes.shared_options import DIRECTIONS, ClusterOptions, EvaluationOptions, Numbers

BOS = "Causal models: show a BOS token first (auto: if the tokenizer has one)."
PERPLEXITY = "Also the perplexity of every prompt with the right answer in it (masked models: pseudo-perplexity)."


FormName = Literal["auto", "sentinel", "mask", "split"]
FORM = (
    "Encoder-decoders: what is read and what is said of it: sentinel (T5: the answer's span), mask (BART: the whole "
    "statement), split (what follows what stands before the answer); auto takes the first that the tokenizer has "
    "tokens for."
)


class ProbeOptions(ClusterOptions, EvaluationOptions, SelectionOptions):
    """What every probe can be told: which model, loaded how, and which part of the data."""

    group: ClassVar = Group.MODEL

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


class LikelihoodOptions(ServerOptions, ProbeOptions):
    """Options for probes that can use the likelihoods of a model server."""

    group: ClassVar = Group.SERVER

    server: str | None = opt(
        None,
        "Base URL of an OpenAI-compatible server that gives log-probabilities of prompts, to ask instead "
        "of loading the model here; --tokenizer then says where the model's tokenizer is.",
        LATER,
    )
    unlisted: bool = opt(False, "Accept a server that does not list the model.", LATER)
    bos: Literal["auto", "add", "none"] = opt("auto", BOS, Group.PROMPTS)


class ServedOptions(ServerOptions, ReplyOptions, ProbeOptions):
    """Options for probes that query a model server."""

    group: ClassVar = Group.SERVER

    sampling_temperature: float | None = opt(0.0, "Sampling temperature of a server's replies.", ge=0)


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
    bos: Literal["auto", "add", "none"] = opt("auto", BOS)


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
