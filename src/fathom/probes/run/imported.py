"""Results of other tools as run folders (lm-pub-quiz, lm-evaluation-harness), and runs for Every Eval Ever.

Queries, ids and groups come from the data set, so that imported runs compare with Fathom's own. lm-evaluation-harness
logs BEAR or an exported task. Every Eval Ever takes a JSON file of numbers and a line for each scored prediction, as
``data/fathom/DEVELOPER/MODEL/ID.json`` and ``ID_samples.jsonl``.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import numpy as np
from pydantic import Field, Strict

from fathom._version import VERSION
from fathom.base.errors import BadInput, refuse
from fathom.base.reading import Faults, Json, first_few, read_json_lines, repetition, shown, stands
from fathom.base.reading.objects import Object, object_faults
from fathom.data.formats import read
from fathom.data.formats.base import read_object
from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.engine.scoring.rows import Columns, PromptedQuery, score_columns
from fathom.probes import PROBES
from fathom.probes.options import StatementOptions
from fathom.probes.run.setup import declarations, digest_of, tables
from fathom.results.estimates import Estimate
from fathom.results.facts import ACCURACY, names_of
from fathom.results.rows import Rows
from fathom.results.summary import RunNumbers
from fathom.store.files import write_json, write_json_lines
from fathom.store.folder import RunFolder
from fathom.store.outputs import obstacles, signature_of, whole_folder
from fathom.store.predictions import Scoring

QUIZ = "metadata_results.json"
"""File of lm-pub-quiz with the templates, answers and settings of each relation."""
_LOG = re.compile(r"samples_.+_(\d{4}-\d\d-\d\dT[^_]+)\.jsonl")
_PLL = {
    "original": "original",
    "within_word_l2r": "within-word-l2r",
    "answer_l2r+word_l2r": "answer-l2r",
    "sentence_l2r": "sentence-l2r",
}
"""Fathom's names of lm-pub-quiz's ways to mask."""
_REDUCTIONS = ("sum", "mean")
_PROBE = PROBES["statement"]
"""The probe that makes the same scores."""
_SHARD = "all"


Place = Annotated[int, Field(ge=0)]
Nats = Annotated[float, Field(le=0)]
Surprisal = Annotated[tuple[str, Annotated[float, Field(ge=0)]], Strict(False)]
Written = Annotated[str, Field(pattern=r"^(-([0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|inf)|0(\.0+)?|nan)$")]
"""A log-likelihood as text."""


class QuizRelation(Object):
    """A relation in :data:`QUIZ`."""

    templates: list[str] | None = None
    template_index: Place | list[Place] | None = Field(None, description="the number of a template, or several")
    answer_space_ids: list[str | int] | None = Field(None, description="a list of ids")
    reduction: Literal["sum", "mean", ""] | None = Field(None, description="'sum' or 'mean', or null if not reduced")
    pll_metric: str | None = None


class QuizRow(Object):
    """A line of ``P36_results.jsonl``.

    Legacy layouts have labels (``predicted_tokens``) with surprisals, best first, or surprisals of all tokens
    (``results``).
    """

    sub_id: str
    obj_id: str | int | None = None
    answer_idx: Place | None = None
    instance_index: Place | None = None
    template_index: Place | None = None
    predicted_tokens: list[str] | None = None
    pll_scores: list[float | Annotated[list[Nats], Field(min_length=1)] | None] | None = Field(
        None, description="a score of 0 or less, or those of one token or more, for each answer"
    )
    results: list[Annotated[tuple[Annotated[list[Surprisal], Field(min_length=1)], Any], Strict(False)]] | None = Field(
        None, description="the surprisals of one token or more, for each answer"
    )


class HarnessDocument(Object):
    """A document of the task BEAR, or of one that ``fathom export lm-eval`` wrote."""

    query: str | None = None
    relation: str
    template_index: Place
    template: str | None = None
    answer_options: list[str]
    text_options: list[str] | None = None
    correct: Place | Annotated[list[Place], Field(min_length=1)] | None = Field(
        None, description="the place of the right option, or several"
    )


class HarnessRow(Object):
    """A line of ``samples_TASK_TIME.jsonl``."""

    doc: HarnessDocument
    filtered_resps: list[Annotated[tuple[Nats | Written, Any], Strict(False)]] = Field(
        description="[log-likelihood of 0 or less, …] for each option"
    )


class HarnessConfig(Object):
    """The model of ``results_TIME.json``."""

    model_args: str | dict[str, Any] | None = Field(None, description="a text or an object")
    model_sha: str | None = None
    model_dtype: str | None = None


class HarnessResults(Object):
    """``results_TIME.json``."""

    config: HarnessConfig = HarnessConfig()
    model_name: str | None = None
    lm_eval_version: str | None = None


class ScoredQuery(NamedTuple):
    """A query in one template. :param scores: of all candidates, in nats, by the name of the scoring."""

    query: Query
    template: int
    scores: Mapping[str, Sequence[float]]


class RowChecker:
    """The lines of a file of results: each must be as declared, new, and of the data set."""

    def __init__(self, file: Path, data: QuerySet, faults: Faults, kind: type[Object]) -> None:
        self.file, self.data, self.faults, self.kind = file, data, faults, kind
        self.lines: dict[tuple[str, int], int] = {}

    def rows(self) -> Iterator[tuple[int, int, Json]]:
        """Yield (number of the object, line number, object) of lines as declared; the others become faults."""
        for number, (line, row) in enumerate(read_json_lines(self.file, {}, self.faults)):
            if found := object_faults(self.file, self.kind, row, most=1, line=line):
                self.faults.found += found
            else:
                yield number, line, row

    def accepts(self, row: ScoredQuery, line: int, texts: Collection[str], gold: Collection[str]) -> bool:
        """Return whether a row can be part of a run; else add a fault.

        :param texts: the template, or statements of answers, in the log.
        :param gold: ids of gold answers in the log.
        """
        phrasings, name = self.data.phrasings(row.query), f"query {row.query.id} in template {row.template}"
        asked = phrasings[row.template : row.template + 1]
        answers = self.data.candidates[row.query.candidates].names
        statements = (one.fill(row.query.subject, answer).text for one in asked for answer in answers)
        expected = [*(one.text for one in asked), *statements]
        why = repetition(self.lines, (row.query.id, row.template), line, name)
        if not asked:
            why = f"{name}: expected a template from 0 to {len(phrasings) - 1}"
        elif not set(texts) <= set(expected):
            why = f"{name}: expected the text {expected[0]!r}, found {first_few(texts)}"
        elif not set(gold) <= set(row.query.gold):
            why = f"{name}: expected the gold answer {first_few(row.query.gold)}, found {first_few(gold)}"
        elif any(score > 0 for scores in row.scores.values() for score in scores):
            why = f"{name}: a log-likelihood is above 0"
        if why:
            self.faults.add(self.file, line, why)
        return not why


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
    shows = declarations(_PROBE, scorings, {"imported from": found.tool})
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
        elif found := object_faults(folder / QUIZ, QuizRelation, about):
            faults.found += [f"{fault} in {relation}" for fault in found]
        elif not stands(file):
            faults.add(file, None, "file is missing: only JSON Lines are imported, save the results as such")
        else:
            rows += _quiz_rows(file, about, by_relation[relation], data, faults)
    first: Json = next(iter(metadata.values()), {})
    used = {name.partition("/")[0] for row in rows for name in row.scores}
    options: dict[str, Any] = {"reduction": tuple(name for name in _REDUCTIONS if name in used) or ("sum",)}
    if not faults.found and first.get("pll_metric") in _PLL:
        options["pll"] = _PLL[first["pll_metric"]]
    model = {"name": str(first.get("model_name_or_path") or folder.resolve().name)}
    return Results(f"lm-pub-quiz {first.get('lm_pub_quiz_version') or 'of an unknown version'}", model, options, rows)


def _quiz_rows(
    file: Path, about: Json, queries: Sequence[Query], data: QuerySet, faults: Faults
) -> Iterator[ScoredQuery]:
    checker, space = RowChecker(file, data, faults, QuizRow), data.candidates[queries[0].candidates]
    used, templates = about.get("template_index"), about.get("templates") or []
    known = templates or data.relations[queries[0].relation].templates
    used = [used] if isinstance(used, int) else used or range(max(1, len(known)))
    ids = list(map(str, about.get("answer_space_ids") or space.ids))
    if sorted(ids) != sorted(space.ids):
        faults.add(file, None, f"other answers than the data set's: {first_few(ids)} for {first_few(space.ids)}")
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
            expected = f"expected scores of all {len(space)} answers, in one layout in all lines"
            faults.add(file, line, f"{expected}, found {shown(row.get('pll_scores'))}")
        else:
            layout = tuple(scores)
            gold = [str(row["obj_id"])] if row.get("obj_id") is not None else []
            answer = row.get("answer_idx")
            gold += [] if answer is None else ids[answer : answer + 1] or [f"answer {answer}"]
            scored = ScoredQuery(query, template, scores)
            if checker.accepts(scored, line, templates[template : template + 1] or templates[:1], gold):
                yield scored


def _quiz_scores(row: Json, ids: Sequence[str], space: CandidateSet, reduction: str) -> dict[str, list[float]] | None:
    """Return the scores of all answers in the order of the space; None if there is not one for each."""
    labels, values = row.get("predicted_tokens"), row.get("pll_scores") or []
    if labels is not None:
        if any(isinstance(value, list) for value in values):
            return None
        values, ids = [-value if isinstance(value, float | int) else value for value in values], labels
    elif row.get("results") is not None:
        values = [[-surprisal for _, surprisal in tokens] for tokens, _ in row["results"]]
    by_id = dict(zip(ids, values, strict=False))
    wanted = space.ids if labels is None else space.names
    if len(ids) != len(values) or by_id.keys() != set(wanted) or len({isinstance(some, list) for some in values}) > 1:
        return None
    scores = [by_id[name] for name in wanted]
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
        query = by_id.get(doc.get("query") or f"{doc['relation']}/{doc.get('item')}")
        space = data.candidates[query.candidates] if query is not None else None
        answers = list(space.names) if space is not None else None
        if query is None or query.relation != doc["relation"] or doc["answer_options"] != answers:
            name = f"{doc['relation']}, item {doc.get('item')}"
            faults.add(file, line, f"{name}: not a query of {data.name} with its answers; give the --data evaluated")
        elif space is None or len(scores) != len(space):
            expected = f"expected [log-likelihood, …] for each of {len(answers or ())} options"
            faults.add(file, line, f"{expected}, found {len(scores)}")
        else:
            correct = [stated] if isinstance(stated := doc.get("correct"), int) else stated or []
            gold = [space.ids[place] if place < len(space) else f"option {place}" for place in correct]
            scored = ScoredQuery(query, doc["template_index"], {"sum/full": scores})
            if checker.accepts(scored, line, _texts_of(doc), gold):
                yield scored


def _texts_of(document: Json) -> list[str]:
    """Return what a document says of its text: the statements of our own task, or the template of BEAR's."""
    if document.get("query"):
        return document.get("text_options") or []
    return [document["template"]] if document.get("template") else []


