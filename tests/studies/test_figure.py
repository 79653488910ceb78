"""``fathom plot``: what a figure shows of runs, and what it refuses."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

import fathom as library
from fathom.base.errors import BadInput
from fathom.studies.report.figure import MOST_PARTS, write_figure
from tests.answerers import answered, at_rank, constant, world
from tests.messages import stated

pytest.importorskip("matplotlib", reason="needs the extra report")
FACTS = world([[0], [1], [2], [3]] * 2, relations=2)
"""Two relations of four facts; the right answer is that of the fact's place."""
DOMAINS = replace(
    FACTS,
    queries=tuple(
        replace(query, groups={"domain": "Art" if int(query.id[1:]) % 2 else "Geo"}) for query in FACTS.queries
    ),
)


@pytest.fixture
def runs(tmp_path):
    """*constant* always gives the first candidate: right for one of four facts of each relation; the other is right."""
    return [
        answered(tmp_path / name, how, DOMAINS, model=name) for name, how in (("low", constant), ("high", at_rank(1)))
    ]


@pytest.fixture
def drawn(monkeypatch):
    """Return the axes of the figure that a call draws."""

    def draw(*arguments, **options):
        from matplotlib.figure import Figure

        kept = []
        save = Figure.savefig
        monkeypatch.setattr(
            Figure, "savefig", lambda figure, *to, **how: (kept.append(figure), save(figure, *to, **how))
        )
        write_figure(*arguments, **options)
        [axes] = kept[0].axes
        return axes

    return draw


def values_of(axes, label):
    """Return (value, height) of the points with a label."""
    return [tuple(float(own[0]) for own in line.get_data()) for line in axes.lines if line.get_label() == label]


def labels_of(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_whole_runs(runs, drawn, tmp_path):
    """The best is at the top. Random guessing among twenty candidates is right in 1/20. As each answer is right once in
    its relation, the majority baseline has no favourite either."""
    axes = drawn(runs, tmp_path / "figure.svg")
    assert labels_of(axes) == ["high", "low"]
    assert values_of(axes, "high") == [(1.0, pytest.approx(0))]
    assert values_of(axes, "low") == [(0.25, pytest.approx(1))]
    for baseline in ("random", "majority"):
        assert [value for value, _ in values_of(axes, baseline)] == pytest.approx([1 / 20] * 2, rel=1e-3)
    assert [text.get_text() for text in axes.figure.legends[0].texts][:1] == ["random"]
    interval = next(line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2 and line.get_ydata()[0] == 1)
    estimate = library.open_run(runs[0].path).accuracy
    assert tuple(interval) == pytest.approx((estimate.low, estimate.high))


def test_by_a_key_each_value_is_a_row_with_all_runs(runs, drawn, tmp_path):
    """The constant answerer is right on facts 0 and 4, both of Geo: half of Geo, none of Art. So Geo comes first."""
    axes = drawn(runs, tmp_path / "figure.pdf", by="domain")
    assert labels_of(axes) == ["Geo", "Art"]
    heights = [-0.175, 0.175, 0.825, 1.175]
    assert values_of(axes, "high") == [(1.0, pytest.approx(heights[0])), (1.0, pytest.approx(heights[2]))]
    assert values_of(axes, "low") == [(0.5, pytest.approx(heights[1])), (0.0, pytest.approx(heights[3]))]
    assert [text.get_text() for text in axes.figure.legends[0].texts][:2] == ["high", "low"]


def test_another_metric_and_groups_of_a_file(runs, drawn, tmp_path):
    """The ranks of the constant answerer are 1 to 4 in each relation: 1/1 and 1/2 in the first half of the places."""
    file = tmp_path / "groups.jsonl"
    rows = (f'{{"query_id": "{query.id}", "half": "{int(query.id[1:]) % 4 // 2}"}}\n' for query in FACTS.queries)
    file.write_text("".join(rows))
    axes = drawn(runs[:1], tmp_path / "figure.png", by="half", metric="mrr", groups=file)
    assert labels_of(axes) == ["0", "1"]
    assert [value for value, _ in values_of(axes, "low")] == [pytest.approx(3 / 4), pytest.approx(7 / 24)]


@pytest.mark.parametrize(("ending", "start"), [("pdf", b"%PDF"), ("PNG", b"\x89PNG"), ("svg", b"<?xml")])
def test_command_and_python_write_the_same_bytes(runs, tmp_path, fathom, ending, start):
    paths = [tmp_path / f"{name}.{ending}" for name in ("python", "command")]
    library.write_figure(runs, paths[0])
    code, out, _ = fathom("plot", *(run.path for run in runs), "--out", paths[1])
    assert (code, str(paths[1]) in out) == (0, True)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].read_bytes().startswith(start)


def test_bad_input_is_named_all_at_once_and_nothing_is_written(runs, tmp_path, fathom):
    unfinished = answered(tmp_path / "unfinished", constant, DOMAINS)
    unfinished.file_of("0").unlink()
    good, out = runs[0].path, tmp_path / "figure.pdf"
    cases = {
        (good, unfinished.path, tmp_path / "nowhere"): ("unfinished", "nowhere"),
        (good, "--by", "colour"): ("colour", "relation", "domain"),
        (good, "--metric", "ece"): ("ece", "hits@"),
        (good, "--metric", "nonsense"): ("nonsense",),
        (tmp_path,): ("high", "fathom report --serve"),
    }
    for words, names in cases.items():
        code, _, err = fathom("plot", *words, "--out", out)
        assert (code, stated([err], *names)) == (2, True), words
    for name in ("figure.jpeg", "figure"):
        code, _, err = fathom("plot", good, "--out", tmp_path / name)
        assert (code, stated([err], name, ".pdf")) == (2, True)
    assert not [*tmp_path.glob("figure*")]


def test_a_file_of_the_user_stays(runs, tmp_path, fathom):
    out = tmp_path / "figure.svg"
    out.write_text("mine")
    code, _, err = fathom("plot", runs[0].path, "--out", out)
    assert (code, "--overwrite" in err, out.read_text()) == (2, True, "mine")
    assert fathom("plot", runs[0].path, "--out", out, "--overwrite")[0] == 0
    assert fathom("plot", runs[1].path, "--out", out)[0] == 0, "its own file"


def test_more_values_than_a_page_holds(tmp_path):
    data = world([[0]] * (MOST_PARTS + 1), relations=MOST_PARTS + 1)
    with pytest.raises(BadInput, match=f"--by relation has {MOST_PARTS + 1} values"):
        write_figure([answered(tmp_path / "run", constant, data)], tmp_path / "figure.pdf", by="relation")


def test_without_matplotlib(runs, tmp_path, monkeypatch, fathom):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = fathom("plot", runs[0].path, "--out", tmp_path / "figure.pdf")
    assert (code, stated([err], "matplotlib", "report")) == (2, True)


def test_runs_without_a_common_fact_are_refused(tmp_path):
    """As of two data sets."""
    other = replace(FACTS, queries=tuple(replace(query, subject_id=f"other {query.id}") for query in FACTS.queries))
    runs = [
        answered(tmp_path / str(number), constant, data, model=str(number))
        for number, data in enumerate((FACTS, other))
    ]
    with pytest.raises(BadInput, match="no fact in common"):
        write_figure(runs, tmp_path / "a.png")


def test_the_axis_says_of_how_many_facts(runs, drawn, tmp_path):
    assert drawn(runs, tmp_path / "a.png").get_xlabel() == "accuracy of 8 facts, 95 % interval"
    assert drawn(runs, tmp_path / "b.png", by="domain").get_xlabel() == "accuracy of 8 facts, 95 % interval"
