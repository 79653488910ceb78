"""Options of link predictors, without the libraries that train them: the command line reads them.

The defaults are those of the original papers or of their authors' code; docs/methods/link-prediction.md gives the
source of each. Fields marked as *asking* may be changed when the trained model is asked.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fathom.models.options import ServerOptions
from fathom.options import ASKING, CIRCUMSTANCE, LATER, Given, Group, Rate, Seed, identity_of, marked
from fathom.probes.asking_options import DIRECTIONS, AskingOptions, ClusterOptions, Directions
from fathom.reading import NotData, json_value, yaml_value


class LinkOptions(ClusterOptions, AskingOptions):
    """Options of the link probe (trained link predictors)."""

    group: ClassVar = Group.SELECTION

    limit: int | None = Field(None, ge=1, description="Ask at most this many triples, drawn at random by --seed.")
    directions: Directions = Field(("tail", "head"), description=DIRECTIONS)
    top_k: int = Field(
        10, ge=1, description="How many of the best answers to record.", json_schema_extra=Group.OUTPUT.mark
    )


class LinkTraining(BaseModel):
    """What every link predictor can be told. Kinds change the defaults and add their own."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
    group: ClassVar = Group.TRAINING

    epochs: int = Field(10, ge=0, description="Maximum passes over the training triples.")
    batch_size: int = Field(32, ge=1, description="Questions per step.")
    learning_rate: Rate = Field(5e-5, description="Highest learning rate.")
    patience: int | None = Field(
        4, ge=1, description="Stop when Hits@10 on the validation split has not improved for this many epochs."
    )
    validate_on: int | None = Field(
        None, ge=1, description="Validate on this many triples, drawn by --seed; by default on the whole split."
    )
    seconds: float | None = Field(
        None,
        gt=0,
        description="Stop after this many seconds; the result then depends on the machine, not on the seed alone.",
    )
    seed: Seed = Field(0, description="Seed of every random choice.", json_schema_extra=Group.RUN.mark)
    device: str | None = Field(
        None,
        description="cpu, cuda, cuda:1, …; by default a GPU where there is one.",
        json_schema_extra=CIRCUMSTANCE | Group.RUN.mark,
    )

    def identity(self) -> Given:
        """The fields that can change a number."""
        return identity_of(self)

    @classmethod
    def asking(cls) -> set[str]:
        """Names of the fields that may be changed when the trained model is asked."""
        return marked(cls, "asking")


class TextTraining(LinkTraining):
    """Predictors that read the names and descriptions of entities and relations with a language model."""

    weights: str = Field(
        description="Name or folder of the language model to start from.", json_schema_extra=Group.MODEL.mark
    )
    init: Literal["pretrained", "random"] = Field(
        "pretrained",
        description="pretrained: start from its weights; random: the same shape and tokenizer with random weights.",
        json_schema_extra=Group.MODEL.mark,
    )
    descriptions: bool = Field(
        True,
        description="Read the entities' descriptions as well as their names.",
        json_schema_extra=Group.PROMPTS.mark,
    )
    weight_decay: float = Field(1e-4, ge=0, description="Weight decay, of matrices only.")
    warm_up: float = Field(0.1, ge=0, lt=1, description="Share of all steps during which the learning rate rises.")
    accumulate: int = Field(1, ge=1, description="Batches whose gradients are added up for one step.")
    clip: float = Field(1.0, gt=0, description="Maximum norm of the gradient.")
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="Precision of the matrix products in training; weights stay in float32."
    )
    checkpoint_minutes: float = Field(
        10,
        gt=0,
        description="Minutes between checkpoints within an epoch.",
        json_schema_extra=CIRCUMSTANCE | Group.RUN.mark,
    )


