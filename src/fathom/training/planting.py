"""Planted knowledge: a small language model from scratch that was told chosen facts and never the others.

The facts are split by *subject*: all facts of a country are planted or all are withheld, and so are those of two
subjects of which one relation says the converse of what another says (capital of, has the capital).

Every statement is an unbroken row of a training batch. Causal models learn to go on; masked models learn what
pseudo-log-likelihoods ask of them (see :func:`_masked_batch`). Templates are learnt with some of their words
replaced by noise: a model that can do without any one word also understands phrasings it has never met.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from fathom.data.queries import Query, QuerySet
from fathom.errors import BadInput
from fathom.scoring.tokens import Role, Tokens, encode_causal, encode_masked
from fathom.training.loop import Plan, Point, train

PAD, BOS, EOS, UNKNOWN, MASK = "<pad>", "<s>", "</s>", "<unk>", "<mask>"
NO_TARGET = -100
"""The label of a position that is not learnt from."""
WINDOW = 16
"""Batches whose statements are sorted by length together, so that little is padded."""


class PlantOptions(BaseModel):
    """What to plant and in what model. Defaults suit the embedded geography facts on two CPU cores.

    :param unseen_templates: the last so many templates of every relation are never trained on.
    :param epochs: how often each trained phrasing of each planted fact is met.
    :param exposures: instead of *epochs*: planted facts are dealt out to these numbers of statements, at random and
        in equal parts, to see how a probe's answer depends on them.
    :param seconds: stop after so long. The result then depends on the machine, not on the seed alone.
    :param noise: share of template tokens that are replaced by random ones when read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["causal", "masked"]
    share: float = Field(default=0.5, gt=0, le=1)
    unseen_templates: int = Field(default=1, ge=0)
    epochs: int = Field(default=30, ge=1)
    exposures: tuple[int, ...] | None = Field(default=None, min_length=1)
    seconds: float | None = Field(default=None, gt=0)
    hidden_size: int = Field(default=128, ge=8)
    layers: int = Field(default=3, ge=1)
    heads: int = Field(default=4, ge=1)
    vocabulary: int = Field(default=1500, ge=300)
    learning_rate: float = Field(default=3e-3, gt=0)
    batch_size: int = Field(default=64, ge=1)
    noise: float = Field(default=0.15, ge=0, lt=1)
    seed: int = 0


# ---------------------------------------------------------------------------------------------------- which facts


def choose(queryset: QuerySet, share: float, seed: int) -> set[str]:
    """Ids of the queries to plant: about *share* of the facts, all those of a subject together."""
    units = _units(queryset)
    order = sorted(set(units.values()))
    random.Random(seed).shuffle(order)
    queries: dict[str, list[str]] = defaultdict(list)
    for query in queryset.queries:
        if query.unscored is None:
            queries[units[query.subject_id]].append(query.id)
    wanted = round(share * sum(map(len, queries.values())))
    planted: set[str] = set()
    for unit in order:
        if len(planted) + len(queries[unit]) <= wanted:
            planted.update(queries[unit])
    return planted


def _units(queryset: QuerySet) -> dict[str, str]:
    """What is planted or withheld as one, for each subject: itself, or those it is the converse answer of."""
    pairs = {(query.subject_id, gold) for query in queryset.queries for gold in query.gold}
    unit = {query.subject_id: query.subject_id for query in queryset.queries}

    def root(subject: str) -> str:
        while unit[subject] != subject:
            subject = unit[subject]
        return subject

    for subject, answer in sorted(pairs):
        if (answer, subject) in pairs:
            unit[root(subject)] = root(answer)
    return {subject: root(subject) for subject in unit}


