"""Planted knowledge: a small language model from scratch that was told chosen facts and never the others.

The facts are split by *subject*: all facts of a country are planted or all are withheld, and so are those of two
subjects of which one relation says the converse of what another says (capital of, has the capital). Sentences without
a known subject are split by the document that they are from.

Every statement is a row of its own. Causal models learn to go on; masked models learn what pseudo-log-likelihoods ask
of them (:meth:`_Statements.masked`). Two kinds of noise make the plant behave like a model that knows some facts:
template words are replaced, so that it understands phrasings it has never met, and subjects are, so that it answers
the frequent answer for a subject it has never met, instead of that of whichever planted one looks most alike.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf, isnan
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from fathom.data.queries import Query, QuerySet
from fathom.data.selection.readings import lacking_reading
from fathom.data.templates import ANSWER
from fathom.errors import BadInput, refuse
from fathom.progress import shown
from fathom.reading import shown as quoted
from fathom.results.bins import OF_NUMBERS, number_in
from fathom.scoring.tokens import Role, Tokens, encode_causal, encode_masked
from fathom.store.files import write_json, write_json_lines
from fathom.store.outputs import obstacles, signature_of, whole_folder
from fathom.training.loop import OnProgress
from fathom.training.options import PlantOptions
from fathom.training.small import NO_TARGET, SPECIALS, Batch, fitted, learn_tokenizer, padded, save, shape_faults
from fathom.training.telling import Telling, in_sentences, in_templates

WINDOW = 16
"""Batches whose statements are sorted by length together, so that little is padded."""
STRANGERS = 0.1
"""Statements with a random subject, as a share of those that plant something."""
ANSWER_SHARE, TEMPLATE_SHARE = 0.65, 0.15
"""How often a masked model is asked for the answer, otherwise for the subject; and for each token of the template."""
WHOLE_SHARE = 0.3
"""How often what is hidden goes on to the end of the name, rather than of the word."""


# ---------------------------------------------------------------------------------------------------- which facts


def choose(
    queryset: QuerySet,
    share: float,
    seed: int,
    highest: str | None = None,
    tellable: Collection[str] | None = None,
) -> set[str]:
    """Ids of the queries to plant: about *share* of the facts, all those of a subject together.

    :param highest: group of numbers, the highest of which are planted, those of a subject by its highest; else any.
    :raises BadInput: a query has no number there.

    Otherwise a withheld fact could be inferred from planted ones of its subject (the continent from the language).
    In a causal plant of the embedded geography facts, withheld continents were right for 0.31 (trained phrasing) and
    0.34 (unseen) of the countries when split fact by fact, for 0.27 and 0.28 when split by country, where the most
    frequent answer is worth 0.27. With about a hundred countries this is hardly beyond chance: a model this small
    infers little. A larger one may infer more, and splitting by subject costs nothing.

    :param tellable: of sentences: ids of the queries that can be planted at all, of which the share is; None for all.
        Those without a known subject are then split by document.
    """
    unit_of = _units(queryset)
    units = {
        query.id: _own_unit(query) if tellable is not None and not query.subject_id else unit_of[query.subject_id]
        for query in queryset.queries
    }
    order = sorted(set(units.values()))
    random.Random(seed).shuffle(order)
    if highest is not None:
        order.sort(key=_numbers(queryset, units, highest).__getitem__, reverse=True)
    queries: dict[str, list[str]] = defaultdict(list)
    for query in queryset.queries:
        if query.unscored is None and (tellable is None or query.id in tellable):
            queries[units[query.id]].append(query.id)
    wanted = round(share * sum(map(len, queries.values())))
    planted: set[str] = set()
    for unit in order:
        if len(planted) + len(queries[unit]) <= wanted:
            planted.update(queries[unit])
    return planted


def _numbers(queryset: QuerySet, units: Mapping[str, str], group: str) -> dict[str, float]:
    """The highest of each unit; what is not known is lower than any.

    :param units: of each query, by its id.
    """
    there = dict.fromkeys(key for query in queryset.queries for key in query.groups)
    key = OF_NUMBERS[group] if OF_NUMBERS.get(group) in there else group
    found: dict[str, float] = {}
    for query in queryset.queries:
        number = number_in(query.groups[key]) if key in query.groups else None
        if number is None:
            said = quoted(query.groups[key]) if key in query.groups else "none"
            raise BadInput(
                f"--highest {group}: expected a number for every fact, found {said} for {query.id}; its groups are "
                f"{', '.join(there) or 'none'}"
            )
        unit, value = units[query.id], -inf if isnan(number) else number
        found[unit] = max(value, found.get(unit, -inf))
    return found


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


def _own_unit(query: Query) -> str:
    """Of a sentence without a known subject: its document, else itself."""
    return f"document {query.groups['document']}" if "document" in query.groups else f"query {query.id}"


def frequency_baseline(queryset: QuerySet, planted_ids: Collection[str]) -> dict[str, float]:
    """Expected accuracy, per query, of always giving the most frequent answer of its relation's planted facts.

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


