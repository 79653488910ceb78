"""Relations turned round: what is asked, among which subjects, and what cannot be turned."""

from __future__ import annotations

from dataclasses import replace

import pytest

import fathom
from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.data.selection.reversal import reverse_queries
from fathom.data.templates import Sentence, Template
from tests.cli.test_cli import bert, gpt2, save
from tests.messages import mentioned, mentions

CAPITAL = Template("The capital of [X] is [Y].")
LANGUAGES = (("q2", "Peru", ("es",)), ("q3", "Chad", ("fr", "ar")), ("q4", "Chile", ("es",)))


def facts(**queries_have) -> QuerySet:
    spaces = {
        "capital": CandidateSet("capital", ("L", "N"), ("Lima", "N'Djamena")),
        "language": CandidateSet("language", ("es", "fr", "ar"), ("Spanish", "French", "Arabic")),
    }
    queries = [Query("q0", "capital", "Peru", "peru", ("L",), "capital")]
    queries += [Query("q1", "capital", "Chad", "chad", ("N",), "capital", groups={"size": "big"})]
    queries += [Query(id_, "language", name, name.lower(), gold, "language") for id_, name, gold in LANGUAGES]
    relations = {
        "capital": Relation("capital", "capital", (CAPITAL, Template("[Y] is the capital of [X].")), "1:1"),
        "language": Relation("language", "language", (Template("In [X] they speak [Y]."),), "1:N"),
    }
    own = tuple(replace(query, **queries_have) for query in queries)
    return QuerySet("mini", own, spaces, relations, subsets={"some": frozenset({"q1", "q3"})})


def test_what_is_asked():
    turned = reverse_queries(facts())
    assert [one.text for one in turned.relations["capital"].templates] == [
        "The capital of [Y] is [X].",
        "[X] is the capital of [Y].",
    ]
    first = turned.queries[0]
    assert turned.relations["capital"].templates[0].fill(first.subject, "Peru").text == "The capital of Peru is Lima."
    assert (first.id, first.subject, first.subject_id, first.gold, first.direction) == (
        "q0",
        "Lima",
        "L",
        ("peru",),
        "head",
    )
    assert turned.queries[1].groups == {"size": "big"}
    assert turned.candidates["subjects of capital"].names == ("Peru", "Chad")
    assert turned.candidates["subjects of language"].names == ("Peru", "Chad", "Chile")


def test_the_fact_is_the_same():
    """Of one answer; of several each is a fact of its own."""
    there, back = facts(), reverse_queries(facts())
    assert (
        [one.fact_id for one in back.queries[:2]]
        == [one.fact_id for one in there.queries[:2]]
        == [
            "peru|capital|L",
            "chad|capital|N",
        ]
    )
    assert [one.fact_id for one in back.queries[3:5]] == ["chad|language|fr", "chad|language|ar"]
    assert [one.id for one in back.queries[3:5]] == ["q3/answer 1", "q3/answer 2"]
    assert len({one.id for one in back.queries}) == len(back.queries) == 6


def test_other_subjects_of_the_answer_are_filtered():
    spanish = {one.id: one for one in reverse_queries(facts()).queries}
    assert (spanish["q2"].gold, spanish["q2"].known) == (("peru",), ("chile",))
    assert (spanish["q4"].gold, spanish["q4"].known) == (("chile",), ("peru",))
    assert spanish["q3/answer 1"].known == ()


def test_subsets_and_relations_are_chosen_as_ever():
    found = select(facts(), Selection(reverse=True, subset="some"))
    assert [one.id for one in found.data.queries] == ["q1", "q3/answer 1", "q3/answer 2"]
    found = select(facts(), Selection(reverse=True, relations=["capital"]))
    assert [one.subject for one in found.data.queries] == ["Lima", "N'Djamena"]


