"""Results of other tools as run folders: lm-pub-quiz, lm-evaluation-harness.

Queries, ids and groups come from the data set, so that imported runs compare with Fathom's own. lm-evaluation-harness
logs BEAR or an exported task.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fathom._version import VERSION
from fathom.base.errors import BadInput
from fathom.base.reading import Faults, Json, first_few, line_of, shown, stands
from fathom.base.reading.objects import object_faults
from fathom.data.formats import read
from fathom.data.formats.base import read_object
from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.engine.scoring.rows import Columns, PromptedQuery, score_columns
from fathom.probes import PROBES
from fathom.probes.options import StatementOptions
from fathom.probes.run.logs import PLL, HarnessResults, HarnessRow, QuizRelation, QuizRow, RowChecker, ScoredQuery
from fathom.probes.run.setup import declarations, digest_of, tables
from fathom.store.folder import RunFolder
from fathom.store.predictions import Scoring

QUIZ = "metadata_results.json"
"""File of lm-pub-quiz with the templates, answers and settings of each relation."""
_LOG = re.compile(r"samples_.+_(\d{4}-\d\d-\d\dT[^_]+)\.jsonl")
_REDUCTIONS = ("sum", "mean")
_PROBE = PROBES["statement"]
"""The probe that makes the same scores."""
_SHARD = "all"


class Results(NamedTuple):
    """Results of another tool.

    :param tool: its name and version.
    :param model: identity of the model.
    :param options: of the statement probe that makes the same scores.
    """

    tool: str
    model: dict[str, Any]
    options: dict[str, Any]
    rows: list[ScoredQuery]


def import_results(results: Path, out: Path, data: str) -> RunFolder:
    """Make a run folder of results.

    :param results: folder of lm-pub-quiz; or folder or file of samples of lm-evaluation-harness.
    :param data: the data set that was evaluated.
    :raises BadInput: with every fault of the results, such as a query that the data set does not have.
    """
    queryset, faults = read(data), Faults()
    if stands(results / QUIZ):
        found = _read_quiz(results, queryset, faults)
    else:
        found = _read_harness(_log_in(results), queryset, faults)
    faults.stop_if_any()
    if not found.rows:
        raise BadInput(f"{results}: no scores of single queries: evaluate with an instance table, or --log_samples")
    asked = {row.query.id: row.query for row in found.rows}
    queries = QuerySet(queryset.name, tuple(asked.values()), queryset.candidates, queryset.relations)
    folder = RunFolder(out)
    scorings = [Scoring(name, "nats") for name in dict.fromkeys(name for row in found.rows for name in row.scores)]
    shows = declarations(_PROBE, scorings, {"imported from": found.tool}, queries)
    finished = folder.start(_identity(found, queryset, asked), [_SHARD], *tables(queries), shows)
    if _SHARD not in finished:
        folder.add_shard(_SHARD, [row for scored in found.rows for row in _predictions(scored, queryset)])
        left = len(queryset.queries) - len(asked)
        folder.add_circumstances(left_out={"queries": {"not in the results": left}} if left else {})
    return folder


def _identity(found: Results, data: QuerySet, asked: Collection[str]) -> dict[str, Any]:
    """:param asked: ids of the queries."""
    used = {row.template for row in found.rows}
    every = {place for row in found.rows for place in range(len(data.relations[row.query.relation].templates))}
    options = StatementOptions(**found.options, templates=() if used == every else tuple(sorted(used)))
    about = {"name": data.name, "version": data.version, "content_hash": data.content_hash, "asked": digest_of(asked)}
    return {
        "probe": _PROBE.name,
        "options": options.identity(),
        "resolved": {"imported": found.tool},
        "model": found.model,
        "data": about,
        "seed": options.seed,
        "version": VERSION,
    }


def _predictions(scored: ScoredQuery, data: QuerySet) -> Iterator[Columns]:
    query, space = scored.query, data.candidates[scored.query.candidates]
    prompt = data.phrasings(query)[scored.template].question(query.subject)
    unknown = np.zeros(len(space), dtype=np.int64)
    for name, scores in scored.scores.items():
        if reason := unrankable(query, space):
            yield from PromptedQuery(query, scored.template, prompt, len(space)).rows([Scoring(name, "nats")], reason)
            continue
        answer = score_columns(query, space, np.array(scores, dtype=np.float64), [], unknown, top_k=10)
        answer |= {"gold_tokens": None, "scored_tokens": None}
        yield from PromptedQuery(query, scored.template, prompt, len(space)).rows([Scoring(name, "nats")], [answer])


# --- lm-pub-quiz: P36_results.jsonl, with `pll_scores` in the order of the answers


def _read_quiz(folder: Path, data: QuerySet, faults: Faults) -> Results:
    metadata = read_object(folder / QUIZ, faults, '{"P36": {"templates": […], …}, …}', dict)
    by_relation = data.by_relation()
    rows: list[ScoredQuery] = []
    for relation, about in metadata.items():
        file = folder / f"{relation}_results.jsonl"
        if relation not in by_relation:
            faults.add(folder / QUIZ, None, f"{data.name} has no relation {shown(relation)}: give its --data")
        elif found := object_faults(folder / QUIZ, QuizRelation, about, line=line_of(folder / QUIZ, relation)):
            faults.found += [f"{fault} in {relation}" for fault in found]
        elif not stands(file):
            faults.add(file, None, "file is missing: only JSON Lines are imported, save the results as such")
        else:
            rows += _quiz_rows(file, about, by_relation[relation], data, faults)
    for name in ("model_name_or_path", "pll_metric") if not faults.found else ():
        if len(values := {str(about.get(name)) for about in metadata.values()}) > 1:
            faults.add(folder / QUIZ, None, f"expected the same {name} in all relations, found {first_few(values)}")
    first: Json = next(iter(metadata.values()), {})
    used = {name.partition("/")[0] for row in rows for name in row.scores}
    options: dict[str, Any] = {"reduction": tuple(name for name in _REDUCTIONS if name in used) or ("sum",)}
    if not faults.found and first.get("pll_metric"):
        options["pll"] = PLL[first["pll_metric"]]
    model = {"name": first.get("model_name_or_path") or folder.resolve().name}
    return Results(f"lm-pub-quiz {first.get('lm_pub_quiz_version') or 'of an unknown version'}", model, options, rows)


def _quiz_rows(
    file: Path, about: Json, queries: Sequence[Query], data: QuerySet, faults: Faults
) -> Iterator[ScoredQuery]:
    checker, space = RowChecker(file, data, faults, QuizRow), data.candidates[queries[0].candidates]
    used, templates = about.get("template_index"), about.get("templates") or []
    count = len(templates or data.relations[queries[0].relation].templates)
    used = [used] if isinstance(used, int) else used or range(max(1, count))
    ids = list(map(str, about.get("answer_space_ids") or space.ids))
    labels = list(map(str, about.get("answer_space_labels") or map(space.name_of, ids)))
    answers, named = list(zip_longest(ids, labels, fillvalue="")), list(space.named())
    if sorted(answers) != sorted(named):
        wrong = [f"{id_} ({name})" for id_, name in answers if (id_, name) not in named] or ids
        metadata, relation = file.with_name(QUIZ), queries[0].relation
        why = f"other answers of {relation} than those of {data.name}: {first_few(wrong)}; give the --data evaluated"
        faults.add(metadata, line_of(metadata, relation), why)
        return
    layout: tuple[str, ...] = ()
    for number, line, row in checker.rows():
        if "template_index" not in row and len(used) > 1:
            faults.add(file, line, f"expected template_index, as the results are of {len(used)} templates")
            return
        place, template = row.get("instance_index", number), row.get("template_index", used[0])
        if template not in used:
            faults.add(file, line, f"template {template}, where {QUIZ} says {first_few(list(map(str, used)))}")
            return
        query = queries[place] if place < len(queries) else None
        scores = _quiz_scores(row, ids, space, about.get("reduction") or "sum")
        if query is None or query.subject_id != row["sub_id"]:
            expected = query.subject_id if query else f"at most {len(queries):,} instances"
            faults.add(file, line, f"expected {expected}, found subject {row['sub_id']!r}: give the --data evaluated")
        elif scores is None or layout not in ((), tuple(scores)):
            expected = f"expected pll_scores of all {len(space)} answers, in one layout in all lines"
            advice = "lm-pub-quiz saves results of its older layouts in this one"
            faults.add(file, line, f"{expected}, found {shown(row.get('pll_scores'))}: {advice}")
        else:
            layout = tuple(scores)
            gold = [str(row["obj_id"])] if row.get("obj_id") is not None else []
            answer = row.get("answer_idx")
            gold += [] if answer is None else ids[answer : answer + 1] or [f"answer {answer}"]
            scored = ScoredQuery(query, template, scores)
            worded = next(iter(templates[template : template + 1] or templates[:1]), None)
            if checker.accepts(scored, line, gold, row.get("sub_label"), worded):
                yield scored


def _quiz_scores(row: Json, ids: Sequence[str], space: CandidateSet, reduction: str) -> dict[str, list[float]] | None:
    """Return the scores of all answers in the order of the space; None if there is not one for each."""
    values = [] if "predicted_tokens" in row else row.get("pll_scores") or []
    if len(ids) != len(values) or len({isinstance(value, list) for value in values}) > 1:
        return None
    by_id = dict(zip(ids, values, strict=True))
    scores = [by_id[name] for name in space.ids]
    if isinstance(scores[0], list):
        return {"sum/full": list(map(sum, scores)), "mean/full": [sum(some) / len(some) for some in scores]}
    return {f"{reduction}/full": [float("nan") if score is None else float(score) for score in scores]}


# --- lm-evaluation-harness: samples_TASK_TIME.jsonl with the document and the log-likelihood of each option, and
# results_TIME.json next to it with the model


def _log_in(results: Path) -> Path:
    """Return the file of samples. :raises BadInput: there is none, or there are several."""
    files = [results] if results.is_file() else sorted(results.rglob("samples_*.jsonl"))
    if len(files) != 1 or not _LOG.fullmatch(files[0].name):
        found = first_few([file.name for file in files]) or "none"
        expected = f"{QUIZ} of lm-pub-quiz, or one samples_….jsonl of lm-evaluation-harness (--log_samples)"
        raise BadInput(f"{results}: expected {expected}, found {found}")
    return files[0]


def _read_harness(file: Path, data: QuerySet, faults: Faults) -> Results:
    match = _LOG.fullmatch(file.name)
    assert match is not None
    rows = list(_harness_rows(file, data, faults))
    about_file = file.with_name(f"results_{match[1]}.json")
    about = read_object(about_file, faults, "an object with 'config'") if stands(about_file) else {}
    if found := object_faults(about_file, HarnessResults, about):
        faults.found += found
        about = {}
    config: Json = about.get("config") or {}
    arguments = config.get("model_args") or {}
    if isinstance(arguments, str):
        arguments = dict(part.partition("=")[::2] for part in arguments.split(","))
    model = {"name": str(arguments.get("pretrained") or about.get("model_name") or file.resolve().parent.name)}
    model |= {"revision": config["model_sha"]} if config.get("model_sha") else {}
    model |= {"dtype": config["model_dtype"].removeprefix("torch.")} if config.get("model_dtype") else {}
    return Results(f"lm-evaluation-harness {about.get('lm_eval_version') or ''}".strip(), model, {}, rows)


def _harness_rows(file: Path, data: QuerySet, faults: Faults) -> Iterator[ScoredQuery]:
    checker, by_id = RowChecker(file, data, faults, HarnessRow), {query.id: query for query in data.queries}
    for _, line, row in checker.rows():
        doc, scores = row["doc"], [float(answer[0]) for answer in row["filtered_resps"]]
        first = row["filtered_resps"] if row.get("resps") is None else [each[0] for each in row["resps"]]
        query = by_id.get(doc.get("query") or f"{doc['relation']}/{doc.get('item')}")
        space = data.candidates[query.candidates] if query is not None else None
        answers = list(space.names) if space is not None else None
        if query is None or query.relation != doc["relation"] or doc["answer_options"] != answers:
            name = f"{doc['relation']}, item {doc.get('item')}"
            faults.add(file, line, f"{name}: not a query of {data.name} with its answers; give the --data evaluated")
        elif str(first) != str(row["filtered_resps"]):
            faults.add(file, line, f"filtered_resps are {shown(row['filtered_resps'])}, but resps {shown(first)}")
        elif space is None or len(scores) != len(space):
            expected = f"expected [log-likelihood, …] for each of {len(answers or ())} options"
            faults.add(file, line, f"{expected}, found {len(scores)}")
        else:
            correct = [stated] if isinstance(stated := doc.get("correct"), int) else stated or []
            correct = correct if row.get("target") is None else [*correct, int(row["target"])]
            gold = [space.ids[place] if place < len(space) else f"option {place}" for place in correct]
            scored = ScoredQuery(query, doc["template_index"], {"sum/full": scores})
            if checker.accepts(scored, line, gold, doc.get("subject"), doc.get("template"), doc.get("text_options")):
                yield scored