SCHEMA = "0.3.0"
SHARES = re.compile("accuracy|hits@.*|mrr|precision|recall|f1")
"""Metrics between 0 and 1, of which higher is better."""


def export_every_eval_ever(run: RunFolder, out: Path, organisation: str = "unknown") -> Path:
    """Write a finished run as a folder, and return the file of its numbers.

    :param organisation: that made the evaluation.
    :raises BadInput: the run is unfinished, or the folder exists.
    :raises MadeBefore: the same call has made it.
    """
    run.refuse_unfinished()
    identity = run.manifest["identity"]
    source = json.dumps([identity, run.manifest["circumstances"].get("begun")], sort_keys=True)
    signature = signature_of("export every-eval-ever", {"organisation": organisation}, run=source)
    refuse(obstacles(out, signature))
    parts = ["unknown", *str(identity["model"]["name"]).rstrip("/").rsplit("/", 1)][-2:]
    developer, model = (re.sub(r"[^\w.-]+", "-", part).strip("-.") or "unknown" for part in parts)
    unique = UUID(bytes=hashlib.sha256(source.encode()).digest()[:16], version=4)
    place, rows = Path("data", "fathom", developer, model), Rows(run)
    shared = {"schema_version": SCHEMA, "evaluation_id": f"fathom/{developer}_{model}/{unique}"}
    with whole_folder(out, signature) as folder:
        (folder / place).mkdir(parents=True)
        samples = folder / place / f"{unique}_samples.jsonl"
        write_json_lines(samples, (shared | {"model_id": f"{developer}/{model}"} | row for row in _samples(rows)))
        content = samples.read_bytes()
        details = {"format": "jsonl", "file_path": str(place / samples.name), "hash_algorithm": "sha256"} | {
            "checksum": hashlib.sha256(content).hexdigest(),
            "total_rows": content.count(b"\n"),
        }
        about = shared | _about(identity, f"{developer}/{model}", organisation)
        results = [
            _result(rows, line.scoring, name, number, line.unscored)
            for line in RunNumbers(run).headlines
            for name, number in line.numbers.items()
            if SHARES.fullmatch(name)
        ]
        numbers = about | {"evaluation_results": results, "detailed_evaluation_results": details}
        write_json(folder / place / f"{unique}.json", numbers)
    return out / place / f"{unique}.json"


