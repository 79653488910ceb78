"""What ``fathom data check`` notes on facts, each with lines; and nothing false on published data."""

import pytest

from fathom.cli.data import CheckOptions, check
from fathom.data.formats import examine
from fathom.data.formats.checks import fact_notes
from tests.base.test_spelling import lines
from tests.messages import correspond, mentioned

RELATION = {"relation": "capital", "templates": ["The capital of [X] is [Y]."]}


def notes_on(folder, *facts, relation=RELATION):
    lines(folder, "relations.jsonl", relation)
    rows = [{"subject": subject, "relation": "capital", "answer": answer, **more} for subject, answer, *rest in facts
            for more in (rest or [{}])]  # fmt: skip
    lines(folder, "facts.jsonl", *rows)
    data, faults = examine(folder)
    assert data is not None, faults.found
    return list(fact_notes(data, faults))


CLEAN = (("Kenya", "Nairobi"), ("Chad", "N'Djamena"), ("Peru", "Lima"))


def test_clean_facts_have_no_note(tmp_path):
    assert notes_on(tmp_path, *CLEAN) == []


def test_spellings_that_are_one_candidate(tmp_path):
    facts = (*CLEAN, ("Perú", " Lima"), ("Male", "Lima "), ("Togo", " Lomé"))
    (note,) = notes_on(tmp_path / "d", *facts)
    assert mentioned(
        note, "one candidate, 1", "' Lima' (d/facts.jsonl:4)", "'Lima ' (d/facts.jsonl:5)", "facts.jsonl:3"
    )
    assert "Lom" not in note


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ("Lima", "LIMA", "differ in case alone"),
        ("\uff2cima", "Lima", "look alike"),
        ("New York", "New\u00a0York", "look alike"),
    ],
)
def test_candidates_that_look_alike(tmp_path, first, second, what):
    (note,) = notes_on(tmp_path / "d", ("Peru", first), *CLEAN[:2], ("Chile", second))
    assert mentioned(note, f"{what}, 1", f"{first!r} (d/facts.jsonl:1)", f"{second!r} (d/facts.jsonl:4)")


def test_candidates_of_different_ids_are_different_things(tmp_path):
    """Two entities whose names differ in case are no mistake: WordNet's Turkey and turkey."""
    named = {"candidates": [{"id": "Q1", "name": "Turkey"}, {"id": "Q2", "name": "turkey"}]}
    facts = (("Ankara", "Turkey"), ("Bird", "turkey"))
    assert notes_on(tmp_path, *facts, relation=RELATION | named) == []


def test_repeated_facts_and_several_answers(tmp_path):
    known = (("Bolivia", "Sucre", {"known": ["La Paz"]}), ("Bolivia", "La Paz", {"known": ["Sucre"]}))
    notes = notes_on(tmp_path / "d", *CLEAN, CLEAN[0], *known)
    assert correspond(
        notes,
        ("same answers on several lines, 1", "'Kenya'", "d/facts.jsonl:1, d/facts.jsonl:4"),
        ("several facts", "'Bolivia'", "d/facts.jsonl:5, d/facts.jsonl:6"),
    )


def test_several_answers_that_count_as_wrong_have_their_lines(tmp_path):
    notes_on(tmp_path / "d", *CLEAN, ("Bolivia", "Sucre"), ("Bolivia", "La Paz"))
    _, faults = examine(tmp_path / "d")
    assert any(mentioned(note, "count as wrong", "d/facts.jsonl:4, d/facts.jsonl:5") for note in faults.notes)


def test_answers_in_the_column_of_relations(tmp_path):
    rows = [f"country {number},city {number},capital" for number in range(12)]
    lines(tmp_path / "d", "facts.csv", "subject,relation,answer", *rows)
    data, faults = examine(tmp_path / "d")
    assert any(
        mentioned(note, "12 of 12 relations have one fact", "d/facts.csv:2") for note in fact_notes(data, faults)
    )


def test_the_command_prints_them(tmp_path, capsys):
    notes_on(tmp_path / "d", *CLEAN, CLEAN[0])
    check(CheckOptions(path=str(tmp_path / "d")))
    assert "same answers on several lines, 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("bear/BEAR", []),
        ("biomedical/biolama", []),
        ("bmlama53", []),
        ("counterfact", []),
        ("dyknow", []),
        ("fictional_knowledge", []),
        ("lama/Google_RE", []),
        ("lama/Squad", ["'education'"]),  # lines 233 and 234: education, Education
        ("lama/TREx", []),
        (
            "lama/TREx_facts",
            ["same answers on several lines, 14", "several facts", "'Apple'"],
        ),  # a fruit and a company, by name alone
        ("lre/linguistic", ["lines, 12", "several facts"]),
        ("ontoprobe", ["lines, 70"]),
        ("popqa", ["lines, 3", "several facts"]),
        ("tofu", []),
        ("zsre", []),
    ],
)
def test_published_data_have_true_notes_alone(shared_data, name, kinds):
    data, faults = examine(shared_data / name)
    assert correspond(list(fact_notes(data, faults)), *kinds)
