"""Planted knowledge: a small language model trained from scratch on chosen facts and never on the others.

The facts are split by *subject*: all facts of a country are planted or all are withheld. Subjects linked by a relation
and its converse (capital of, has the capital) stay together. Sentences without a known subject are split by document.

Each statement is a separate row. Causal models learn to continue it, masked models what pseudo-log-likelihoods query
(:meth:`_Statements.masked`). Two kinds of noise make the model behave like one that knows some facts. Replaced
template words teach it unknown phrasings. Replaced subjects teach it to give the frequent answer for unknown subjects,
instead of that of the most similar planted subject.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf, isnan
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from fathom.data.queries import Query, QuerySet
from fathom.data.selection.readings import apply_reading, reading_faults
from fathom.data.templates import ANSWER, Prompt, Template
from fathom.errors import BadInput, refuse
from fathom.progress import shown
from fathom.reading import shown as quoted
from fathom.results.bins import OF_NUMBERS, parse_number
from fathom.scoring.tokens import Role, Tokens, encode_causal, encode_masked
from fathom.store.files import write_json, write_json_lines
from fathom.store.outputs import obstacles, signature_of, whole_folder
from fathom.training.loop import OnProgress
from fathom.training.options import PlantOptions
from fathom.training.small import NO_TARGET, SPECIALS, Batch, fitted, learn_tokenizer, padded, save, shape_faults

WINDOW = 16
"""Batches whose statements are sorted by length together, to limit padding."""
STRANGERS = 0.1
"""Statements with a random subject, as a share of those that plant a fact."""
ANSWER_SHARE, TEMPLATE_SHARE = 0.65, 0.15
"""How often the answer is masked, otherwise the subject; and how often each token of the template."""
WHOLE_SHARE = 0.3
"""How often a mask extends to the end of the name, rather than of the word."""
OTHERS, ASKED = "other sentences", "the asked sentence"


def choose(
    queryset: QuerySet,
    share: float,
    seed: int,
    highest: str | None = None,
    usable: Collection[str] | None = None,
) -> set[str]:
    """Choose the queries to plant, by id: about *share* of the facts, all those of a subject together.

    Otherwise a withheld fact could be inferred from planted ones of its subject (the continent from the language).

    :param highest: group of numbers, the highest of which are planted, subjects by their highest; by default at random.
    :param usable: of sentences: ids of the queries that can be planted; None for all. Queries without a known subject
        are then split by document.
    :raises BadInput: a query has no number in *highest*.
    """
    unit_of = _units(queryset)
    units = {
        query.id: _own_unit(query) if usable is not None and not query.subject_id else unit_of[query.subject_id]
        for query in queryset.queries
    }
    order = sorted(set(units.values()))
    random.Random(seed).shuffle(order)
    if highest is not None:
        order.sort(key=_numbers(queryset, units, highest).__getitem__, reverse=True)
    queries: dict[str, list[str]] = defaultdict(list)
    for query in queryset.queries:
        if query.unscored is None and (usable is None or query.id in usable):
            queries[units[query.id]].append(query.id)
    wanted = round(share * sum(map(len, queries.values())))
    planted: set[str] = set()
    for unit in order:
        if len(planted) + len(queries[unit]) <= wanted:
            planted.update(queries[unit])
    return planted


def _numbers(queryset: QuerySet, units: Mapping[str, str], group: str) -> dict[str, float]:
    """Return the highest number of each unit, −inf if unknown. :param units: of each query, by its id."""
    groups = dict.fromkeys(key for query in queryset.queries for key in query.groups)
    key = OF_NUMBERS[group] if OF_NUMBERS.get(group) in groups else group
    highest: dict[str, float] = {}
    for query in queryset.queries:
        number = parse_number(query.groups[key]) if key in query.groups else None
        if number is None:
            text = quoted(query.groups[key]) if key in query.groups else "none"
            raise BadInput(
                f"--highest {group}: expected a number for every fact, found {text} for {query.id}; its groups are "
                f"{', '.join(groups) or 'none'}"
            )
        unit, value = units[query.id], -inf if isnan(number) else number
        highest[unit] = max(value, highest.get(unit, -inf))
    return highest


def _units(queryset: QuerySet) -> dict[str, str]:
    """Return, for each subject, the representative of those that must be split together with it."""
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


def _own_unit(query: Query) -> str:
    """Return the unit of a sentence without a known subject: its document, else itself."""
    return f"document {query.groups['document']}" if "document" in query.groups else f"query {query.id}"


def frequency_baseline(queryset: QuerySet, planted_ids: Collection[str]) -> dict[str, float]:
    """Compute the expected accuracy, per query, of the most frequent answer among the relation's planted facts.

    Equally frequent answers are drawn at random: a gold answer among t of them is worth 1/t.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for query in queryset.queries:
        if query.id in planted_ids:
            counts[query.relation].update(query.gold)
    best = {
        relation: {answer for answer, count in counter.items() if count == max(counter.values())}
        for relation, counter in counts.items()
    }
    accuracies = {}
    for query in queryset.queries:
        tied = best.get(query.relation, set())
        accuracies[query.id] = len(tied.intersection(query.gold)) / len(tied) if tied else 0.0
    return accuracies


