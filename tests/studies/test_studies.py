"""The entity studies: correlations against values worked out by hand, and the runs they start."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fathom.base.errors import BadInput
from fathom.cli import make_app
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.probes.options import StatementOptions
from fathom.probes.run import RunRequest, run
from fathom.results.estimates import Estimate
from fathom.results.metrics.correlation import fit_line
from fathom.store.folder import SECONDS, RunFolder
from fathom.studies import STUDIES, agreement, compute_time
from fathom.studies.compute_time import Timing
from fathom.studies.length_bias import analyse as length_bias
from fathom.studies.options import AgreementOptions, TimeOptions
from tests.answerers import agreement_of
from tests.messages import mentions
from tests.scripted import ScriptedModel

CANDIDATES = [f"e{number}" for number in range(100)]


def values(*numbers: Estimate) -> list[float]:
    return [number.value for number in numbers]


def make_run(
    path: Path,
    probe: str,
    ranks: dict[str, float | None],
    candidates: list[str] = CANDIDATES,
    beyond: int | None = None,
    model: str = "toy",
    data: str = "toy",
) -> RunFolder:
    """A finished run of facts "s|r|<id>": rank by id, None for unscored; an answer "e<n>" has n tokens.

    :param beyond: where the search stopped for the facts of infinite rank.
    """
    folder = RunFolder(path)
    ids = list(ranks)
    queries = pa.table(
        {
            "query_id": ids,
            "fact_id": [f"s|r|{id_}" for id_ in ids],
            "relation": ["r"] * len(ids),
            "direction": ["tail"] * len(ids),
            "subject_id": ["s"] * len(ids),
            "gold": pa.array([[id_] for id_ in ids], pa.list_(pa.string())),
            "candidates": ["all"] * len(ids),
            "groups": pa.array([[] for _ in ids], pa.map_(pa.string(), pa.string())),
        }
    )
    names = pa.table(
        {
            "set": ["all"] * len(candidates),
            "position": list(range(len(candidates))),
            "id": candidates,
            "name": [f"name {id_}" for id_ in candidates],
        }
    )
    identity = {"probe": probe, "model": {"name": model, "content_hash": model}, "data": {"name": data}}
    folder.start(identity, ["0"], queries, names)
    rows = [
        {
            "query_id": id_,
            "template": -1,
            "scoring": probe,
            "rank": told,
            "rank_optimistic": told and int(told),
            "rank_pessimistic": told and int(told),
            "gold_tokens": [int(id_[1:])],
            "rank_above": beyond if rank == math.inf else None,
            "unscored": "no name" if rank is None else None,
        }
        for id_, rank in ranks.items()
        for told in [None if rank in (None, math.inf) else rank]
    ]
    folder.add_shard("0", rows)
    return folder


def test_a_line_by_hand() -> None:
    # y = 2x + 1 with residuals +1, −2, +1 at x = 0, 1, 2: slope stays 2, intercept 1; residual sum of squares 6,
    # variance 6 / (3 − 2), Σ(x − 1)² = 2: error √3. R² = 1 − 6 / Σ(y − ȳ)² with y = 2, 1, 6, ȳ = 3: 1 − 6/14.
    found = fit_line([0, 1, 2], [2, 1, 6])
    assert (found.slope, found.intercept) == pytest.approx((2, 1))
    assert found.slope_error == pytest.approx(3**0.5)
    assert found.r_squared == pytest.approx(8 / 14)
    with pytest.raises(ValueError, match="more than one x"):
        fit_line([1, 1, 1], [1, 2, 3])


def test_agreement_of_two_runs(tmp_path: Path) -> None:
    # Ranks 1, 10, 100 against 10, 1, 100: logs 0, 1, 2 and 1, 0, 2, whose r is 0.5 (as x, y = 1, 3, 2 above).
    first = make_run(tmp_path / "a", "one", {"e1": 1, "e2": 10, "e3": 100, "e4": None, "e5": 2})
    second = make_run(tmp_path / "b", "other", {"e1": 10, "e2": 1, "e3": 100, "e4": 3, "e5": None})
    found = agreement_of([first, second], k=5)
    assert found.log_ranks.n == 3
    assert found.log_ranks.value == pytest.approx(0.5)
    assert found.ranks.value == pytest.approx(np.corrcoef([1, 10, 100], [10, 1, 100])[0, 1])
    assert values(found.both_hit, found.both_miss, found.only_first, found.only_second) == pytest.approx(
        [0, 1 / 3, 1 / 3, 1 / 3]
    )
    assert found.left_out == 2
    other = make_run(tmp_path / "c", "other", {"e1": 10}, candidates=CANDIDATES[:50])
    with pytest.raises(BadInput, match=mentions("0 candidates", "--pool")):
        agreement_of([first, other])
    with pytest.raises(BadInput, match="no ranked fact"):
        agreement_of([first, make_run(tmp_path / "d", "other", {"e9": 10})])


def test_a_search_that_stopped_is_a_miss_and_no_rank(tmp_path: Path) -> None:
    """Ranks 1, 20, 30, 4 against 2, beyond 10, beyond 10, 3: two hits, two misses; a correlation of the two ranked
    facts would be one of facts chosen by their rank."""
    whole = make_run(tmp_path / "a", "embedding", {"e1": 1.0, "e2": 20.0, "e3": 30.0, "e4": 4.0})
    stopped = make_run(tmp_path / "b", "statement", {"e1": 2.0, "e2": math.inf, "e3": math.inf, "e4": 3.0}, beyond=10)
    found = agreement_of([whole, stopped])
    assert values(found.both_hit, found.both_miss) == [0.5, 0.5]
    assert (found.left_out, found.stopped) == (0, 2)
    assert math.isnan(found.ranks.value)
    assert math.isnan(found.log_ranks.value)
    [table, _] = agreement.tables(agreement.analyse([whole, stopped]))
    assert any("rank beyond --max-rank" in note for note in table.notes)
    beyond_the_question = agreement_of([whole, stopped], k=20)  # e2 and e3 may be hits at 20, or not
    assert beyond_the_question.left_out == 2
    with pytest.raises(BadInput, match=mentions("2 of 4 facts", "--max-rank")):
        length_bias([stopped])


def test_a_run_beside_itself_says_nothing(tmp_path: Path) -> None:
    ranks: dict[str, float | None] = {"e1": 1.0, "e2": 2.0, "e3": 3.0}
    run = make_run(tmp_path / "a", "embedding", ranks)
    with pytest.raises(BadInput, match="is both runs"):
        agreement_of([run, RunFolder(tmp_path / "a")])
    [alike] = agreement.analyse([run, make_run(tmp_path / "b", "embedding", ranks)]).pairs
    assert alike.first.endswith(" a")
    assert alike.second.endswith(" b")


def test_agreement_of_several_models_equals_a_loop_over_the_files(tmp_path: Path) -> None:
    """Three models, two data sets and two probes, one of which was run on one data set alone."""
    draw = np.random.default_rng(0)
    runs = []
    for model in ("org/a", "org/b", "org/c"):
        for data, size in (("small", 8), ("large", 20)):
            for probe in ("statement", "embedding", "vocabulary")[: 3 if data == "large" else 2]:
                ranks = {f"e{at}": float(rank) for at, rank in enumerate(draw.permutation(size) + 1)}
                runs.append(make_run(tmp_path / f"{model[-1]}-{data}-{probe}", probe, ranks, model=model, data=data))
    found = agreement.analyse(runs, AgreementOptions(k=5))
    rows = {(row["model"], row["data"], row["first"], row["second"]): row for row in in_rows(found, 0)}
    shares = dict(zip(rows, in_rows(found, 1), strict=True))
    expected: dict[tuple[str, str, str, str], list[float]] = {}
    for one, other in combinations(runs, 2):
        sides = [run.manifest["identity"] for run in (one, other)]
        if any(sides[0][name]["name"] != sides[1][name]["name"] for name in ("model", "data")):
            continue
        ranks = [np.array(pq.read_table(next(run.path.glob("predictions/*")))["rank"]) for run in (one, other)]
        r = np.corrcoef(np.log10(ranks[0]), np.log10(ranks[1]))[0, 1]
        hit = np.mean((ranks[0] <= 5) & (ranks[1] <= 5))
        place = (sides[0]["model"]["name"][-1], sides[0]["data"]["name"], sides[0]["probe"], sides[1]["probe"])
        expected[place] = [r, np.corrcoef(*ranks)[0, 1], hit, np.mean(ranks[0] <= 5) - hit]
    for last in dict.fromkeys(place[1:] for place in expected):
        expected["mean of 3 models", *last] = np.mean([expected[one, *last] for one in "abc"], axis=0)
    assert rows.keys() == expected.keys()
    assert len(rows) == 3 * 4 + 4
    for place, numbers in expected.items():
        cells = [rows[place]["r"], rows[place]["r of ranks"], shares[place]["both hit"], shares[place]["only first"]]
        assert cells == pytest.approx(numbers), place
    assert not found.refused
    assert not found.alone
    assert "of 12 comparisons are significant" in agreement.conclude(found)[0]
    ranks_table = agreement.files(found)["agreement-ranks"]
    assert len(ranks_table.rows) == 3 * (8 + 3 * 20)
    assert {row["tokens"] == int(row["fact"].rpartition("e")[2]) for row in ranks_table.objects()} == {True}


def in_rows(found: agreement.Agreements, place: int) -> list[dict[str, Any]]:
    return agreement.tables(found)[place].objects()


def test_several_pairs_are_panels_of_one_picture(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / f"{model}-{probe}", probe, {"e1": 1, "e2": 10, "e3": 100}, model=model)
        for model in "ab"
        for probe in ("one", "other")
    ]
    STUDIES["agreement"].save(agreement.analyse(runs), tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").glob("*.png")] == ["agreement.png"]
    [table, *_] = agreement.tables(agreement.analyse(runs[:2]))
    assert [row["model"] for row in table.objects()] == ["a"]
    [panels] = agreement.plots(agreement.analyse(runs))
    assert [plot.title for plot in panels.plots] == [f"{model}, toy\nr = 1.000 on log ranks" for model in "ab"]


def test_runs_without_a_partner_and_pairs_that_cannot_be_compared_are_listed(tmp_path: Path) -> None:
    ranks: dict[str, float | None] = {"e1": 1, "e2": 2, "e3": 3}
    runs = [make_run(tmp_path / probe, probe, ranks) for probe in ("one", "other")]
    unlike = make_run(tmp_path / "unlike", "third", ranks, candidates=CANDIDATES[:50])
    alone = make_run(tmp_path / "alone", "one", ranks, model="b")
    found = agreement.analyse([*runs, unlike, alone])
    assert [pair[:4] for pair in found.pairs] == [("toy", "toy", "one", "other")]
    assert [refused[2:4] for refused in found.refused] == [("one", "third"), ("other", "third")]
    correlations, *_, refused_table = agreement.tables(found)
    assert any(str(alone.path) in note for note in correlations.notes)
    assert [row["second"] for row in refused_table.objects()] == ["third", "third"]
    again = make_run(tmp_path / "again", "one", ranks)
    names = [pair[2:4] for pair in agreement.analyse([*runs, again]).pairs]
    assert ("one one", "one again") in names
    with pytest.raises(BadInput, match="no two of the runs"):
        agreement.analyse([runs[0], alone, make_run(tmp_path / "c", "one", ranks, data="c")])
    with pytest.raises(BadInput, match="--pool"):
        agreement.analyse([runs[0], unlike, alone])
    with pytest.raises(BadInput, match="two runs or more"):
        agreement.analyse(runs[:1])


def test_length_bias_of_a_run(tmp_path: Path) -> None:
    # Tokens 1, 2, 3 have ranks 1, 3, 2: r = 0.5.
    run = make_run(tmp_path / "a", "one", {"e1": 1, "e2": 3, "e3": 2, "e4": None})
    [found] = length_bias([run])
    assert found.ranks.value == pytest.approx(0.5)
    assert found.left_out == 1
    assert [(row["tokens"], row["facts"], row["median"]) for row in found.by_tokens] == [
        (1, 1, 1),
        (2, 1, 3),
        (3, 1, 2),
    ]
    assert [(row["tokens"], row["Acc@1"].value, row["Acc@1"].n) for row in found.by_tokens] == [
        (1, 1.0, 1), (2, 0.0, 1), (3, 0.0, 1),
    ]  # fmt: skip
    assert found.by_tokens[0]["vocabulary"] == "toy"  # the model's own
    alike = make_run(tmp_path / "b", "one", {f"e{number}": number for number in range(1, 42)})
    [found] = length_bias([alike], count_tokens=lambda texts: [1 for _ in texts])
    [row] = found.by_tokens
    assert (row["lower quartile"], row["median"], row["upper quartile"]) == (11, 21, 31)  # of ranks 1 to 41


def test_the_commands_print_and_keep(tmp_path: Path) -> None:
    make_run(tmp_path / "a", "one", {"e1": 1, "e2": 10, "e3": 100})
    make_run(tmp_path / "b", "other", {"e1": 10, "e2": 1, "e3": 100})
    out = tmp_path / "out"
    arguments = ["study", "agreement", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(out), "--format", "json"]
    result = CliRunner().invoke(make_app(), arguments)
    assert result.exit_code == 0, result.output
    assert {file.name for file in out.iterdir()} >= {
        "agreement.json",
        "agreement.csv",
        "agreement.md",
        "agreement-ranks.csv",
    }
    tables = json.loads((out / "agreement.json").read_text())
    assert tables["quadrants"][0]["both hit"] == pytest.approx(2 / 3)  # e1 and e2 are within 10 in both runs
    result = CliRunner().invoke(make_app(), ["study", "length-bias", str(tmp_path / "a"), str(tmp_path / "b")])
    assert result.exit_code == 0, result.output
    assert "short names" in result.output


@pytest.fixture
def data() -> QuerySet:
    space = CandidateSet("capital", ("p", "r", "m"), ("Paris", "Rome", "Madrid"))
    queries = tuple(
        Query(f"capital/{gold}", "capital", subject, subject, (gold,), "capital")
        for subject, gold in (("France", "p"), ("Italy", "r"), ("Spain", "m"))
    )
    relation = Relation("capital", "capital", (Template("[X] has [Y]"),), "1:1")
    return QuerySet("tiny", queries, {"capital": space}, {"capital": relation})


def model(name: str = "m") -> ScriptedModel:
    words = ["France", "Italy", "Spain", "has", "Paris", "Rome", "Madrid"]
    return ScriptedModel(words, {"has": {"Paris": 4.0}}, name=name)


def ranked(model: ScriptedModel, data: QuerySet, out: Path) -> RunFolder:
    """A run of the statement probe."""
    return run(RunRequest("statement", model, data, StatementOptions()), out / model.identity.name.replace("/", "-"))


def test_compute_time_fits_and_extrapolates(tmp_path: Path) -> None:
    runs = []
    for count, seconds in ((1, 2.0), (2, 2.5), (3, 4.0)):
        runs.append(make_run(tmp_path / str(count), "statement", {f"e{n}": 1 for n in range(count)}))
        runs[-1].add_circumstances(**{SECONDS: seconds})
    [found] = compute_time.analyse(runs, TimeOptions(total=1000))
    assert found.points == [(1, 2.0), (2, 2.5), (3, 4.0)]
    line = fit_line([1, 2, 3], [2.0, 2.5, 4.0])
    assert found.seconds == pytest.approx(1000 * line.slope + line.intercept)
    assert found.error == pytest.approx(line.error_at(1000))
    [table] = compute_time.tables([found])
    assert not any("clustered by" in note for note in table.notes)  # times are of no sample
    with pytest.raises(BadInput, match="three points"):
        compute_time.analyse(runs[:2])
    untimed = make_run(tmp_path / "untimed", "statement", {"e1": 1})
    with pytest.raises(BadInput, match=mentions("untimed", "fathom plan compute-time")):
        compute_time.analyse([*runs, untimed])


def test_a_flat_line_has_no_interval() -> None:
    """Its slope 0 has no logarithm."""
    points = [(1, 2.0), (2, 2.0), (3, 2.0)]
    line = fit_line(*zip(*points, strict=True))
    [row] = compute_time.tables([Timing("statement", "toy", points, line, 10, 2.0, 0.0)])[0].objects()
    assert (row["seconds/query"], row["seconds/query low"]) == (0, None)


def test_a_run_without_ranks_is_said_to_have_none(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", "one", {"e1": None, "e2": None})
    with pytest.raises(BadInput, match="no name"):
        length_bias([run])


def test_one_count_for_all_runs(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", "one", {"e1": 1, "e2": 3, "e3": 2})
    [found] = length_bias([run], count_tokens=lambda texts: [len(text) for text in texts])
    assert {tokens for _, tokens, _ in found.points} == {len("name e1")}
