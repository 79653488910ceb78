"""How rows of published data sets become facts and questions, where that takes more than columns.

Their records are in the catalogue, ``fathom/data/published.yaml``; docs/data-format.md describes their files.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from fathom.base.reading import Faults, Json, line_of, read_json, read_lines, resolve_packed, shown, stands
from fathom.base.reading.spelling import Spelling, tidy
from fathom.data.formats.base import Draft, read_object, texts_of, unscored_unless
from fathom.data.formats.facts import (
    ClosedQuestion,
    Fact,
    NamedAnswer,
    RelationEntry,
    add_facts,
    add_questions,
    completed,
    read_entries,
)
from fathom.data.formats.rows import Columns, Row, RowReader
from fathom.data.formats.tables import Make, leave_out
from fathom.data.graph.seen import popularity
from fathom.data.prompts.questions import as_template, question_lines
from fathom.data.queries import POPULARITY
from fathom.data.templates import ANSWER, SUBJECT

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
        another = objects.get((row["prop"], name))
        names |= {name, *(another.aliases if another else ())}
        if another is None:
            rest.append(name)
        else:
            answers[another.id] = another
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
        elif test not in faults.broken and not any(fact.split == "test" for fact in some):
            faults.add(test, None, f"relation {id_} has no instances: add some or remove its folder")
        elif not stands(train):
            faults.note(train, None, "file is missing: few-shot examples cannot be drawn from it")
    templates = {id_: (as_template(text),) for id_, text in questions.items()}
    entries = {id_: RelationEntry(texts, questions=texts) for id_, texts in templates.items()}
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
    if len(ids) != len(labels) or not ids:
        row.refuse(f"{len(ids)} obj_uri for {len(labels)} obj_label: expected as many, one or more")
        return ()
    answers = {}
    for id_, label in zip(ids, labels, strict=True):
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
    aliases = row["obj_aliases"] if row["obj_aliases"] is not None else [[]] * len(ids)
    if not ids or not len(ids) == len(labels) == len(aliases) or None in map(texts_of, aliases):
        expected = "as many texts, one or more, and 'obj_aliases' as a list of lists of texts, one for each"
        row.refuse(f"{len(ids)} obj_uris for {len(labels)} obj_labels: expected {expected}")
        return None
    answers = {
        id_ or name: NamedAnswer(id_ or name, name, tuple(more))
        for id_, name, more in zip(ids, labels, aliases, strict=True)
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


# --- BMLAMA (Qi et al., EMNLP 2023): the same cloze sentences in many languages, each with its own few candidates. A
# row is the same fact in every language, and so are its candidates, by place: they share their ids. Relations are not
# named: they are the English sentences without subject.

_MASK = "<mask>"
_HEADER = "Prompt Ans Candidate Ans Subject"


def _bmlama_lines(file: Path, columns: Columns, faults: Faults) -> Iterator[tuple[int, Json]]:
    """Read a language. Most files have no quoting; in one that is quoted, a quoted cell has doubled quotes."""
    lines = [(line, text.rstrip("\r")) for line, text in read_lines(file, faults)]
    if lines and lines[0][1].split() != _HEADER.split():
        faults.add(file, 1, f"expected the columns {_HEADER}, found {lines[0][1][:80]!r}")
        return
    cells = [text.split("\t") for _, text in lines[1:]]
    opened = [cell for row in cells for cell in row if cell.startswith('"')]
    spelling = Spelling(file, faults.respelt)
    is_quoted = any('""' in cell[1:-1] for cell in opened) and all(map(_QUOTED.fullmatch, opened))
    for (line, text), row in zip(lines[1:], cells, strict=True):
        if not text.strip():
            continue
        if len(row) != len(columns) or row[0].count(_MASK) != 1:
            faults.add(file, line, f"expected {len(columns)} columns, {_MASK} once in the first, found {text[:80]!r}")
            continue
        values = spelling.of(line, next(csv.reader([text], delimiter="\t")) if is_quoted else row)
        fact: Json = dict(zip(("Prompt", "Ans", "Candidate Ans", "Subject"), values, strict=True))
        answer, candidates = fact["Ans"], fact["Candidate Ans"]
        if answer in (names := list(map(tidy, candidates.split(", ")))):
            yield line, fact | {"names": names}
        else:
            faults.add(file, line, f"answer {answer!r} is not among the candidates {candidates[:80]!r}")


_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def _bmlama_languages(draft: Draft, rows: Iterator[Row]) -> About:
    languages = {file: list(some) for file, some in groupby(rows, key=lambda row: row.file)}
    if languages:
        _keep_aligned(languages, draft.faults)
    return add_questions(draft, _bmlama({some[0]["stem"]: some for some in languages.values()}))


def _keep_aligned(languages: dict[Path, list[Row]], faults: Faults) -> None:
    """Leave out languages whose rows are other facts than those of most, by the places of the answers."""
    shapes = {file: tuple(map(_place, rows)) for file, rows in languages.items()}
    count = Counter(shapes.values())
    usual = max(shapes, key=lambda file: (count[shapes[file]], file.name.startswith("en.")))
    found = {file: _differences(rows, languages[usual]) for file, rows in languages.items()}
    leave_out(found, languages, faults)


def _place(row: Row) -> tuple[int, int]:
    """Return the answer's place, from 1, and the number of candidates."""
    return row["names"].index(row["Ans"]) + 1, len(row["names"])


