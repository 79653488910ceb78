"""Options of link predictors, without the libraries that train them, for the command line.

The defaults are those of the original papers or of their authors' code; docs/notes/link-prediction.md gives the
source of each. Fields marked as *asking* may be changed when the trained model is evaluated.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fathom.base.options import ASKING, CIRCUMSTANCE, LATER, Given, Group, Names, Rate, Seed, identity_of, marked, opt
from fathom.base.reading import NotData, json_value, yaml_value
from fathom.data.selection.options import Directions
from fathom.engine.models.options import ServerOptions
from fathom.probes.options import DIRECTIONS, EvaluationOptions


class LinkOptions(EvaluationOptions):
    """Options of the link probe (trained link predictors)."""

    group: ClassVar = Group.SELECTION

    limit: int | None = opt(None, "Evaluate on at most this many triples, drawn at random by --seed.", ge=1)
    directions: Directions = opt(("tail", "head"), DIRECTIONS)
    top_k: int = opt(10, "How many of the best answers to record.", Group.OUTPUT, ge=1)


class LinkTraining(BaseModel):
    """Options of all link predictors. Kinds change the defaults and add their own."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
    group: ClassVar = Group.TRAINING
    config_only: ClassVar[Names] = (
        *("validate_on", "seconds", "weight_decay", "warm_up", "accumulate", "clip", "precision", "max_tokens"),
        *("checkpoint_minutes", "model_kwargs", "loss_kwargs", "optimizer_kwargs", "negatives", "negative_sampler"),
        *("pooling", "temperature", "margin", "pre_batches", "pre_batch_weight", "self_negatives", "rerank_weight"),
        *("rerank_hops", "label_smoothing", "entity_epochs", "entity_learning_rate", "entity_parts", "entity_token"),
        *("knn_neighbours", "knn_descriptions", "knn_temperature", "beams", "widest", "wording", "candidates_by"),
        *("gold_among_candidates", "demonstrations", "samples", "sampling_temperature", "reply_tokens"),
        *("descriptions", "full_rank", "knn_weight", "loss", "optimizer"),
    )

    epochs: int = opt(10, "Maximum passes over the training triples.", ge=0)
    batch_size: int = opt(32, "Questions per step.", ge=1)
    learning_rate: Rate = opt(5e-5, "Highest learning rate.")
    patience: int | None = opt(
        4, "Stop when Hits@10 on the validation split has not improved for this many epochs.", ge=1
    )
    validate_on: int | None = opt(
        None, "Validate on this many triples, drawn by --seed; by default on the whole split.", ge=1
    )
    seconds: float | None = opt(
        None, "Stop after this many seconds; the result then depends on the machine, not on the seed alone.", gt=0
    )
    seed: Seed = opt(0, "Seed of every random choice.", Group.RUN)
    device: str | None = opt(
        None, "cpu, cuda, cuda:1, …; by default a GPU where there is one.", Group.RUN, CIRCUMSTANCE
    )

    def identity(self) -> Given:
        return identity_of(self)

    @classmethod
    def asking(cls) -> set[str]:
        """Return the names of the fields that may be changed when the trained model is evaluated."""
        return marked(cls, "asking")


class LoopTraining(LinkTraining):
    """Options of predictors that are trained by :class:`fathom.training.loop.Loop`."""

    weight_decay: float = opt(1e-4, "Weight decay, of matrices only.", ge=0)
    warm_up: float = opt(0.1, "Share of all steps during which the learning rate rises.", ge=0, lt=1)
    accumulate: int = opt(1, "Batches whose gradients are added up for one step.", ge=1)
    clip: float = opt(1.0, "Maximum norm of the gradient.", gt=0)
    precision: Literal["float32", "bfloat16", "float16"] = opt(
        "float32", "Precision of the matrix products in training; weights stay in float32."
    )
    checkpoint_minutes: float = opt(10, "Minutes between checkpoints within an epoch.", Group.RUN, CIRCUMSTANCE, gt=0)


