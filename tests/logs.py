"""Results of lm-pub-quiz and lm-evaluation-harness on three capitals, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TOWNS = {"Uganda": "Kampala", "France": "Paris", "Peru": "Lima"}
TEMPLATES = ["The capital of [X] is [Y].", "[X] has the capital [Y]."]
SCORES = [[-1.0, -2.0, -3.0], [-1.0, -2.0, -2.5], [-3.0, -3.0, -1.5]]
"""Of each subject's answers; the second is answered wrongly."""


def write(file: Path, *rows: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def write_bear(folder: Path) -> Path:
    """A data set in BEAR's layout."""
    space = {"answer_space_labels": list(TOWNS.values()), "answer_space_ids": [f"id {name}" for name in TOWNS.values()]}
    write(folder / "metadata_relations.json", {"P36": {"templates": TEMPLATES} | space})
    rows = ({"sub_id": f"Q {subject}", "sub_label": subject, "obj_id": f"id {name}", "obj_label": name, "answer_idx": n}
            for n, (subject, name) in enumerate(TOWNS.items()))  # fmt: skip
    write(folder / "P36.jsonl", *rows)
    return folder


def quiz_metadata(**fields: Any) -> dict[str, Any]:
    about = {"templates": TEMPLATES, "template_index": 0, "model_name_or_path": "gpt2", "reduction": "sum"}
    about |= {"answer_space_ids": [f"id {name}" for name in TOWNS.values()], "lm_pub_quiz_version": "0.3.3"}
    return about | {"answer_space_labels": list(TOWNS.values())} | fields


def quiz(folder: Path, rows: list[dict[str, Any]], **fields: Any) -> Path:
    write(folder / "metadata_results.json", {"P36": quiz_metadata(**fields)})
    write(folder / "P36_results.jsonl", *rows)
    return folder


def rows_of(**more: Any) -> list[dict[str, Any]]:
    return [{"sub_id": f"Q {subject}", "sub_label": subject, "answer_idx": n, "pll_scores": scores} | more
            for n, (subject, scores) in enumerate(zip(TOWNS, SCORES, strict=True))]  # fmt: skip


def log(folder: Path, **doc: Any) -> Path:
    """A log of lm-evaluation-harness, with numbers as texts, as it writes them."""
    options = list(TOWNS.values())
    rows = [
        {"doc_id": n, "filtered_resps": [[str(score), "False"] for score in scores], "target": str(n)}
        | {"doc": {"composite_id": f"P36-{n}-0", "relation": "P36", "item": n, "template_index": 0, "subject": subject,
                   "template": TEMPLATES[0], "answer_options": options, "correct": n} | doc}
        for n, (subject, scores) in enumerate(zip(TOWNS, SCORES, strict=True))
    ]  # fmt: skip
    config = {
        "model": "hf",
        "model_args": "pretrained=gpt2,dtype=float32",
        "model_sha": "ab12",
        "model_dtype": "torch.float32",
    }
    write(folder / "gpt2" / "results_2026-01-21T03-44-18.json", {"config": config, "lm_eval_version": "0.4.13"})
    write(folder / "gpt2" / "samples_bear_2026-01-21T03-44-18.jsonl", *rows)
    return folder
