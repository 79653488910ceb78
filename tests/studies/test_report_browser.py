"""``fathom report`` in a real browser: what its script counts, chooses, links, saves, and lets nobody do."""

from __future__ import annotations

import csv
import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.results.compare import compare
from fathom.results.loading import short_names
from fathom.results.rows import Rows
from fathom.store.folder import RunFolder
from fathom.studies.report import charts as drawn
from fathom.studies.report.evidence import Evidence, dimensions
from fathom.studies.report.page import report
from tests.answerers import EVEN, answered, at_random, first_few, knowing, known_of, world
from tests.messages import mentioned

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")]
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
for library in ("altair", "itables", "jinja2"):
    pytest.importorskip(library, reason=f"{library} is not installed: pip install '.[report]'")

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
TABS = ("overview", "compare", "evidence", "methods")
WHY = "the prompt is <b>too</b> long"
UNSCORED = ("q007", "q031", "q064")
NO_RANKS = dict.fromkeys(("rank", "rank_optimistic", "rank_pessimistic", "gold_scores", "gold_ranks", "scores"))
NOTHING_TOLD = NO_RANKS | dict.fromkeys(("top_ids", "top_scores", "correct"))


class MadeReport(NamedTuple):
    """:param rows: of each run, as its predictions have them."""

    url: str
    folders: list[RunFolder]
    rows: list[list[dict[str, Any]]]


def again(run: RunFolder, change: Callable[[dict[str, Any]], dict[str, Any]]) -> RunFolder:
    """The run with other predictions."""
    rows = [row | change(row) for row in run.predictions().to_pylist()]
    (run.path / "predictions" / "part-0.parquet").unlink()
    run.add_shard("0", rows)
    return run


def grouped_world() -> QuerySet:
    """A hundred facts in five relations, asked in two ways; every other one is 1:1, every third is of two domains, and
    every fourth of none."""
    data = world(EVEN, templates=2)
    queries = []
    for number, query in enumerate(data.queries):
        domain = {} if number % 4 == 0 else {"domain": "Art; Geo" if number % 3 == 0 else "Geo"}
        groups = {"cardinality": "1:1" if number % 2 else "1:N"} | domain
        queries.append(replace(query, subject=f"subject {number}", groups=groups))
    return replace(data, queries=tuple(queries))


DATA = grouped_world()


def unanswered(folder: Path, model: str, which: Sequence[str] = ()) -> RunFolder:
    """A run by lot that has no score of some queries, or of all."""
    run = answered(folder, at_random(3), DATA, model=model, probe="statement")
    wanted = set(which) or {query.id for query in DATA.queries}
    return again(run, lambda row: NOTHING_TOLD | {"unscored": WHY} if row["query_id"] in wanted else {})


def written(folder: Path, model: str) -> RunFolder:
    """A run of written answers: right with every third fact, half right with every fifth."""
    run = answered(folder, at_random(4), world(EVEN), model=model, probe="generation")

    def told(row: dict[str, Any]) -> dict[str, Any]:
        number = int(row["query_id"][1:])
        credit = 1.0 if number % 3 == 0 else 0.5 if number % 5 == 0 else 0.0
        said = {"answers": [f"Writ {number}", "or else"], "answer_ids": [EVEN_NAMES[number] if credit else None, None]}
        return NOTHING_TOLD | said | {"scoring": "f1", "correct": credit, "template": -1}

    return again(run, told)


EVEN_NAMES = [f"c{gold[0]:02}" for gold in EVEN]


def made(folder: Path, runs: Sequence[RunFolder], title: str = "") -> MadeReport:
    report(runs, folder / "report.html", title=title)
    return MadeReport(f"file://{folder}/report.html", list(runs), [run.predictions().to_pylist() for run in runs])


@pytest.fixture(scope="module")
def main(tmp_path_factory: pytest.TempPathFactory) -> MadeReport:
    """Three runs: two that know different facts, and one by lot with predictions that are not scored."""
    folder = tmp_path_factory.mktemp("main")
    runs = [
        answered(folder / "a", knowing(known_of(DATA, [0.6]), at_random(1)), DATA, model="a", probe="statement"),
        answered(folder / "b", knowing(first_few(DATA, 0.4, 5), at_random(2)), DATA, model="b", probe="statement"),
        unanswered(folder / "c", "c", UNSCORED),
    ]
    for number, run in enumerate(runs):
        run.add_circumstances(model={"parameters": 10 ** (6 + number)})
    return made(folder, runs)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=BROWSER, args=[*QUIET, "--no-first-run"])
        yield running
        running.close()


