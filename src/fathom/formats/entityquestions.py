"""EntityQuestions (Sciavolino et al., EMNLP 2021): simple questions on entities, one wording for each relation.

Published layout: lists of ``question`` and ``answers`` in ``test/P36.test.json`` …, ``dev`` and ``train`` likewise.
``relation_query_templates.json`` is in the folder or one of the two above. Queries come from the test questions, or
else from dev or train; the other files are splits of the graph. Names serve as ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fathom.data.templates import SUBJECT
from fathom.formats.base import Draft, read_object, texts_of
from fathom.formats.facts import AnswerNames, Fact, NamedAnswer, RelationEntry, add_queries, split_graph
from fathom.formats.recognition import define_format
from fathom.prompts.questions import as_template
from fathom.reading import Faults, read_json_items, shown, stands

_TEMPLATES = "relation_query_templates.json"
_FILE = re.compile(r"(P\d+)\.(test|dev|train)\.json(\.gz)?")
_SPLITS = ("test", "dev", "train")
"""The first with facts is queried."""
_ROW: dict[str, type] = {"question": str, "answers": list}


def _fill(draft: Draft, files: list[Path]) -> dict[str, Any]:
    texts = _question_texts(draft.path, draft.faults)
    facts = [fact for file in files for fact in _facts(file, texts, draft.faults)] if texts else []
    split = next((split for split in _SPLITS if any(fact.split == split for fact in facts)), "")
    facts = [fact._replace(split="test") if fact.split == split else fact for fact in facts]
    queried, names = [fact for fact in facts if fact.split == "test"], AnswerNames(facts)
    templates = {id_: as_template(text) for id_, text in texts.items()}
    entries = {id_: RelationEntry((template,), questions=(template,)) for id_, template in templates.items()}
    add_queries(draft, queried, entries, names, lambda fact, gold: {"answers": str(len(gold))})
    return {"graph": lambda: split_graph(facts, names)}


def _question_texts(path: Path, faults: Faults) -> dict[str, str]:
    folder = path.absolute() if path.is_dir() else path.absolute().parent
    file = next((path for place in (folder, *folder.parents[:2]) if stands(path := place / _TEMPLATES)), None)
    if file is None:
        faults.add(folder / _TEMPLATES, None, "file is missing: copy it from EntityQuestions' repository")
        return {}
    texts = read_object(file, faults, f'{{"P36": "… {SUBJECT} …?"}}', str)
    bad = next((id_ for id_, text in texts.items() if text.count(SUBJECT) != 1), None)
    if bad is not None:
        faults.add(file, None, f"template of {bad} must have {SUBJECT} once, found {texts[bad]!r}")
        return {}
    return texts


def _facts(file: Path, texts: dict[str, str], faults: Faults) -> Iterator[Fact]:
    name = _FILE.fullmatch(file.name)
    assert name is not None
    relation, split = name[1], name[2]
    if relation not in texts:
        faults.add(file, None, f"relation {relation} has no template in {_TEMPLATES}")
        return
    before, after = texts[relation].split(SUBJECT)
    fitting = re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.DOTALL)
    for line, row in read_json_items(file, _ROW, faults):
        match, answers = fitting.fullmatch(row["question"]), texts_of(row["answers"])
        if match is None:
            faults.add(file, line, f"expected {texts[relation]!r}, found {row['question'][:80]!r}")
        elif not answers:
            faults.add(file, line, f"'answers' must be a list of texts, found {shown(row['answers'])}")
        else:
            given = tuple(NamedAnswer(name, name) for name in dict.fromkeys(answers))
            yield Fact(file, line, "", relation, match[1], match[1], given, split=split)


FORMAT = define_format(
    "entityquestions",
    "P36.test.json (EntityQuestions)",
    (".json", ".gz"),
    lambda file: bool(_FILE.fullmatch(file.name)),
    _fill,
    nothing="no questions: expected a list of them",
    licence="MIT",
    places=lambda path: [path, *(path / split for split in _SPLITS)],
    notes_rest=False,
)
