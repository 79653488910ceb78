"""Options as keywords, for type checkers. Made from the options' models: ``python -m tests.keywords``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict


class AskingOptions(TypedDict, total=False):
    """What everything that asks can be told: which part of the data, where, and from what seed."""

    device: str | None
    relations: str | Sequence[str]
    split: str | None
    limit: int | None
    seed: int
    batch_tokens: int | str | None
    cluster: str
    part: str | None


class ClusterOptions(TypedDict, total=False):
    """Who asks the shards of a run. None of it changes a number."""

    engine: Literal["here", "ray"]
    workers: int | None
    gpus_per_worker: float | None
    cpus_per_worker: int
    ray_address: str | None


class ProbeOptions(ClusterOptions, AskingOptions, total=False):
    """What every probe can be told: which model, loaded how, and which part of the data."""

    dtype: Literal["float32", "bfloat16", "float16", "auto"]
    device_map: Literal["auto", "balanced", "sequential"] | None
    tokenizer: str | None
    kind: Literal["causal", "masked", "seq2seq"] | None
    quantize: Literal["4bit", "8bit"] | None
    revision: str | None
    adapter: str | None
    trust_remote_code: bool
    allow_pickle: bool
    subset: str | None
    exclude_tails: str | Sequence[str]
    tail_tokens: str | None
    single_token: bool
    tokens_after_space: bool
    candidates: Literal["all", "asked"]
    reading: Literal["auto", "template-based", "template-free"]
    sentences: Literal["first", "all"]
    any_surface: bool
    alter: Literal["no", "negated", "misprimed", "paraphrased", "truncated"]
    pool: str | None
    add_candidates: str | Path | None


class FewShotOptions(ProbeOptions, total=False):
    """How a query becomes a few-shot prompt (figure 4 of the DEER paper), see :mod:`fathom.prompts.wording`."""

    directions: Literal["tail", "head"] | Sequence[Literal["tail", "head"]]
    shots: int
    per_query_shots: bool
    trailing_space: bool
    describe_head: bool
    bos: Literal["auto", "add", "none"]


class ServerOptions(TypedDict, total=False):
    """What everything that can ask a server instead of a model at hand is told of it."""

    server: str | None
    unlisted: bool
    key_env: str | None
    concurrency: int
    requests_per_minute: float | None
    timeout_s: float
    retries: int


class LikelihoodOptions(ServerOptions, ProbeOptions, total=False):
    """What probes can be told that take likelihoods from a server in place of a model at hand."""


class ScreenedOptions(TypedDict, total=False):
    """Options of probes that can ask a rough copy of the model first (:mod:`fathom.scoring.screening`)."""

    screen: Literal["bfloat16", "float16"] | None


class ReversibleOptions(TypedDict, total=False):
    """Options of probes whose templates can be read from their other end."""

    reverse: bool


class ChatOptions(TypedDict, total=False):
    """Whether a model is asked as its chat template has it."""

    chat: bool
    system: str
    shuffle_chat: bool


class SpokenOptions(ChatOptions, total=False):
    """How statements are put into a chat."""

    chat_user: str


class StatementOptions(
    SpokenOptions, ReversibleOptions, ScreenedOptions, LikelihoodOptions, FewShotOptions, total=False
):
    """Options of the statement probe (BEAR)."""

    templates: int | Sequence[int] | str
    reduction: Literal["sum", "mean"] | Sequence[Literal["sum", "mean"]]
    score: Literal["full", "conditional", "answer"] | Sequence[Literal["full", "conditional", "answer"]]
    pll: Literal["original", "within-word-l2r", "answer-l2r", "sentence-l2r"]
    form: Literal["auto", "sentinel", "mask", "split"]
    capitalize: bool
    perplexity: bool
    closing: bool
    top_k: int
    max_rank: int | None
    prune: bool


class EmbeddingOptions(FewShotOptions, total=False):
    """Options of the embedding probe (DEER)."""

    tail_template: str
    shorten: bool
    pooling: Literal["auto", "last", "mean", "cls"]


class VocabularyOptions(LikelihoodOptions, FewShotOptions, total=False):
    """Options of the vocabulary probe (LAMA)."""

    templates: int | Sequence[int] | str
    capitalize: bool
    form: Literal["auto", "sentinel", "mask", "split"]


class SlotOptions(ProbeOptions, total=False):
    """Options of probes that fill a slot of a sentence."""

    templates: int | Sequence[int] | str
    capitalize: bool
    form: Literal["auto", "sentinel", "mask", "split"]
    masks: Literal["several", "one"] | Sequence[Literal["several", "one"]]
    reduction: Literal["mean", "max", "first"] | Sequence[Literal["mean", "max", "first"]]
    perplexity: bool


class ClozeOptions(ReversibleOptions, ScreenedOptions, SlotOptions, total=False):
    """Options of the cloze probe (entity ranking)."""

    prior: bool


class OntologyOptions(SlotOptions, total=False):
    """Options of the ontology probe (OntoProbe): the cloze probe's, with learnt templates besides."""

    own_templates: str | Path | None
    soft: bool
    soft_init: Literal["random", "words"]
    loss: Literal["bce", "nll"]
    cross_validate: bool
    folds: int | None
    epochs: int
    learning_rate: float
    batch_size: int