class TextTraining(LoopTraining):
    """Options of predictors that read the names and descriptions of entities and relations."""

    weights: str = opt(..., "Name or folder of the language model to start from.", Group.MODEL)
    init: Literal["pretrained", "random"] = opt(
        "pretrained",
        "pretrained: start from its weights; random: the same shape and tokenizer with random weights.",
        Group.MODEL,
    )
    descriptions: bool = opt(True, "Read the entities' descriptions as well as their names.", Group.PROMPTS)


def _mapping(value: object) -> Any:
    if not isinstance(value, str):
        return value
    with suppress(NotData):
        return json_value(value)  # first, because YAML reads 5e-4 as text
    try:
        return yaml_value(value)
    except NotData as error:
        raise ValueError("expected a mapping in JSON or YAML, such as '{margin: 5}'") from error


PyKeenArguments = Annotated[Given, BeforeValidator(_mapping)]


class Embedding(LinkTraining):
    """Options of a knowledge graph embedding of PyKEEN. Unset ones take PyKEEN's default for the model."""

    model: str = opt(..., "Name of a PyKEEN model.")
    epochs: int = opt(1000, "Maximum passes over the training triples.", ge=0)
    batch_size: int = opt(256, "Triples, or (head, relation) pairs, per step.", ge=1)
    learning_rate: Rate = opt(1e-3, "Learning rate of the optimizer.")
    patience: int | None = opt(
        4, "Stop when Hits@10 on the validation split has not improved in this many validations.", ge=1
    )
    validate_every: int = opt(10, "Epochs between validations.", ge=1)
    dimension: int | None = opt(None, "Dimension of the embeddings; by default the model's.", Group.MODEL, ge=1)
    loss: str | None = opt(None, "Name of a PyKEEN loss; by default the model's.")
    optimizer: str = opt("Adam", "Name of a PyTorch optimizer.")
    loop: Literal["slcwa", "lcwa"] = opt(
        "slcwa", "slcwa: against sampled wrong triples; lcwa: against all entities as tails."
    )
    negatives: int | None = opt(None, "Wrong triples per right one (slcwa); by default 1.", ge=1)
    negative_sampler: str | None = opt(None, "How wrong triples are drawn (slcwa): basic (the default) or bernoulli.")
    inverse_triples: bool = opt(
        False, "Also learn (tail, inverse relation, head); heads are then queried as its tails."
    )
    model_kwargs: PyKeenArguments = Field(
        default_factory=dict,
        description="More arguments of the model, as JSON or YAML: {scoring_fct_norm: 1}.",
        json_schema_extra=Group.MODEL.mark,
    )
    loss_kwargs: PyKeenArguments = Field(
        default_factory=dict, description="Arguments of the loss, as JSON or YAML: {margin: 5}."
    )
    optimizer_kwargs: PyKeenArguments = Field(
        default_factory=dict, description="More arguments of the optimizer, as JSON or YAML: {weight_decay: 0.01}."
    )


class SimKgc(TextTraining):
    """Wang et al. 2022."""

    weights: str = opt("bert-base-uncased", "Name or folder of the encoder to start from.")
    epochs: int = opt(50, "Maximum passes over the training triples.", ge=0)
    batch_size: int = opt(1024, "Questions per step.", ge=1)
    clip: float = opt(10.0, "Maximum norm of the gradient.", gt=0)
    max_tokens: int = opt(50, "Maximum tokens of a query, and of an entity.", Group.PROMPTS, ge=8)
    pooling: Literal["mean", "cls"] = opt("mean", "Vector of a text: mean over its tokens, or [CLS].", Group.MODEL)
    temperature: float = opt(0.05, "Initial temperature; it is learnt.", gt=0)
    margin: float = opt(0.02, "Additive margin of the right answer.", ge=0)
    pre_batches: int = opt(2, "Earlier batches whose answers also serve as negatives.", ge=0)
    pre_batch_weight: float = opt(0.5, "Weight of their logits.", ge=0)
    self_negatives: bool = opt(True, "Use the question's own head as a negative, too.")
    neighbour_names: int = opt(
        10, "Neighbours to name where a description has fewer than 20 words; 0: none.", Group.PROMPTS, ge=0
    )
    rerank_weight: float = opt(
        0.0, "Added to the scores of entities near the known one; 0: none.", Group.SCORING, ASKING, ge=0
    )
    rerank_hops: int = opt(2, "How many links away an entity still counts as near.", Group.SCORING, ASKING, ge=0)


