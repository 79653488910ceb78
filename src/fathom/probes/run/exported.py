"""Runs for Every Eval Ever.

It takes a JSON file of numbers and a line for each scored prediction, as ``data/fathom/DEVELOPER/MODEL/ID.json`` and
``ID_samples.jsonl``.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from fathom._version import VERSION
from fathom.base.errors import refuse
from fathom.results.estimates import Estimate
from fathom.results.facts import ACCURACY, names_of
from fathom.results.rows import Rows
from fathom.results.summary import RunNumbers
from fathom.store.files import write_json, write_json_lines
from fathom.store.folder import RunFolder
from fathom.store.outputs import obstacles, signature_of, whole_folder

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
