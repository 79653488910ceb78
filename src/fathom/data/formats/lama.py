"""LAMA (Petroni et al., EMNLP 2019) and data in its layout, ParaRel included, see docs/data-format.md.

A sentence must have one ``[MASK]``. Each line is a query, even if its fact is repeated.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from fathom.base.reading import Faults, first_few, read_json_lines, resolve_packed, stands
from fathom.data.formats.base import Draft, Format, check_templates
from fathom.data.formats.facts import Fact, NamedAnswer, RelationEntry, add_facts, read_entries
from fathom.data.formats.rows import Row, beginning, keys_of, read_rows
from fathom.data.queries import QuerySet
from fathom.data.templates import ANSWER, SUBJECT, Sentence, Template

TEMPLATES, PATTERNS = "relations.jsonl", "graphs_json"
MASK = "[MASK]"
SQUAD = "squad"
"""The relation of questions that have none."""

GOOGLE_RE = {
    "place_of_birth": ("[X] was born in [Y] .", "[X] was not born in [Y] ."),
    "date_of_birth": ("[X] (born [Y]).", "[X] (not born [Y])."),
    "place_of_death": ("[X] died in [Y] .", "[X] did not die in [Y] ."),
}
"""Templates, and what negates them, as in get_GoogleRE_parameters of scripts/run_experiments.py,
github.com/facebookresearch/LAMA at 0f6204c."""

_TREX_NUMBERS = (
    "17 19 20 27 30 31 36 37 39 47 101 103 106 108 127 131 136 138 140 159 176 178 190 264 276 279 361 364 407 413 449 "
    "463 495 527 530 740 937 1001 1303 1376 1412"
)
TREX_RELATIONS = tuple(f"P{number}" for number in _TREX_NUMBERS.split())
"""The 41 relations that LAMA has files for; its relations.jsonl names five more."""

_LICENCE = "CC BY-NC 4.0"
_TREX_FILE = re.compile(r"(P\d+)(_random)?\.jsonl(\.gz)?")
_ALTERED = {"negated": "masked_negations", "misprimed": "masked_misprimed"}
_TEST_FILE = re.compile(r"(\w+_)?test\.jsonl(\.gz)?")
_JSONL = re.compile(r".+\.jsonl(\.gz)?")
_COLUMNS = {
    "obj_label": "text",
    **dict.fromkeys(("predicate_id", "pred", "sub_uri", "sub", "sub_label", "obj_uri", "obj"), "text or none"),
    **dict.fromkeys(("uuid", "id"), "id or none"),
    **dict.fromkeys(("masked_sentences", *_ALTERED.values()), "texts or none"),
    **dict.fromkeys(("evidences", "obj_aliases"), "list or none"),
}

OmittedLines = dict[tuple[Path, str], list[int | None]]
"""Lines whose sentences are not asked, by file and reason."""
_DOUBLE = "what another of their fact says"


def _read(path: Path, faults: Faults) -> QuerySet | None:
    files = _files(path)
    if any("pattern" in keys_of(file) for file in (files or _files(path / PATTERNS))[:1]):  # which have T-REx's names
        folder = f"the folder of its facts (trex_lms_vocab), with {PATTERNS} in it or next to it"
        faults.add(path, None, f"ParaRel's patterns, without facts: give {folder}")
        return None
    if not files:
        faults.add(path, None, f"holds several data sets: give one of {', '.join(map(str, _choices(path)))}")
        return None
    for file in files:
        if file.with_suffix("") in files:
            faults.add(file, None, f"is next to {file.stem}: its facts would count twice, remove one of the two")
    entries = _entries(path if path.is_dir() else path.parent, faults)
    left_out: OmittedLines = defaultdict(list)
    facts = [fact for file in files for fact in _facts(file, left_out, faults)]
    draft = Draft(path, faults)
    about = add_facts(draft, facts, entries)
    counts = Counter(query.fact_id for query in draft.queries if query.fact_id is not None)
    if repeated := [fact_id for fact_id, count in counts.items() if count > 1]:
        message = f"facts on several lines: {first_few(repeated)}"
        faults.note(path, None, f"{message}; each line is a query, comparisons take the mean of a fact")
    if not faults.found:
        _note_left_out(path, left_out, faults)
        _note_gaps(path, files, draft, faults)
    return draft.queryset(path.name.split(".")[0], licence=_LICENCE, **about)


def _files(path: Path) -> list[Path]:
    """Return the files of one layout, by name; [] if there are none."""
    paths = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
    if trex := [file for file in paths if _TREX_FILE.fullmatch(file.name)]:
        return trex
    # "test.jsonl" is a common name; empty and unreadable files may be LAMA's.
    jsonl = (file for file in paths if _JSONL.fullmatch(file.name))
    masked = [file for file in jsonl if not beginning(file) or "masked_sentences" in keys_of(file)]
    named = [file for file in masked if _TEST_FILE.fullmatch(file.name)]
    return named or [file for file in masked if not keys_of(file).isdisjoint(_ALTERED.values())]


def _choices(path: Path) -> list[Path]:
    """List the folders of data sets."""
    folders = sorted(path.iterdir()) if path.is_dir() else []
    return [folder for folder in folders if folder.is_dir() and _files(folder)]


def _entries(folder: Path, faults: Faults) -> dict[str, RelationEntry]:
    """Read the templates in the folder or else in its parent, in addition to those of Google-RE."""
    entries = {
        relation: RelationEntry((Template(text),), negated=(Template(denied),))
        for relation, (text, denied) in GOOGLE_RE.items()
    }
    for place in (folder, folder.absolute().parent):
        if stands(file := resolve_packed(place / TEMPLATES)):
            return entries | read_entries(file, faults)
        for patterns in (place / PATTERNS, place / "pattern_data" / PATTERNS):
            if patterns.is_dir():
                return entries | _patterns(patterns, faults)
    return entries


def _patterns(folder: Path, faults: Faults) -> dict[str, RelationEntry]:
    """Read ParaRel's templates, a file per relation: ``{"pattern": "[X] was born in [Y].", …}`` per line."""
    entries = {}
    for file in sorted(path for path in folder.iterdir() if _TREX_FILE.fullmatch(path.name)):
        rows = list(read_json_lines(file, {"pattern": str}, faults))
        templates = (check_templates(file, line, [row["pattern"]], faults) for line, row in rows)
        entries[file.name.split(".")[0]] = RelationEntry(tuple(dict.fromkeys(chain.from_iterable(templates))))
    return entries


