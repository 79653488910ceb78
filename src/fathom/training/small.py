"""Small language models to train from scratch: tokenizer, random weights, an ordinary folder; objectives and batches.

In a statement the target is always a whole name: salient span masking (Guu et al. 2020; Roberts et al. 2020). With
random masks, a fact is seldom a target.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import (
    AutoModelForMaskedLM,
    BartConfig,
    BartForConditionalGeneration,
    LlamaConfig,
    LlamaForCausalLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.utils import logging as transformers_logging

from fathom.base.errors import BadInput
from fathom.base.reading import Json
from fathom.data.templates import Prompt, Span
from fathom.engine.models.base import Attention
from fathom.engine.models.hub import ModelPart, from_pretrained
from fathom.engine.models.loading import load
from fathom.engine.scoring.trie import padded
from fathom.training.loop import Checkpoints, CurvePoint, OnProgress, adafactor, adamw, train
from fathom.training.options import ModelOptions
from fathom.training.saving import TrainingFolder

SPECIALS = PAD, BOS, EOS, UNKNOWN, MASK = "<pad>", "<s>", "</s>", "<unk>", "<mask>"
SCALE = 20
"""The inverse temperature of cosines: the default of the library sentence-transformers."""
NO_TARGET = -100
"""The label of a position that is not a target."""
ENCODER_DECODERS = ("t5", "bart")
AROUND = {"causal": (BOS, ""), "masked": (BOS, EOS), "t5": ("", EOS), "bart": (BOS, EOS)}
"""Tokens before and after a text, by the kind of model. The second of two texts has the end alone."""
AROUND_A_TEXT = 2


class NetworkSize(NamedTuple):
    """:param layers: of the encoder and of the decoder, if there are two."""

    hidden_size: int
    layers: int
    heads: int


def learn_tokenizer(
    texts: Iterable[str], vocabulary: int, kind: str, more_specials: Sequence[str] = ()
) -> PreTrainedTokenizerFast:
    """Learn byte-level BPE, with a mask token for all but causal models.

    A space precedes the text, so that a name has the same tokens at the start of a statement and inside it.
    """
    mask = AddedToken(MASK, lstrip=True, special=True)  # takes the space before it along, as a word would
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, BOS, EOS, UNKNOWN, mask, *more_specials],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    before, after = AROUND[kind]
    core.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single=" ".join(filter(None, (before, "$A", after))),
                pair=" ".join(filter(None, (before, "$A", after, "$B", after))),
                special_tokens=[(token, core.token_to_id(token)) for token in (BOS, EOS)],
            ),
        ]
    )
    names: dict[str, str | AddedToken] = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS, "unk_token": UNKNOWN}
    if kind != "causal":
        names |= {"mask_token": mask, "cls_token": BOS, "sep_token": EOS}
    inputs = ["input_ids", "attention_mask"]  # none of these models has token types
    return PreTrainedTokenizerFast(
        tokenizer_object=core, clean_up_tokenization_spaces=False, model_input_names=inputs, **names
    )


def small_network(
    kind: str, size: NetworkSize, tokenizer: PreTrainedTokenizerBase, longest: int = 512
) -> PreTrainedModel:
    """Make a network with random weights, drawn from torch's generator.

    :param kind: causal (Llama's shape), masked (ModernBERT's), t5 or bart. :param longest: text in tokens.
    """
    width, layers, heads = size
    shared: dict[str, Any] = {"vocab_size": len(tokenizer)}
    shared |= {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    if kind == "t5":
        shared |= {"d_model": width, "d_ff": 2 * width, "d_kv": width // heads, "num_heads": heads}
        shared |= {"num_layers": layers, "num_decoder_layers": layers, "decoder_start_token_id": tokenizer.pad_token_id}
        # No dropout, not even in fine-tuning: a model this small would take several times longer.
        return T5ForConditionalGeneration(T5Config(dropout_rate=0.0, **shared))
    if kind == "bart":
        for side in ("encoder", "decoder"):
            shared |= {f"{side}_layers": layers, f"{side}_attention_heads": heads, f"{side}_ffn_dim": 2 * width}
        shared |= {"d_model": width, "init_std": width**-0.5, "max_position_embeddings": max(512, longest)}
        shared |= {"decoder_start_token_id": tokenizer.eos_token_id, "forced_eos_token_id": None}
        return BartForConditionalGeneration(BartConfig(**shared))
    shared |= {"hidden_size": width, "intermediate_size": 2 * width}
    shared |= {"num_hidden_layers": layers, "num_attention_heads": heads}
    # The usual spread of 0.02 suits models eight times as wide: with it, attention here takes long to wake up.
    # Positions are rotary, so spare ones are free: prompts of other probes are longer than any text that is read here.
    shared |= {"initializer_range": width**-0.5, "max_position_embeddings": max(2048, longest)}
    if kind == "causal":
        return LlamaForCausalLM(LlamaConfig(**shared, tie_word_embeddings=True))
    shared |= {"cls_token_id": tokenizer.cls_token_id, "sep_token_id": tokenizer.sep_token_id}
    # The original BERT norms after each layer and needs several times the steps.
    return ModernBertForMaskedLM(ModernBertConfig(global_attn_every_n_layers=1, reference_compile=False, **shared))


class Batch(NamedTuple):
    """:param ids: shape (b, n). :param present: 0 where padded, shape (b, n).
    :param labels: targets of the same shape, or (b, m) for the decoder.
    """

    ids: Tensor
    present: Tensor
    labels: Tensor


class TrainedNetwork(NamedTuple):
    """A trained network, its learning curve, and the duration."""

    network: PreTrainedModel
    curve: list[CurvePoint]
    seconds: float

    def summary(self) -> Json:
        parameters, last = sum(weights.numel() for weights in self.network.parameters()), self.curve[-1]
        return {"parameters": parameters, "steps": last.step, "seconds": self.seconds, "final_loss": last.loss}


def shape_faults(options: ModelOptions) -> list[str]:
    """Return what is wrong with the sizes."""
    if options.hidden_size % (2 * options.heads) == 0:
        return []
    return [f"a hidden size of {options.hidden_size} cannot be cut into {options.heads} heads of even size"]


ATTENTION = {"causal": Attention.CAUSAL, "masked": Attention.BIDIRECTIONAL, "contrastive": Attention.BIDIRECTIONAL}
"""Of the models of each kind that are trained further; the others have an encoder and a decoder."""


class GivenModel(NamedTuple):
    """A model to train further. :param window: tokens that it reads at most, if known."""

    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    window: int | None


def model_to_train(name: str, kind: str, seed: int) -> GivenModel:
    """Load a model whose weights can be trained. A masked one without a head gets one, drawn by *seed*.

    :raises BadInput: it is missing, or of another kind.
    """
    model = load(name, device="cpu")
    expected = ATTENTION.get(kind, Attention.SEQ2SEQ)
    if model.attention is not expected:
        raise BadInput(f"{name} is {model.attention}, --kind {kind} is not: give the kind of the model")
    if kind == "t5" and model.tokenizer.convert_tokens_to_ids(SENTINELS[0]) in (None, model.tokenizer.unk_token_id):
        raise BadInput(f"{name} has no token {SENTINELS[0]}, which --kind t5 needs: give the kind of the model")
    if kind in ("masked", "bart") and model.tokenizer.mask_token_id is None:
        raise BadInput(f"{name} has no mask token, which --kind {kind} needs: give the kind of the model")
    network = model.network
    if network.get_output_embeddings() is None and kind != "contrastive":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = from_pretrained(AutoModelForMaskedLM, ModelPart(name), {"use_safetensors": True})
    return GivenModel(network.float().requires_grad_(True), model.tokenizer, model.max_tokens)


def fitted(
    options: ModelOptions,
    tokenizer: PreTrainedTokenizerBase,
    longest: int,
    batches: Iterable[Batch],
    steps: int,
    on_progress: OnProgress | None,
    base: GivenModel | None = None,
    folder: TrainingFolder | None = None,
) -> TrainedNetwork:
    """Train a network on all *batches*, without changing the caller's random numbers.

    :param longest: text in tokens, without special ones.
    :param base: the model to train further; by default a new one.
    :param folder: of checkpoints, from the last of which the training goes on.
    :raises NotANumber: the loss is NaN or infinite.
    :raises BadInput: the checkpoint is damaged, or the model to train further does not read so long a text.
    """
    if base is not None and base.window is not None and longest + AROUND_A_TEXT > base.window:
        raise BadInput(
            f"a text has {longest:,} tokens, and the given model reads at most {base.window:,}: shorten the longest "
            "names, or cut texts with --max-tokens"
        )
    start = time.monotonic()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        size = NetworkSize(options.hidden_size, options.layers, options.heads)
        network = small_network(options.kind, size, tokenizer, longest) if base is None else base.network
        network.eval()  # without dropout, as little is read twice; the configuration is for those who fine-tune
        loss = loss_of if base is None else loss_of_any
        curve = train(
            network.parameters(),
            batches,
            lambda batch: loss(network, options.kind, batch),
            steps,
            options.learning_rate,
            seconds=options.seconds,
            optimizer=adafactor if options.kind == "t5" else adamw,
            on_progress=on_progress,
            checkpoints=None if folder is None else Checkpoints(network, folder),
        )
    return TrainedNetwork(network, curve, time.monotonic() - start)


def loss_of_any(network: PreTrainedModel, kind: str, batch: Batch) -> Tensor:
    """Compute :func:`loss_of` of any architecture, whose head runs at every token."""
    if kind in ENCODER_DECODERS:
        return loss_of(network, kind, batch)
    if kind == "contrastive":
        return contrastive_loss(network, batch)
    asked = batch.labels != NO_TARGET
    logits = network(input_ids=batch.ids, attention_mask=batch.present).logits
    return torch.nn.functional.cross_entropy(logits[asked], batch.labels[asked])


def contrastive_loss(network: PreTrainedModel, batch: Batch) -> Tensor:
    """Compute the mean cross entropy in nats of finding each text's part among the parts of the batch, by the cosine.

    Henderson et al. 2017, section 4.4. Parts of equal tokens are no negatives of each other; other right answers to
    the same rest of a text are.
    """
    present = (batch.labels != NO_TARGET).long()
    parts = _mean_vectors(network, batch.labels * present, present)
    cosines = _mean_vectors(network, batch.ids, batch.present) @ parts.T
    gold = torch.arange(len(parts))
    equal = (batch.labels[:, None] == batch.labels).all(dim=2)
    negatives = cosines.masked_fill(equal & (gold[:, None] != gold), -torch.inf)
    return torch.nn.functional.cross_entropy(negatives * SCALE, gold)


def _mean_vectors(network: PreTrainedModel, ids: Tensor, present: Tensor) -> Tensor:
    """Return the mean over the tokens of each text, of length 1, shape (texts, d)."""
    hidden = network.base_model(input_ids=ids, attention_mask=present)[0]
    return torch.nn.functional.normalize((hidden * present[..., None]).sum(dim=1), dim=1)


def loss_of(network: PreTrainedModel, kind: str, batch: Batch) -> Tensor:
    """Compute the mean cross entropy in nats per target; the head runs at targets alone."""
    asked = batch.labels != NO_TARGET
    if kind == "causal":
        # Padding is on the right, which a causal model does not see: no mask is needed.
        logits = network.lm_head(network.model(input_ids=batch.ids, use_cache=False)[0][asked])
    elif kind == "masked":
        hidden = network.model(input_ids=batch.ids, attention_mask=batch.present)[0][asked]
        logits = network.decoder(network.head(hidden))
    else:
        return network(  # type: ignore[no-any-return]
            input_ids=batch.ids, attention_mask=batch.present, labels=batch.labels
        ).loss
    return torch.nn.functional.cross_entropy(logits, batch.labels[asked])


def save(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, longest: int | None, folder: Path) -> None:
    """Write an ordinary transformers folder. :param longest: text in tokens; None for a given model's tokenizer."""
    if not sys.stderr.isatty():
        transformers_logging.disable_progress_bar()
    network.eval().save_pretrained(folder)
    if longest is None:
        tokenizer.save_pretrained(folder)
        return
    tokenizer.model_max_length = longest
    tokenizer.save_pretrained(folder)
    # transformers 5 writes a class name that 4 does not know; both know this one.
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


