"""Plain words in YAML: a word that is no number is never taken for one, and a name is never taken for true or false."""

from __future__ import annotations

import pytest

from fathom.base.errors import BadInput
from fathom.base.options import parse_options
from fathom.base.reading.text import yaml_value
from fathom.probes.options import GenerationOptions, StatementOptions
from tests.messages import mentioned, mentions


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, word) for word in ("yes", "no", "on", "off", "Yes", "NO", "y", "n")),
        *((date, date) for date in ("2026-07-26", "2026-07-26 10:00:00", "1:30", "190:20:30", "0x1F", "1_000", "0o7")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, None) for word in ("", "~", "null")),
        ("010", 10), ("-7", -7), ("0", 0), ("'7'", "7"),
        ("1e3", 1000.0), ("1.", 1.0), (".5", 0.5), ("-1.5e-3", -0.0015),
    ],
)  # fmt: skip
def test_plain_words(text, value):
    found = yaml_value(f"a: {text}")["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("value", [True, False, [True], "yes"])
@pytest.mark.parametrize("name", ["limit", "max_rank", "batch_tokens", "templates"])
def test_what_is_no_number(name, value):
    with pytest.raises(BadInput, match=mentions(f"--{name.replace('_', '-')}", "found")):
        parse_options(StatementOptions, {name: value})


def test_true_and_false_stay_what_they_are():
    assert parse_options(StatementOptions, {"prune": False, "chat": True, "limit": 1}).chat
    with pytest.raises(BadInput, match=mentions("--sampling-temperature")):
        parse_options(GenerationOptions, {"sampling_temperature": True})


@pytest.mark.parametrize("words", ["limit: yes", "limit: true", "max-rank: on"])
def test_a_configuration_file_and_a_plan(words, fathom, tmp_path):
    (tmp_path / "c.yaml").write_text(words)
    (tmp_path / "p.yaml").write_text(
        f"models: [gpt2]\ndata: [geography]\nruns:\n  r:\n    probe: statement\n    {words}"
    )
    said = fathom(
        "probe", "statement", "--model", "m", "--data", "geography", "--out", "o", "--config", tmp_path / "c.yaml"
    )
    plan = fathom("plan", tmp_path / "p.yaml", "--out", tmp_path / "out", "--dry-run")
    for code, _, message in (said, plan):
        assert code == 2
        assert mentioned(message, words.partition(":")[0], "expected a whole number, found")
    assert mentioned(plan[2], f"{tmp_path / 'p.yaml'}:6")


def test_a_model_named_no(fathom, tmp_path):
    """It is looked for by that name."""
    file = tmp_path / "plan.yaml"
    for models in ("[no]", "{no: no}", "{a: {model: no}}"):
        file.write_text(f"models: {models}\ndata: [geography]\nruns: {{r: {{probe: statement}}}}")
        assert mentioned(fathom("plan", file, "--out", tmp_path / "out", "--dry-run")[2], "'no'", "no such folder")
    (tmp_path / "c.yaml").write_text("model: no\ndata: geography\nout: run")
    assert mentioned(fathom("probe", "statement", "--config", tmp_path / "c.yaml")[2], "'no'")


def test_an_option_with_and_without_a_dash(fathom, tmp_path):
    file = tmp_path / "plan.yaml"
    places = ("probe: statement, {}", "probe: statement, matrix: {{{}}}")
    for place in places:
        part = place.format("max-rank: 3, max_rank: 4")
        file.write_text(f"models: [gpt2]\ndata: [geography]\nruns:\n  r: {{{part}}}")
        code, _, said = fathom("plan", file, "--out", tmp_path / "out", "--dry-run")
        assert code == 2
        assert mentioned(said, f"{file}:4", "max_rank", "given twice")


@pytest.mark.parametrize(
    ("text", "said"),
    [("{max-rank: 5, max_rank: 6}", "option max_rank is in line 1 already"), ("max-rank: 5\nmax_rank: 6", "in line 1")],
)
def test_an_option_given_twice_in_a_configuration_file(text, said, fathom, tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text(text)
    code, _, err = fathom("probe", "statement", "--model", "m", "--data", "geography", "--config", file, "--out", "o")
    assert (code, mentioned(err, str(file), said)) == (2, True)


def test_a_merged_option_is_an_option(fathom, tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text("<<: {limit: none}\ntemplates: 0")
    code, _, err = fathom("probe", "statement", "--model", "m", "--data", "geography", "--config", file, "--out", "o")
    assert (code, mentioned(err, "limit", "none")) == (2, True)