def test_what_cannot_be_turned():
    asked = facts()
    question = replace(asked.relations["capital"], templates=(CAPITAL,), questions=(CAPITAL,))
    half = replace(asked.relations["language"], templates=(Template("They speak [Y]."),))
    wrong = replace(asked, relations={"capital": question, "language": half})
    with pytest.raises(BadInput) as refused:
        reverse_queries(wrong)
    capital, language = refused.value.faults
    assert mentioned(capital, "--reverse", "mini", "capital", "questions", "--relations")
    assert mentioned(language, "mini", "language", "[X] and [Y]")
    assert (
        len(reverse_queries(replace(asked, relations=asked.relations | {"language": half}), ["capital"]).queries) == 2
    )
    with pytest.raises(BadInput, match=mentions("capital, language", "natural sentences", "write templates")):
        reverse_queries(facts(sentences=(Sentence("[Y] it is."),)))


def test_a_query_without_a_subject_stays_unscored():
    asked = facts()
    first = replace(asked.queries[0], subject="", unscored="the subject has no name")
    turned = reverse_queries(replace(asked, queries=(first, *asked.queries[1:])))
    assert turned.queries[0].unscored == "the subject has no name"
    assert turned.candidates["subjects of capital"].names == ("Chad",)


@pytest.mark.parametrize(("probe", "network"), [("statement", gpt2), ("statement", bert), ("cloze", bert)])
def test_probes_ask_it(tmp_path, probe, network):
    """The scores of the whole statement are those of the same text read the other way."""
    asked = facts()
    names = ["Peru", "Chad", "Chile", *(name for space in asked.candidates.values() for name in space.names)]
    words = [one.text for relation in asked.relations.values() for one in relation.templates]
    model = str(save(tmp_path / "model", network(), *names, *words))
    options = {"model": model, "data": asked, "progress": False, "templates": "0"}
    there = fathom.probe(probe, out=tmp_path / "there", **options).table().to_pylist()
    back = fathom.probe(probe, out=tmp_path / "back", reverse=True, **options).table().to_pylist()
    row = {one["query_id"]: one for one in back}
    assert row["q0"]["prompt"] == "The capital of [Y] is Lima."
    assert row["q0"]["fact_id"] == "peru|capital|L"
    assert row["q2"]["filtered"] == 1  # Chile speaks Spanish, too
    if probe == "statement" and network is gpt2:
        forth = {one["query_id"]: one for one in there}
        assert row["q0"]["scores"][0] == pytest.approx(forth["q0"]["scores"][0], abs=1e-4)
        assert row["q0"]["scores"][1] == pytest.approx(forth["q1"]["scores"][0], abs=1e-4)


def test_a_graph_by_its_templates(tmp_path):
    (tmp_path / "triples.tsv").write_text("Peru\tcapital\tLima\nChad\tcapital\tN'Djamena\n")
    with pytest.raises(BadInput, match=mentions("capital", "template")):
        reverse_queries(read(tmp_path))
    (tmp_path / "templates.jsonl").write_text('{"relation": "capital", "template": "The capital of [X] is [Y]."}\n')
    turned = reverse_queries(read(tmp_path))
    first = turned.queries[0]
    assert (first.direction, first.subject, turned.phrasings(first)[0].text) == (
        "head",
        "Lima",
        "The capital of [Y] is [X].",
    )
    assert not turned.head_faults()


@pytest.mark.slow
def test_published_questions_and_templates(shared_data):
    bear = reverse_queries(read(shared_data / "bear" / "BEAR"))
    assert (len(bear.queries), len(bear.candidates)) == (7731, 60)
    for folder in ("popqa", "entityquestions", "bmlama53"):
        with pytest.raises(BadInput, match=r"--reverse: .* asks") as refused:
            reverse_queries(read(shared_data / folder))
        assert len(refused.value.faults) == 1, folder
    lre = reverse_queries(read(shared_data / "lre"), ["country_capital_city"])
    assert "The capital city of [Y] is [X]" in [one.text for one in lre.relations["country_capital_city"].templates]
    assert lre.candidates["subjects of country_capital_city"].names[:2] == ("United States", "Canada")