class PlantedTexts(NamedTuple):
    """:param prompts: of each query, by id; none if it cannot be planted.
    :param held_out: number of texts that are kept for queries.
    :param templates: those to train on, by relation; none with sentences.
    :param kind: "templates", or which sentences.
    """

    prompts: Mapping[str, Sequence[Prompt]]
    held_out: int
    templates: Mapping[str, list[int]]
    kind: str


def in_templates(queryset: QuerySet, templates: Mapping[str, list[int]]) -> PlantedTexts:
    """Fill the trained templates of each fact with each gold answer. :param templates: by relation."""
    prompts = {
        query.id: [
            queryset.relations[query.relation]
            .templates[index]
            .fill(query.subject, queryset.candidates[query.candidates].name_of(gold))
            for index in templates[query.relation]
            for gold in query.gold
        ]
        for query in queryset.queries
    }
    return PlantedTexts(prompts, 0, templates, "templates")


def in_sentences(queryset: QuerySet) -> PlantedTexts:
    """Restore the masked words of natural sentences, other than those of queries if any fact has such.

    A query with ``--reading template-free`` uses the first sentence that masks the answer's own name. So the model has
    read other sentences about the same facts, like models trained on an encyclopedia. If the data have one sentence per
    fact, as from ``fathom build cloze``, a probe distinguishes sentences that were read from those that were not.
    """
    asked = apply_reading(queryset, "template-free")
    first = {query.id: _filled(queryset, query) for query in asked.queries if query.unscored is None}
    prompts = {query.id: _filled(queryset, query) for query in queryset.queries}
    held_out = {prompt.text for own in first.values() for prompt in own}
    others = {id_: [prompt for prompt in own if prompt.text not in held_out] for id_, own in prompts.items()}
    if any(others.values()):
        return PlantedTexts(others, len(held_out), {}, OTHERS)
    return PlantedTexts({id_: first.get(id_, []) for id_ in prompts}, 0, {}, ASKED)


def _filled(queryset: QuerySet, query: Query) -> list[Prompt]:
    """Return each distinct sentence; with each gold answer if its original words are unknown."""
    space = queryset.candidates[query.candidates]
    texts = [
        Template(sentence.text, natural=True).fill(query.subject, words)
        for sentence in query.sentences
        for words in ([sentence.surface] if sentence.surface else [space.name_of(gold) for gold in query.gold])
    ]
    return list(dict.fromkeys(texts))


