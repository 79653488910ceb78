"""EntityQuestions (Sciavolino et al., EMNLP 2021): simple questions on entities, one wording for each relation.

As published: ``test/P36.test.json`` … (lists of ``question`` and ``answers``), ``dev`` and ``train`` likewise, with
``relation_query_templates.json`` of the repository in the folder or in one of the two above. The test questions are
asked (else those of dev, else of train), the others are splits of the graph. Subjects are what stands at the template's
``[X]``; they and answers have no ids, their names stand for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import QuerySet
from fathom.data.templates import SUBJECT
from fathom.formats.base import Draft, Format, texts_of
from fathom.formats.facts import AnswerNames, Fact, NamedAnswer, RelationEntry, add_queries
from fathom.formats.recognition import data_files
from fathom.prompts.questions import as_template
from fathom.reading import Faults, read_json, read_json_items, shown, stands

TEMPLATES = "relation_query_templates.json"
_FILE = re.compile(r"(P\d+)\.(test|dev|train)\.json(\.gz)?")
_SPLITS = ("test", "dev", "train")
"""In the order in which they are asked."""
_ROW: dict[str, type] = {"question": str, "answers": list}


def read_entityquestions(path: Path, faults: Faults) -> QuerySet | None:
    """:returns: the query set, None where a fault keeps it from being read."""
    files = _files(path)
    templates = _templates(path, faults)
    facts = [fact for file in files for fact in _facts(file, templates, faults)] if templates else []
    split = next((split for split in _SPLITS if any(fact.split == split for fact in facts)), "")
    asked, names, draft = [fact for fact in facts if fact.split == split], AnswerNames(facts), Draft(path, faults)
    questions = {id_: as_template(text) for id_, text in templates.items()}
    entries = {id_: RelationEntry((question,), questions=(question,)) for id_, question in questions.items()}
    add_queries(draft, asked, entries, names, lambda fact, gold: {"answers": str(len(gold))})
    return draft.queryset(
        path.name.split(".")[0],
        lambda: _graph(facts, split),
        nothing="no questions: expected a list of them",
        licence="MIT",
    )


def _files(path: Path) -> list[Path]:
    places = [path, *(path / split for split in _SPLITS)]
    return [file for place in places for file in data_files(place, ".json", ".gz") if _FILE.fullmatch(file.name)]


def _templates(path: Path, faults: Faults) -> dict[str, str]:
    folder = path.absolute() if path.is_dir() else path.absolute().parent
    file = next((found for up in (folder, *folder.parents[:2]) if stands(found := up / TEMPLATES)), None)
    if file is None:
        faults.add(folder / TEMPLATES, None, "file is missing: copy it from EntityQuestions' repository")
        return {}
    content = read_json(file, faults)
    if isinstance(content, dict) and texts_of(list(content.values())) is not None:
        bad = [id_ for id_, text in content.items() if text.count(SUBJECT) != 1]
        if not bad:
            return content
        faults.add(file, None, f"template of {bad[0]} must have {SUBJECT} once, found {content[bad[0]]!r}")
    elif content is not None:
        faults.add(file, 1, f'expected {{"P36": "… {SUBJECT} …?"}}, found {shown(content)}')
    return {}


def _facts(file: Path, templates: dict[str, str], faults: Faults) -> Iterator[Fact]:
    named = _FILE.fullmatch(file.name)
    assert named is not None
    relation, split = named[1], named[2]
    if relation not in templates:
        faults.add(file, None, f"relation {relation} has no template in {TEMPLATES}")
        return
    before, after = templates[relation].split(SUBJECT)
    fitting = re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.DOTALL)
    for line, row in read_json_items(file, _ROW, faults):
        found, answers = fitting.fullmatch(row["question"]), texts_of(row["answers"])
        if found is None:
            faults.add(file, line, f"expected {templates[relation]!r}, found {row['question'][:80]!r}")
        elif not answers:
            faults.add(file, line, f"'answers' must be a list of texts, found {shown(row['answers'])}")
        else:
            given = tuple(NamedAnswer(name, name) for name in dict.fromkeys(answers))
            yield Fact(file, line, "", relation, found[1], found[1], given, split=split)


def _graph(facts: list[Fact], asked: str) -> KnowledgeGraph:
    """All facts by split, what is asked as ``test``."""
    triples: dict[str, list[tuple[str, str, str]]] = {split: [] for split in ("train", "dev", "test")}
    for fact in facts:
        split = "test" if fact.split == asked else fact.split
        triples[split] += [(fact.subject_id, fact.relation, answer.id) for answer in fact.answers]
    if not triples["train"] and not triples["dev"]:
        return KnowledgeGraph.from_triples(triples["test"], {})
    return KnowledgeGraph.from_splits(triples, {}, {})


FORMAT = Format(
    "entityquestions", "P36.test.json (EntityQuestions)", lambda path: bool(_files(path)), read_entityquestions
)