def _differences(rows: Sequence[Row], usual: Sequence[Row]) -> list[str]:
    """Return a line for each row that is another fact."""
    faults, first = Faults(), usual[0]["stem"]
    if len(rows) != len(usual):
        faults.add(rows[0].file, None, f"{len(rows):,} rows, {first} has {len(usual):,}: expected as many")
        return faults.found
    for row, expected_row in zip(rows, usual, strict=True):
        (place, size), (expected, expected_size) = _place(row), _place(expected_row)
        if (place, size) != (expected, expected_size):
            here = f"answer {place} of {size} candidates, in {first} {expected} of {expected_size}"
            faults.add(row.file, row.line, f"{here}: expected the same fact in every language")
    return faults.found


def _bmlama(languages: Mapping[str, Sequence[Row]]) -> Iterator[ClosedQuestion]:
    english = languages.get("en", ())
    texts = [row["Prompt"].replace(row["Subject"], SUBJECT, 1).replace(_MASK, ANSWER) for row in english]
    relations = {text: f"R{number}" for number, text in enumerate(dict.fromkeys(texts), start=1)}
    for language, rows in languages.items():
        for number, row in enumerate(rows, start=1):
            text, names = texts[number - 1] if texts else "", row["names"]
            yield ClosedQuestion(
                row.file,
                row.line,
                f"{language}/{number}",
                relations.get(text, "fact"),
                [row["Prompt"].replace(_MASK, ANSWER)],
                [row["Ans"]],
                [name for name in names if name != row["Ans"]],
                {"language": language},
                row["Subject"],
                f"fact {number}",
                ids={name: str(place) for place, name in reversed(list(enumerate(names, start=1)))},
                relation_name=text,
            )


# --- DyKnow (Mousavi et al., EMNLP Findings 2024): facts that change. Objects of kinds, subjects and sometimes roles
# are nested down to `questions` and `answers`; an answer with `|E: …` has ended. Gold answers are the current ones.

_DATED = re.compile(r"(.+?)((?: ?\|[A-Z]:? \+\d{4,}-\d\d-\d\dT00:00:00Z)+)")
_DATE = re.compile(r"\|([A-Z]):? \+(\d+)-")


def _dyknow_nodes(file: Path, columns: Columns, faults: Faults) -> Iterator[tuple[None, Json]]:
    return ((None, {"place": place, **node}) for place, node in _nodes(read_json(file, faults), ()))


def _nodes(value: object, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield objects with questions or answers, each with the keys that lead to it."""
    if not isinstance(value, dict):
        return
    if "questions" in value or "answers" in value:
        yield place, value
    else:
        for key, inner in value.items():
            yield from _nodes(inner, (*place, key))


def _dyknow(row: Row) -> ClosedQuestion | None:
    place, where, texts = row["place"], " / ".join(row["place"]), row["questions"]
    questions = texts_of(list(texts.values()) if isinstance(texts, dict) else texts)
    answers = [_DATED.fullmatch(text.strip()) for text in texts_of(row["answers"]) or ()]
    if not questions or not answers or not all(answers) or len(place) < 2:
        expected = "'questions' (texts) and 'answers' as 'name |S: +2015-02-03T00:00:00Z'"
        line = line_of(row.file, place[-1]) if place else None
        row.faults.add(row.file, line, f"{where}: expected {expected}, found {shown(row.content, 200)}")
        return None
    dated = [(match[1].strip(), dict(_DATE.findall(match[2]))) for match in answers if match]
    current, reason = [(name, dates) for name, dates in dated if "E" not in dates], "every answer has ended"
    why = unscored_unless(current, row.file, None, f"{where}: {reason}", row.faults, reason)
    right = list(dict.fromkeys(name for name, _ in current or dated))
    outdated = list(dict.fromkeys(name for name, _ in dated if name not in right))
    _, latest = max(current or dated, key=lambda answer: int(answer[1].get("S", 0)))
    groups = {"valid_from": latest.get("S", "unknown"), "valid_until": latest.get("E", "unknown")}
    groups["answers"] = str(len({*right, *outdated}))
    about = (where, place[0], list(map(completed, questions)), right, outdated, groups, place[1], where)
    return ClosedQuestion(row.file, None, *about, unscored=why)


MAKE: dict[str, Make] = {
    "biolama": _biolama,
    "bmlama": _bmlama_languages,
    "dyknow": lambda draft, rows: add_questions(draft, filter(None, map(_dyknow, rows))),
    "entityquestions": _entityquestions,
    "kamel": _kamel,
    "popqa": _popqa,
}
"""Functions that records name as ``make``."""
READERS: dict[str, RowReader] = {"bmlama": _bmlama_lines, "dyknow": _dyknow_nodes}
"""Functions that records name as ``rows``."""