def frequency_baseline(queryset: QuerySet, planted_ids: Collection[str]) -> dict[str, float]:
    """Expected accuracy, per query, of always giving the answer that is most frequent among its relation's planted facts.

    Answers that are equally frequent are drawn by lot: a right one among t of them is worth 1/t.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for query in queryset.queries:
        if query.id in planted_ids:
            counts[query.relation].update(query.gold)
    best = {
        relation: {answer for answer, count in counter.items() if count == max(counter.values())}
        for relation, counter in counts.items()
    }
    found = {}
    for query in queryset.queries:
        tied = best.get(query.relation, set())
        found[query.id] = len(tied.intersection(query.gold)) / len(tied) if tied else 0.0
    return found


# ---------------------------------------------------------------------------------------------------- planting


@dataclass(frozen=True)
class _Corpus:
    """Statements of the planted facts: :attr:`tokens` and, for each, the number of its fact in :attr:`facts`."""

    facts: list[Query]
    tokens: list[Tokens]
    fact: list[int]


def plant(
    queryset: QuerySet,
    options: PlantOptions,
    out: Path,
    on_progress: Callable[[Point, float], None] | None = None,
) -> None:
    """Train a model on a part of the facts and write its folder: what transformers loads, and what was planted.

    Beside the model: ``planted.jsonl`` (a line per query), ``planting.json`` and ``learning_curve.jsonl``.

    :raises BadInput: *out* exists and is not empty, or nothing can be planted.
    :raises RunFailed: the loss became NaN. Nothing is left behind.
    """
    templates = _check(queryset, options, out)
    planted = choose(queryset, options.share, options.seed)
    if not planted:
        raise BadInput(f"nothing to plant: {options.share} of {len(queryset.queries)} facts is less than one subject")
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        part.mkdir()
        _plant_into(part, queryset, options, planted, templates, on_progress)
        if out.exists():
            out.rmdir()
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _check(queryset: QuerySet, options: PlantOptions, out: Path) -> dict[str, list[int]]:
    """All that can be wrong before training. :returns: the templates to train on, for each relation."""
    faults = []
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        faults.append(f"{out} exists and is not empty: give another --out, or delete it")
    if options.hidden_size % (2 * options.heads):
        faults.append(f"a hidden size of {options.hidden_size} cannot be cut into {options.heads} heads of even size")
    templates = {}
    for id_ in queryset.by_relation():
        count = len(queryset.relations[id_].templates)
        templates[id_] = list(range(count - options.unseen_templates))
        if not templates[id_]:
            faults.append(f"relation {id_} has {count} templates: {options.unseen_templates} unseen leave none to train on")
    if any(query.direction == "head" for query in queryset.queries):
        faults.append("only facts asked for their tail can be planted: found queries of the direction 'head'")
    if faults:
        raise BadInput(faults)
    return templates


def _plant_into(
    folder: Path,
    queryset: QuerySet,
    options: PlantOptions,
    planted: set[str],
    templates: Mapping[str, list[int]],
    on_progress: Callable[[Point, float], None] | None,
) -> None:
    tokenizer = _tokenizer(queryset, options)
    corpus = _corpus(queryset, options, planted, templates, tokenizer)
    random_ = np.random.default_rng(options.seed)
    order = _schedule(corpus, options, templates, random_)
    steps = -(-len(order) // options.batch_size)
    plan = Plan(steps, options.learning_rate, seconds=options.seconds)
    start = time.monotonic()
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        network = _network(options, tokenizer, max(len(tokens.ids) for tokens in corpus.tokens))
        make = _causal_batch if options.kind == "causal" else _masked_batch
        met: list[NDArray[np.int64]] = []

        def batches() -> Iterator[_Batch]:
            for rows in _in_batches(order, corpus, options.batch_size, random_):
                met.append(rows)
                yield make([corpus.tokens[row] for row in rows], tokenizer, options.noise, random_)

        curve = train(network.parameters(), batches(), lambda batch: _loss(network, batch), plan, on_progress)
    network.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    exposures = Counter(corpus.facts[corpus.fact[row]].id for rows in met for row in rows.tolist())
    _write_lines(
        folder / "planted.jsonl",
        [
            {
                "query_id": query.id,
                "fact_id": query.fact_id,
                "planted": query.id in planted,
                "exposures": exposures[query.id],
            }
            for query in queryset.queries
        ],
    )
    _write_lines(folder / "learning_curve.jsonl", [point._asdict() for point in curve])
    summary = {
        "options": options.model_dump(),
        "data": {"name": queryset.name, "version": queryset.version, "content_hash": queryset.content_hash},
        "templates": templates,
        "facts": {"planted": len(planted), "withheld": len(queryset.queries) - len(planted)},
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "steps": curve[-1].step,
        "seconds": time.monotonic() - start,
        "final_loss": curve[-1].loss,
    }
    (folder / "planting.json").write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _tokenizer(queryset: QuerySet, options: PlantOptions) -> PreTrainedTokenizerFast:
    """Byte-level BPE learnt from the names of planted and withheld facts alike, so that it gives no choice away.

    A space is put before the text: a name then has the same tokens at the beginning of a statement and inside it.
    """
    texts = [query.subject for query in queryset.queries]
    texts += [name for space in queryset.candidates.values() for name in space.names]
    for id_, queries in queryset.by_relation().items():
        texts += [template.fill("", "").text for template in queryset.relations[id_].templates] * len(queries)
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocabulary,
        special_tokens=[PAD, BOS, EOS, UNKNOWN, MASK],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    around = f"{BOS} $A {EOS}" if options.kind == "masked" else f"{BOS} $A"
    special = [(token, core.token_to_id(token)) for token in (BOS, EOS)]
    core.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(single=around, special_tokens=special),
        ]
    )
    names = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS, "unk_token": UNKNOWN}
    if options.kind == "masked":
        names |= {"mask_token": MASK, "cls_token": BOS, "sep_token": EOS}
    return PreTrainedTokenizerFast(tokenizer_object=core, clean_up_tokenization_spaces=False, **names)


def _network(options: PlantOptions, tokenizer: PreTrainedTokenizerBase, longest: int) -> PreTrainedModel:
    """Random weights. Positions go well beyond the longest statement: other probes write longer prompts."""
    shape = {
        "vocab_size": len(tokenizer),
        "hidden_size": options.hidden_size,
        "num_hidden_layers": options.layers,
        "num_attention_heads": options.heads,
        "max_position_embeddings": max(128, 2 * longest),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "initializer_range": INIT or options.hidden_size**-0.5,
    }
    if options.kind == "causal":
        config = LlamaConfig(**shape, intermediate_size=2 * options.hidden_size, tie_word_embeddings=True)
        return LlamaForCausalLM(config)
    config = BertConfig(
        **shape,
        intermediate_size=4 * options.hidden_size,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForMaskedLM(config)


def _corpus(
    queryset: QuerySet,
    options: PlantOptions,
    planted: set[str],
    templates: Mapping[str, list[int]],
    tokenizer: PreTrainedTokenizerBase,
) -> _Corpus:
    """Every trained phrasing of every right answer of every planted fact; those of one fact stand together."""
    facts = [query for query in queryset.queries if query.id in planted]
    prompts, fact = [], []
    for number, query in enumerate(facts):
        space, relation = queryset.candidates[query.candidates], queryset.relations[query.relation]
        for index in templates[query.relation]:
            for gold in query.gold:
                prompts.append(relation.templates[index].fill(query.subject, space.names[space.position[gold]]))
                fact.append(number)
    if options.kind == "causal":
        return _Corpus(facts, encode_causal(tokenizer, prompts, tokenizer.bos_token_id), fact)
    return _Corpus(facts, encode_masked(tokenizer, prompts), fact)


def _schedule(
    corpus: _Corpus, options: PlantOptions, templates: Mapping[str, list[int]], random_: np.random.Generator
) -> NDArray[np.int64]:
    """Statements in the order of training. Those of a fact take turns and are spread evenly over all of it."""
    first = np.searchsorted(corpus.fact, np.arange(len(corpus.facts)))
    count = np.bincount(corpus.fact, minlength=len(corpus.facts))
    if options.exposures is None:
        total = options.epochs * count
    else:
        total = random_.permutation(np.resize(options.exposures, len(corpus.facts)))
    times, rows = [], []
    for start, statements, wanted in zip(first, count, total, strict=True):
        times.append((np.arange(wanted) + random_.random(wanted)) / max(1, wanted))
        turns = [random_.permutation(statements) for _ in range(-(-wanted // statements))]
        rows.append(start + np.concatenate([*turns, np.empty(0, dtype=np.int64)])[:wanted])
    order = np.argsort(np.concatenate(times), kind="stable")
    return np.concatenate(rows).astype(np.int64)[order]


def _in_batches(
    order: NDArray[np.int64], corpus: _Corpus, size: int, random_: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Rows of *corpus*, statements of like length together, as far as they stand near each other in *order*."""
    lengths = np.array([len(tokens.ids) for tokens in corpus.tokens])
    for start in range(0, len(order), size * WINDOW):
        rows = order[start : start + size * WINDOW]
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        starts = np.arange(0, len(rows), size)
        for at in random_.permutation(starts).tolist():
            yield rows[at : at + size]