def _about(identity: dict[str, Any], model: str, organisation: str) -> dict[str, Any]:
    facts = {name: str(value) for name, value in identity["model"].items() if value is not None}
    details = {"deployment_type": "unknown", "model_availability": "unknown"} | facts
    source = {"source_name": "Fathom", "source_type": "evaluation_run", "evaluator_relationship": "other"}
    return {
        "retrieved_timestamp": str(time.time()),
        "source_metadata": source | {"source_organization_name": organisation},
        "eval_library": {"name": "fathom", "version": str(identity.get("version", VERSION))},
        "model_info": {"name": facts["name"], "id": model, "additional_details": details},
    }


def _result(rows: Rows, scoring: str, name: str, number: Estimate, unscored: int) -> dict[str, Any]:
    data, evaluation = rows.identity["data"], _evaluation(rows, scoring)
    method = f"95 % interval, sampling unit: {number.sample}"
    ends = {"lower": number.low, "upper": number.high, "confidence_level": 0.95, "method": method}
    details = {"recipe": number.recipe, "unscored": str(unscored)}
    about = {key: str(value) for key, value in data.items()}
    return {
        "evaluation_result_id": f"{evaluation}/{name}",
        "evaluation_name": evaluation,
        "source_data": {"dataset_name": str(data["name"]), "source_type": "other", "additional_details": about},
        "metric_config": {"metric_id": name, "metric_name": name, "lower_is_better": False}
        | {"score_type": "continuous", "min_score": 0.0, "max_score": 1.0},
        "score_details": {"score": number.value, "details": details}
        | {"uncertainty": {"num_samples": number.n} | ({"confidence_interval": ends} if number.ends else {})},
    }


