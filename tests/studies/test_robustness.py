"""Facts in other wordings: how they are made and read, and that a follower of keywords is told from one who knows."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom.data.formats import examine, read
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.data.templates import Sentence
from fathom.results.alterations import DOES_NOT, FOLLOWS, Alteration, alterations, altered_claims
from fathom.results.claims import decide
from fathom.results.compare import compare
from fathom.results.facts import BY_TEMPLATE
from fathom.results.loading import read_all_facts
from fathom.store.folder import RunFolder
from fathom.studies import rankings, repeated
from tests.answerers import EVEN, Answerer, answered, at_random, knowing, world
from tests.messages import correspond, mentions

NAMES = ("aspirin", "lithium", "insulin", "morphine")


def drugs() -> QuerySet:
    """Sentences of four drugs."""
    space = CandidateSet("drug", NAMES, NAMES)
    sentences = (
        "Pain is treated with [Y] and with rest.",
        "[Y] calms those who are ill.",
        "We all know and like [Y].",
        "For some there is [Y] to cure their aspirin and lithium and insulin.",
    )
    queries = tuple(
        Query(f"q{n}", "drug", "", "", (NAMES[n],), "drug", sentences=(Sentence(text),))
        for n, text in enumerate(sentences)
    )
    return QuerySet("drugs", queries, {"drug": space}, {"drug": Relation("drug", "drug", (), "1:N")})


def asked(data: QuerySet, **how: object) -> list[Query]:
    return list(select(data, Selection(**how)).data.queries)  # type: ignore[arg-type]


def texts(queries: list[Query]) -> list[str | None]:
    return [query.sentences[0].text if query.sentences else query.unscored for query in queries]


# Made by rule


def test_a_wrong_candidate_is_called_out():
    found = asked(drugs(), alter="misprimed")
    for query, plain in zip(found, drugs().queries, strict=True):
        if query.unscored:
            continue
        prime = query.groups["prime"]
        assert prime not in plain.gold
        assert prime not in plain.sentences[0].text
        assert query.sentences[0].text == f"{prime.capitalize()}? {plain.sentences[0].text}"
    assert "no distractor" in found[3].unscored  # the sentence names all three others
    assert texts(found) == texts(asked(drugs(), alter="misprimed"))
    primes = {tuple(q.groups.get("prime", "") for q in asked(drugs(), alter="misprimed", seed=s)) for s in range(9)}
    assert len(primes) > 3


def test_what_stands_behind_the_answer_is_cut_off():
    assert correspond(
        texts(asked(drugs(), alter="truncated")),
        "Pain is treated with [Y].",
        "fewer than 3",
        "no text to remove",
        "For some there is [Y].",
    )


def test_templates_are_paraphrased_by_the_further_ones_and_misprimed_in_the_first():
    data = world(EVEN[:5], templates=3)
    [first, *_] = asked(data, alter="paraphrased", reading="template-based")
    assert [sentence.text for sentence in first.sentences] == ["S000 is so [Y].", "S000 is so so [Y]."]
    [first, *_] = asked(data, alter="misprimed")
    called = data.candidates["all"].name_of(first.groups["prime"])
    assert first.sentences[0].text == f"{called.capitalize()}? S000 is [Y]."
    assert first.fact_id == data.queries[0].fact_id


def test_what_cannot_be_asked_so_is_refused():
    with pytest.raises(BadInput, match=mentions("--alter negated")):
        asked(drugs(), alter="negated")
    with pytest.raises(BadInput, match=mentions("--alter paraphrased")):
        asked(drugs(), alter="paraphrased")


# Read from files


def test_primed_and_negated_lama(tmp_path):
    """In the published layout: names of files, the fields of each line, and a prime that is a candidate, or is none."""
    rows = [
        {
            "sub_label": "Knesset",
            "obj_label": "Israel",
            "masked_sentences": ["Knesset is a legal term in [MASK] ."],
            "masked_negations": ["Knesset is not a legal term in [MASK] ."],
            "uuid": 24,
            "masked_misprimed": ["Norway? Knesset is a legal term in [MASK] ."],
        },
        {
            "sub_label": "Storting",
            "obj_label": "Norway",
            "masked_sentences": ["Storting is a legal term in [MASK] ."],
            "masked_negations": ["Storting is not a legal term in [MASK] ."],
            "uuid": 66,
            "masked_misprimed": ["Thirds? Storting is a legal term in [MASK] ."],
        },
    ]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / "P1001_random.jsonl").write_text(lines)
    data, faults = examine(tmp_path)
    assert faults.found == []
    assert data is not None
    assert list(data.relations) == ["P1001"]
    negated, misprimed = (asked(data, alter=how) for how in ("negated", "misprimed"))
    assert texts(negated) == ["Knesset is not a legal term in [Y] .", "Storting is not a legal term in [Y] ."]
    assert texts(misprimed)[0] == "Norway? Knesset is a legal term in [Y] ."
    assert [query.groups.get("prime") for query in misprimed] == ["Norway", None]
    assert [q.fact_id for q in negated] == [q.fact_id for q in asked(data)]
    assert data.content_hash != replace(data, queries=tuple(replace(q, altered={}) for q in data.queries)).content_hash
    for name, relation in (("place_of_birth.jsonl", "place_of_birth"), ("Squad.jsonl", "squad")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(lines)
        assert list(read(folder).relations) == [relation]


def test_negated_templates_of_lama(tmp_path):
    """Beside the templates in relations.jsonl, not of natural sentences; Google-RE's are built in, as in LAMA."""
    row = {
        "sub_label": "Koke",
        "obj_label": "forward",
        "evidences": [{"masked_sentence": "A [MASK].", "obj_surface": "forward"}],
    }
    (tmp_path / "P413.jsonl").write_text(json.dumps(row))
    template = {"relation": "P413", "template": "[X] plays as [Y] .", "template_negated": "[X] never plays as [Y] ."}
    (tmp_path / "relations.jsonl").write_text(json.dumps(template))
    data = read(tmp_path)
    assert texts(asked(data, alter="negated")) == ["Koke never plays as [Y] ."]
    with pytest.raises(BadInput, match="no negated wordings"):
        asked(data, alter="negated", reading="template-free")
    (tmp_path / "relations.jsonl").write_text(json.dumps(template | {"template_negated": ""}))
    assert read(tmp_path).content_hash != data.content_hash
    with pytest.raises(BadInput, match="no negated wordings"):
        asked(read(tmp_path), alter="negated")
    for wrong, why in ((5, ("'template_negated'", "found 5")), ("[X] no", "no [Y]")):
        (tmp_path / "relations.jsonl").write_text(json.dumps(template | {"template_negated": wrong}))
        with pytest.raises(BadInput, match=mentions(why)):
            read(tmp_path)
    folder = tmp_path / "Google_RE"
    folder.mkdir()
    born = {"pred": "/people/person/date_of_birth", "sub_label": "Ada", "obj_label": "1815", "masked_sentences": []}
    (folder / "date_of_birth_test.jsonl").write_text(json.dumps(born))
    (tmp_path / "relations.jsonl").unlink()
    assert texts(asked(read(folder), alter="negated")) == ["Ada (not born [Y])."]