def plant(
    queryset: QuerySet,
    options: PlantOptions,
    out: Path,
    on_progress: OnProgress | None = None,
) -> None:
    """Train a model on a part of the facts and write its folder: the model, and which facts were planted.

    The folder also holds ``planted.jsonl`` (a line per query), ``planting.json`` and ``learning_curve.jsonl``.

    :param on_progress: called with each point of the learning curve, instead of a progress bar.
    :raises BadInput: *out* exists and is not empty, or nothing can be planted.
    :raises MadeBefore: the same call has made *out*.
    :raises RunFailed: the loss became NaN. Nothing is written.
    """
    out = out.absolute()
    signature = signature_of("plant", options.model_dump(mode="json"), data=queryset.content_hash)
    texts = _texts(queryset, options, obstacles(out, signature))
    usable = {id_ for id_, prompts in texts.prompts.items() if prompts} if options.reading == "template-free" else None
    planted = choose(queryset, options.share, options.seed, options.highest, usable)
    if not planted:
        raise BadInput(f"nothing to plant: {options.share} of {len(queryset.queries)} facts is less than one subject")
    shows = shown(f"planting a {options.kind} model", None if on_progress is None else False)
    with whole_folder(out, signature) as folder, shows as report:
        report_share = on_progress or (lambda _, share: report(round(100 * share), 100))
        _plant_into(folder, queryset, options, planted, texts, report_share)


def _texts(queryset: QuerySet, options: PlantOptions, faults: list[str]) -> PlantedTexts:
    if options.reading == "template-based":
        return in_templates(queryset, _check(queryset, options, faults))
    if options.unseen_templates != PlantOptions.model_fields["unseen_templates"].default:
        faults.append("--unseen-templates: --reading template-free uses no templates: remove one of the two")
    refuse([*faults, *shape_faults(options), *reading_faults(queryset, options.reading)])
    return in_sentences(queryset)


def _check(queryset: QuerySet, options: PlantOptions, faults: list[str]) -> dict[str, list[int]]:
    """Check everything before training. :returns: the templates to train on, for each relation."""
    faults += shape_faults(options)
    counts = {id_: len(queryset.relations[id_].templates) for id_ in queryset.by_relation()}
    if not any(counts.values()):
        faults.append(
            f"no relation of {queryset.name} has a template, and facts are planted in sentences: write templates.jsonl "
            'into its folder, a line {"relation": "…", "template": "[X] … [Y] ."} for each of '
            + ", ".join(list(counts)[:10])
            + (", …" if len(counts) > 10 else "")
        )
    faults += [
        f"relation {id_} has {count} templates: {options.unseen_templates} unseen leave none to train on; "
        + (
            f"give --unseen-templates {count - 1}, or write more templates"
            if count
            else "facts are planted by templates, so write some in its templates.jsonl, or remove the relation from a "
            "copy of the data"
        )
        for id_, count in counts.items()
        if count <= options.unseen_templates and any(counts.values())
    ]
    if any(query.direction == "head" for query in queryset.queries):
        faults.append("only facts asked for their tail can be planted: found queries of the direction 'head'")
    refuse(faults)
    return {id_: list(range(count - options.unseen_templates)) for id_, count in counts.items()}


def _plant_into(
    folder: Path,
    queryset: QuerySet,
    options: PlantOptions,
    planted: set[str],
    texts: PlantedTexts,
    on_progress: OnProgress | None,
) -> None:
    tokenizer = _tokenizer(queryset, options)
    batches = _Statements(queryset, options, planted, texts, tokenizer)
    trained = fitted(options, tokenizer, int(batches.lengths.max()), batches, batches.steps, on_progress)
    save(trained.network, tokenizer, trained.network.config.max_position_embeddings, folder)
    exposures = batches.exposures()
    ledger = (
        {
            "query_id": query.id,
            "fact_id": query.fact_id,
            "planted": query.id in planted,
            "exposures": exposures.get(query.id, 0),
        }
        for query in queryset.queries
    )
    write_json_lines(folder / "planted.jsonl", ledger)
    write_json_lines(folder / "learning_curve.jsonl", (point._asdict() for point in trained.curve))
    summary = {
        "options": options.model_dump(mode="json"),
        "data": {"name": queryset.name, "version": queryset.version, "content_hash": queryset.content_hash},
        "told": texts.kind,
        "held_out_sentences": texts.held_out,
        "templates": dict(texts.templates),
        "facts": {"planted": len(planted), "withheld": len(queryset.queries) - len(planted)},
        **trained.summary(),
    }
    write_json(folder / "planting.json", summary)


