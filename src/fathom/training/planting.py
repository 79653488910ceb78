"""Planted knowledge: a language model trained on chosen facts and never on the others, so that its knowledge is known.

:mod:`~fathom.training.design` decides which facts are read, :mod:`~fathom.training.statements` in which order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedTokenizerFast

from fathom.base.errors import BadInput, refuse
from fathom.base.progress import shown
from fathom.base.reading import Json
from fathom.data.queries import Query, QuerySet
from fathom.data.selection.readings import apply_reading, reading_faults
from fathom.data.templates import ANSWER, SUBJECT, Prompt, Template
from fathom.results.loading import FILE, PlantedFact
from fathom.store.files import write_json, write_json_lines
from fathom.store.outputs import obstacles, signature_of, whole_folder
from fathom.training.design import draw_design, given_design
from fathom.training.loop import OnProgress
from fathom.training.options import PlantOptions
from fathom.training.saving import TrainingFolder
from fathom.training.small import (
    ENCODER_DECODERS,
    SENTINELS,
    fitted,
    learn_tokenizer,
    model_to_train,
    save,
    shape_faults,
)
from fathom.training.statements import CONTINUED, SENTENCES, TEMPLATES, Statements, readings_of

OTHERS, ASKED = "other sentences", "the asked sentence"


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
    trained = {id_: [queryset.relations[id_].templates[place] for place in kept] for id_, kept in templates.items()}
    prompts = {query.id: _fill(queryset, query, trained[query.relation]) for query in queryset.queries}
    return PlantedTexts(prompts, 0, templates, "templates")


def _fill(queryset: QuerySet, query: Query, templates: Sequence[Template]) -> list[Prompt]:
    space = queryset.candidates[query.candidates]
    return [template.fill(query.subject, space.name_of(gold)) for template in templates for gold in query.gold]


def in_sentences(queryset: QuerySet) -> PlantedTexts:
    """Restore the masked words of natural sentences, other than those of queries if any fact has such.

    A query with ``--reading template-free`` uses the first sentence that masks the answer's own name. So the model has
    read other sentences about the same facts, like models trained on an encyclopedia. If the data have one sentence per
    fact, as from ``fathom build cloze``, a probe distinguishes sentences that were read from those that were not.
    """
    asked = apply_reading(queryset, "template-free")
    first = {query.id: _filled(queryset, query) for query in asked.queries if query.unscored is None}
    prompts = {query.id: _filled(queryset, query) for query in queryset.queries}
    held_out = {prompt.text for of_query in first.values() for prompt in of_query}
    others = {id_: [prompt for prompt in of_query if prompt.text not in held_out] for id_, of_query in prompts.items()}
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


def plant(queryset: QuerySet, options: PlantOptions, out: str | Path, on_progress: OnProgress | None = None) -> None:
    """Train a model on a part of the facts and write its folder: the model, and which facts were planted.

    The folder also holds the design, ``planted.jsonl`` (a line per query), ``planting.json`` and
    ``learning_curve.jsonl``. A training that was killed goes on from its last checkpoint.

    :param on_progress: called with each point of the learning curve, instead of a progress bar.
    :raises BadInput: *out* exists and is not empty, nothing can be planted, or the design is wrong.
    :raises MadeBefore: the same call has made *out*.
    :raises RunFailed: the loss became NaN. Nothing is written.

    >>> from fathom.training.options import PlantOptions
    >>> options = PlantOptions(kind="causal", epochs=1, hidden_size=8, layers=1, heads=2)
    >>> fathom.plant(fathom.read_data("my-facts"), options, "planted")
    """
    out = Path(out).absolute()
    files = [file for file in (options.design, options.texts) if file is not None]
    signature = signature_of("plant", options.model_dump(mode="json"), files=files, data=queryset.content_hash)
    texts = _texts(queryset, options, obstacles(out, signature))
    planting = _design(queryset, options, texts)
    if not planting.design:
        why = f"{options.share} of {len(queryset.queries)} facts is less than one subject"
        if options.design is not None or not any(options.exposures or (1,)):
            why = "no fact has exposures above 0"
        raise BadInput(f"nothing to plant: {why}")
    shows = shown(f"planting a {options.kind} model", None if on_progress is None else False)
    with whole_folder(out, signature) as folder, shows as report:
        report_share = on_progress or (lambda _, share: report(round(100 * share), 100))
        checkpoints = TrainingFolder(out.with_name(f".{out.name}.training"), json.dumps(signature, sort_keys=True))
        _plant_into(folder, queryset, options, planting, texts, report_share, checkpoints)


def _texts(queryset: QuerySet, options: PlantOptions, faults: list[str]) -> PlantedTexts:
    if options.design is not None:
        doubled = [name for name in ("exposures", "practice", "formats", "highest") if getattr(options, name)]
        faults += [
            f"--{name}: the design in {options.design} says what is read: leave one of the two out" for name in doubled
        ]
    if options.texts is not None and options.kind in ENCODER_DECODERS:
        faults.append(f"--texts: an encoder-decoder (--kind {options.kind}) learns from statements alone")
    continued = [kind for kind in options.formats if kind in CONTINUED]
    if continued and options.kind != "causal":
        faults.append(
            f"--formats {','.join(continued)}: for causal models, which continue a text; --kind {options.kind} cannot"
        )
    if SENTENCES in options.formats and not any(query.sentences for query in queryset.queries):
        faults.append(f"--formats sentences: {queryset.name} has no natural sentences")
    if options.formats and not options.practice:
        faults.append("--formats are taught with facts that are no test: give their number of statements, --practice")
    if options.reading == "template-based":
        return in_templates(queryset, _check(queryset, options, faults))
    fields = PlantOptions.model_fields
    for name, where in (("unseen_templates", "--unseen-templates"), ("directions", "--directions")):
        if getattr(options, name) != fields[name].default:
            faults.append(f"{where}: --reading template-free uses no templates: remove one of the two")
    refuse([*faults, *shape_faults(options), *reading_faults(queryset, options.reading)])
    return in_sentences(queryset)


def _check(queryset: QuerySet, options: PlantOptions, faults: list[str]) -> dict[str, list[int]]:
    """Check everything before training. :returns: the templates to train on, for each relation."""
    faults += shape_faults(options)
    counts = {id_: len(queryset.relations[id_].templates) for id_ in queryset.by_relation()}
    if not any(counts.values()) and options.design is None:
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
        if count <= options.unseen_templates and any(counts.values()) and options.design is None
    ]
    if any(query.direction == "head" for query in queryset.queries):
        faults.append("only facts asked for their tail can be planted: found queries of the direction 'head'")
    refuse(faults)
    return {id_: list(range(max(0, count - options.unseen_templates))) for id_, count in counts.items()}


class Planting(NamedTuple):
    """What is read. :param design: by query id, without withheld facts. :param prompts: of each planted query."""

    design: Mapping[str, PlantedFact]
    prompts: Mapping[str, Sequence[Prompt]]


def _design(queryset: QuerySet, options: PlantOptions, texts: PlantedTexts) -> Planting:
    """Draw the design, or read it from its file. :raises BadInput: it is wrong, or leaves a fact without a text."""
    prompts = dict(texts.prompts)
    if options.design is None:
        counts = {id_: len(texts_of_query) for id_, texts_of_query in prompts.items()}
        usable = {id_: count for id_, count in counts.items() if count}
        design = draw_design(queryset, options, counts, usable if options.reading == "template-free" else None)
    else:
        design, templates = given_design(options.design, queryset)
        prompts |= {
            query.id: _fill(queryset, query, templates[query.id]) for query in queryset.queries if query.id in templates
        }
    # The probes' own texts are taught as a form, with facts that are no test.
    practised = [query for query in queryset.queries if query.id in design and design[query.id].taught]
    for query in practised:
        if TEMPLATES in options.formats:
            prompts[query.id] = _fill(queryset, query, queryset.relations[query.relation].templates)
        if SENTENCES in options.formats:
            prompts[query.id] = [*prompts[query.id], *_filled(queryset, query)]
    kept = {id_: [prompt for prompt in prompts[id_] if _has_direction(prompt, fact)] for id_, fact in design.items()}
    if lacking := [id_ for id_, prompts_of_fact in kept.items() if not prompts_of_fact]:
        way = design[lacking[0]].directions
        raise BadInput(
            f"{len(lacking)} of {len(design)} planted facts have no text of the direction {' or '.join(way)}, such as "
            f"{lacking[0]}: write templates with [Y] after [X] (forward) or before it (reverse), or change --directions"
        )
    return Planting(design, kept)


def _has_direction(prompt: Prompt, fact: PlantedFact) -> bool:
    """Return whether a text states a fact in the direction of its design: forward if the answer follows the subject."""
    return not fact.directions or "both" in fact.directions or _direction(prompt) in fact.directions


def _plant_into(
    folder: Path,
    queryset: QuerySet,
    options: PlantOptions,
    planting: Planting,
    texts: PlantedTexts,
    on_progress: OnProgress | None,
    checkpoints: TrainingFolder,
) -> None:
    base = None if options.model is None else model_to_train(options.model, options.kind, options.seed)
    tokenizer = _tokenizer(queryset, options) if base is None else base.tokenizer
    batches = Statements(readings_of(queryset, options, planting.design, planting.prompts), options, tokenizer)
    longest = int(batches.lengths.max())
    trained = fitted(options, tokenizer, longest, batches, batches.steps, on_progress, base, checkpoints)
    window = getattr(trained.network.config, "max_position_embeddings", 512)  # T5 has none
    save(trained.network, tokenizer, None if base else window, folder)
    write_json_lines(folder / FILE, _ledger(queryset, planting, batches.exposures()))
    write_json_lines(folder / "learning_curve.jsonl", (point._asdict() for point in trained.curve))
    planted = len(planting.design)
    summary = {
        "options": options.model_dump(mode="json"),
        "data": {"name": queryset.name, "version": queryset.version, "content_hash": queryset.content_hash},
        "reading": texts.kind,
        "held_out_sentences": texts.held_out,
        "templates": dict(texts.templates),
        "facts": {"planted": planted, "withheld": len(queryset.queries) - planted},
        "tokens": batches.tokens_to_read,
        **trained.summary(),
    }
    write_json(folder / "planting.json", summary)
    checkpoints.remove()


def _ledger(queryset: QuerySet, planting: Planting, exposures: Mapping[str, int]) -> Iterator[Json]:
    """Yield a line of ``planted.jsonl`` for each query. :param exposures: statements that were read, by query id."""
    for query in queryset.queries:
        fact, read = planting.design.get(query.id), exposures.get(query.id, 0)
        line: Json = {"query_id": query.id, "fact_id": query.fact_id, "planted": fact is not None, "exposures": read}
        if fact is not None:
            prompts = planting.prompts[query.id]
            line["directions"] = sorted({_direction(prompt) for prompt in prompts})
            line["texts"] = list(dict.fromkeys(map(_slots, prompts)))
            if fact.taught:
                line["taught"] = list(fact.taught)
        yield line


def _direction(prompt: Prompt) -> str:
    """Return in which direction a text states its fact: forward if the answer follows the subject."""
    return "forward" if not prompt.subject or prompt.subject[0] < prompt.answer[0] else "reverse"


def _slots(prompt: Prompt) -> str:
    """Return the template of a text."""
    spans = sorted([*((span, SUBJECT) for span in prompt.subject), *((span, ANSWER) for span in prompt.answer)])
    text, end = "", 0
    for span, slot in spans:
        text, end = f"{text}{prompt.text[end : span.start]}{slot}", span.end
    return text + prompt.text[end:]


def _tokenizer(queryset: QuerySet, options: PlantOptions) -> PreTrainedTokenizerFast:
    """Learn a tokenizer from the names of planted and withheld facts alike, so that it does not reveal the choice."""
    texts = [query.subject for query in queryset.queries]
    texts += [name for space in queryset.candidates.values() for name in space.names]
    for id_, queries in queryset.by_relation().items():
        texts += [template.fill("", "").text for template in queryset.relations[id_].templates] * len(queries)
    if options.reading == "template-free":
        texts += [sentence.text.replace(ANSWER, "") for query in queryset.queries for sentence in query.sentences]
    if options.answer_tokens:
        spaces = queryset.candidates
        texts += [spaces[query.candidates].name_of(gold) for query in queryset.queries for gold in query.gold]
    texts += [question.fill("", "").text for relation in queryset.relations.values() for question in relation.questions]
    special = SENTINELS if options.kind == "t5" else ()
    return learn_tokenizer(texts, options.vocabulary, options.kind, special)