def test_altered_wordings_of_ones_own(tmp_path):
    fact = {"relation": "drug", "answer": "tin", "sentences": ["[Y] shines."], "altered": {"negated": ["[Y] is dull."]}}
    other = fact | {"answer": "lead", "sentences": ["[Y] is grey."], "altered": {}}
    (tmp_path / "facts.jsonl").write_text(f"{json.dumps(fact)}\n{json.dumps(other)}\n")
    (tmp_path / "relations.jsonl").write_text('{"relation": "drug"}\n')
    assert correspond(texts(asked(read(tmp_path), alter="negated")), "[Y] is dull.", "no negated wording")
    for wrong in ({"denied": ["[Y]."]}, {"negated": "[Y]."}, {"negated": ["no place"]}):
        (tmp_path / "facts.jsonl").write_text(json.dumps(fact | {"altered": wrong}))
        assert len(examine(tmp_path)[1].found) == 1


# The control: who follows keywords, and who holds the facts

OPEN = "neither is supported"


def judged(runs: Sequence[RunFolder]) -> list[tuple[Alteration, str]]:
    """Each altered run with the one of both claims that is supported."""
    lines = alterations(runs)
    decisions = list(decide(dict(enumerate(altered_claims(lines)))).values())
    found = []
    for line, follows, does_not in zip(lines, decisions[::2], decisions[1::2], strict=True):
        assert not (follows.holds and does_not.holds)
        for number in (contrast.estimate for one in (follows, does_not) for contrast in one.claim.contrasts):
            assert number is None or number.low is None or number.low <= number.value <= number.high
        found.append((line, FOLLOWS if follows.holds else DOES_NOT if does_not.holds else OPEN))
    return found


def called(plain: Answerer) -> Answerer:
    """Whoever is called out is the answer, else another's."""

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        prime = query.groups.get("prime")
        scores = plain(query, space, template)
        return [99.0 if id_ == prime else score for id_, score in zip(space.ids, scores, strict=True)]

    return answer