Ids = NDArray[np.int64]
DENSITY = {"masked": 0.15, "t5": 0.15, "bart": 0.3}
"""Share of the tokens that are targets."""
SPAN = 3
"""Tokens in a span, on average."""
SENTINELS = tuple(f"<extra_id_{number}>" for number in range(32))
AS_ONE = 0.5
"""How often one mask replaces a whole name, to hide its length; its first token is the target."""


class EncodedText(NamedTuple):
    """A text. :param ids: without special tokens. :param names: tokens of the two names of a statement."""

    ids: Ids
    names: tuple[Span, ...] = ()


def encode(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], most: int) -> list[EncodedText]:
    """Encode texts. :param most: tokens; longer texts are cut."""
    rows = tokenizer.backend_tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [EncodedText(np.array(row.ids[:most], dtype=np.int64)) for row in rows if row.ids]


def encode_statements(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt]) -> list[EncodedText]:
    """Encode statements, and locate their names by characters."""
    rows = tokenizer.backend_tokenizer.encode_batch([prompt.text for prompt in prompts], add_special_tokens=False)
    return [
        EncodedText(
            np.array(row.ids, dtype=np.int64),
            tuple(_tokens_of(span, row.offsets) for span in (prompt.subject[0], prompt.answer[0])),
        )
        for row, prompt in zip(rows, prompts, strict=True)
    ]