def _facts(file: Path, left_out: OmittedLines, faults: Faults) -> Iterator[Fact]:
    before, row = len(faults.found), None
    for row in read_rows(file, _COLUMNS, faults):
        sentences = _masked(row)
        if sentences is not None:
            yield _fact(row, sentences, left_out)
        else:
            row.refuse("expected 'evidences': a list of objects with 'masked_sentence' and 'obj_surface', texts")
    if row is None and len(faults.found) == before:
        faults.add(file, None, "no facts: expected one per line, or the file removed")


def _masked(row: Row) -> list[Sentence] | None:
    """Return the sentences of a fact, None if one is no text."""
    if row["masked_sentences"] is not None:
        return list(map(Sentence, row["masked_sentences"]))
    objects = (evidence if isinstance(evidence, dict) else {} for evidence in row["evidences"] or ())
    pairs: list[Any] = [(evidence.get("masked_sentence"), evidence.get("obj_surface", "")) for evidence in objects]
    is_text = all(isinstance(text, str) for pair in pairs for text in pair)
    return [Sentence(*pair) for pair in pairs] if is_text else None


def _fact(row: Row, sentences: list[Sentence], left_out: OmittedLines) -> Fact:
    by_sentence = row["masked_sentences"] is not None
    altered = {
        kind: tuple(_sentences(row, map(Sentence, row[name]), left_out)) for kind, name in _ALTERED.items() if row[name]
    }
    relation = row["predicate_id"] or (row["pred"] or "").rsplit("/", 1)[-1]
    relation = relation or _relation_in_name(row.file, by_sentence, any(altered.values()))
    label, aliases = row["obj_label"], (name for name in row["obj_aliases"] or () if isinstance(name, str))
    return Fact(
        row.file,
        row.line,
        str(next((row[name] for name in ("uuid", "id") if row[name] not in (None, "")), "")),
        relation,
        *_subject(row, relation),
        (NamedAnswer(row["obj_uri"] or row["obj"] or label, label, tuple(aliases)),),
        tuple(_sentences(row, sentences, left_out)),
        by_sentence,
        altered={kind: some for kind, some in altered.items() if some},
    )


