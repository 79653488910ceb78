"""How rows of published data sets become facts, where that takes more than columns.

Their records are in the catalogue, ``fathom/data/published.yaml``; docs/data-format.md describes their files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fathom.base.reading import Faults, resolve_packed, shown, stands
from fathom.data.formats.base import Draft, read_object, texts_of
from fathom.data.formats.facts import Fact, NamedAnswer, RelationEntry, add_facts, read_entries
from fathom.data.formats.rows import Row
from fathom.data.formats.tables import Make
from fathom.data.graph.seen import popularity
from fathom.data.prompts.questions import as_template, question_lines
from fathom.data.queries import POPULARITY
from fathom.data.templates import SUBJECT

About = Mapping[str, Any]

# --- PopQA (Mallen et al., ACL 2023): `possible_answers` mixes the names of all right answers


def _popqa(draft: Draft, rows: Iterator[Row]) -> About:
    lines = list(rows)
    objects: dict[tuple[str, str], NamedAnswer] = {}
    for row in lines:
        objects.setdefault((row["prop"], row["obj"]), _popqa_object(row))
    entries: dict[str, RelationEntry] = {}
    about = add_facts(draft, [_popqa_fact(row, objects, entries) for row in lines], entries, count_answers=True)
    if unknown := sum(min(row["s_pop"], row["o_pop"]) < 0 for row in lines):
        draft.faults.note(draft.path, None, f"questions with page views below 0, which stand for unknown: {unknown:,}")
    return about


def _popqa_object(row: Row) -> NamedAnswer:
    name = row["obj"]
    return NamedAnswer(_entity(row["o_uri"]) or name, name, tuple(alias for alias in row["o_aliases"] if alias != name))


def _entity(address: str) -> str:
    return address.rsplit("/", 1)[-1]


def _popqa_fact(row: Row, objects: Mapping[tuple[str, str], NamedAnswer], entries: dict[str, RelationEntry]) -> Fact:
    """:param entries: relations with their questions; a new one is added."""
    subject, relation = row["subj"], row["prop"]
    question = row["question"].replace(subject, SUBJECT) if subject else ""
    template = as_template(question)
    expected = entries.setdefault(relation, RelationEntry((template,), questions=(template,))).templates[0]
    if SUBJECT not in question:
        row.refuse(f"question {shown(row['question'])} does not name its subject {shown(subject)}")
    elif expected != template:
        differs = f"relation {relation!r} asks {expected.text!r} above, here {template.text!r}"
        row.refuse(f"{differs}: expected one question per relation")
    classes, views = ([say(row[name]) if row[name] >= 0 else "unknown" for name in _VIEWS] for say in (popularity, str))
    groups = dict(zip(_VIEW_GROUPS, (*classes, *views), strict=True))
    about = (row.file, row.line, row["id"], relation, subject, _entity(row["s_uri"]) or subject)
    return Fact(*about, _popqa_answers(row, objects), subject_aliases=tuple(row["s_aliases"]), groups=groups)


_VIEWS = ("s_pop", "o_pop")
_VIEW_GROUPS = (POPULARITY, "answer_popularity", "subject_views", "answer_views")


def _popqa_answers(row: Row, objects: Mapping[tuple[str, str], NamedAnswer]) -> tuple[NamedAnswer, ...]:
    """Return the right answers: the object, then objects of other questions, then the remaining names as one."""
    object_ = _popqa_object(row)
    answers, names, rest = {object_.id: object_}, {object_.name, *object_.aliases}, []
    for name in row["possible_answers"]:
        if name in names or not name.strip():
            continue
        other = objects.get((row["prop"], name))
        names |= {name, *(other.aliases if other else ())}
        if other is None:
            rest.append(name)
        else:
            answers[other.id] = other
    return (*answers.values(), *([NamedAnswer(rest[0], rest[0], tuple(rest[1:]))] if rest else []))


# --- EntityQuestions (Sciavolino et al., EMNLP 2021): lists of questions by relation and split; names serve as ids

_QUESTION_TEXTS = "relation_query_templates.json"


def _entityquestions(draft: Draft, rows: Iterator[Row]) -> About:
    texts = _question_texts(draft)
    facts = [fact for row in rows if (fact := _entity_question(row, texts)) is not None] if texts else []
    splits = {fact.split for fact in facts}
    queried = next((split for split in ("test", "dev", "train") if split in splits), "")
    facts = [fact._replace(split="test") if fact.split == queried else fact for fact in facts]
    templates = {id_: as_template(text) for id_, text in texts.items()}
    entries = {id_: RelationEntry((template,), questions=(template,)) for id_, template in templates.items()}
    return add_facts(draft, facts, entries, splits=True, count_answers=True)


def _question_texts(draft: Draft) -> dict[str, str]:
    """Read the question of each relation from the folder or one of the two above."""
    folder = draft.path.absolute() if draft.path.is_dir() else draft.path.absolute().parent
    files = (place / _QUESTION_TEXTS for place in (folder, *folder.parents[:2]))
    file = next(filter(stands, files), None)
    if file is None:
        draft.faults.add(folder / _QUESTION_TEXTS, None, "file is missing: copy it from EntityQuestions' repository")
        return {}
    texts = read_object(file, draft.faults, f'{{"P36": "… {SUBJECT} …?"}}', str)
    if bad := next((id_ for id_, text in texts.items() if text.count(SUBJECT) != 1), None):
        draft.faults.add(file, None, f"template of {bad} must have {SUBJECT} once, found {texts[bad]!r}")
        return {}
    return texts


def _entity_question(row: Row, texts: Mapping[str, str]) -> Fact | None:
    relation = row["relation"]
    if relation not in texts:
        missing = f"relation {relation} has no template in {_QUESTION_TEXTS}"
        if not any(missing in fault for fault in row.faults.found):
            row.faults.add(row.file, None, missing)
        return None
    before, after = map(re.escape, texts[relation].split(SUBJECT))
    match = re.fullmatch(f"{before}(.+){after}", row["question"], re.DOTALL)
    if match is None:
        row.refuse(f"expected {texts[relation]!r}, found {row['question'][:80]!r}")
        return None
    answers = tuple(NamedAnswer(name, name) for name in dict.fromkeys(row["answers"]))
    return Fact(row.file, row.line, "", relation, match[1], match[1], answers, split=row["split"])


# --- KAMEL (Kalo and Fichtel, AKBC 2022): a folder for each relation; test facts have ids and aliases of their answers,
# train facts only labels. Labels serve as ids of subjects.

QUESTIONS = "question-templates.csv"


def _kamel(draft: Draft, rows: Iterator[Row]) -> About:
    questions, faults = _kamel_questions(draft.path / QUESTIONS, draft.faults), draft.faults
    relations = {file.parent.name for name in ("test.jsonl", "test.jsonl.gz") for file in draft.path.glob(f"*/{name}")}
    facts: dict[str, list[Fact]] = {id_: [] for id_ in sorted({*questions, *relations})}
    for row in rows:
        relation, subject, answers = row.file.parent.name, row["sub_label"], _kamel_answers(row)
        if answers and relation in facts:
            about = (relation, subject, subject, answers)
            facts[relation].append(Fact(row.file, row.line, "", *about, split=row["split"]))
    for id_, some in facts.items():
        test, train = (resolve_packed(draft.path / id_ / f"{split}.jsonl") for split in ("test", "train"))
        if not stands(test):
            faults.note(
                draft.path / QUESTIONS, None, f"relation {id_} has a question but no {id_}/test.jsonl: left out"
            )
        elif id_ not in questions:
            faults.add(draft.path / QUESTIONS, None, f"relation {id_} has no question: add a line '{id_}, … [S] …?'")
        elif not any(fact.split == "test" for fact in some):
            faults.add(test, None, f"relation {id_} has no instances: add some or remove its folder")
        elif not stands(train):
            faults.note(train, None, "file is missing: few-shot examples cannot be drawn from it")
    templates = {id_: (as_template(text),) for id_, text in questions.items()}
    entries = {id_: RelationEntry(own, questions=own) for id_, own in templates.items()}
    every = [fact for some in facts.values() for fact in some]
    return add_facts(draft, every, entries, splits=True, count_answers=True, by_id=True)


def _kamel_questions(file: Path, faults: Faults) -> dict[str, str]:
    """Read one question per relation."""
    questions: dict[str, str] = {}
    for line, relation, text in question_lines(file, faults):
        if relation not in questions:
            questions[relation] = text
        elif questions[relation] == text:
            faults.note(file, line, f"relation {relation} is repeated")
        else:
            faults.add(file, line, f"relation {relation} has another question above: {questions[relation]!r}")
    return questions


def _kamel_answers(row: Row) -> tuple[NamedAnswer, ...]:
    """Return the answers; none after a fault. The id of a number or date is its fullest form, such as "12 May 1936"."""
    ids, labels = row["obj_uri"], row["obj_label"]
    if row["split"] == "train":
        return tuple(NamedAnswer(name, name) for name in labels)
    answers = {}
    for id_, label in zip(ids, labels, strict=False):
        about = label if isinstance(label, dict) else {}
        name, others = about.get("chosen"), about.get("alternative")
        if not isinstance(id_, str) or not isinstance(name, str) or not name.strip() or not isinstance(others, list):
            expected = '{"chosen": "…", "rdf": …, "alternative": […]}'
            row.refuse(f"expected {expected} with its obj_uri, found {str(label)[:60]}")
            return ()
        aliases = tuple(str(alias) for alias in (about.get("rdf"), *others) if alias and alias != name)
        is_literal = id_.startswith("XMLSchema#")  # where the id names the type alone
        fullest = max((name, *aliases), key=len) if is_literal else id_
        answers[fullest] = NamedAnswer(fullest, name, aliases)
    if len(ids) != len(labels) or not ids:
        row.refuse(f"{len(ids)} obj_uri for {len(labels)} obj_label: expected as many, one or more")
        return ()
    return tuple(answers.values())


# --- BioLAMA (Sung et al., EMNLP 2021): triples of up to three sources, each with its templates

_SOURCES = ("ctd", "wikidata", "umls")


def _biolama(draft: Draft, rows: Iterator[Row]) -> About:
    entries: dict[str, RelationEntry] = {}
    by_source: dict[str, list[Row]] = {}
    for row in rows:
        folders = [folder.name.lower() for folder in row.file.absolute().parents]
        by_folder = next((name for name in folders if name in _SOURCES), _SOURCES[1])
        by_source.setdefault(row["source"] or by_folder, []).append(row)
    facts: list[Fact] = []
    for source in sorted(by_source, key=_SOURCES.index):
        file = by_source[source][0].file
        processed = file.parents[1].name == "triples_processed"
        prompts = file.parents[2] / "prompts" / "manual.jsonl" if processed else file.parent / "templates.jsonl"
        if stands(prompts := resolve_packed(prompts)):
            entries |= read_entries(prompts, draft.faults, source)
        else:
            draft.faults.note(prompts, None, f"file is missing: the relations of {source} have no templates")
        facts += [fact for row in by_source[source] if (fact := _biolama_fact(row, source)) is not None]
    about = add_facts(draft, facts, entries, splits=True, count_answers=True)
    without = [id_ for id_, relation in draft.relations.items() if not relation.templates]
    if without and not draft.faults.found:
        message = "asked by few-shot lines, where a probe can"
        draft.faults.note(draft.path, None, f"no templates for {', '.join(without)}: {message}")
    return about


def _biolama_fact(row: Row, source: str) -> Fact | None:
    ids, labels = row["obj_uris"], row["obj_labels"]
    given = row["obj_aliases"] if row["obj_aliases"] is not None else [[]] * len(ids)
    if not ids or not len(ids) == len(labels) == len(given) or None in map(texts_of, given):
        expected = "as many texts, one or more, and 'obj_aliases' as a list of lists of texts, one for each"
        row.refuse(f"{len(ids)} obj_uris for {len(labels)} obj_labels: expected {expected}")
        return None
    answers = {
        id_ or name: NamedAnswer(id_ or name, name, tuple(more))
        for id_, name, more in zip(ids, labels, given, strict=True)
    }
    return Fact(
        row.file,
        row.line,
        str(row["uuid"] or ""),
        row["predicate_id"],
        row["sub_label"],
        row["sub_uri"] or row["sub_label"],
        tuple(answers.values()),
        subject_aliases=tuple(row["sub_aliases"] or ()),
        split=row["split"] or "test",
        groups={"source": source},
    )


MAKE: dict[str, Make] = {
    "biolama": _biolama,
    "entityquestions": _entityquestions,
    "kamel": _kamel,
    "popqa": _popqa,
}
"""Functions that records name as ``make``."""