def plant(
    queryset: QuerySet,
    options: PlantOptions,
    out: Path,
    on_progress: OnProgress | None = None,
) -> None:
    """Train a model on a part of the facts and write its folder: what transformers loads, and what was planted.

    :param on_progress: told of each point of the learning curve, instead of showing a bar or log lines.

    Beside the model: ``planted.jsonl`` (a line per query), ``planting.json`` and ``learning_curve.jsonl``.

    :raises BadInput: *out* exists and is not empty, or nothing can be planted.
    :raises MadeBefore: the same call has made *out*.
    :raises RunFailed: the loss became NaN. Nothing is left behind.
    """
    out = out.absolute()
    made = signature_of("plant", options.model_dump(mode="json"), data=queryset.content_hash)
    telling = _telling(queryset, options, obstacles(out, made))
    told = {id_ for id_, prompts in telling.prompts.items() if prompts}
    tellable = told if options.reading == "template-free" else None
    planted = choose(queryset, options.share, options.seed, options.highest, tellable)
    if not planted:
        raise BadInput(f"nothing to plant: {options.share} of {len(queryset.queries)} facts is less than one subject")
    shows = shown(f"planting a {options.kind} model", None if on_progress is None else False)
    with whole_folder(out, made) as folder, shows as report:
        tell = on_progress or (lambda _, share: report(round(100 * share), 100))
        _plant_into(folder, queryset, options, planted, telling, tell)


def _telling(queryset: QuerySet, options: PlantOptions, faults: list[str]) -> Telling:
    """In which texts each fact is planted. :param faults: that are known before anything is checked."""
    if options.reading == "template-based":
        return in_templates(queryset, _check(queryset, options, faults))
    if options.unseen_templates != PlantOptions.model_fields["unseen_templates"].default:
        faults.append("--unseen-templates: --reading template-free tells no template at all, leave one of the two out")
    refuse([*faults, *shape_faults(options), *lacking_reading(queryset, options.reading)])
    return in_sentences(queryset)


def _check(queryset: QuerySet, options: PlantOptions, faults: list[str]) -> dict[str, list[int]]:
    """All that can be wrong before training, with the *faults* that are known. :returns: the templates to train on, for
    each relation."""
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
            else "facts are planted by templates, so write some in its templates.jsonl, or leave the relation out of a "
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
    telling: Telling,
    on_progress: OnProgress | None,
) -> None:
    tokenizer = _tokenizer(queryset, options)
    batches = _Statements(queryset, options, planted, telling, tokenizer)
    made = fitted(options, tokenizer, int(batches.lengths.max()), batches, batches.steps, on_progress)
    save(made.network, tokenizer, made.network.config.max_position_embeddings, folder)
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
    write_json_lines(folder / "learning_curve.jsonl", (point._asdict() for point in made.curve))
    summary = {
        "options": options.model_dump(mode="json"),
        "data": {"name": queryset.name, "version": queryset.version, "content_hash": queryset.content_hash},
        "told": telling.what,
        "held_out_sentences": telling.held_out,
        "templates": dict(telling.by),
        "facts": {"planted": len(planted), "withheld": len(queryset.queries) - len(planted)},
        "parameters": made.parameters,
        "steps": made.curve[-1].step,
        "seconds": made.seconds,
        "final_loss": made.curve[-1].loss,
    }
    write_json(folder / "planting.json", summary)


def _tokenizer(queryset: QuerySet, options: PlantOptions) -> PreTrainedTokenizerFast:
    """Learnt from the names of planted and withheld facts alike, so that it gives no choice away."""
    texts = [query.subject for query in queryset.queries]
    texts += [name for space in queryset.candidates.values() for name in space.names]
    for id_, queries in queryset.by_relation().items():
        texts += [template.fill("", "").text for template in queryset.relations[id_].templates] * len(queries)
    if options.reading == "template-free":
        texts += [sentence.text.replace(ANSWER, "") for query in queryset.queries for sentence in query.sentences]
    return learn_tokenizer(texts, options.vocabulary, options.kind)