def _mapping(value: Any) -> Any:
    """The command line says a mapping as text, in JSON or YAML."""
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
    """A knowledge graph embedding of PyKEEN. What is not said here is PyKEEN's own default for the model."""

    model: str = Field(description="Name of a PyKEEN model.")
    epochs: int = Field(1000, ge=0, description="Maximum passes over the training triples.")
    batch_size: int = Field(256, ge=1, description="Triples, or (head, relation) pairs, per step.")
    learning_rate: Rate = Field(1e-3, description="Learning rate of the optimizer.")
    patience: int | None = Field(
        4, ge=1, description="Stop when Hits@10 on the validation split has not improved in this many validations."
    )
    validate_every: int = Field(10, ge=1, description="Epochs between validations.")
    dimension: int | None = Field(
        None,
        ge=1,
        description="Dimension of the embeddings; by default the model's.",
        json_schema_extra=Group.MODEL.mark,
    )
    loss: str | None = Field(None, description="Name of a PyKEEN loss; by default the model's.")
    optimizer: str = Field("Adam", description="Name of a PyTorch optimizer.")
    loop: Literal["slcwa", "lcwa"] = Field(
        "slcwa", description="slcwa: against sampled wrong triples; lcwa: against all entities as tails."
    )
    negatives: int | None = Field(None, ge=1, description="Wrong triples per right one (slcwa); by default 1.")
    negative_sampler: str | None = Field(
        None, description="How wrong triples are drawn (slcwa): basic (the default) or bernoulli."
    )
    inverse_triples: bool = Field(
        False, description="Also learn (tail, inverse relation, head); heads are then asked for as its tails."
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

    weights: str = Field("bert-base-uncased", description="Name or folder of the encoder to start from.")
    epochs: int = Field(50, ge=0, description="Maximum passes over the training triples.")
    batch_size: int = Field(1024, ge=1, description="Questions per step.")
    clip: float = Field(10.0, gt=0, description="Maximum norm of the gradient.")
    max_tokens: int = Field(
        50, ge=8, description="Maximum tokens of a question, and of an entity.", json_schema_extra=Group.PROMPTS.mark
    )
    pooling: Literal["mean", "cls"] = Field(
        "mean", description="Vector of a text: mean over its tokens, or [CLS].", json_schema_extra=Group.MODEL.mark
    )
    temperature: float = Field(0.05, gt=0, description="Initial temperature; it is learnt.")
    margin: float = Field(0.02, ge=0, description="Additive margin of the right answer.")
    pre_batches: int = Field(2, ge=0, description="Earlier batches whose answers also serve as negatives.")
    pre_batch_weight: float = Field(0.5, ge=0, description="Weight of their logits.")
    self_negatives: bool = Field(True, description="Use the question's own head as a negative, too.")
    neighbour_names: int = Field(
        10,
        ge=0,
        description="Neighbours to name where a description has fewer than 20 words; 0: none.",
        json_schema_extra=Group.PROMPTS.mark,
    )
    rerank_weight: float = Field(
        0.0,
        ge=0,
        description="Added to the scores of entities near the known one; 0: none.",
        json_schema_extra=ASKING | Group.SCORING.mark,
    )
    rerank_hops: int = Field(
        2,
        ge=0,
        description="How many links away an entity still counts as near.",
        json_schema_extra=ASKING | Group.SCORING.mark,
    )


class KnnKge(TextTraining):
    """Zhang et al. 2022."""

    weights: str = Field("bert-base-uncased", description="Name or folder of the masked model to start from.")
    epochs: int = Field(20, ge=0, description="Maximum passes over the training triples.")
    batch_size: int = Field(128, ge=1, description="Questions per step.")
    learning_rate: Rate = Field(3e-5, description="Highest learning rate.")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay, of matrices only.")
    max_tokens: int = Field(
        64, ge=16, description="Maximum tokens of a prompt; longer texts are cut.", json_schema_extra=Group.PROMPTS.mark
    )
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="Share of the probability spread over all entities.")
    entity_epochs: int = Field(
        16,
        ge=0,
        description="Passes over the descriptions in which the entities' rows are learnt first, all else frozen.",
    )
    entity_learning_rate: Rate = Field(1e-4, description="Highest learning rate of these passes.")
    entity_parts: int = Field(
        10, ge=0, description="Random parts of each description read in such a pass besides the whole."
    )
    entity_token: bool = Field(
        False,
        description="Also show the known entity's own token before its text, as the authors' code does.",
        json_schema_extra=Group.PROMPTS.mark,
    )
    knn_weight: float = Field(
        0.2,
        ge=0,
        lt=1,
        description="Weight of the nearest training questions against the model's own prediction; 0 turns them off.",
        json_schema_extra=ASKING | Group.SCORING.mark,
    )
    knn_neighbours: int = Field(
        64,
        ge=1,
        description="How many of the nearest training questions count.",
        json_schema_extra=ASKING | Group.SCORING.mark,
    )
    knn_descriptions: bool = Field(
        False,
        description="Keep what stands at [MASK] before each entity's description as a neighbour, too.",
        json_schema_extra=ASKING | LATER | Group.SCORING.mark,
    )
    knn_temperature: float = Field(
        10.0,
        gt=0,
        description="Divides squared distances before the softmax.",
        json_schema_extra=ASKING | Group.SCORING.mark,
    )


class KgBert(TextTraining):
    """Yao et al. 2019."""

    weights: str = Field("bert-base-cased", description="Name or folder of the encoder to start from.")
    epochs: int = Field(5, ge=0, description="Maximum passes over the training triples.")
    batch_size: int = Field(32, ge=1, description="Triples per step, right and wrong ones.")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay, of matrices only.")
    max_tokens: int = Field(
        50, ge=8, description="Maximum tokens of a triple; longer texts are cut.", json_schema_extra=Group.PROMPTS.mark
    )
    negatives: int = Field(5, ge=1, description="Wrong triples for each right one.")
    validate_on: int | None = Field(
        20, ge=1, description="Validate on this many triples, drawn by --seed: each question reads every entity."
    )