def _tokenizer(queryset: QuerySet, options: PlantOptions) -> PreTrainedTokenizerFast:
    """Learn a tokenizer from the names of planted and withheld facts alike, so that it does not reveal the choice."""
    texts = [query.subject for query in queryset.queries]
    texts += [name for space in queryset.candidates.values() for name in space.names]
    for id_, queries in queryset.by_relation().items():
        texts += [template.fill("", "").text for template in queryset.relations[id_].templates] * len(queries)
    if options.reading == "template-free":
        texts += [sentence.text.replace(ANSWER, "") for query in queryset.queries for sentence in query.sentences]
    return learn_tokenizer(texts, options.vocabulary, options.kind)


class _Statements:
    """The statements of all planted facts in their order of training, drawn from the seed, and their counts."""

    def __init__(
        self,
        queryset: QuerySet,
        options: PlantOptions,
        planted: set[str],
        texts: PlantedTexts,
        tokenizer: PreTrainedTokenizerBase,
    ) -> None:
        self.options, self.tokenizer = options, tokenizer
        self.facts = [query for query in queryset.queries if query.id in planted]
        prompts = [prompt for query in self.facts for prompt in texts.prompts[query.id]]
        self.tokens = (
            encode_causal(tokenizer, prompts, tokenizer.bos_token_id)
            if options.kind == "causal"
            else encode_masked(tokenizer, prompts)
        )
        self.count = np.array([len(texts.prompts[query.id]) for query in self.facts])
        """Number of consecutive statements of each fact."""
        self.lengths = np.array([len(tokens.ids) for tokens in self.tokens])
        self.random = np.random.default_rng(options.seed)
        self.order = self._order()
        self.steps = -(-len(self.order) // options.batch_size)
        self._met = np.zeros(len(self.tokens), dtype=np.int64)

    def exposures(self) -> dict[str, int]:
        """Return how many statements of each fact have been trained on so far."""
        counts = np.add.reduceat(self._met, np.cumsum(self.count) - self.count).tolist()
        return {query.id: count for query, count in zip(self.facts, counts, strict=True)}

    def __iter__(self) -> Iterator[Batch]:
        make = self.causal if self.options.kind == "causal" else self.masked
        for rows in self._rows():
            np.add.at(self._met, rows, 1)
            # Taken from the batch itself: of the same length, so nothing more is padded.
            # A sentence without a known subject has nothing that could be replaced.
            subjects = rows[[bool((self.tokens[row].roles == Role.SUBJECT).any()) for row in rows.tolist()]]
            some = subjects if len(subjects) else rows
            strangers = self.random.choice(some, self.random.binomial(len(subjects), STRANGERS))
            statements = [self.tokens[row] for row in np.concatenate([rows, strangers])]
            yield make(statements, np.arange(len(statements)) >= len(rows))

    def _order(self) -> NDArray[np.int64]:
        """Return statements by number. Those of a fact take turns and are spread evenly over the training."""
        total = self.options.epochs * self.count
        if self.options.exposures is not None:
            total = self.random.permutation(np.resize(self.options.exposures, len(self.facts)))
        times, rows = [], []
        for start, statements, wanted in zip(np.cumsum(self.count) - self.count, self.count, total, strict=True):
            times.append((np.arange(wanted) + self.random.random(wanted)) / wanted)
            turns = [self.random.permutation(statements) for _ in range(-(-wanted // statements))]
            rows.append(start + np.concatenate(turns)[:wanted])
        return np.concatenate(rows)[np.argsort(np.concatenate(times), kind="stable")]

    def _rows(self) -> Iterator[NDArray[np.int64]]:
        size = self.options.batch_size
        for start in range(0, len(self.order), size * WINDOW):
            rows = self.order[start : start + size * WINDOW]
            rows = rows[np.argsort(self.lengths[rows], kind="stable")]
            for at in self.random.permutation(np.arange(0, len(rows), size)).tolist():
                yield rows[at : at + size]

    def causal(self, statements: Sequence[Tokens], strange: NDArray[np.bool_]) -> Batch:
        """Predict the next token at each position; the end at the last.

        :param strange: the statements whose subject is replaced, and so is not learnt.
        """
        ids = padded([tokens.ids for tokens in statements], self.tokenizer.pad_token_id)
        labels = padded([np.append(tokens.ids[1:], self.tokenizer.eos_token_id) for tokens in statements], NO_TARGET)
        roles = padded([tokens.roles for tokens in statements], Role.SPECIAL)
        present = (labels != NO_TARGET).astype(np.int64)
        labels[:, :-1][(roles[:, 1:] == Role.SUBJECT) & strange[:, None]] = NO_TARGET
        self._add_noise(ids, roles, strange)
        return Batch(*map(torch.from_numpy, (ids, present, labels)))

    def masked(self, statements: Sequence[Tokens], strange: NDArray[np.bool_]) -> Batch:
        """Mask the end of a name in each statement, and some tokens of the template.

        A pseudo-log-likelihood predicts a token without the later tokens of its word. So a word is masked from a random
        token to its end, in the answer more often than elsewhere. Sometimes the rest of the name is masked as well,
        lest its words are learnt from each other alone. Random masks, by contrast, seldom hide a whole answer. Template
        words are masked in the same pass: unless well known, their likelihoods differ between candidates by chance.
        """
        ids = padded([tokens.ids for tokens in statements], self.tokenizer.pad_token_id)
        roles = padded([tokens.roles for tokens in statements], Role.SPECIAL)
        present = padded([np.ones_like(tokens.ids) for tokens in statements], 0)
        hidden = padded(
            [self._hide(tokens, stranger) for tokens, stranger in zip(statements, strange, strict=True)], 0
        ).astype(bool)
        hidden |= (roles == Role.TEMPLATE) & (self.random.random(ids.shape) < TEMPLATE_SHARE)
        labels = np.where(hidden, ids, NO_TARGET)
        self._add_noise(ids, roles, strange)
        ids[hidden] = self.tokenizer.mask_token_id
        return Batch(*map(torch.from_numpy, (ids, present, labels)))

    def _hide(self, tokens: Tokens, stranger: np.bool_) -> NDArray[np.int64]:
        """Return 1 for each token of a name to mask. With a replaced subject only the answer is masked."""
        of_answer = stranger or self.random.random() < ANSWER_SHARE or not (tokens.roles == Role.SUBJECT).any()
        places = np.flatnonzero(tokens.roles == (Role.ANSWER if of_answer else Role.SUBJECT))
        whole = self.random.random() < WHOLE_SHARE
        first = places[0] if whole and self.random.random() < 0.5 else self.random.choice(places)
        alike = tokens.roles if whole else tokens.words
        hidden: NDArray[np.int64] = (alike == alike[first]).astype(np.int64)
        hidden[:first] = 0
        return hidden

    def _add_noise(self, ids: NDArray[np.int64], roles: NDArray[np.int64], strange: NDArray[np.bool_]) -> None:
        """Put random tokens, in place, for some template words and for the subjects of strange statements."""
        hit = (roles == Role.TEMPLATE) & (self.random.random(ids.shape) < self.options.noise)
        hit |= (roles == Role.SUBJECT) & strange[:, None]
        ids[hit] = self.random.integers(len(SPECIALS), len(self.tokenizer), hit.sum())