def negatable(golds: Sequence[Sequence[int]] = EVEN, size: int = 20) -> QuerySet:
    """A hundred facts whose negations are published."""
    data = world(golds, size=size)
    queries = (replace(q, altered={"negated": (Sentence(f"{q.subject} is not [Y]."),)}) for q in data.queries)
    return replace(data, queries=tuple(queries))


def first(query: Query, space: CandidateSet, template: int) -> list[float]:
    """The first candidate of everything."""
    return [1.0] + [0.0] * (len(space) - 1)


def test_a_follower_of_keywords_is_told_from_one_who_knows(tmp_path):
    """Both know all facts as they are asked. The follower says the same of the negation, and whoever is called out; who
    holds the facts says something else of the negation, and is not led. By lot nobody can be told to hold anything, nor
    can one who always says the same, of negations, too."""
    data = negatable()
    every = {query.id for query in data.queries}
    knows = knowing(every)
    ways = {
        "follower": {"no": knows, "negated": knows, "misprimed": called(knows)},
        "holder": {"no": knows, "negated": at_random(1), "misprimed": knows},
        "lot": {"no": at_random(2), "negated": at_random(3), "misprimed": at_random(4)},
        "parrot": {"no": first, "negated": first},
    }
    runs = [
        answered(
            tmp_path / f"{model}-{how}",
            answer,
            select(data, Selection(alter=how)).data,
            model=model,
            options={"alter": how},
        )
        for model, each in ways.items()
        for how, answer in each.items()
    ]
    random.Random(0).shuffle(runs)
    verdicts = {(line.asked[0], line.how): verdict for line, verdict in judged(runs)}
    found = {(line.asked[0], line.how): line for line in alterations(runs)}
    assert verdicts == {
        ("follower", "negated"): FOLLOWS,
        ("follower", "misprimed"): FOLLOWS,
        ("holder", "negated"): DOES_NOT,
        ("holder", "misprimed"): DOES_NOT,
        ("lot", "negated"): OPEN,
        ("parrot", "negated"): OPEN,
        ("lot", "misprimed"): OPEN,
    }
    primed = found["follower", "misprimed"]
    assert [primed.numbers[name].value for name in ("prime", "anyway", "same answer", "change")] == [1, 0, 0, -1]
    than_anyway, than_chance = primed.more
    assert than_anyway.value == 1
    assert than_chance.value == pytest.approx(1 - primed.numbers["by chance"].value)
    assert found["follower", "negated"].numbers["same answer"].value == 1
    assert found["holder", "negated"].numbers["same answer"].value == pytest.approx(1 / 20, abs=0.08)
    whole = compare(runs)
    assert len(whole.alterations) == 7
    assert [one.claim.name for one in whole.controlled if one.holds]
    assert "altered sentences" in whole.to_text()


def test_whom_any_words_throw_off_follows_none(tmp_path):
    """It knows all facts as they are asked, and answers by lot in any other words: among six candidates it says every
    fifth prime, and any other wrong name as often. Nothing is said of a negation without a wording beside it that keeps
    the meaning."""
    data = negatable([[number % 6] for number in range(100)], size=6)
    every = {query.id for query in data.queries}
    plain = answered(tmp_path / "plain", knowing(every), data)

    def altered(how: str, seed: int) -> RunFolder:
        own = select(data, Selection(alter=how)).data
        return answered(tmp_path / f"{how}-{seed}", at_random(seed), own, options={"alter": how})

    negated, *primed = altered("negated", 0), *(altered("misprimed", seed) for seed in range(1, 11))
    assert [verdict for _, verdict in judged([plain, negated])] == [OPEN]
    claims = {one.name: one for one in altered_claims(alterations([plain, negated]))}
    [decision] = [one for name, one in decide(claims).items() if DOES_NOT in name]
    assert decision.word == "cannot be determined"
    assert "--alter misprimed" in decision.reason
    first, *others = judged([plain, negated, *primed])
    assert first[1] == OPEN
    verdicts = [verdict for _, verdict in others]
    assert verdicts.count(FOLLOWS) <= 1
    assert DOES_NOT not in verdicts
    assert all(line.numbers["prime"].value > line.numbers["anyway"].value == 0 for line, _ in others)