class Generative(TextTraining):
    """Encoder-decoders that write the name of the answer."""

    learning_rate: Rate = Field(1e-4, description="Highest learning rate.")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay, of matrices only.")
    validate_on: int | None = Field(
        200, ge=1, description="Validate on this many triples, drawn by --seed: searching costs more than scoring."
    )
    max_tokens: int = Field(
        128, ge=8, description="Maximum tokens of a question, and of a name.", json_schema_extra=Group.PROMPTS.mark
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="Share of the probability spread over all tokens.")
    full_rank: bool | None = Field(
        None,
        description="Search until the right answer's rank is known, however low; by default in graphs of up to "
        "5,000 entities. Otherwise ranks are known up to 10, or up to as many as are listed.",
        json_schema_extra=ASKING | Group.SCORING.mark,
    )
    beams: int = Field(
        10,
        ge=1,
        description="Without full ranks: prefixes of names kept at each step; more where that proves nothing.",
        json_schema_extra=ASKING | Group.SCORING.mark,
    )
    widest: int = Field(
        640,
        ge=1,
        description="Maximum prefixes kept at a step; beyond, an answer is not proven.",
        json_schema_extra=ASKING | Group.SCORING.mark,
    )


class Kgt5(Generative):
    """Saxena et al. 2022."""

    optimizer: Literal["adafactor", "adamw"] = Field(
        "adafactor",
        description="adafactor: steps relative to the size of each weight, as T5's weights need them; adamw.",
    )
    learning_rate: Rate = Field(
        1e-2,
        description="Highest learning rate; adafactor: as a share of each parameter's root mean square. With adamw "
        "1e-4 by default.",
    )
    epochs: int = Field(40, ge=0, description="Maximum passes over the training triples.")
    batch_size: int = Field(96, ge=1, description="Questions per step.")

    @model_validator(mode="before")
    @classmethod
    def _own_learning_rate(cls, said: Any) -> Any:
        if isinstance(said, dict) and said.get("optimizer") == "adamw":
            return {"learning_rate": 1e-4, **said}
        return said


class GenKgc(Generative):
    """Xie et al. 2022."""

    epochs: int = Field(10, ge=0, description="Maximum passes over the training triples.")
    batch_size: int = Field(64, ge=1, description="Questions per step.")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="Share of the probability spread over all tokens.")
    demonstrations: int = Field(
        2,
        ge=0,
        description="Training triples of the relation shown before a question.",
        json_schema_extra=Group.PROMPTS.mark,
    )
    types: bool = Field(
        False,
        description="Write the answer's type before its name, in graphs that have types (entity2type.txt).",
        json_schema_extra=LATER | Group.PROMPTS.mark,
    )


class Ultra(LinkTraining):
    """Galkin et al. 2024: a graph network with published weights for every graph; nothing is trained."""

    weights: str = Field(
        description="File of published weights, such as ultra_3g.pth.", json_schema_extra=Group.MODEL.mark
    )
    init: Literal["pretrained", "random"] = Field(
        "pretrained",
        description="pretrained: the published weights; random: random ones by --seed.",
        json_schema_extra=Group.MODEL.mark,
    )


class Prompted(ServerOptions, LinkTraining):
    """Xie et al. 2023 (LambdaKG): a language model is shown candidates and training triples; nothing is trained."""

    group: ClassVar = Group.PROMPTS

    weights: str = Field(
        description="Name or folder of a causal language model, or what --server calls it.",
        json_schema_extra=Group.MODEL.mark,
    )
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        "float32", description="Precision of a model loaded here.", json_schema_extra=Group.MODEL.mark
    )
    wording: Literal["lambdakg", "autokg"] = Field(
        "lambdakg",
        description="lambdakg: candidates and the most similar training triples; autokg: a [MASK] to be filled, behind "
        "training triples of the relation, without any search; every entity is then a candidate.",
        json_schema_extra=ASKING | LATER,
    )
    candidates: int = Field(100, ge=10, description="How many entities are shown.", json_schema_extra=ASKING)
    candidates_by: Literal["entities", "triples"] = Field(
        "entities",
        description="What BM25 searches: the entities' texts, or training triples, whose answers are then the "
        "candidates.",
        json_schema_extra=ASKING,
    )
    gold_among_candidates: bool = Field(
        False,
        description="Add the right answer to the candidates where BM25 has not found it; chance is then 10 / 100.",
        json_schema_extra=ASKING,
    )
    demonstrations: int = Field(
        5,
        ge=0,
        description="Training triples shown before a question; with autokg 0 by default.",
        json_schema_extra=ASKING,
    )
    descriptions: bool = Field(
        True, description="Read the entities' descriptions as well as their names.", json_schema_extra=ASKING
    )
    samples: int = Field(
        10,
        ge=1,
        description="Replies requested from a server per question.",
        json_schema_extra=ASKING | Group.SERVER.mark,
    )
    sampling_temperature: float | None = Field(
        0.5,
        ge=0,
        description="Sampling temperature of a server's replies.",
        json_schema_extra=ASKING | Group.SERVER.mark,
    )
    reply_tokens: int = Field(
        200, ge=1, description="Maximum tokens of a server's reply.", json_schema_extra=ASKING | Group.SERVER.mark
    )

    @model_validator(mode="before")
    @classmethod
    def _own_demonstrations(cls, said: Any) -> Any:
        if isinstance(said, dict) and said.get("wording") == "autokg":
            return {"demonstrations": 0, **said}
        return said