class KnnKge(TextTraining):
    """Zhang et al. 2022."""

    weights: str = opt("bert-base-uncased", "Name or folder of the masked model to start from.")
    epochs: int = opt(20, "Maximum passes over the training triples.", ge=0)
    batch_size: int = opt(128, "Questions per step.", ge=1)
    learning_rate: Rate = opt(3e-5, "Highest learning rate.")
    weight_decay: float = opt(0.01, "Weight decay, of matrices only.", ge=0)
    max_tokens: int = opt(64, "Maximum tokens of a prompt; longer texts are cut.", Group.PROMPTS, ge=16)
    label_smoothing: float = opt(0.1, "Share of the probability spread over all entities.", ge=0, lt=1)
    entity_epochs: int = opt(
        16, "Passes over the descriptions in which the entities' rows are learnt first, all else frozen.", ge=0
    )
    entity_learning_rate: Rate = opt(1e-4, "Highest learning rate of these passes.")
    entity_parts: int = opt(10, "Random parts of each description read in such a pass in addition to the whole.", ge=0)
    entity_token: bool = opt(
        False, "Also show the known entity's own token before its text, as the authors' code does.", Group.PROMPTS
    )
    knn_weight: float = opt(
        0.2,
        "Weight of the nearest training questions against the model's own prediction; 0 turns them off.",
        Group.SCORING,
        ASKING,
        ge=0,
        lt=1,
    )
    knn_neighbours: int = opt(64, "How many of the nearest training questions count.", Group.SCORING, ASKING, ge=1)
    knn_descriptions: bool = opt(
        False,
        "Keep what stands at [MASK] before each entity's description as a neighbour, too.",
        Group.SCORING,
        ASKING,
        LATER,
    )
    knn_temperature: float = opt(10.0, "Divides squared distances before the softmax.", Group.SCORING, ASKING, gt=0)


class KgBert(TextTraining):
    """Yao et al. 2019."""

    weights: str = opt("bert-base-cased", "Name or folder of the encoder to start from.")
    epochs: int = opt(5, "Maximum passes over the training triples.", ge=0)
    batch_size: int = opt(32, "Triples per step, right and wrong ones.", ge=1)
    weight_decay: float = opt(0.01, "Weight decay, of matrices only.", ge=0)
    max_tokens: int = opt(50, "Maximum tokens of a triple; longer texts are cut.", Group.PROMPTS, ge=8)
    negatives: int = opt(5, "Wrong triples for each right one.", ge=1)
    validate_on: int | None = opt(
        20, "Validate on this many triples, drawn by --seed: each question reads every entity.", ge=1
    )


class Generative(TextTraining):
    """Encoder-decoders that write the name of the answer."""

    learning_rate: Rate = opt(1e-4, "Highest learning rate.")
    weight_decay: float = opt(0.01, "Weight decay, of matrices only.", ge=0)
    validate_on: int | None = opt(
        200, "Validate on this many triples, drawn by --seed: searching costs more than scoring.", ge=1
    )
    max_tokens: int = opt(128, "Maximum tokens of a query, and of a name.", Group.PROMPTS, ge=8)
    label_smoothing: float = opt(0.0, "Share of the probability spread over all tokens.", ge=0, lt=1)
    full_rank: bool | None = opt(
        None,
        "Search until the right answer's rank is known, however low; by default in graphs of up to "
        "5,000 entities. Otherwise ranks are known up to 10, or up to as many as are listed.",
        Group.SCORING,
        ASKING,
    )
    beams: int = opt(
        10,
        "Without full ranks: prefixes of names kept at each step; more where that proves nothing.",
        Group.SCORING,
        ASKING,
        ge=1,
    )
    widest: int = opt(
        640, "Maximum prefixes kept at a step; beyond, an answer is not proven.", Group.SCORING, ASKING, ge=1
    )


