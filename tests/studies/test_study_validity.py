"""The study of validity, on answerers that know what they were made to know."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fathom.base.errors import BadInput
from fathom.data.queries import CandidateSet, Query
from fathom.results.claims import NO_DIFFERENCE
from fathom.results.rows import Rows
from fathom.store.folder import RunFolder
from fathom.studies import validity
from fathom.studies.options import ValidityOptions
from fathom.studies.validity import BIASES, Probe, preference, without_prior
from tests.answerers import SCORING, Answerer, answered, world
from tests.messages import mentioned, mentions
from tests.results.test_compare import scored_twice

DATA = world([[number % 20] for number in range(200)], relations=1)
"""Each answer is right in ten facts, of which five were read: frequency tells nothing of what was read."""
MOST = 10
READ = {query.id for number, query in enumerate(DATA.queries) if number // 20 % 2}
"""Twenty facts were never read, the next twenty ten times, and so on."""


def number_of(query: Query) -> int:
    return int(query.id[1:])


def design(folder: Path, **taught: list[str]) -> Path:
    """A design in which these facts were read; *taught* by query id."""
    lines = [
        {
            "query_id": query.id,
            "fact_id": query.fact_id,
            "exposures": MOST * (query.id in READ),
            "taught": taught.get(query.id, []),
        }
        for query in DATA.queries
    ]
    file = folder / "design.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return file


def ranks_gold(place_of: Any) -> Answerer:
    """Ranks the gold answer at a place that depends on the query."""

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        place = place_of(query)
        wrong = iter([number for number in range(len(space)) if number != place - 1])
        return [-float(place - 1 if id_ in query.gold else next(wrong)) for id_ in space.ids]

    return answer


def analyse(folder: Path, *runs: RunFolder, **more: Any) -> validity.Validity:
    return validity.analyse(list(runs), ValidityOptions(design=design(folder), **more))


def test_a_perfect_probe_and_a_blind_one(tmp_path: Path) -> None:
    perfect = answered(tmp_path / "a", ranks_gold(lambda query: 1 if query.id in READ else 5), DATA, model="one")
    blind = answered(tmp_path / "b", ranks_gold(lambda query: 5), DATA, model="two")
    one, other = analyse(tmp_path, perfect, blind).probes
    assert (one.numbers["AUROC"].value, one.numbers["by score"].value) == (1, 1)
    assert (other.numbers["AUROC"].value, other.numbers["by score"].value) == (0.5, 0.5)
    assert one.above.p_value is not None
    assert one.above.p_value < 0.001
    assert [level["exposures"] for level in one.levels] == [0, MOST]
    assert [level["accuracy"].value for level in one.levels] == [0, 1]
    assert one.numbers["chance"] == pytest.approx(1 / 20)


def test_auroc_by_hand(tmp_path: Path) -> None:
    """Of 100 facts read, 60 rank first and 40 fourth; of 100 never read, 20 rank first and 80 fourth.

    Pairs in order: 60 × 80; tied: 60 × 20 + 40 × 80. (4800 + 4400 / 2) / 10000 = 0.7.
    """

    def place(query: Query) -> int:
        nth = number_of(query) // 40 * 20 + number_of(query) % 20
        return 1 if nth < (60 if query.id in READ else 20) else 4

    found = analyse(tmp_path, answered(tmp_path / "a", ranks_gold(place), DATA))
    [one] = found.probes
    assert one.numbers["AUROC"].value == pytest.approx(0.7)
    errors = "20.0 % of the facts never read", "chance 5.0 %", "misses 40.0 % of those read 10 times"
    assert mentioned(validity.conclude(found)[1], *errors)
    assert [level["accuracy"].value for level in one.levels] == [0.2, 0.6]


def test_a_bias_is_measured_at_constant_truth(tmp_path: Path) -> None:
    """Ranks that depend on the answer's place among the candidates, whether the fact was read or not."""

    def place(query: Query) -> int:
        return 1 + int(query.gold[0][1:])

    found = analyse(tmp_path, answered(tmp_path / "a", ranks_gold(place), DATA))
    [one] = found.probes
    never, read = one.biases["position"]
    assert never.value > 0.9
    assert read.value > 0.9
    [said] = validity.conclude(found)
    assert said.startswith("m: no probe significantly distinguishes facts that it has read")
    smallest = found.decisions[validity.VALID, "m", one.name].smallest
    assert f"an AUROC of {0.5 + smallest:.2f} would have been found" in said