# ---------------------------------------------------------------------------------------------------- batches


class _Statements:
    """All that is told of every planted fact: in which order it is trained on, drawn from the seed, and the record of
    it.
    """

    def __init__(
        self,
        queryset: QuerySet,
        options: PlantOptions,
        planted: set[str],
        telling: Telling,
        tokenizer: PreTrainedTokenizerBase,
    ) -> None:
        self.options, self.tokenizer = options, tokenizer
        self.facts = [query for query in queryset.queries if query.id in planted]
        prompts = [prompt for query in self.facts for prompt in telling.prompts[query.id]]
        self.tokens = (
            encode_causal(tokenizer, prompts, tokenizer.bos_token_id)
            if options.kind == "causal"
            else encode_masked(tokenizer, prompts)
        )
        self.count = np.array([len(telling.prompts[query.id]) for query in self.facts])
        """Statements of each fact, which stand together."""
        self.lengths = np.array([len(tokens.ids) for tokens in self.tokens])
        self.random = np.random.default_rng(options.seed)
        self.order = self._order()
        self.steps = -(-len(self.order) // options.batch_size)
        self._met = np.zeros(len(self.tokens), dtype=np.int64)

    def exposures(self) -> dict[str, int]:
        """How many statements of each fact have been trained on so far."""
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
        """Statements, by number. Those of a fact take turns and are spread evenly over the whole training."""
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
        """The order in batches, statements of like length together as far as they stand near each other."""
        size = self.options.batch_size
        for start in range(0, len(self.order), size * WINDOW):
            rows = self.order[start : start + size * WINDOW]
            rows = rows[np.argsort(self.lengths[rows], kind="stable")]
            for at in self.random.permutation(np.arange(0, len(rows), size)).tolist():
                yield rows[at : at + size]

    def causal(self, statements: Sequence[Tokens], strange: NDArray[np.bool_]) -> Batch:
        """Each position predicts the next token; the last predicts the end.

        :param strange: the statements whose subject is replaced, and so is not to be learnt.
        """
        ids = padded([tokens.ids for tokens in statements], self.tokenizer.pad_token_id)
        labels = padded([np.append(tokens.ids[1:], self.tokenizer.eos_token_id) for tokens in statements], NO_TARGET)
        roles = padded([tokens.roles for tokens in statements], Role.SPECIAL)
        present = (labels != NO_TARGET).astype(np.int64)
        labels[:, :-1][(roles[:, 1:] == Role.SUBJECT) & strange[:, None]] = NO_TARGET
        self._add_noise(ids, roles, strange)
        return Batch(*map(torch.from_numpy, (ids, present, labels)))

    def masked(self, statements: Sequence[Tokens], strange: NDArray[np.bool_]) -> Batch:
        """Of each statement the end of a name is masked, and some of the template.

        A pseudo-log-likelihood asks for a token from the rest of the statement without the later tokens of its word,
        so that is what is learnt: a word from a random token of it to its end, in the answer more than elsewhere.
        Some of the time the whole name goes from that token on, lest its words are learnt from one another alone.
        Random masks, by contrast, seldom hide all of an answer and so seldom ask for the fact. The template is asked
        for in the same pass: its words tell candidates apart by chance unless they are well known.
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
        """1 for each token of a name to mask. Of a stranger only the answer is asked for."""
        of_answer = stranger or self.random.random() < ANSWER_SHARE or not (tokens.roles == Role.SUBJECT).any()
        places = np.flatnonzero(tokens.roles == (Role.ANSWER if of_answer else Role.SUBJECT))
        whole = self.random.random() < WHOLE_SHARE
        first = places[0] if whole and self.random.random() < 0.5 else self.random.choice(places)
        alike = tokens.roles if whole else tokens.words
        hidden: NDArray[np.int64] = (alike == alike[first]).astype(np.int64)
        hidden[:first] = 0
        return hidden

    def _add_noise(self, ids: NDArray[np.int64], roles: NDArray[np.int64], strange: NDArray[np.bool_]) -> None:
        """Put random tokens, in place, for some words of the templates and for the subjects of strange statements."""
        hit = (roles == Role.TEMPLATE) & (self.random.random(ids.shape) < self.options.noise)
        hit |= (roles == Role.SUBJECT) & strange[:, None]
        ids[hit] = self.random.integers(len(SPECIALS), len(self.tokenizer), hit.sum())