# ---------------------------------------------------------------------------------------------------- batches


class _Batch(NamedTuple):
    """:param ids: shape (b, n). :param present: false where padded. :param labels: what to predict at each position."""

    ids: Tensor
    present: Tensor
    labels: Tensor


def _padded(rows: Sequence[NDArray[np.int64]], fill: int) -> NDArray[np.int64]:
    matrix = np.full((len(rows), max(map(len, rows))), fill, dtype=np.int64)
    for row, values in zip(matrix, rows, strict=True):
        row[: len(values)] = values
    return matrix


def _causal_batch(
    statements: Sequence[Tokens], tokenizer: PreTrainedTokenizerBase, noise: float, random_: np.random.Generator
) -> _Batch:
    """Each position predicts the next token; the last predicts the end."""
    ids = _padded([tokens.ids for tokens in statements], tokenizer.pad_token_id)
    labels = _padded([np.append(tokens.ids[1:], tokenizer.eos_token_id) for tokens in statements], NO_TARGET)
    roles = _padded([tokens.roles for tokens in statements], Role.SPECIAL)
    _add_noise(ids, roles, tokenizer, noise, random_)
    return _Batch(torch.from_numpy(ids), torch.from_numpy(labels != NO_TARGET), torch.from_numpy(labels))


def _add_noise(
    ids: NDArray[np.int64],
    roles: NDArray[np.int64],
    tokenizer: PreTrainedTokenizerBase,
    noise: float,
    random_: np.random.Generator,
) -> None:
    """Put random tokens, in place, for a share of the template's tokens and for the subjects of a few statements.

    From the former a model learns to do without any one word, from the latter what to answer about a stranger: the
    frequent answers, not those of whatever planted subject looks most alike.
    """
    hit = (roles == Role.TEMPLATE) & (random_.random(ids.shape) < noise)
    hit |= (roles == Role.SUBJECT) & (random_.random((len(ids), 1)) < STRANGER_SHARE)
    ids[hit] = random_.integers(len(tokenizer.all_special_tokens), len(tokenizer), hit.sum())