def test_what_it_does_not_know_is_not_held_against_it(tmp_path):
    """It knows three facts in ten and changes all of them when they are negated; of the others it says the first name,
    negated or not: seven answers in ten stay, and none of the known."""
    data = negatable()
    known = {query.id for number, query in enumerate(data.queries) if number % 10 < 3}

    def holds(query: Query, space: CandidateSet, template: int) -> list[float]:
        return first(query, space, template)[::-1] if query.id in known else first(query, space, template)

    knows = knowing(known, first)
    runs = [
        answered(tmp_path / how, answer, select(data, Selection(alter=how)).data, options={"alter": how})
        for how, answer in (("no", knows), ("negated", holds), ("misprimed", knows))
    ]
    (negated, one), (misprimed, other) = judged(runs)
    assert [negated.numbers[name].value for name in ("same answer", "same of known")] == [0.7, 0]
    assert [misprimed.numbers[name].value for name in ("same answer", "same of known")] == [1, 1]
    assert {one, other} == {DOES_NOT}


def primed_line(folder: Path, said: Sequence[int], called_out: Sequence[str]) -> Alteration:
    """Four facts of one relation, right answers 0, 1, 3 and 4: what is said of each, and which answer counts."""
    data = world([[0], [1], [3], [4]], relations=1)
    primed = replace(
        data,
        queries=tuple(
            replace(query, groups={"prime": prime}) for query, prime in zip(data.queries, called_out, strict=True)
        ),
    )

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [float(place == said[int(query.id[1:])]) for place in range(len(space))]

    runs = [
        answered(folder / "plain", answer, data),
        answered(folder / "primed", answer, primed, options={"alter": "misprimed"}),
    ]
    [line] = alterations(runs)
    return line


def test_the_chance_of_a_prime_by_hand(tmp_path):
    line = primed_line(tmp_path, (0, 0, 2, 2), ("c02", "c02", "c01", "c00"))
    # Of the others' primes that are wrong: none of c2, c1; one of c2, c0; two of c2, c2, c0; two of c2, c2, c1.
    assert line.numbers["by chance"].value == pytest.approx((0 + 1 / 2 + 2 / 3 + 2 / 3) / 4)
    assert (line.numbers["prime"].value, line.numbers["anyway"].value) == (0, 0)
    assert line.more[1].value == pytest.approx(-line.numbers["by chance"].value)


def test_a_prime_that_is_taken_is_no_chance_of_its_own_fact(tmp_path):
    """Each fact gets its own prime for an answer. Of the two wrong primes of others, one equals that of the first fact,
    and likewise of the second; the primes of the third and the fourth occur nowhere else."""
    line = primed_line(tmp_path, (2, 2, 1, 0), ("c02", "c02", "c01", "c00"))
    assert line.numbers["prime"].value == 1
    assert line.numbers["by chance"].value == pytest.approx((1 / 2 + 1 / 2 + 0 + 0) / 4)


def test_primes_of_others_that_are_all_right_are_no_chance(tmp_path):
    """The others of the first fact were called by its answer: of no wrong prime the chance is 0. Of the second's the
    first's is wrong, and the others' as well, which it says."""
    line = primed_line(tmp_path, (2, 0, 0, 0), ("c02", "c00", "c00", "c00"))
    assert line.numbers["by chance"].value == pytest.approx((0 + 2 / 3 + 2 / 3 + 2 / 3) / 4)


UNEVEN = [[0 if number % 20 < 8 else number % 20] for number in range(100)]
"""A hundred facts: of twenty in each of five relations eight have the first candidate for their answer."""


def test_who_always_says_the_most_frequent_answer_knows_nothing(tmp_path):
    """Right of 40 % among twenty candidates, eight times what lot gives; so is the majority of the other facts."""
    data = negatable(UNEVEN)
    runs = [
        answered(tmp_path / how, first, select(data, Selection(alter=how)).data, options={"alter": how})
        for how in ("no", "negated", "misprimed")
    ]
    for line, verdict in judged(runs):
        knows = {contrast.name: contrast.estimate.value for contrast in line.knows}
        assert knows["majority"] == 0
        assert line.numbers["accuracy"].value == pytest.approx(0.4)
        assert line.numbers["accuracy"].low > 0.05
        assert line.numbers["same answer"].value == 1
        assert verdict == OPEN


def test_the_strongest_baseline_is_the_bar(tmp_path):
    """By hand, of the same facts: lot is right of 1/20, the majority of 8/20. Who knows eight of the twelve rarer
    of each relation, too, is above it by 8/20, and keeps all when they are negated."""
    data = negatable(UNEVEN)
    knows = knowing({query.id for number, query in enumerate(data.queries) if number % 20 < 16}, first)
    runs = [
        answered(tmp_path / how, knows, select(data, Selection(alter=how)).data, options={"alter": how})
        for how in ("no", "negated")
    ]
    [(line, verdict)] = judged(runs)
    knows = {contrast.name: contrast.estimate.value for contrast in line.knows}
    assert knows == pytest.approx({"random": 0.8 - 1 / 20, "majority": 0.8 - 0.4, "names": knows["names"]})
    assert verdict == FOLLOWS