class Kgt5(Generative):
    """Saxena et al. 2022."""

    optimizer: Literal["adafactor", "adamw"] = opt(
        "adafactor", "adafactor: steps relative to the size of each weight, as T5's weights need them; adamw."
    )
    learning_rate: Rate = opt(
        1e-2,
        "Highest learning rate; adafactor: as a share of each parameter's root mean square. With adamw "
        "1e-4 by default.",
    )
    epochs: int = opt(40, "Maximum passes over the training triples.", ge=0)
    batch_size: int = opt(96, "Questions per step.", ge=1)

    @model_validator(mode="before")
    @classmethod
    def _default_learning_rate(cls, options: object) -> object:
        if isinstance(options, dict) and options.get("optimizer") == "adamw":
            return {"learning_rate": 1e-4, **options}
        return options


class GenKgc(Generative):
    """Xie et al. 2022."""

    epochs: int = opt(10, "Maximum passes over the training triples.", ge=0)
    batch_size: int = opt(64, "Questions per step.", ge=1)
    label_smoothing: float = opt(0.1, "Share of the probability spread over all tokens.", ge=0, lt=1)
    demonstrations: int = opt(2, "Training triples of the relation shown before a question.", Group.PROMPTS, ge=0)
    types: bool = opt(
        False,
        "Write the answer's type before its name, in graphs that have types (entity2type.txt).",
        Group.PROMPTS,
        LATER,
    )


class Ultra(LinkTraining):
    """Galkin et al. 2024: a graph network with published weights for every graph; nothing is trained."""

    config_only: ClassVar[Names] = ("epochs", "batch_size", "learning_rate", "patience")

    weights: str = opt(..., "File of published weights, such as ultra_3g.pth.", Group.MODEL)
    init: Literal["pretrained", "random"] = opt(
        "pretrained", "pretrained: the published weights; random: random ones by --seed.", Group.MODEL
    )


class PromptedModel(ServerOptions, LinkTraining):
    """Xie et al. 2023 (LambdaKG): a language model is shown candidates and training triples; nothing is trained."""

    group: ClassVar = Group.PROMPTS
    config_only: ClassVar[Names] = ("epochs", "batch_size", "learning_rate", "patience", "candidates")

    weights: str = opt(..., "Name or folder of a causal language model, or what --server calls it.", Group.MODEL)
    dtype: Literal["float32", "bfloat16", "float16"] = opt("float32", "Precision of a model loaded here.", Group.MODEL)
    wording: Literal["lambdakg", "autokg"] = opt(
        "lambdakg",
        "lambdakg: candidates and the most similar training triples; autokg: a [MASK] to be filled, after "
        "training triples of the relation, without any search; every entity is then a candidate.",
        ASKING,
        LATER,
    )
    candidates: int = opt(100, "How many entities are shown.", ASKING, ge=10)
    candidates_by: Literal["entities", "triples"] = opt(
        "entities",
        "What BM25 searches: the entities' texts, or training triples, whose answers are then the candidates.",
        ASKING,
    )
    gold_among_candidates: bool = opt(
        False, "Add the right answer to the candidates where BM25 has not found it; chance is then 10 / 100.", ASKING
    )
    demonstrations: int = opt(5, "Training triples shown before a question; with autokg 0 by default.", ASKING, ge=0)
    descriptions: bool = opt(True, "Read the entities' descriptions as well as their names.", ASKING)
    samples: int = opt(10, "Replies requested from a server per question.", Group.SERVER, ASKING, ge=1)
    sampling_temperature: float | None = opt(
        0.5, "Sampling temperature of a server's replies.", Group.SERVER, ASKING, ge=0
    )
    reply_tokens: int = opt(200, "Maximum tokens of a server's reply.", Group.SERVER, ASKING, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _default_demonstrations(cls, options: object) -> object:
        if isinstance(options, dict) and options.get("wording") == "autokg":
            return {"demonstrations": 0, **options}
        return options