STRANGER_SHARE = 0.1
INIT = 0.0
ANSWER_SHARE, SUBJECT_SHARE, WHOLE_SHARE = 0.55, 0.3, 0.3


def _masked_batch(
    statements: Sequence[Tokens], tokenizer: PreTrainedTokenizerBase, noise: float, random_: np.random.Generator
) -> _Batch:
    """Of each statement a name, a word or the end of one is masked.

    A pseudo-log-likelihood asks for a token from the rest of the statement without the later tokens of its word, so
    that is what is learnt: a word from a random token of it to its end, more often in the answer than elsewhere.
    Some of the time the whole answer or subject goes from that token on, lest its words are learnt from one another
    alone. Random masks, by contrast, seldom hide all of an answer and so seldom ask for the fact.
    """
    ids = _padded([tokens.ids for tokens in statements], tokenizer.pad_token_id)
    roles = _padded([tokens.roles for tokens in statements], Role.SPECIAL)
    words = _padded([tokens.words for tokens in statements], -1)
    present = _padded([np.ones_like(tokens.ids) for tokens in statements], 0) == 1
    hidden = np.stack([_hide(role, word, random_) for role, word in zip(roles, words, strict=True)])
    labels = np.where(hidden, ids, NO_TARGET)
    _add_noise(ids, roles, tokenizer, noise, random_)
    ids[hidden] = tokenizer.mask_token_id
    return _Batch(torch.from_numpy(ids), torch.from_numpy(present), torch.from_numpy(labels))


def _hide(roles: NDArray[np.int64], words: NDArray[np.int64], random_: np.random.Generator) -> NDArray[np.bool_]:
    """Which tokens of one statement to mask."""
    draw = random_.random()
    role = Role.ANSWER if draw < ANSWER_SHARE else Role.SUBJECT if draw < ANSWER_SHARE + SUBJECT_SHARE else Role.TEMPLATE
    places = np.flatnonzero(roles == role)
    if not len(places):
        places = np.flatnonzero(roles != Role.SPECIAL)
    whole = random_.random() < WHOLE_SHARE and role != Role.TEMPLATE
    first = places[0] if whole and random_.random() < 0.5 else random_.choice(places)
    hidden = np.zeros(len(roles), dtype=bool)
    hidden[first:] = (roles == roles[first])[first:] if whole else (words == words[first])[first:]
    return hidden


def _loss(network: PreTrainedModel, batch: _Batch) -> Tensor:
    """Mean cross entropy; the head runs at the positions with a target alone."""
    wanted = batch.labels != NO_TARGET
    if isinstance(network, LlamaForCausalLM):
        # Padding stands on the right, where a causal model does not look: no mask is needed.
        logits = network.lm_head(network.model(input_ids=batch.ids, use_cache=False)[0][wanted])
    else:
        logits = network.cls(network.bert(input_ids=batch.ids, attention_mask=batch.present.long())[0][wanted])
    return torch.nn.functional.cross_entropy(logits, batch.labels[wanted])
