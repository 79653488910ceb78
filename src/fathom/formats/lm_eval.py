"""A query set as a task folder of lm-evaluation-harness: one document per query and template, one choice per candidate.

Each choice is a whole statement without context, as in the harness's BEAR tasks, so its log-likelihood is the score
``sum/full`` of the statement probe. The task's function computes Fathom's accuracy: other known answers do not count,
and ties count by their expected value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from fathom.data.queries import QuerySet, unrankable
from fathom.errors import BadInput, refuse
from fathom.reading import Json
from fathom.store.files import write_json_lines, write_text
from fathom.store.outputs import obstacles, signature_of, whole_folder

_TASK = """\
task: "{name}"
custom_dataset: !function fathom_task.load
test_split: test
output_type: multiple_choice
doc_to_text: ""
doc_to_choice: text_options
doc_to_target: target
target_delimiter: ""
process_results: !function fathom_task.score
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
metadata: {{version: {version}}}
"""
_FUNCTIONS = '''\
"""Documents and accuracy of this task, for lm-evaluation-harness."""

import json
from pathlib import Path

import datasets


def load(**_):
    with Path(__file__).with_name("docs.jsonl").open(encoding="utf-8") as lines:
        return {"test": datasets.Dataset.from_list([json.loads(line) for line in lines])}


def score(doc, results):
    """Expected accuracy under random order of ties; other known answers do not count."""
    scores = [result[0] for result in results]
    best = max(scores[place] for place in doc["correct"])
    rivals = [score for place, score in enumerate(scores) if place not in doc["correct"] + doc["known"]]
    return {"acc": 0.0 if any(score > best for score in rivals) else 1 / (1 + rivals.count(best))}
'''


def write_task(data: QuerySet, out: Path, name: str, templates: Sequence[int] = ()) -> tuple[int, int]:
    """Write a task folder for ``lm_eval --include_path``.

    :param name: of the task. :param templates: numbers of the templates; () for all.
    :returns: numbers of documents, and of queries that cannot be ranked or have no template.
    :raises BadInput: no query has a template, or the folder exists.
    :raises MadeBefore: the same call has made it.
    """
    signature = signature_of("export lm-eval", {"name": name, "templates": templates}, data=data.content_hash)
    refuse([*obstacles(out, signature), *data.template_faults(templates), *data.head_faults()])
    if not (rows := list(_documents(data, templates))):
        raise BadInput(f"{data.name}: no query has a template or a sentence that could be scored")
    with whole_folder(out, signature) as folder:
        write_text(folder / f"{name}.yaml", _TASK.format(name=name, version=json.dumps(data.content_hash)))
        write_text(folder / "fathom_task.py", _FUNCTIONS)
        write_json_lines(folder / "docs.jsonl", rows)
    return len(rows), len(data.queries) - len({row["query"] for row in rows})


def _documents(data: QuerySet, templates: Sequence[int]) -> Iterator[Json]:
    for number, queries in data.by_phrasing(data.queries, templates).items():
        for query in queries:
            space = data.candidates[query.candidates]
            if unrankable(query, space) is None and data.phrasings(query):
                template, correct = data.phrasings(query)[number], space.places(query.gold)
                yield {
                    "query": query.id,
                    "relation": query.relation,
                    "template_index": number,
                    "answer_options": list(space.names),
                    "text_options": [template.fill(query.subject, answer).text for answer in space.names],
                    "correct": correct,
                    "known": space.places(query.known),
                    "target": correct[0],
                }