def test_another_wording_is_of_neither_reading(tmp_path):
    """A misprimed template is asked as a sentence, and is no natural one: it is neither ranked nor repeated as such."""
    data = world(EVEN)
    altered = select(data, Selection(alter="misprimed")).data
    runs = [
        answered(tmp_path / f"{model}-{alter}", at_random(model), own, model=str(model), options=how)
        for model in (1, 2)
        for alter, own, how in (
            ("plain", data, {"reading": "auto"}),
            ("primed", altered, {"reading": "auto", "alter": "misprimed"}),
        )
    ]
    assert [outcome.reading for outcome in read_all_facts(runs)] == [BY_TEMPLATE, "misprimed"] * 2
    ranked = rankings.analyse(runs)
    assert [column.reading for column in ranked.columns] == [BY_TEMPLATE, "misprimed"]
    assert not ranked.agreements
    assert not repeated.analyse(runs).in_both
    assert [one.name for one in compare(runs[:2]).runs] == ["1 template-based", "1 misprimed"]
    told = answered(tmp_path / "told", at_random(1), altered, options={"reading": BY_TEMPLATE, "alter": "misprimed"})
    assert read_all_facts([told])[0].reading == "template-based, misprimed"


def test_as_it_is_is_the_wording_from_which_the_others_are_made(tmp_path):
    """By the first of three templates all is known, by the others nothing: misprimed, which alters the first, all is,
    too, so nothing is lost and nothing changes."""

    def by_the_first(query: Query, space: CandidateSet, template: int) -> list[float]:
        return knowing({query.id} if template == 0 else ())(query, space, template)

    data = world(EVEN, templates=3)
    altered = select(data, Selection(alter="misprimed")).data
    runs = [
        answered(tmp_path / "plain", by_the_first, data),
        answered(tmp_path / "altered", by_the_first, altered, options={"alter": "misprimed"}),
    ]
    [(line, verdict)] = judged(runs)
    assert [line.numbers[name].value for name in ("accuracy", "change", "same answer")] == [1, 0, 1]
    assert "wording:first" in line.numbers["accuracy"].recipe
    assert verdict == DOES_NOT


def test_a_run_that_stands_beside_none_is_named_and_two_alike_are_told_apart(tmp_path):
    data = world(EVEN)
    altered = {seed: select(data, Selection(alter="misprimed", seed=seed)).data for seed in (0, 1)}
    knows = knowing({query.id for query in data.queries})
    runs = [
        answered(tmp_path / "plain", knows, data),
        *(
            answered(tmp_path / f"{n}-misprimed", knows, own, options={"alter": "misprimed"})
            for n, own in altered.items()
        ),
        answered(tmp_path / "alone", knows, data, model="other"),
        answered(tmp_path / "cut", knows, data, model="third", options={"alter": "truncated"}),
    ]
    found = compare(runs)
    assert [(one.numbers["model"], one.numbers["path"]) for one in found.alterations] == [
        (found.alterations[0].asked[0], str(tmp_path / f"{n}-misprimed")) for n in "01"
    ]
    assert len(found.controlled) == 4


def test_answers_that_tie_share_the_first_place(tmp_path):
    """Three tied as they are, one of them alone when misprimed: a third stays."""

    def three(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [1.0] * 3 + [0.0] * (len(space) - 3)

    data = world(EVEN)
    altered = select(data, Selection(alter="misprimed")).data
    runs = [
        answered(tmp_path / "a", three, data),
        answered(tmp_path / "b", first, altered, options={"alter": "misprimed"}),
    ]
    [line] = alterations(runs)
    assert line.numbers["same answer"].value == pytest.approx(1 / 3)


def test_real_primed_files_have_this_layout(tmp_path: Path):
    """A line as published (norakassner/LAMA_primed_negated at 690437f, data/TREx/random/P1001_random.jsonl)."""
    line = (
        '{"sub_label": "Knesset", "obj_label": "Israel", "masked_sentences": ["Knesset is a legal term in [MASK] ."], '
        '"masked_negations": ["Knesset is not a legal term in [MASK] ."], "uuid": 24, '
        '"masked_misprimed": ["Online? Knesset is a legal term in [MASK] ."]}'
    )
    (tmp_path / "P1001_random.jsonl").write_text(line)
    [query] = read(tmp_path).queries
    assert (query.subject, query.gold, set(query.altered)) == ("Knesset", ("Israel",), {"negated", "misprimed"})