def test_facts_of_practice_are_no_test(tmp_path: Path) -> None:
    run = answered(tmp_path / "a", ranks_gold(lambda query: 1 if query.id in READ else 5), DATA)
    taught = design(tmp_path, **{query.id: ["statements"] for query in DATA.queries[:40]})
    found = validity.analyse([run], ValidityOptions(design=taught))
    assert found.practised == 40
    assert [level["accuracy"].n for level in found.probes[0].levels] == [80, 80]


def test_a_prior_that_hides_knowledge_is_subtracted(tmp_path: Path) -> None:
    """The answerer adds 10 to the gold answer's score of facts read, and 20 × n to the n-th candidate's of all.

    As scored, the last candidate is always first. Less the mean of the other subjects' scores, or less the scores
    without a subject, the gold answer of a fact read is first.
    """

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        own = query.gold[0] if query.id in READ else ""
        return [20.0 * place + 10.0 * (id_ == own) for place, id_ in enumerate(space.ids)]

    def prior(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [20.0 * place for place in range(len(space))]

    run = answered(tmp_path / "a", answer, DATA)
    empty = answered(tmp_path / "b", prior, DATA, options={"alter": "no-subject"})
    [one] = analyse(tmp_path, run, empty).probes
    assert one.numbers["AUROC"].value == pytest.approx(0.5, abs=0.06)
    assert {name: round(change.value, 2) > 0.4 for name, change in one.corrections.items()} == {
        "other subjects": True,
        "no subject": True,
    }
    rows = Rows(run)
    raw, less = preference(rows, SCORING.name), without_prior(rows, SCORING.name, Rows(empty))
    assert less is not None
    # The gold answer of fact 21 is candidate 1 of 20: 30 as scored, 380 − 30 below the last; less the prior 10 above.
    assert raw.margin[21] == -350
    assert less.margin[21] == 10
    assert less.place[21] == 0


def test_without_all_scores_the_margin_is_over_the_best_other_answer(tmp_path: Path) -> None:
    """The gold answer of fact 21, candidate 1, has 7, the best other −2; candidates that are right as well are none."""

    def answer(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [7.0 if id_ in query.gold else -2.0 - place for place, id_ in enumerate(space.ids)]

    run = answered(tmp_path / "a", answer, DATA)
    rows = Rows(run, with_scores=False)
    assert len(rows.scores(21)) == 0
    assert preference(rows, SCORING.name).margin[21] == 7 - -2


def test_two_probes_of_a_model_agree_at_constant_truth(tmp_path: Path) -> None:
    """Both rank facts read first: within facts read equally often nothing is left to agree on but the fourth bit."""

    def place(query: Query) -> int:
        return 1 if query.id in READ else 2 + number_of(query) % 4 // 2

    runs = [answered(tmp_path / name, ranks_gold(place), DATA, probe=name) for name in ("cloze", "statement")]
    other = answered(tmp_path / "third", ranks_gold(lambda query: 1 + (query.id not in READ)), DATA, probe="choice")
    pairs = {(one["probe"], one["and"]): one["Pearson r"] for one in analyse(tmp_path, *runs, other).pairs}
    assert pairs["cloze sum/full", "statement sum/full"].value == pytest.approx(1)
    assert pairs["cloze sum/full", "choice sum/full"].note  # undefined: nothing varies


def test_all_claims_are_one_family(tmp_path: Path) -> None:
    """For each of two probes the control, validity and three biases."""
    sees = answered(tmp_path / "a", ranks_gold(lambda query: 1 if query.id in READ else 5), DATA, probe="cloze")
    blind = answered(tmp_path / "b", ranks_gold(lambda query: 5), DATA, probe="statement")
    found = analyse(tmp_path, sees, blind)
    kinds, names = (validity.CONTROL, validity.VALID, *BIASES), ("cloze sum/full", "statement sum/full")
    assert found.decisions.keys() == {(kind, "m", name) for kind in kinds for name in names}
    assert found.decisions[validity.VALID, "m", names[0]].holds
    assert not found.decisions[validity.VALID, "m", names[1]].holds
    own = {}
    for key, decision in found.decisions.items():
        tested = [one.estimate.p_value for one in decision.claim.contrasts if one.estimate is not None]
        if decision.p_value is not None and decision.word != "opposite":
            own[key] = max(1.0 if p_value is None else p_value for p_value in tested)
    tested = sum(decision.p_value is not None for decision in found.decisions.values())
    least = min(own, key=own.__getitem__)
    assert found.decisions[least].p_value == pytest.approx(min(1.0, tested * own[least]))


def test_no_bias_says_what_would_have_been_found(tmp_path: Path) -> None:
    """Ranks of facts never read do not depend on the answer."""
    places = np.random.default_rng(1).integers(2, 20, len(DATA.queries)).tolist()
    run = answered(tmp_path / "a", ranks_gold(lambda query: 1 if query.id in READ else places[number_of(query)]), DATA)
    found = analyse(tmp_path, run)
    said = " ".join(validity.conclude(found))
    smallest = [found.decisions[name, "m", found.probes[0].name].smallest for name in BIASES]
    largest = max(one for one in smallest if one is not None)
    assert "No scoring significantly favours answers by length, frequency or position" in said
    assert f"one of {largest:.2f} would have been found in 80 % of cases" in said


def test_what_the_study_refuses(tmp_path: Path) -> None:
    run = answered(tmp_path / "a", ranks_gold(lambda query: 1), DATA)
    with pytest.raises(BadInput, match=mentions("planted.jsonl", "--design")):
        validity.analyse([run])
    file = tmp_path / "other.jsonl"
    file.write_text(json.dumps({"query_id": "x", "fact_id": "a|b|c", "exposures": 1}) + "\n", "utf-8")
    with pytest.raises(BadInput, match=mentions("none of its 200 facts")):
        validity.analyse([run], ValidityOptions(design=file))
    lines = [{"query_id": query.id, "fact_id": query.fact_id, "exposures": 1} for query in DATA.queries]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    with pytest.raises(BadInput, match=mentions("0 of the facts", "--limit")):
        validity.analyse([run], ValidityOptions(design=file))


def test_a_failed_control_is_said_first(tmp_path: Path) -> None:
    """One of the two halves of the facts never read ranks as well as those that were read."""
    unread = [query.id for query in DATA.queries if query.id not in READ]
    is_first = np.random.default_rng(0).permutation(len(unread)) < len(unread) / 2
    high = READ | {id_ for id_, first in zip(unread, is_first, strict=True) if first}
    failed = answered(tmp_path / "a", ranks_gold(lambda query: 1 if query.id in high else 5), DATA)
    [said] = validity.conclude(analyse(tmp_path, failed))
    assert mentioned(said, "m: control failed for cloze sum/full", "two halves")
    sound = answered(
        tmp_path / "b", ranks_gold(lambda query: 1 if query.id in READ else 5), DATA, reading="template-free"
    )
    first, second, *_ = validity.conclude(analyse(tmp_path, failed, sound))
    assert first.startswith("m: control failed for ")
    assert "is the best of 2" in second


def test_two_halves_of_facts_never_read_rarely_differ(tmp_path: Path) -> None:
    """Without knowledge, the test of AUROC errs in at most 5 % of draws, give or take the simulation's own error."""
    import random

    wrong = 0
    for seed in range(60):
        draw = random.Random(seed)
        places = {query.id: draw.randint(1, 20) for query in DATA.queries}
        run = answered(tmp_path / str(seed), ranks_gold(lambda query, of=places: of[query.id]), DATA)
        [one] = analyse(tmp_path, run).probes
        assert one.above.p_value is not None
        wrong += one.above.p_value < 0.05
    assert wrong <= 8  # the chance of more is 1 % at a rate of 5 %


def test_frequency_alone_is_no_knowledge(tmp_path: Path) -> None:
    """Of few facts, one that is read makes its answer frequent: ranks by frequency separate, and claim nothing."""
    data = world([[number % 20] for number in range(100)])
    counts = {query.gold[0]: MOST * (int(query.gold[0][1:]) % 2) for query in data.queries}
    run = answered(tmp_path / "a", ranks_gold(lambda query: 1 if counts[query.gold[0]] else 5), data)
    file = tmp_path / "odd.jsonl"
    lines = [
        {"query_id": query.id, "fact_id": query.fact_id, "exposures": counts[query.gold[0]]} for query in data.queries
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    found = validity.analyse([run], ValidityOptions(design=file))
    [one] = found.probes
    assert one.numbers["AUROC"].value == 1
    assert one.numbers["over frequency"].value == 0
    assert found.decisions[validity.VALID, "m", one.name].word == NO_DIFFERENCE
    assert "no probe significantly distinguishes" in validity.conclude(found)[0]


def test_the_frequency_of_an_answer_is_that_in_other_facts(tmp_path: Path) -> None:
    """Answers of one, two and four facts read ten times each, and of as many never read; ranks are 1, 2 and 3.

    A fact read adds nothing to its own answer's frequency: 0, 10 and 30 statements of others. Of a fact never read all
    of 10, 20 and 40 are of others. The ranks are 1, 3 and 2, so that the order alone does not give r.
    """
    facts = [0, 1, 1, 2, 2, 2, 2]
    data = world([[place] for place in facts * 8], relations=4)
    read = {query.id for number, query in enumerate(data.queries) if number // 7 % 2}
    run = answered(tmp_path / "a", ranks_gold(lambda query: (1, 3, 2)[int(query.gold[0][1:])]), data)
    file = tmp_path / "some.jsonl"
    lines = [{"query_id": one.id, "fact_id": one.fact_id, "exposures": MOST * (one.id in read)} for one in data.queries]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    [one] = validity.analyse([run], ValidityOptions(design=file)).probes
    ranks = np.log10(np.array([1, 3, 2])[facts])
    others = {0: np.log1p([10, 20, 40]), 1: np.log1p([0, 10, 30])}
    expected = [np.corrcoef(ranks, others[is_read][facts])[0, 1] for is_read in (0, 1)]
    assert [number.value for number in one.biases["frequency"]] == pytest.approx(expected)


def test_candidates_that_were_not_ranked_have_no_part_in_the_prior(tmp_path: Path) -> None:
    """Three facts with the gold answers c00, c01 and c02. The second fact's search did not rank c00.

    Means of the others: of the first 1, 4, 2.5; of the second 1.5, 2, 0.5; of the third 2, 3, 2. Scores less these:
    1, −3, −2.5; −, 3, 3.5; −1, 0, −1. So the margins are 3.5, −0.5 and −1, and the ranks 1, 2 and 2.5.
    """
    scores = {"q000": [2.0, 1.0, 0.0], "q001": [np.nan, 5.0, 4.0], "q002": [1.0, 3.0, 1.0]}
    data = world([[0], [1], [2]], relations=1, size=3)
    rows = Rows(answered(tmp_path / "a", lambda query, *_: scores[query.id], data))
    found = without_prior(rows, SCORING.name)
    assert found is not None
    assert found.margin.tolist() == pytest.approx([3.5, -0.5, -1])
    assert found.place.tolist() == pytest.approx([0, -np.log10(2), -np.log10(2.5)])
    # By the scores of another run: c00 by the first and third fact alone.
    found = without_prior(rows, SCORING.name, rows)
    assert found is not None
    # Means 1.5, 3 and 5/3 leave 0.5, −2, −5/3; −, 2, 7/3; −0.5, 0, −2/3.
    assert found.margin.tolist() == pytest.approx([0.5 + 5 / 3, 2 - 7 / 3, -2 / 3])
    assert found.place.tolist() == pytest.approx([0, -np.log10(2), -np.log10(3)])


def test_chance_is_the_mean_over_the_candidates_of_each_fact(tmp_path: Path) -> None:
    """Half of the facts have 10 candidates, half 20: (1/10 + 1/20) / 2."""
    space = DATA.candidates["all"]
    few = CandidateSet("few", space.ids[:10], space.names[:10])
    queries = tuple(replace(one, candidates="few" if one.gold[0] in few.ids else "all") for one in DATA.queries)
    data = replace(DATA, queries=queries, candidates={"all": space, "few": few})
    run = answered(tmp_path / "a", ranks_gold(lambda query: 1 if query.id in READ else 5), data)
    [one] = analyse(tmp_path, run).probes
    assert one.numbers["chance"] == pytest.approx(0.075)


def test_probes_of_two_runs_are_paired_and_scorings_of_one_run_are_not(tmp_path: Path) -> None:
    run = answered(tmp_path / "a", ranks_gold(lambda query: 1 + number_of(query) % 7), DATA)
    twice = scored_twice(tmp_path / "twice", run)
    assert [len(analyse(tmp_path, *runs).pairs) for runs in ([run], [twice], [run, twice])] == [0, 0, 2]


def test_ten_facts_of_each_class_are_enough() -> None:
    for unread, read, words in ((10, 10, ""), (9, 10, "9 of the facts"), (10, 9, "9 of the facts")):
        probe: Any = SimpleNamespace(exposures=np.array([0] * unread + [MOST] * read), most=MOST, name="p")
        assert mentioned(Probe.too_few(probe), words) if words else Probe.too_few(probe) == ""