def listening(browser: Any, faults: list[str], url: str, viewport: Any = DESKTOP, **more: Any) -> Any:
    """A page that is ready, by default at its facts.

    :param faults: what it complains of, or asks of others, is added.
    """
    page = browser.new_page(viewport=viewport, **more)
    page.set_default_timeout(10_000)
    page.on("console", lambda said: said.type in ("error", "warning") and faults.append(said.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    own = ("data:", "blob:", url.partition("#")[0])
    page.on("request", lambda asked: asked.url.startswith(own) or faults.append(asked.url))
    page.goto(url if "#" in url else f"{url}#tab=evidence")
    page.wait_for_selector("body[data-ready=yes]")
    return page


PageOpener = Callable[..., Any]


@pytest.fixture
def opened(browser: Any) -> Iterator[PageOpener]:
    """Opens pages of a test's own."""
    pages, faults = [], []

    def one(url: str, viewport: Any = DESKTOP, **more: Any) -> Any:
        pages.append(listening(browser, faults, url, viewport, **more))
        return pages[-1]

    yield one
    for page in pages:
        page.close()
    assert faults == []


@pytest.fixture(scope="module")
def shared(browser: Any, main: MadeReport) -> tuple[Any, list[str]]:
    """A page, and what it complained of: opening one for each test takes long."""
    faults: list[str] = []
    return listening(browser, faults, main.url), faults


@pytest.fixture
def page(shared: tuple[Any, list[str]]) -> Iterator[Any]:
    """The facts, with nothing chosen."""
    page, faults = shared
    faults.clear()
    follow(page, "#tab=evidence")
    yield page
    assert faults == []


# --- what a page says


def follow(page: Any, link: str) -> None:
    """Edit the page's address."""
    page.evaluate("link => { location.hash = link; }", link)
    page.wait_for_function("link => fathom.choice.hash === link", arg=link)
    page.evaluate("fathom.settled")


def show(page: Any, tab: str) -> Any:
    page.click(f"#tab-{tab}")
    page.evaluate("fathom.settled")
    return page


def kept(page: Any) -> set[str]:
    """Facts that are left."""
    return set(page.evaluate("fathom.evidence.facts.filter((_, fact) => fathom.choice.kept[fact])"))


def data_of(page: Any, name: str) -> list[dict[str, Any]]:
    """What a chart shows."""
    rows = page.evaluate(
        """async (name) => {
          const { tab } = fathom.choice.state;
          fathom.choice.set({ tab: ["compare"] });
          await fathom.settled;
          const rows = fathom.charts.get(name).data("counted");
          fathom.choice.set({ tab });
          await fathom.settled;
          return rows;
        }""",
        name,
    )
    return [{key: own for key, own in row.items() if key != "Symbol(vega_id)"} for row in rows]


def state(page: Any, name: str) -> list[str]:
    return page.evaluate(f"fathom.choice.state['{name}']")


def choose(page: Any, name: str, value: str) -> None:
    page.select_option(f"select[data-choice='{name}']", value)


def sort(page: Any, head: str) -> None:
    """Click there; DataTables sorts a moment later."""
    before = page.get_attribute(head, "aria-sort")
    page.click(head)
    page.wait_for_function("([head, before]) => document.querySelector(head).ariaSort !== before", arg=[head, before])


def chips(page: Any) -> list[str]:
    return page.locator("#chips button").all_inner_texts()


def fits(page: Any) -> bool:
    """Whether nobody needs to scroll sideways."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# --- the same, by hand


def fact_of(query: Query) -> str:
    return f"{query.subject_id}|{query.relation}|{query.gold[0]}"


QUERIES = {query.id: query for query in DATA.queries}
FACTS = {fact_of(query): query for query in DATA.queries}
ALL = set(FACTS)


def facts_with(test: Callable[[Query], bool]) -> set[str]:
    return {fact for fact, query in FACTS.items() if test(query)}


def hits(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Of each fact whose predictions all have a rank the share that has rank 1; nothing is tied here."""
    own: dict[str, list[float]] = {}
    for row in rows:
        rank = math.nan if row["rank"] is None else float(row["rank"] == 1)
        own.setdefault(fact_of(QUERIES[row["query_id"]]), []).append(rank)
    return {fact: sum(each) / len(each) for fact, each in own.items() if not math.isnan(sum(each))}


def of_runs(main: MadeReport, facts: set[str]) -> dict[str, tuple[int, Any]]:
    """What the first chart should show of these facts: how many of them a run scored, and the share it has right."""
    found = {}
    for name, rows in zip("abc", main.rows, strict=True):
        own = [hit for fact, hit in hits(rows).items() if fact in facts]
        if own:
            found[name] = len(own), pytest.approx(sum(own) / len(own), abs=1e-5)
    return found


def narrowed(page: Any, main: MadeReport, facts: set[str], of_any_relation: set[str] | None = None) -> None:
    """The page shows these facts and no others: table, count and charts.

    :param of_any_relation: of which relations were chosen, as the chart of relations, which chooses them, still shows.
    """
    assert 0 < len(facts) < len(ALL)
    assert kept(page) == facts
    assert page.inner_text("#count") == f"{len(facts)} of 100 facts"
    show(page, "evidence")
    info = page.inner_text("#evidence-table_info")
    assert f"of {len(facts)} facts" in info
    subjects = page.locator("#evidence-table tbody button").all_inner_texts()
    assert len(subjects) == min(25, len(facts))
    assert set(subjects) <= {FACTS[fact].subject for fact in facts}
    shown = {row["run"]: (pytest.approx(row["facts"], abs=1e-4), row["hit"]) for row in data_of(page, "runs")}
    assert shown == of_runs(main, facts)
    by_relation = {(row["relation"], row["run"]): round(row["facts"], 4) for row in data_of(page, "relations")}
    told = dict(zip("abc", map(hits, main.rows), strict=True))
    there = facts if of_any_relation is None else of_any_relation
    counts = Counter((FACTS[fact].relation, name) for name, own in told.items() for fact in own if fact in there)
    assert by_relation == counts


# --- nothing breaks


def several(folder: Path) -> list[RunFolder]:
    return [answered(folder / name, at_random(seed), DATA, model=name) for seed, name in enumerate("xy")]


def one(folder: Path) -> list[RunFolder]:
    return several(folder)[:1]


def of_different_data(folder: Path) -> list[RunFolder]:
    other = world([[1], [2], [3]], relations=1, name="Other", size=7)
    strange = replace(other, queries=tuple(replace(query, subject_id=f"x{query.id}") for query in other.queries))
    return [*several(folder), answered(folder / "z", at_random(1), strange, model="z")]


def unscored(folder: Path) -> list[RunFolder]:
    return [unanswered(folder / "u", "u"), *one(folder)]


def unscored_alone(folder: Path) -> list[RunFolder]:
    return [unanswered(folder / "u", "u")]


def of_written_answers(folder: Path) -> list[RunFolder]:
    return [written(folder / "w", "w")]


@pytest.mark.parametrize("runs", [several, one, of_different_data, unscored, unscored_alone, of_written_answers])
def test_nothing_breaks_whatever_the_runs(runs, opened: PageOpener, tmp_path: Path):
    url = made(tmp_path, runs(tmp_path)).url
    page = opened(url)
    assert fits(page)
    page.locator("#evidence-table tbody button").first.click()
    page.wait_for_selector("#fact table")
    assert fits(page)
    for tab in TABS:
        assert fits(show(page, tab)), tab
    page.set_viewport_size(PHONE)
    page.wait_for_timeout(50)
    for tab in TABS:
        assert fits(show(page, tab)), tab
    show(page, "evidence")
    page.click("#evidence-table thead th >> nth=-1")
    page.click("#chosen .drawer")
    page.fill("input[type=search] >> nth=0", "no such thing")
    assert page.inner_text("#count").startswith("0 of ")
    assert fits(page)


@pytest.mark.parametrize("viewport", [{"width": 1400, "height": 900}, PHONE])
def test_the_first_screen_names_best_and_worst_relations(opened: PageOpener, tmp_path: Path, viewport) -> None:
    """Of three runs of real size, whose names are as long as those of models."""
    real = [RunFolder.open(f"reference:{name}") for name in ("SmolLM2-135M-Instruct", "Gemma-3-270m")]
    third = answered(tmp_path / "third", at_random(1), DATA, model="another-model-270m-instruct", probe="statement")
    page = opened(f"{made(tmp_path, [*real, third]).url}#tab=overview", viewport)
    rows = page.locator(".forest:visible tbody tr")
    assert rows.count() == 3
    for row in rows.all():
        for cell in row.locator("td").all()[-2:] if viewport is PHONE else row.locator("td[data-label]").all()[-3:]:
            box = cell.bounding_box()
            assert 0 <= box["x"] <= box["x"] + box["width"] <= viewport["width"]
            assert 0 <= box["y"] <= box["y"] + box["height"] <= viewport["height"]
            assert cell.evaluate("own => [...own.querySelectorAll('bdi')].every((b) => b.scrollWidth <= b.clientWidth)")
    assert re.search(r"(language|capital) \d+\.\d\s%", rows.first.inner_text())
    assert fits(page)


# --- counts


@pytest.fixture(scope="module")
def in_python(main: MadeReport) -> dict[str, list[dict[str, Any]]]:
    """What every chart shows, as Python counts it."""
    evidence = Evidence()
    for run, model in zip(main.folders, short_names(main.folders), strict=True):
        evidence.add_run(run, Rows(run), model)
    found = evidence.finish()
    dims = dimensions(evidence, found)
    return {own.name: rows for own, rows in drawn.drawable(evidence.views, dims, found)}


def test_the_script_counts_what_python_counts(page, in_python):
    assert {one.name for one in drawn.DRAWINGS} == in_python.keys()
    assert {own["run"] for own in data_of(page, "runs")} == set("abc")
    assert page.evaluate("fathom.charts.size") == len(in_python)
    for name, rows in in_python.items():
        shown = data_of(page, name)
        assert len(shown) == len(rows) > 0, name
        for own, expected in zip(shown, rows, strict=True):
            assert own == pytest.approx(expected, abs=1e-4), name


def test_the_script_counts_half_of_the_facts_as_python_counts_a_run_of_them(page, main, tmp_path, opened):
    """The facts of one relation, chosen in the report of all, and alone in a report of their own."""
    choose(page, "relation", "r1")
    fewer = [query for query in DATA.queries if query.relation == "r1"]
    part = replace(DATA, queries=tuple(fewer), relations={"r1": DATA.relations["r1"]})
    a = answered(tmp_path / "a", knowing(known_of(DATA, [0.6]), at_random(1)), part, model="a", probe="statement")
    b = answered(tmp_path / "b", knowing(first_few(DATA, 0.4, 5), at_random(2)), part, model="b", probe="statement")
    alone = opened(made(tmp_path, [a, b]).url)
    for name in ("runs", "ranks", "confidence", "templates", "lengths"):
        whole = [row for row in data_of(page, name) if row["run"] != "c"]
        assert whole == [pytest.approx(row, abs=1e-4) for row in data_of(alone, name)], name


# --- choices


def test_a_search_finds_subjects_answers_and_relations(page, main):
    page.fill("input[data-choice=q]", "SUBJECT 7")
    narrowed(page, main, facts_with(lambda query: query.subject.startswith("subject 7")))
    page.fill("input[data-choice=q]", "w13")
    narrowed(page, main, facts_with(lambda query: query.gold == ("c13",)))
    page.fill("input[data-choice=q]", "r2")
    narrowed(page, main, facts_with(lambda query: query.relation == "r2"))
    page.fill("input[data-choice=q]", "")
    assert kept(page) == ALL


def test_relations_and_kinds_of_facts(page, main):
    choose(page, "relation", "r3")
    narrowed(page, main, facts_with(lambda query: query.relation == "r3"), ALL)
    choose(page, "slice", "cardinality: 1:1")
    odd = facts_with(lambda query: query.groups["cardinality"] == "1:1")
    narrowed(page, main, {fact for fact in odd if FACTS[fact].relation == "r3"}, odd)
    choose(page, "relation", "")
    choose(page, "slice", "domain: Art")
    narrowed(page, main, facts_with(lambda query: "Art" in query.groups.get("domain", "")))
    choose(page, "slice", "domain: (none)")
    narrowed(page, main, facts_with(lambda query: "domain" not in query.groups))
    choose(page, "slice", "a prediction unscored")
    narrowed(page, main, {fact_of(QUERIES[id_]) for id_ in UNSCORED})
    told = [hits(rows) for rows in main.rows]
    every = {
        "scored by all runs": {fact for fact in ALL if all(fact in own for own in told)},
        "right by all runs": {fact for fact in ALL if all(own.get(fact) == 1 for own in told)},
        "right by no run": {fact for fact in ALL if all(own.get(fact) == 0 for own in told)},
    }
    there = page.locator("select[data-choice=slice] option").all_inner_texts()
    assert {label for label in every if every[label]} == every.keys() & set(there)
    for label in every.keys() & set(there):
        choose(page, "slice", label)
        narrowed(page, main, every[label])


def test_a_template_counts_alone_in_charts_cells_and_table(page, main):
    choose(page, "template", "1: [X] is so [Y].")
    assert kept(page) == ALL
    for row, rows in zip(data_of(page, "runs"), main.rows, strict=True):
        ranks = [own["rank"] == 1 for own in rows if own["template"] == 1 and own["rank"] is not None]
        assert row["hit"] == pytest.approx(sum(ranks) / len(ranks), abs=1e-5)
    assert {row["template"] for row in data_of(page, "templates")} == {"1: [X] is so [Y]."}
    by_fact = [{own["query_id"]: own["rank"] for own in rows if own["template"] == 1} for rows in main.rows]
    one, other = ({id_ for id_, rank in ranks.items() if rank == 1} for ranks in by_fact[:2])
    whole = by_fact[0].keys() - {own["query_id"] for rows in main.rows[:2] for own in rows if own["rank"] is None}
    cells = page.inner_text("[data-cell=both]"), page.inner_text("[data-cell=first]")
    assert [int(cell.rpartition(" ")[2]) for cell in cells] == [len(one & other & whole), len((one - other) & whole)]
    marks = column(page, 4)
    of_first = [by_fact[0][query.id] for query in DATA.queries[: len(marks)]]
    shown = [f"{'✓' if rank == 1 else '✗'} ({rank:g})" for rank in of_first]
    of_marks = [mark.split(") ")[0].removesuffix(")") + ")" for mark in marks if mark != "–"]
    assert of_marks == [own for own, mark in zip(shown, marks, strict=True) if mark != "–"]


def of_rank(main: MadeReport, most: int, least: int = 1, runs: str = "abc") -> set[str]:
    """Facts of which one of these runs has a prediction there."""
    return {
        fact_of(QUERIES[row["query_id"]])
        for name, rows in zip("abc", main.rows, strict=True)
        for row in rows
        if name in runs and row["rank"] is not None and least <= row["rank"] <= most
    }


def test_ranks_of_the_runs_that_are_shown(page, main):
    choose(page, "rank", "6–10")
    narrowed(page, main, of_rank(main, 10, 6))
    page.uncheck("input[data-run][value=a]")
    assert kept(page) == of_rank(main, 10, 6, "bc") < of_rank(main, 10, 6)
    assert [row["run"] for row in data_of(page, "runs")] == ["b", "c"]
    page.check("input[data-run][value=a]")
    assert kept(page) == of_rank(main, 10, 6)


def test_lengths_and_probabilities(page, main):
    choose(page, "length", "2")
    narrowed(page, main, facts_with(lambda query: int(query.gold[0][1:]) in (1, 8, 11, 18)))
    choose(page, "length", "")
    for label, least, most in (("50–60 %", 0.5, 0.6), ("60–70 %", 0.6, 0.7), ("90–100 %", 0.9, 1)):
        choose(page, "confidence", label)
        assert kept(page) == {
            fact_of(QUERIES[row["query_id"]])
            for rows in main.rows
            for row in rows
            if row["scores"] and least < softmax(row["scores"])[0] <= most
        }


def softmax(scores: Sequence[float]) -> list[float]:
    """The greatest first."""
    parts = sorted((math.exp(score - max(scores)) for score in scores), reverse=True)
    return [part / sum(parts) for part in parts]


def test_cells_of_two_runs_are_those_of_the_comparison(page, main):
    [cells] = [pair.cells for pair in compare(main.folders).pairs if (pair.first, pair.second) == ("a", "b")]
    names = ("both", "first", "second", "neither", "undecided")
    show(page, "compare")
    shown = [page.inner_text(f"[data-cell={name}] output") for name in names]
    assert shown == [str(own) for own in cells[:5]]
    assert all(cells[:5])
    first, second = (hits(rows) for rows in main.rows[:2])
    page.click("[data-cell=first]")
    narrowed(page, main, {fact for fact in ALL if (first[fact], second[fact]) == (1, 0)})
    assert chips(page) == ["Two runs: only a is right ×"]
    # A cell does not change what the cells say, and a second click gives everything back.
    show(page, "compare")
    assert [page.inner_text(f"[data-cell={name}] output") for name in names] == shown
    page.click("[data-cell=first]")
    assert kept(page) == ALL
    page.select_option("select[data-side='0']", "2")
    [turned] = [pair.cells for pair in compare(main.folders).pairs if (pair.first, pair.second) == ("b", "c")]
    both, first_alone, second_alone, neither, undecided = turned
    told = [both, second_alone, first_alone, neither, undecided]
    assert [page.inner_text(f"[data-cell={name}] output") for name in names] == list(map(str, told))


def test_only_states_of_one_training_learn_and_forget(opened, main, tmp_path):
    """In either order of the two; other runs have neutral words."""
    names = {"late": "run/checkpoint-20", "early": "run/checkpoint-10", "elsewhere": "other/checkpoint-30"}
    runs = [
        answered(tmp_path / name, at_random(seed), DATA, model=own) for seed, (name, own) in enumerate(names.items())
    ]
    page = show(opened(made(tmp_path, runs).url), "compare")

    def texts(first: int, second: int) -> list[str]:
        for side, run in enumerate((first, second)):
            page.select_option(f"select[data-side='{side}']", str(run))
        return [page.inner_text(f"[data-cell={name}] span") for name in ("first", "second")]

    late, early = ("only checkpoint-20 is right (learnt)", "only checkpoint-10 is right (forgotten)")
    assert texts(0, 1) == [late, early]
    assert texts(1, 0) == [early, late]
    assert texts(0, 2) == ["only checkpoint-20 is right", "only checkpoint-30 is right"]


def test_parts_of_the_facts_are_buttons(page, main):
    show(page, "compare")
    page.click("#slice-table button:has-text('relation: r2')")
    page.click("#to-facts")
    narrowed(page, main, facts_with(lambda query: query.relation == "r2"), ALL)
    page.click("#clear")
    show(page, "compare")
    page.click("#slice-table button:has-text('domain: (none)')")
    narrowed(page, main, facts_with(lambda query: "domain" not in query.groups))


def test_parts_are_sorted_as_numbers(page, main):
    def shown(column: int) -> list[float]:
        texts = page.locator(f"#slice-table tbody td:nth-child({column})").all_inner_texts()
        return [float(text.removeprefix("<").removesuffix("%")) for text in texts]

    show(page, "compare")
    greatest_first = [abs(value) for value in shown(5)]
    assert greatest_first == sorted(greatest_first, reverse=True)
    for column in (2, 3, 5, 7):
        sort(page, f"#slice-table thead th:nth-child({column})")
        values = shown(column)
        assert values == sorted(values), column
        assert len(set(values)) > 1, column


def drag(page: Any, chart: str, run: str, first: str, last: str) -> None:
    """With the mouse, from the middle of one cell to that of another in the same line."""
    page.locator(f"#chart-{chart}").scroll_into_view_if_needed()
    boxes = page.evaluate(
        """([chart, run, first, last]) => {
          const view = fathom.charts.get(chart);
          const box = document.querySelector(`#chart-${chart} svg`).getBoundingClientRect();
          const [left, top] = view.origin(), [x, y] = [view.scale("x"), view.scale("y")];
          const middle = (label) => box.left + left + x(label) + x.bandwidth() / 2;
          return [middle(first), middle(last), box.top + top + y(run) + y.bandwidth() / 2];
        }""",
        [chart, run, first, last],
    )
    page.mouse.move(boxes[0] - 4, boxes[2] - 4)
    page.mouse.down()
    page.mouse.move(boxes[0], boxes[2], steps=2)
    page.mouse.move(boxes[1] + 4, boxes[2] + 4, steps=3)
    page.mouse.up()
    page.wait_for_timeout(100)


def test_a_drag_over_a_chart_chooses(page, main):
    show(page, "compare")
    drag(page, "ranks", "b", "1", "1")
    assert (state(page, "rank"), state(page, "rank.run")) == (["1"], ["b"])
    narrowed(page, main, of_rank(main, 1, runs="b"))
    assert chips(page) == ["Rank of the right answer: 1 of b ×"]
    show(page, "compare")
    # The chart itself still shows what could be chosen.
    assert len({row["rank"] for row in data_of(page, "ranks")}) > 3
    page.click("#chips button")
    assert kept(page) == ALL
    page.wait_for_function("!Object.keys(fathom.charts.get('ranks').signal('brush')).length")
    drag(page, "ranks", "a", "2", "4–5")
    assert (state(page, "rank"), state(page, "rank.run")) == (["2", "3", "4–5"], ["a"])
    narrowed(page, main, of_rank(main, 5, 2, "a"))


def test_choices_are_taken_back_one_by_one_or_together(page):
    choose(page, "relation", "r3")
    choose(page, "slice", "cardinality: 1:1")
    page.fill("input[data-choice=q]", "subject")
    page.uncheck("input[data-run][value=b]")
    assert chips(page) == ["Search: subject ×", "Relation: r3 ×", "cardinality: 1:1 ×", "Hidden: b ×"]
    assert page.locator("#evidence-table thead th").all_inner_texts()[3:] == ["a", "c"]
    page.click("#chips button:has-text('Relation')")
    assert chips(page) == ["Search: subject ×", "cardinality: 1:1 ×", "Hidden: b ×"]
    assert page.input_value("select[data-choice=relation]") == ""
    assert len(kept(page)) == 50
    page.click("#clear")
    assert kept(page) == ALL
    assert chips(page) == []
    assert page.is_checked("input[data-run][value=b]")
    assert page.is_disabled("#clear")
    assert page.input_value("input[data-choice=q]") == ""


# --- back, tabs and sorts


def back(page: Any) -> None:
    before = page.url
    page.go_back()
    page.wait_for_function("before => location.href !== before", arg=before)
    page.wait_for_function("fathom.choice.hash === location.hash")
    page.evaluate("fathom.settled")


def test_back_undoes_a_choice_and_a_search_as_a_whole(page):
    choose(page, "relation", "r3")
    page.locator("input[data-choice=q]").press_sequentially("subject 6", delay=1)
    choose(page, "slice", "cardinality: 1:1")
    assert len(kept(page)) == 5
    back(page)
    assert chips(page) == ["Search: subject 6 ×", "Relation: r3 ×"]
    assert page.input_value("select[data-choice=slice]") == ""
    back(page)
    assert chips(page) == ["Relation: r3 ×"]
    assert page.input_value("input[data-choice=q]") == ""
    back(page)
    assert kept(page) == ALL
    page.go_forward()
    page.wait_for_function("fathom.choice.state.relation.length === 1")
    assert chips(page) == ["Relation: r3 ×"]


def test_tabs_are_chosen_by_keyboard(page):
    """Arrow keys move and wrap around, Home and End jump; one tab stop for all."""
    page.focus("#tab-evidence")
    for key, tab in (
        ("ArrowRight", "methods"),
        ("ArrowRight", "overview"),
        ("ArrowLeft", "methods"),
        ("Home", "overview"),
        ("End", "methods"),
    ):
        page.keyboard.press(key)
        page.evaluate("fathom.settled")
        assert page.evaluate("document.activeElement.id") == f"tab-{tab}"
        assert [own for own in TABS if page.is_visible(f"#{own}")] == [tab]
        assert page.locator("[role=tab][tabindex='0'], [role=tab]:not([tabindex])").count() == 1
    assert page.evaluate("document.querySelector('#filters').checkVisibility()") is False


def surest_mistakes(main: MadeReport) -> dict[str, float]:
    """The greatest probability of a wrong first answer to each fact."""
    found: dict[str, float] = {}
    for rows in main.rows:
        for row in rows:
            query = QUERIES[row["query_id"]]
            if row["scores"] and row["top_ids"][0] not in query.gold:
                found[fact_of(query)] = max(softmax(row["scores"])[0], found.get(fact_of(query), 0))
    return found


def test_facts_are_sorted_by_the_most_confident_mistake(page, main):
    """A click on a column takes its place, a second click on the button ends it."""
    page.select_option(".dt-length select", "100")
    page.click("[data-sort=wrong]")
    shown = page.locator("#evidence-table [data-fact]").evaluate_all("all => all.map((own) => own.dataset.fact)")
    mistakes = surest_mistakes(main)
    order = [mistakes.get(fact, -1) for fact in shown]
    assert order == pytest.approx(sorted(order, reverse=True), abs=1e-4)
    assert len(shown) == 100
    texts = column(page, 7)
    assert texts[0].endswith(f"{100 * order[0]:.1f} % ({texts[0][-2]})")
    assert state(page, "sort") == ["wrong"]
    sort(page, "#evidence-table thead th:nth-child(1)")
    assert state(page, "sort") == []
    assert page.get_attribute("[data-sort=wrong]", "aria-pressed") == "false"
    assert column(page, 1)[:3] == ["subject 0", "subject 1", "subject 10"]
    page.click("[data-sort=wrong]")
    page.click("[data-sort=wrong]")
    assert column(page, 1)[:3] == ["subject 0", "subject 1", "subject 2"]
    page.select_option(".dt-length select", "25")


def test_facts_are_sorted_by_disagreement_of_the_shown_runs(page, main):
    page.click("[data-sort=disagreement]")
    told = [hits(rows) for rows in main.rows]
    facts = page.locator("#evidence-table [data-fact]").evaluate_all("all => all.map((own) => own.dataset.fact)")

    def variances(runs: Sequence[int]) -> list[float]:
        each = [[told[run][fact] for run in runs if fact in told[run]] for fact in facts]
        return [sum(hit * hit for hit in own) / len(own) - (sum(own) / len(own)) ** 2 for own in each]

    spread = variances([0, 1, 2])
    assert spread == pytest.approx(sorted(spread, reverse=True), abs=1e-6)
    assert spread[0] == pytest.approx(0.25) or spread[0] == pytest.approx(2 / 9)
    page.uncheck("input[data-run][value=c]")
    facts = page.locator("#evidence-table [data-fact]").evaluate_all("all => all.map((own) => own.dataset.fact)")
    assert variances([0, 1])[:20] == pytest.approx([0.25] * 20)
    assert set(column(page, 6)[:20]) == {"1 of 2 right"}


def test_the_metric_is_that_of_python_in_charts_and_plot(page, main):
    """Of the third run, which leaves facts out, too."""
    show(page, "compare")
    for name in ("hits@10", "mrr", "accuracy"):
        page.select_option("#compare select[data-choice=metric]", "" if name == "accuracy" else name)
        lines = {line.name: line.numbers for line in compare(main.folders, metrics=[name]).runs}
        for row in data_of(page, "runs"):
            assert row["hit"] == pytest.approx(lines[row["run"]][0].value, abs=1e-5), name
        show(page, "overview")
        assert page.locator("[data-forest]:visible").evaluate_all("all => all.map((own) => own.dataset.forest)") == [
            name
        ]
        show(page, "compare")


# --- the link


def test_the_link_keeps_every_choice(page, opened):
    choose(page, "slice", "cardinality: 1:N")
    choose(page, "rank", "1")
    page.uncheck("input[data-run][value=c]")
    show(page, "compare")
    page.click("[data-cell=both]")
    show(page, "evidence")
    page.fill("input[data-choice=q]", "subject")
    page.locator("#evidence-table tbody button").nth(2).click()
    other = opened(page.url)
    assert 0 < len(kept(page)) < 50
    for say in (kept, chips, lambda own: own.inner_text("#fact"), lambda own: own.inner_text("#count")):
        assert say(other) == say(page)
    assert not other.is_checked("input[data-run][value=c]")
    assert other.input_value("select[data-choice=rank]") == "1"
    assert other.input_value("input[data-choice=q]") == "subject"
    assert show(other, "compare").get_attribute("[data-cell=both]", "aria-pressed") == "true"
    assert data_of(other, "runs") == data_of(page, "runs")


def test_an_edited_link_is_followed(page, main):
    follow(page, "#relation=r1&relation=r4&pair=2&pair=0")
    narrowed(page, main, facts_with(lambda query: query.relation in ("r1", "r4")), ALL)
    assert page.input_value("select[data-side='0']") == "2"
    follow(page, "#relation=nothing&rank=%3Cb%3E&open=x&pair=9&pair=-4&other=1&tab=%3Cb%3E&sort=x&metric=__proto__")
    assert kept(page) == set()
    assert page.input_value("select[data-side='0']") == "2"
    assert page.input_value("select[data-side='1']") == "0"
    follow(page, "#tab=evidence")
    assert kept(page) == ALL


def test_a_brush_is_forgotten_by_an_edited_link(page):
    show(page, "compare")
    drag(page, "ranks", "b", "1", "1")
    follow(page, "#tab=compare")
    page.wait_for_function("!Object.keys(fathom.charts.get('ranks').signal('brush')).length")


# --- the table


def mean_ranks(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    own: dict[str, list[float]] = {}
    for row in rows:
        own.setdefault(QUERIES[row["query_id"]].subject, []).append(math.nan if row["rank"] is None else row["rank"])
    return {subject: sum(each) / len(each) for subject, each in own.items()}


def column(page: Any, number: int) -> list[str]:
    return page.locator(f"#evidence-table > tbody > tr:not(.one-fact) > td:nth-child({number})").all_inner_texts()


def test_a_run_is_sorted_by_its_ranks(opened, main):
    """By number, not by letter; facts that are not scored last."""
    page = opened(main.url)
    ranks = mean_ranks(main.rows[2])
    page.select_option(".dt-length select", "100")
    sort(page, "#evidence-table thead th:nth-child(6)")
    found = [ranks[subject] for subject in column(page, 1)]
    assert found[:97] == sorted(rank for rank in ranks.values() if not math.isnan(rank))
    assert column(page, 6)[97:] == ["–"] * 3
    marks = ["✓" if rank == 1 else "✗" for rank in found if rank in (1, 20)]
    assert [text[0] for rank, text in zip(found, column(page, 6), strict=True) if rank in (1, 20)] == marks
    sort(page, "#evidence-table thead th:nth-child(6)")
    assert column(page, 6)[:3] == ["–"] * 3


def test_pages_turn_and_stay_when_a_fact_is_opened(page):
    assert column(page, 1)[0] == "subject 0"
    page.click(".dt-paging button:has-text('3')")
    assert column(page, 1)[0] == "subject 50"
    page.click("#evidence-table button:has-text('subject 57')")
    assert page.inner_text("#fact h3") == "subject 57"
    assert column(page, 1)[0] == "subject 50"
    assert page.get_attribute("#evidence-table button:has-text('subject 57')", "aria-expanded") == "true"
    assert page.locator("#evidence-table [aria-expanded=true]").count() == 1
    choose(page, "relation", "r0")
    assert column(page, 1)[0] == "subject 0"


def test_a_fact_is_opened_by_keyboard(page, main):
    """Query 7 of relation 0: the third run did not score it."""
    subject = page.locator("#evidence-table button", has_text="subject 7").first
    page.focus(".dt-length select")
    for _ in range(30):
        page.keyboard.press("Tab")
        if subject.evaluate("own => own === document.activeElement"):
            break
    page.keyboard.press("Enter")
    assert page.inner_text("#fact h3") == "subject 7"
    assert page.evaluate("document.activeElement.id") == "fact", "the focus moves into the opened fact"
    below = page.evaluate("document.querySelector('#fact').closest('tr').previousSibling.innerText")
    assert below.startswith("subject 7")
    heads = page.locator("#fact thead th").all_inner_texts()
    assert heads == ["run", "[X] is [Y].", "[X] is so [Y]."]
    lines = page.locator("#fact tbody tr")
    assert [name.split("\n")[0] for name in lines.locator("th").all_inner_texts()] == ["a", "b", "c"]
    for run, rows in enumerate(main.rows):
        for row in rows:
            if row["query_id"] == "q007":
                cell = lines.nth(run).locator("td").nth(row["template"])
                shown_as_stored(cell, row)
    page.keyboard.press("Escape")
    assert page.locator("#fact").count() == 0
    assert subject.evaluate("own => own === document.activeElement"), "the focus returns"


def shown_as_stored(cell: Any, row: dict[str, Any]) -> None:
    """The prompt, and the best answers with their probabilities; the right one is marked, if need be after them."""
    assert cell.locator(".prompt").inner_text() == row["prompt"]
    assert row["prompt"] == f"subject 7 is{' so' * row['template']} [Y]."
    if row["unscored"]:
        assert cell.locator(".unscored").inner_text() == f"unscored: {WHY}"
        return
    names = dict(zip(DATA.candidates["all"].ids, DATA.candidates["all"].names, strict=True))
    best, sure = row["top_ids"][:5], softmax(row["scores"])
    places = [1, 2, 3, 4, 5]
    if "c07" not in best:
        best, places = [*best, "c07"], [*places, int(row["rank"])]
    lines = [line.replace("\n", "") for line in cell.locator("li").all_inner_texts()]
    assert [line.split("  ")[0].split(" ✓")[0].rsplit(" ", 2)[0] for line in lines] == [names[id_] for id_ in best]
    for line, place in zip(lines, places, strict=True):
        assert float(line.removesuffix(" ✓").rsplit(" ", 2)[1]) == pytest.approx(100 * sure[place - 1], abs=0.051)
    assert [own.evaluate("own => own.value") for own in cell.locator("li").all()][5:] == places[5:]
    right = [number for number, id_ in enumerate(best) if id_ == "c07"]
    assert [number for number, line in enumerate(lines) if line.endswith("✓")] == right
    assert cell.locator("li.right").count() == len(right)
    assert cell.locator(".score").inner_text() == f"rank of the right answer: {row['rank']:g}"


def test_written_answers_are_shown_as_they_were_written(opened, tmp_path):
    page = opened(made(tmp_path, [written(tmp_path / "w", "w")]).url)
    page.fill("input[data-choice=q]", "s003")
    page.click("#evidence-table button")
    assert page.locator("#fact li").all_inner_texts() == ["Writ 3 ✓", "or else"]
    assert page.inner_text("#fact .score") == "credit 100.0 %"
    assert column(page, 4) == ["✓"]
    page.fill("input[data-choice=q]", "s005")
    assert column(page, 4) == ["50.0 %"]


# --- tokens that a run kept

SHARED, MIDDLE = [["subject", -0.5], [" is", -1.25]], [" <b>c</b>", -3.0]


def with_tokens(folder: Path, model: str, count: int = 3) -> RunFolder:
    """A run that kept tokens: the first answer has *count* tokens, the right one a single one."""
    run = answered(folder, at_random(5), DATA, model=model, probe="statement")

    def kept(row: dict[str, Any]) -> dict[str, Any]:
        end = [["\n" if row["template"] else ".", None]]
        right, first = [*SHARED, MIDDLE, *end], [*SHARED, *[[" w", -12.25]] * count, *end]
        gold = f"c{EVEN[int(row['query_id'][1:])][0]:02}"
        both = {gold: right} if row["top_ids"][0] == gold else {gold: right, row["top_ids"][0]: first}
        columns = [{"id": id_, "tokens": [own[0] for own in each], "log_probs": [own[1] for own in each]}
                   for id_, each in both.items()]  # fmt: skip
        return {"token_log_probs": columns}

    return again(run, kept)


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE])
def test_tokens_are_shown_when_a_fact_is_opened(opened, tmp_path, main, viewport):
    """Boxes with numbers, those that both statements share above each other; nothing for a run that kept none."""
    page = opened(made(tmp_path, [with_tokens(tmp_path / "t", "t"), main.folders[1]]).url, viewport)
    page.evaluate("fathom.choice.set({q: ['subject 7']})")
    page.locator("#evidence-table button", has_text="subject 7").first.click()
    lines = page.locator("#fact tbody tr")
    assert lines.nth(1).locator(".tokens").count() == 0
    boxes = lines.nth(0).locator("td").nth(0).locator(".tokens")
    labels = boxes.locator("p").all_inner_texts()
    assert labels == ["Right answer: −4.8 nats", "First answer: −38.5 nats"]
    texts = [
        [own.replace("\n", " ") for own in boxes.locator("ol").nth(at).locator("li").all_inner_texts()] for at in (0, 1)
    ]
    assert texts[0] == ["subject −0.50", "is −1.25", "<b>c</b> −3.00", "", "", ". –"]
    assert texts[1] == ["subject −0.50", "is −1.25", "w −12.25", "w −12.25", "w −12.25", ". –"]
    lefts = [
        [round(own.bounding_box()["x"]) for own in boxes.locator("ol").nth(at).locator("li").all()] for at in (0, 1)
    ]
    assert lefts[0] == lefts[1]
    assert boxes.locator("ol").nth(0).get_attribute("aria-label") == "Right answer: −4.8 nats, by token"
    assert boxes.locator("b").count() == 0, "a token is text"
    assert lines.nth(0).locator("td").nth(1).locator("ol li").last.inner_text().startswith("↵")
    assert page.evaluate(OVERFLOWING) == []
    assert fits(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        if scheme == "dark":
            assert violations(page) == []


def test_one_statement_is_shown_where_the_first_answer_is_right(opened, tmp_path):
    folder = with_tokens(tmp_path / "t", "t")
    right = next(row for row in folder.predictions().to_pylist() if len(row["token_log_probs"]) == 1)
    page = opened(made(tmp_path, [folder]).url)
    page.evaluate("id => fathom.choice.set({open: [fathom.evidence.facts.find((own) => own.startsWith(id))]})",
                  f"{right['query_id'].replace('q', 's')}|")  # fmt: skip
    cell = page.locator("#fact tbody td").nth(right["template"])
    assert cell.locator(".tokens p").all_inner_texts() == ["Right answer: −4.8 nats"]


# --- a prompt is what was asked


def test_a_fact_that_is_asked_from_both_ends_keeps_its_prompts(opened, tmp_path):
    """One run asks for the tail, another for the head of the same facts, and a third calls subjects by other names."""
    tail = world([[0], [1], [2]], relations=1, size=4)
    turned = [
        replace(own, direction="head", subject=f"w{own.gold[0]}", subject_id=own.gold[0], gold=(own.subject_id,))
        for own in tail.queries
    ]
    heads = CandidateSet("all", tuple(own.subject_id for own in tail.queries), tuple("ABC"))
    asked = {
        "t": tail,
        "h": replace(tail, queries=tuple(turned), candidates={"all": heads}),
        "o": replace(tail, queries=tuple(replace(own, subject=f"other {own.subject}") for own in tail.queries)),
    }
    runs = [answered(tmp_path / name, at_random(1), data, model=name) for name, data in asked.items()]
    page = opened(made(tmp_path, runs).url)
    page.click("#evidence-table button >> nth=0")
    assert page.locator("#fact .prompt").all_inner_texts() == ["s000 is [Y].", "wc00 is [Y].", "other s000 is [Y]."]
    assert [len(own) for own in page.locator("#fact li.right").all_inner_texts()] != []
    assert page.locator("#fact tbody tr:nth-child(2) li.right").all_inner_texts()[0].startswith("A ")


def test_of_two_answers_of_one_name_the_right_one_is_marked(opened, tmp_path):
    data = world([[0], [1]], relations=1, size=4)
    space = replace(data.candidates["all"], names=("Paris", "Paris", "Rome", "Bonn"))
    run = answered(tmp_path / "r", knowing({"q000"}), replace(data, candidates={"all": space}))
    page = opened(made(tmp_path, [run]).url)
    page.click("#evidence-table button >> nth=0")
    lines = page.locator("#fact li").all_inner_texts()
    assert [line.split(" ")[0] for line in lines if line.endswith("✓")] == ["Paris"]
    assert [line.split(" ")[0] for line in lines].count("Paris") == 2


# --- saving


def saved(page: Any, folder: Path) -> list[dict[str, str]]:
    with page.expect_download() as download:
        page.click("button:has-text('Save as CSV')")
    file = folder / "saved.csv"
    download.value.save_as(file)
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return list(csv.DictReader(lines))


def test_what_is_chosen_is_saved(page, main, tmp_path):
    choose(page, "relation", "r1")
    page.click(".dt-paging button:has-text('1')")
    lines = saved(page, tmp_path)
    assert [line["Fact"] for line in lines] == sorted(facts_with(lambda query: query.relation == "r1"))
    names = dict(zip(DATA.candidates["all"].ids, DATA.candidates["all"].names, strict=True))
    first = {
        (fact_of(QUERIES[row["query_id"]]), name): row
        for name, rows in zip("abc", main.rows, strict=True)
        for row in rows
        if row["template"] == 0
    }
    for line in lines:
        query = FACTS[line["Fact"]]
        assert (line["Subject"], line["Relation"]) == (query.subject, "r1")
        assert line["Right answer"] == names[query.gold[0]]
        for name, rows in zip("abc", main.rows, strict=True):
            row, hit = first[line["Fact"], name], hits(rows).get(line["Fact"])
            assert line[f"Answer of {name}"] == (WHY if row["unscored"] else names[row["top_ids"][0]])
            mark = "–" if hit is None else {0: "✗", 1: "✓"}.get(hit, "50.0 %")
            assert line[name].split(" (")[0] == mark


# --- hostile names


HOSTILE = (
    "<script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=1>",
    "\u202eright to left\u200f",
    "n" * 10_000,
    "zero\x00 red\x1b[31m return\r end",
    "</script><script>window.hacked=1</script>",
    "{{7*7}} {% raw %} ${7*7}",
    "quotes \" ' ` &amp; &lt;b&gt;",
    "[X] is [^X], [Y]",
    "line\nbreak, comma; tab\t",
)


def hostile_data() -> QuerySet:
    """Every name is one of them: relations, subjects, answers, their ids, values of groups, templates."""
    space = CandidateSet("all", HOSTILE, HOSTILE)
    wording = (Template("[X] <img src=x onerror=window.hacked=1> [Y]."), Template("</p>[X] [Y]"))
    relations = {name: Relation(name, name, wording, "1:N") for name in HOSTILE}
    queries = [
        Query(f"q{number} {name}", HOSTILE[number // 2], name, f"{number} {name}", (HOSTILE[number - 1],), "all",
              groups={"kind <b>": HOSTILE[number // 2 - 1].replace(";", "")})
        for number, name in enumerate(HOSTILE)
    ]  # fmt: skip
    return QuerySet("<img src=x onerror=window.hacked=1>", tuple(queries), {"all": space}, relations)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> MadeReport:
    folder, data, runs = tmp_path_factory.mktemp("hostile"), hostile_data(), []
    for number, name in enumerate((HOSTILE[1], HOSTILE[3], HOSTILE[4], HOSTILE[5], "constructor", "__proto__", "half")):
        run = answered(folder / f"{number}<img src=x onerror=window.hacked=1>", at_random(number), data, model=name)
        runs.append(run)
    again(runs[0], lambda row: NOTHING_TOLD | {"unscored": HOSTILE[0]} if row["query_id"].startswith("q0") else {})
    return made(folder, runs, title="half \ud800 <img src=x onerror=window.hacked=1>")


def shown_as(name: str) -> str:
    """What a page can show of it."""
    return name.replace("\x00", "\ufffd").replace("\r", "\ufffd").replace("\x1b", "\ufffd")


def test_hostile_names_are_text(opened, hostile):
    page = opened(hostile.url)
    assert page.title() == "half \ufffd <img src=x onerror=window.hacked=1>" or "half ?" in page.title()
    assert fits(page)
    for number in range(len(HOSTILE)):
        page.locator("#evidence-table [data-fact]").nth(number).click()
        head = page.evaluate("document.querySelector('#fact h3').textContent")
        assert head == shown_as(HOSTILE[number])
        prompts = page.evaluate("[...document.querySelectorAll('#fact .prompt')].map((own) => own.textContent)")
        assert f"</p>{head} [Y]" in prompts
        assert fits(page), HOSTILE[number][:40]
    heights = page.evaluate(
        "[...document.querySelectorAll('tr:not(.one-fact), p, li, h1, h3')].map((own) => own.offsetHeight)"
    )
    assert max(heights) < DESKTOP["height"]
    # Tooltips.
    for tab in TABS:
        assert fits(show(page, tab)), tab
    show(page, "compare")
    for chart in ("runs", "relations", "calibration"):
        for place in page.locator(f"#chart-{chart} [role=graphics-symbol]").all()[:3]:
            place.dispatch_event("pointermove", {"bubbles": True})
            assert fits(page)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0


def test_hostile_names_are_chosen_like_others(opened, hostile):
    page = opened(hostile.url, PHONE)
    assert fits(page)
    options = page.evaluate("[...document.querySelector('[data-choice=relation]').options].map((own) => own.value)")
    assert len(options) == 6
    page.click("#chosen .drawer")
    for value in options[1:]:
        choose(page, "relation", value)
        assert len(kept(page)) == 2, value[:40]
        assert fits(page)
    choose(page, "relation", "")
    kinds = page.evaluate("[...document.querySelector('[data-choice=slice]').options].map((own) => own.value)")
    for value in [own for own in kinds if own.startswith("kind")]:
        choose(page, "slice", value)
        assert len(kept(page)) == 2, value[:40]
    page.keyboard.press("Escape")
    page.click("#clear")
    page.click("#chosen .drawer")
    for box in page.locator("input[data-run]").all():
        before = len(data_of(page, "runs"))
        box.uncheck()
        after = len(data_of(page, "runs"))
        assert page.evaluate("document.querySelector('#chart-runs').hidden") or after == before - 1
    assert page.evaluate("window.hacked") is None


def test_hostile_names_are_saved_whole(opened, hostile, tmp_path):
    lines = saved(opened(hostile.url), tmp_path)
    assert [line["Subject"] for line in lines] == list(map(shown_as, HOSTILE))
    assert lines[0]["Right answer"] == shown_as(HOSTILE[-1])
    assert lines[0]["<img src=x onerror=window.hacked=1>"] == "–"


# --- everything fits, and is reached by keyboard

OVERFLOWING = """() => {
  const shown = (own) => own.checkVisibility() && !own.closest("script, style, template, .dt-hidden, option");
  const scrolls = (own) => ["auto", "scroll", "hidden"].includes(getComputedStyle(own).overflowX);
  const faults = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, parent = text.parentElement;
    if (!text.data.trim() || !shown(parent) || parent.closest("[role=graphics-document], .vega-actions")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    // The box is that of the cell, button or paragraph; a box that scrolls holds any text.
    let box = parent;
    while (getComputedStyle(box).display === "inline") box = box.parentElement;
    const within = box.getBoundingClientRect();
    const isHeld = [...function* () { for (let own = box; own; own = own.parentElement) yield own; }()].some(scrolls);
    for (const part of range.getClientRects()) {
      const right = isHeld ? Infinity : innerWidth;
      if (scrolls(box) || part.width === 0 || within.right < 0) continue; // for screen readers alone
      const isOutside = part.right > within.right + 1 || part.left < within.left - 1 || part.bottom > within.bottom + 1;
      if (isOutside || part.right > right + 1) faults.push(`${box.outerHTML.slice(0, 80)}: ${text.data.slice(0, 60)}`);
    }
  }
  for (const svg of document.querySelectorAll(".chart svg")) {
    const outer = svg.getBoundingClientRect();
    for (const text of svg.checkVisibility() ? svg.querySelectorAll("text") : []) {
      const own = text.getBoundingClientRect();
      const isOutside = own.left < outer.left - 1 || own.right > outer.right + 1;
      if (own.width && isOutside) faults.push(`${svg.ariaLabel}: ${text.textContent}`);
    }
  }
  return faults;
}"""


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> MadeReport:
    """Six runs, one of them weak, with settings that differ and long names."""
    folder, data, runs = tmp_path_factory.mktemp("six"), replace(DATA, name="A data set of a hundred facts"), []
    for number, share in enumerate((0.2, 0.5, 0.6, 0.4, 0.5, 0.0)):
        kind = "masked" if number % 2 else "causal"
        answerer = knowing(first_few(data, share, number), at_random(number))
        options = {"pll": "l2r"} if number % 2 else {}
        name = f"planted-{kind}-{32 * (1 + number)}"
        runs.append(answered(folder / name, answerer, data, model=name, probe="statement", options=options))
        runs[-1].add_circumstances(model={"parameters": 10**6 * (number + 1)})
    return made(folder, runs, title="Six models of two kinds: causal and masked")


@pytest.mark.parametrize("width", [390, 1024, 1400])
def test_no_text_leaves_its_box(opened, six, hostile, width):
    """With a fact opened and filters chosen, in the light and in the dark."""
    page = opened(six.url, {"width": width, "height": 900}, color_scheme="light")
    page.click("[data-sort=wrong]")
    page.locator("#evidence-table [data-fact]").first.click()
    more = "slice=cardinality%3A+1%3A1&hidden=planted-masked-64&metric=hits%4010"
    follow(page, f"{page.evaluate('location.hash')}&{more}")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for tab in TABS:
            assert show(page, tab).evaluate(OVERFLOWING) == [], (tab, scheme)
            assert fits(page)
    if width == 390:
        show(page, "evidence").click("#chosen .drawer")
        assert page.evaluate(OVERFLOWING) == []
    page = opened(hostile.url, {"width": width, "height": 900})
    faults = [(tab, fault) for tab in TABS for fault in show(page, tab).evaluate(OVERFLOWING)]
    assert not faults, "\n".join(map(str, faults))


def test_the_first_screen_names_the_best_and_the_worst_relation_of_each_run(opened, six):
    """Runs with their extremes, relations and the most telling facts, without scrolling."""
    page = opened(f"{six.url}#tab=overview", {"width": 1400, "height": 900})
    lines = page.locator("[data-forest=accuracy] tbody tr")
    assert lines.count() == 6
    for line in lines.all():
        best, worst = (line.locator(f"[data-label='{end}: ']") for end in ("best", "worst"))
        assert re.fullmatch(r"r\d [\d.]+\s%", best.inner_text())
        assert re.fullmatch(r"r\d [\d.]+\s%", worst.inner_text())
        assert lowest(worst) < 900
    shares = [float(own.split()[0]) for own in page.locator("[data-forest=accuracy] strong").all_inner_texts()]
    assert shares == sorted(shares, reverse=True)
    assert lowest(page.locator("[data-heat=accuracy] tbody tr").last) < 900
    for title in ("Most confident mistakes", "Most disagreement between runs"):
        assert lowest(page.locator(f"#telling h2:has-text('{title}') + ul li").nth(1)) < 900
    assert mentioned(page.inner_text("#answer"), "of 15 pairs", "planted-masked-192", "not above")
    assert mentioned(page.inner_text("#overview"), "Settings that differ", "parameters", "1,000,000", "pll", "l2r")


def lowest(element: Any) -> float:
    box = element.bounding_box()
    return box["y"] + box["height"]


def test_the_most_telling_facts_are_those_of_the_runs(opened, main):
    """The four most confident mistakes, each with what is right; a click opens the fact among all others."""
    page = opened(f"{main.url}#tab=overview&relation=r1")
    mistakes = surest_mistakes(main)
    order = sorted(mistakes, key=mistakes.__getitem__, reverse=True)
    lines = page.locator("#telling ul >> nth=0").locator("li")
    assert lines.count() == 4
    told = [line.locator("button").get_attribute("data-opens") for line in lines.all()]
    assert [mistakes[fact] for fact in told] == pytest.approx([mistakes[fact] for fact in order[:4]], abs=1e-4)
    names = dict(zip(DATA.candidates["all"].ids, DATA.candidates["all"].names, strict=True))
    for fact, text in zip(told, lines.all_inner_texts(), strict=True):
        assert mentioned(
            text, FACTS[fact].subject, f"{100 * mistakes[fact]:.1f} %", f"right: {names[FACTS[fact].gold[0]]}"
        )
    disputed = page.locator("#telling ul >> nth=1").locator("li").all_inner_texts()
    assert all(re.search(r": [12] of [23] right; wrong: ", text) for text in disputed)
    lines.nth(2).locator("button").click()
    page.evaluate("fathom.settled")
    assert page.inner_text("#fact h3") == FACTS[told[2]].subject
    assert (state(page, "sort"), state(page, "relation")) == (["wrong"], [])


def test_a_relation_of_the_overview_opens_its_facts(opened, main):
    page = opened(f"{main.url}#tab=overview")
    page.click("[data-heat=accuracy] button:has-text('r2')")
    page.evaluate("fathom.settled")
    narrowed(page, main, facts_with(lambda query: query.relation == "r2"), ALL)


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Reports of two and of twelve runs with names of forty characters, over sixty relations."""
    folder, data = tmp_path_factory.mktemp("long"), world(EVEN + EVEN[:20], relations=60)
    runs = []
    for number in range(12):
        answerer, name = (
            knowing(first_few(data, number / 12, number), at_random(number)),
            f"organisation-model-{number:02}-",
        )
        runs.append(answered(folder / f"run-{number}", answerer, data, model=name.ljust(40, "x")))
    for count in (2, 12):
        report(runs[:count], folder / f"{count}.html")
    return {count: f"file://{folder}/{count}.html" for count in (2, 12)}


@pytest.mark.parametrize("width", [390, 1024, 1400])
@pytest.mark.parametrize("runs", [2, 12])
def test_long_names_and_many_relations_stay_within_their_boxes(opened, long_names, runs, width):
    page = opened(f"{long_names[runs]}#tab=overview", {"width": width, "height": 900})
    for tab in TABS:
        assert show(page, tab).evaluate(OVERFLOWING) == [], tab
        assert fits(page)
    show(page, "overview")
    table = page.locator(".heat:visible")
    assert table.locator("tbody tr").count() == 60
    assert table.bounding_box()["height"] < 450, "it scrolls within its box"
    if width == 1400:
        assert lowest(page.locator("[data-heat=accuracy] tbody tr").nth(1)) < 900
    assert violations(page) == []


def tab_to(page: Any, selector: str, most: int = 60) -> None:
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached by keyboard")


def test_every_task_can_be_done_by_keyboard(opened, main):
    """Compare two runs, take the facts of a cell, filter and sort them, read one, take the filters back."""
    page = opened(f"{main.url}#tab=overview")
    page.focus("#tab-overview")
    page.keyboard.press("ArrowRight")
    page.evaluate("fathom.settled")
    tab_to(page, "[data-side='1']")
    page.keyboard.press("End")
    assert page.evaluate("fathom.choice.pair()") == [0, 2]
    tab_to(page, "[data-cell=first]")
    page.keyboard.press("Enter")
    assert state(page, "cell") == ["first"]
    page.focus("#tab-compare")
    tab_to(page, "#to-facts")
    page.keyboard.press("Enter")
    assert page.is_visible("#evidence-table")
    page.focus("#tab-evidence")
    tab_to(page, "select[data-choice=relation]")
    page.keyboard.press("ArrowDown")
    assert state(page, "relation") == ["r0"]
    tab_to(page, "[data-sort=disagreement]")
    page.keyboard.press("Space")
    assert state(page, "sort") == ["disagreement"]
    tab_to(page, "[data-fact]")
    page.keyboard.press("Enter")
    tab_to(page, "[data-close]")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.matches('[data-fact]')")
    page.focus("#tab-evidence")
    tab_to(page, "#clear")
    page.keyboard.press("Enter")
    assert kept(page) == ALL


def test_the_drawer_of_filters_by_keyboard(opened, main):
    page = opened(main.url, PHONE)
    assert not page.is_visible("#filters")
    tab_to(page, "#chosen .drawer")
    page.keyboard.press("Enter")
    assert page.is_visible("#filters")
    tab_to(page, "select[data-choice=relation]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    assert not page.is_visible("#filters")
    assert page.evaluate("document.activeElement.matches('#chosen .drawer')")
    assert page.inner_text("#chosen .drawer") == "Filters (1)"
    assert chips(page) == ["Relation: r0 ×"]


# --- everybody can read it


FAULTS_ALONE = {"resultTypes": ["violations"]}


def violations(page: Any) -> list[str]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # Axe would write out these megabytes again and again.
    page.evaluate("document.querySelectorAll('script[id]').forEach((own) => own.remove())")
    return [
        f"{own['id']}: {own['nodes'][0]['html'][:200]}"
        for own in axe.run(page, options=FAULTS_ALONE).response["violations"]
    ]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> MadeReport:
    """Two runs of twelve facts with all that a report can show; the fewer there is, the sooner axe is done."""
    folder, queries = tmp_path_factory.mktemp("small"), [query for query in DATA.queries if int(query.id[1:]) % 9 == 0]
    data = replace(DATA, queries=tuple(queries))
    runs = [answered(folder / name, at_random(seed), data, model=name) for seed, name in enumerate("ab")]
    again(runs[0], lambda row: NOTHING_TOLD | {"unscored": WHY} if row["query_id"] == "q009" else {})
    for number, run in enumerate(runs):
        run.add_circumstances(model={"parameters": 10 ** (6 + number)})
    return made(folder, runs)


def filled(page: Any) -> Any:
    """With choices made, a fact open, and all notes."""
    is_phone = page.is_visible("#chosen .drawer")
    if is_phone:
        page.click("#chosen .drawer")
    choose(page, "relation", "r0")
    page.fill("input[data-choice=q]", "subject")
    if is_phone:
        page.click("#filters .drawer")
    page.click("#evidence-table button:has-text('subject 9')")
    page.evaluate("document.querySelectorAll('main details:not(.vega-actions)').forEach((own) => (own.open = true))")
    return page


BACKGROUND = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize(("viewport", "scheme"), [(DESKTOP, "dark"), (PHONE, "light")])
def test_axe_finds_nothing(opened, small, viewport, scheme):
    page = opened(small.url, viewport, color_scheme=scheme)
    before = page.evaluate(BACKGROUND)
    show(show(page, "compare"), "evidence")  # charts are drawn before the page's data are removed
    filled(page)
    for tab in TABS:
        assert violations(show(page, tab)) == [], tab
    page.click(f"button[data-theme={'light' if scheme == 'dark' else 'dark'}]")
    assert page.evaluate(BACKGROUND) != before
    show(page, "evidence").click("#clear")
    assert violations(page) == []
    page.click(f"button[data-theme={scheme}]")
    assert page.evaluate(BACKGROUND) == before


def test_axe_finds_nothing_in_hostile_names(opened, hostile):
    page = opened(hostile.url)
    page.locator("#evidence-table tbody button").nth(3).click()
    assert violations(page) == []
    assert violations(show(page, "overview")) == []


def test_on_paper_there_are_tables_and_no_controls(opened, small):
    page = filled(show(show(opened(small.url, color_scheme="dark"), "compare"), "evidence"))
    page.click("button[data-theme=dark]")
    page.emulate_media(media="print")
    of_tables = (".dt-search", ".dt-length", ".dt-paging", ".dt-buttons")
    for selector in ("button[data-theme]", "#filters select", "#filters input", "#clear", *of_tables, ".vega-embed a"):
        assert page.locator(selector).count() > 0, selector
        assert not any(own.is_visible() for own in page.locator(selector).all()), selector
    for selector in (
        "#evidence-table",
        "#slice-table",
        "#fact table",
        ".forest",
        "#numbers ~ div table",
        "#chart-runs svg",
    ):
        assert page.locator(selector).first.is_visible(), selector
    assert page.evaluate(BACKGROUND) == "rgb(255, 255, 255)"
    assert page.inner_text("#count") == "3 of 12 facts"