class ReplyOptions(ChatOptions, total=False):
    """How what a model writes is read."""

    cut_reasoning: str


class ServedOptions(ServerOptions, ReplyOptions, ProbeOptions, total=False):
    """What probes can be told that take a server's model in place of one at hand."""

    sampling_temperature: float | None


class ChoiceOptions(ServedOptions, LikelihoodOptions, total=False):
    """Options of the choice probe (multiple choice)."""

    options: int | None
    orders: int
    replies: Literal["named", "strict"]
    score: Literal["letter", "text-sum", "text-mean"] | Sequence[Literal["letter", "text-sum", "text-mean"]]
    bos: Literal["auto", "add", "none"]
    templates: int | Sequence[int] | str
    capitalize: bool
    instruction: str
    reply_tokens: int


class GenerationOptions(ServedOptions, FewShotOptions, total=False):
    """Options of the generation probe (KAMEL)."""

    questions: str | Path | None
    max_new_tokens: int
    separator: str
    normalise: bool


class LinkOptions(ClusterOptions, AskingOptions, total=False):
    """Options of the link probe (trained link predictors)."""

    directions: Literal["tail", "head"] | Sequence[Literal["tail", "head"]]
    top_k: int


class LinkTraining(TypedDict, total=False):
    """What every link predictor can be told. Kinds change the defaults and add their own."""

    epochs: int
    batch_size: int
    learning_rate: float
    patience: int | None
    validate_on: int | None
    seconds: float | None
    seed: int
    device: str | None


class Embedding(LinkTraining, total=False):
    """A knowledge graph embedding of PyKEEN. What is not said here is PyKEEN's own default for the model."""

    validate_every: int
    dimension: int | None
    loss: str | None
    optimizer: str
    loop: Literal["slcwa", "lcwa"]
    negatives: int | None
    negative_sampler: str | None
    inverse_triples: bool
    model_kwargs: dict[str, Any] | str
    loss_kwargs: dict[str, Any] | str
    optimizer_kwargs: dict[str, Any] | str


class TextTraining(LinkTraining, total=False):
    """Predictors that read the names and descriptions of entities and relations with a language model."""

    weights: str
    init: Literal["pretrained", "random"]
    descriptions: bool
    weight_decay: float
    warm_up: float
    accumulate: int
    clip: float
    precision: Literal["float32", "bfloat16", "float16"]
    checkpoint_minutes: float


class SimKgc(TextTraining, total=False):
    """Wang et al. 2022."""

    max_tokens: int
    pooling: Literal["mean", "cls"]
    temperature: float
    margin: float
    pre_batches: int
    pre_batch_weight: float
    self_negatives: bool
    neighbour_names: int
    rerank_weight: float
    rerank_hops: int


class KnnKge(TextTraining, total=False):
    """Zhang et al. 2022."""

    max_tokens: int
    label_smoothing: float
    entity_epochs: int
    entity_learning_rate: float
    entity_parts: int
    entity_token: bool
    knn_weight: float
    knn_neighbours: int
    knn_descriptions: bool
    knn_temperature: float


class KgBert(TextTraining, total=False):
    """Yao et al. 2019."""

    max_tokens: int
    negatives: int


class Generative(TextTraining, total=False):
    """Encoder-decoders that write the name of the answer."""

    max_tokens: int
    label_smoothing: float
    full_rank: bool | None
    beams: int
    widest: int


class Kgt5(Generative, total=False):
    """Saxena et al. 2022."""

    optimizer: Literal["adafactor", "adamw"]


class GenKgc(Generative, total=False):
    """Xie et al. 2022."""

    demonstrations: int
    types: bool


class Prompted(ServerOptions, LinkTraining, total=False):
    """Xie et al. 2023 (LambdaKG): a language model is shown candidates and training triples; nothing is trained."""

    weights: str
    dtype: Literal["float32", "bfloat16", "float16"]
    wording: Literal["lambdakg", "autokg"]
    candidates: int
    candidates_by: Literal["entities", "triples"]
    gold_among_candidates: bool
    demonstrations: int
    descriptions: bool
    samples: int
    sampling_temperature: float | None
    reply_tokens: int


class Ultra(LinkTraining, total=False):
    """Galkin et al. 2024: a graph network with published weights for every graph; nothing is trained."""

    weights: str
    init: Literal["pretrained", "random"]
