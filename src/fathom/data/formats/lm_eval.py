"""A query set as a task folder of lm-evaluation-harness: one document per query and template, one choice per candidate.

Each choice is a whole statement without context, so its log-likelihood is the statement probe's ``sum/full``. The
task's function computes Fathom's accuracy: other known answers do not count, ties count by their expected value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from fathom.base.errors import BadInput, refuse
from fathom.base.reading import Json, read_text
from fathom.data.queries import QuerySet, unrankable
from fathom.store.files import write_json_lines, write_text
from fathom.store.outputs import obstacles, signature_of, whole_folder

_TASK, _FUNCTIONS = (read_text(Path(__file__).with_name(f"lm_eval_{name}")) for name in ("task.yaml", "functions.txt"))


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