def _relation_in_name(file: Path, by_sentence: bool, altered: bool) -> str:
    """Return the relation of lines that name none."""
    if trex := _TREX_FILE.fullmatch(file.name):
        return trex[1]
    stem = file.name.split(".")[0]
    return SQUAD if by_sentence and not (altered and stem.casefold() != SQUAD) else stem


def _subject(row: Row, relation: str) -> tuple[str, str]:
    """Return name and id. ConceptNet's ``sub`` is a name, Google-RE's an id with a name; SQuAD has no subject."""
    if relation == SQUAD:
        return "", ""
    name = (row["sub_label"] if "sub_label" in row.content else row["sub"]) or ""
    return name, row["sub_uri"] or row["sub"] or name


def _sentences(row: Row, masked: Iterable[Sentence], left_out: OmittedLines) -> Iterator[Sentence]:
    """Yield sentences with one mask, each once."""
    seen: set[str] = set()
    for text, surface in masked:
        if text in seen:
            why = _DOUBLE
        elif SUBJECT in text or ANSWER in text:
            why = f"{SUBJECT} or {ANSWER} in their text"
        else:
            why = {0: "no mask", 1: ""}.get(text.count(MASK), "several masks")
        seen.add(text)
        if why:
            left_out[row.file, why].append(row.line)
        else:
            yield Sentence(text.replace(MASK, ANSWER), surface)


def _note_left_out(path: Path, left_out: OmittedLines, faults: Faults) -> None:
    """Note each file and reason; repeated sentences are counted over all files."""
    doubles = sum(len(lines) for (_, why), lines in left_out.items() if why == _DOUBLE)
    for (file, why), lines in left_out.items():
        if why != _DOUBLE:
            where = ", ".join(map(str, dict.fromkeys(lines)))
            faults.note(file, None, f"sentences with {why}, left out: {len(lines):,} (lines {where})")
    if doubles:
        faults.note(path, None, f"sentences that repeat one of their fact, left out: {doubles:,}")


def _note_gaps(path: Path, files: list[Path], draft: Draft, faults: Faults) -> None:
    """Note missing relations of LAMA, templates and sentences."""
    absent = [id_ for id_ in TREX_RELATIONS if id_ not in draft.relations]
    if absent and path.is_dir() and _TREX_FILE.fullmatch(files[0].name):
        count = f"{len(absent)} of LAMA's {len(TREX_RELATIONS)} relations"
        faults.note(path, None, f"{count} are missing: {' '.join(absent)}")
    without = [id_ for id_, relation in draft.relations.items() if not relation.templates]
    sentences = any(query.sentences for query in draft.queries)
    if without:
        how = "asked by sentence" if sentences else f"put them into {TEMPLATES} here or in the folder above"
        faults.note(path, None, f"no templates for {first_few(without, 10)}: {how}")
    if not sentences:
        faults.note(path, None, "no natural sentences: facts are asked by template alone")


FORMAT = Format(
    "lama",
    "P19.jsonl or test.jsonl with masked_sentences (LAMA)",
    lambda path: bool(_files(path) or _choices(path)),
    _read,
)