def _evaluation(rows: Rows, scoring: str) -> str:
    return f"{rows.identity['data']['name']}/{rows.identity['probe']}/{scoring}"


def _samples(rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield the scored predictions, each with its first answers and its expected credit over ties."""
    names, credit = names_of(rows.candidates), rows.hits(1)
    written = rows.table.column("answers").to_pylist() if "answers" in rows.table.column_names else {}
    for place in rows.scored.nonzero()[0].tolist():
        query, evaluation = int(rows.query[place]), _evaluation(rows, rows.scoring[place])
        prompt, _ = rows.asked(place)
        gold, first = (
            [names.get(id_, id_) for id_ in ids] for ids in (rows.gold[query], sorted(rows.top_answers(place)))
        )
        raw = (written and written[place]) or first
        taken = {"turn_idx": 0, "source": "output.raw", "extraction_method": "custom", "is_terminal": True}
        choices = list(rows.candidates[rows.spaces[query] or ""][1]) if len(rows.scores(place)) else None
        yield {
            "evaluation_name": evaluation,
            "evaluation_result_id": f"{evaluation}/{ACCURACY}",
            "sample_id": f"{rows.query_ids[query]}#{rows.template[place]}",
            "sample_hash": hashlib.sha256("".join([prompt, *gold]).encode()).hexdigest(),
            "interaction_type": "single_turn",
            "input": {"raw": prompt, "reference": gold, "choices": choices},
            "output": {"raw": raw},
            "answer_attribution": [taken | {"extracted_value": answer} for answer in raw],
            "evaluation": {"score": float(credit[place]), "is_correct": bool(credit[place] > 0.5)},
            "metadata": {"relation": rows.relations[query], "fact": rows.fact_ids[query] or rows.query_ids[query]},
        }