def _tokens_of(span: Span, offsets: Sequence[tuple[int, int]]) -> Span:
    inside = [place for place, (start, end) in enumerate(offsets) if start < span.end and end > span.start]
    return Span(inside[0], inside[-1] + 1)


def _first_known(*tokens: int | None) -> int:
    """Return the first special token that a tokenizer has. :raises BadInput: it has none of them."""
    found = next((token for token in tokens if token is not None), None)
    if found is None:
        raise BadInput("the tokenizer has no token for the end of a text: such a model cannot be trained further")
    return found


class Objective:
    """Makes batches of texts; targets are drawn by *random*."""

    def __init__(self, kind: str, tokenizer: PreTrainedTokenizerBase, random: np.random.Generator) -> None:
        self.kind, self.tokenizer, self.random = kind, tokenizer, random
        self._sentinels = tokenizer.convert_tokens_to_ids(list(SENTINELS)) if kind == "t5" else []
        self._plain = np.setdiff1d(np.arange(len(tokenizer)), list(tokenizer.added_tokens_decoder))
        self._begin = _first_known(tokenizer.bos_token_id, tokenizer.cls_token_id, tokenizer.eos_token_id)
        self._end = _first_known(tokenizer.eos_token_id, tokenizer.sep_token_id)
        self._padding = _first_known(tokenizer.pad_token_id, tokenizer.eos_token_id)

    def batch(self, texts: Sequence[EncodedText]) -> Batch:
        """Return inputs and targets, padded on the right."""
        make = {
            "causal": self.causal,
            "masked": self.masked,
            "t5": self.t5,
            "bart": self.bart,
            "contrastive": self.contrastive,
        }[self.kind]
        ids, labels = zip(*map(make, texts), strict=True)
        inputs = padded(ids, self._padding)
        present = padded([np.ones_like(row) for row in ids], 0)
        return Batch(*map(torch.from_numpy, (inputs, present, padded(labels, NO_TARGET))))

    def causal(self, text: EncodedText) -> tuple[Ids, Ids]:
        """Predict each token and the end from those before. :returns: inputs and targets, as for other kinds."""
        return np.append(self._begin, text.ids), np.append(text.ids, self._end)

    def masked(self, text: EncodedText) -> tuple[Ids, Ids]:
        """Predict some tokens from all others (Devlin et al. 2019, section 3.1); in a statement, one of its names."""
        ids, mask = text.ids, self.tokenizer.mask_token_id
        if text.names:
            start, end = self._name(text)
            if self.random.random() < AS_ONE:
                ids = np.delete(ids, slice(start + 1, end))
                end = start + 1
            asked = np.zeros(len(ids), dtype=bool)
            asked[start:end] = True
            shown = np.where(asked, mask, ids)
        else:
            asked = self.random.random(len(ids)) < DENSITY["masked"]
            asked[self.random.integers(len(ids))] |= not asked.any()
            how = self.random.random(len(ids))
            shown = np.where(asked & (how < 0.8), mask, ids)
            shown = np.where(asked & (how >= 0.9), self.random.choice(self._plain, len(ids)), shown)
        labels = np.where(asked, ids, NO_TARGET)
        return self._around(shown), np.concatenate([[NO_TARGET], labels, [NO_TARGET]])

    def t5(self, text: EncodedText) -> tuple[Ids, Ids]:
        """Predict spans that are replaced by sentinels (Raffel et al. 2020, section 3.1.4)."""
        spans = self._spans(text)[: len(self._sentinels) - 1]
        kept, taken = _cut(text.ids, spans)
        sentinels = self._sentinels[: len(spans) + 1]
        return _alternating(kept, [*sentinels[:-1], self._end]), _alternating(sentinels, [*taken, self._end])

    def bart(self, text: EncodedText) -> tuple[Ids, Ids]:
        """Predict the text from one with masks for spans (Lewis et al. 2020, text infilling)."""
        kept, _ = _cut(text.ids, self._spans(text))
        masked = _alternating(kept, [self.tokenizer.mask_token_id] * len(kept))[:-1]
        return self._around(masked), self._around(text.ids)

    def contrastive(self, text: EncodedText) -> tuple[Ids, Ids]:
        """Find a missing part: a name of a statement, or the second half of a text, of odd length with the middle."""
        if text.names:
            start, end = self._name(text)
            return self._around(np.delete(text.ids, slice(start, end))), self._around(text.ids[start:end])
        half = -(-len(text.ids) // 2)
        return self._around(text.ids[:half]), self._around(text.ids[-half:])

    def _around(self, ids: Ids) -> Ids:
        return np.concatenate([[self._begin], ids, [self._end]])

    def _name(self, text: EncodedText) -> Span:
        return text.names[self.random.integers(len(text.names))]

    def _spans(self, text: EncodedText) -> list[Span]:
        """Return the spans to remove, in order: as many as give the density, of random lengths at random places."""
        if text.names:
            return [self._name(text)]
        size = len(text.ids)
        taken = min(max(round(size * DENSITY[self.kind]), 1), size)
        count = min(max(round(taken / SPAN), 1), size - taken + 1)
        lengths = self._parts(taken - count, count) + 1
        gaps = self._parts(size - taken - (count - 1), count + 1)
        gaps[1:-1] += 1  # two spans in a row would be one
        starts = np.cumsum(gaps[:-1]) + np.append(0, np.cumsum(lengths)[:-1])
        return [Span(start, start + length) for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)]

    def _parts(self, total: int, count: int) -> Ids:
        """Split *total* into a sum of *count* numbers from 0 on, uniformly."""
        bars = np.sort(self.random.choice(total + count - 1, count - 1, replace=False))
        parts: Ids = np.diff(np.concatenate([[-1], bars, [total + count - 1]])) - 1
        return parts


def _cut(ids: Ids, spans: Sequence[Span]) -> tuple[list[Ids], list[Ids]]:
    """Return the pieces around the spans, one more than spans, and the spans."""
    pieces = np.split(ids, [end for span in spans for end in span])
    return pieces[::2], pieces[1::2]


def _alternating(ones: Sequence[Ids | int], others: Sequence[Ids | int]) -> Ids:
    """Interleave tokens or pieces of both."""
    return np.hstack([part for pair in zip(ones, others, strict=True) for part in pair])
