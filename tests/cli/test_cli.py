"""The command line as a user meets it: results, messages, exit codes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

from fathom.base.errors import BadInput, Stopped
from fathom.cli.commands import stoppable
from fathom.cli.formats import breakdown_command
from fathom.data.formats import read
from fathom.engine.models.loading import device_of
from tests.forked import ForkedCall, command_line
from tests.messages import mentioned, mentions

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "mask_token": "<mask>"}


def save(folder: Path, network, *more: str, **without) -> Path:
    """A model folder with a word tokenizer of the geography facts, and of *more* texts."""
    texts = [t.text for r in read("geography").relations.values() for t in r.templates]
    words = {word for text in texts for word in text.replace(".", " .").split()}
    words |= {form for word in re.findall(r"\w+", " ".join(more)) for form in (word, word[0].upper() + word[1:])}
    vocabulary = {word: number for number, word in enumerate([*SPECIAL.values(), *sorted(words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    special = {name: token for name, token in SPECIAL.items() if name not in without}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    network.save_pretrained(folder)
    return folder


def gpt2(**more) -> GPT2LMHeadModel:
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=100, n_embd=16, n_layer=1, n_head=2, **more))


def bert(vocabulary: int = 100) -> BertForMaskedLM:
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertForMaskedLM(BertConfig(vocab_size=vocabulary, **shape))


@pytest.fixture(scope="module")
def causal(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "causal", gpt2())


ASK = ("--data", "geography", "--limit", "12")


def test_probe_then_metrics(fathom, causal, tmp_path):
    run = tmp_path / "run"
    code, out, err = fathom("probe", "statement", "--model", causal, *ASK, "--out", run, "--templates", "0,1")
    assert (code, err) == (0, "")
    assert "accuracy" in out
    assert f"fathom metrics {run}" in out
    recipe = json.loads((run / "metrics.json").read_text())
    assert "probe:statement" in json.dumps(recipe)
    for extra in (["--by", "relation+template"], ["--errors", "3"]):
        for form in ("text", "json", "csv", "md"):
            code, out, _ = fathom("metrics", run, *extra, "--format", form)
            assert (code, bool(out.strip())) == (0, True)
            if form == "json":
                json.loads(out)
    code, out, _ = fathom("metrics", run, "--by", "relation", "--by", "template,direction")
    assert code == 0
    assert [by for by in ("relation", "template", "direction") if f"By {by}" in out] == [
        "relation",
        "template",
        "direction",
    ]
    code, _, err = fathom("metrics", run, "--out", tmp_path / "table.tex")
    assert (code, (tmp_path / "table.tex").exists()) == (2, False)
    assert mentioned(err, "--out", "expected a folder", "--format")
    code, _, _ = fathom("metrics", run, "--out", tmp_path / "tables")
    assert (tmp_path / "tables" / "summary.csv").read_text().count("\n") > 1


def test_the_next_command_names_only_keys_of_the_run():
    assert breakdown_command(Path("r"), ["relation", "template", "seen"]) == "fathom metrics r --by relation,template"


def test_config_file_and_flags_that_win(fathom, causal, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("templates: [0]\nreduction: [sum, mean]\nlimit: 3\nbatch-tokens: 64\n")
    where = ("--model", causal, "--data", "geography", "--out", tmp_path / "r")
    code, *_ = fathom("probe", "statement", *where, "--config", config, "--limit", "5")
    options = json.loads((tmp_path / "r" / "manifest.json").read_text())["identity"]["options"]
    assert (code, options["limit"], options["templates"], options["reduction"]) == (0, 5, [0], ["sum", "mean"])


def test_masked_and_ablation(fathom, tmp_path):
    model = save(tmp_path / "masked", bert())
    code, out, _ = fathom("plan", "ablation", "--models", model, "--limit", 4, "--out", tmp_path / "a")
    assert code == 0
    assert "sentence-l2r" in out
    claims = json.loads((tmp_path / "a" / "claims.json").read_text())["the paper's claims, for your models"]
    assert [row["outcome"] for row in claims] == ["cannot be determined"] * 3  # of an untrained model


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--model", "MODEL", "--data", "/nowhere"], "no data at '/nowhere'"),
        (["--model", "/no/model", "--data", "geography"], "cannot load '/no/model'"),
        (["--model", "MODEL", "--data", "geography", "--reduction", "median"], "--reduction"),
        (["--model", "MODEL", "--data", "geography", "--relations", "mayor"], "no relation mayor"),
        (["--model", "MODEL", "--data", "geography", "--templates", "0,9"], "has no template 9"),
        (["--model", "MODEL", "--data", "geography", "--limit", "0"], "--limit"),
        (["--model", "MODEL", "--data", "geography", "--device", "toaster"], "--device toaster"),
        (["--model", "MODEL", "--data", "geography", "--device", "toaster"], "available: cpu"),
        (["--model", "MODEL", "--data", "geography", "--subset", "lite"], "no subset 'lite'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(fathom, causal, tmp_path, arguments, expected):
    given = [str(causal) if word == "MODEL" else word for word in arguments]
    code, out, err = fathom("probe", "statement", *given, "--out", tmp_path / "r")
    assert (code, out) == (2, "")
    assert expected in err
    assert "Traceback" not in err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("typed", "line"),
    {
        "build choices --options 99 --data d --out o": ("--options: expected 26 or less, found 99",),
        "build worlds --case odd --data d --out o": "--case: expected auto, exact or ignore, found 'odd'",
        "study chains --alpha nan --model m --data d --out o": ("--alpha: ", "nan"),
        "study chains --depth 11 --model m --data d --out o": "--depth: expected 10 or less, found 11",
        "study chains --forms , --model m --data d --out o": ("--forms: ", "plain, paraphrased, shuffled", "none"),
        "probe statement --model m --data d": ("--out is missing", "Folder of the run"),
        "metrics": ("run is missing", "Folder of a run"),
        "probe statement": "--model, --data, --out are missing",
        "metrics run other words": ("unused: other words", "fathom metrics --help"),
        "probe statement --modle m": ("--modle", "--model or --pool?", "fathom probe statement --help"),
        "study chainz": ("no command 'chainz'", "did you mean 'chains'?", "fathom study --help"),
        "demo --out": "'--out'",
    }.items(),
)
def test_what_is_typed_wrongly_is_one_line(fathom, tmp_path, monkeypatch, typed, line):
    monkeypatch.chdir(tmp_path)
    code, out, err = fathom(*typed.split())
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert mentioned(err, line)
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_group_without_a_command_shows_its_help(fathom):
    code, out, err = fathom("study")
    assert (code, err) == (2, "")
    assert "Analyse finished runs" in out
    assert fathom("demo", "--help")[0] == 0


def test_all_mistakes_at_once(fathom, tmp_path):
    code, _, err = fathom(
        "probe", "statement", "--model", "/no/model", "--data", "/nowhere", "--limit", "0", "--out", tmp_path / "r"
    )
    assert code == 2
    assert len([line for line in err.splitlines() if line.startswith("error: ")]) == 3


def test_no_language_model(fathom, tmp_path):
    (tmp_path / "vit").mkdir()
    config = {"model_type": "vit", "architectures": ["ViTForImageClassification"]}
    (tmp_path / "vit" / "config.json").write_text(json.dumps(config))
    code, _, err = fathom("probe", "statement", "--model", tmp_path / "vit", *ASK, "--out", tmp_path / "r")
    assert code == 2
    assert mentioned(err, "'vit'")
    assert "--kind" in err


def test_masked_model_without_mask_token(fathom, tmp_path):
    model = save(tmp_path / "m", bert(), mask_token=None)
    code, _, err = fathom("probe", "statement", "--model", model, *ASK, "--out", tmp_path / "r")
    assert code == 2
    assert "no mask token" in err


def test_bos_asked_of_a_tokenizer_without(fathom, tmp_path):
    model = save(tmp_path / "m", gpt2(), bos_token=None)
    code, _, err = fathom("probe", "statement", "--model", model, *ASK, "--out", tmp_path / "r", "--bos", "add")
    assert code == 2
    assert mentioned(err, "BOS")


def test_nan_weights_are_refused_and_named(fathom, tmp_path):
    """In the attention above all: torch's fast kernel returns finite numbers from a NaN there."""
    network = gpt2()
    network.transformer.h[0].attn.c_attn.weight.data[0, 0] = float("nan")
    code, _, err = fathom(
        "probe", "statement", "--model", save(tmp_path / "nan", network), *ASK, "--out", tmp_path / "r"
    )
    assert code == 2
    assert mentioned(err, "0.attn.c_attn.weight")


def test_a_model_without_its_head_is_refused(fathom, tmp_path):
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    classifier = save(tmp_path / "c", BertForSequenceClassification(BertConfig(vocab_size=100, **shape)))
    code, _, err = fathom("probe", "statement", "--model", classifier, *ASK, "--out", tmp_path / "r")
    assert code == 2
    assert "language-model head" in err


def test_short_windows_are_counted(fathom, tmp_path):
    short = save(tmp_path / "short", gpt2(n_positions=6))
    code, out, _ = fathom("probe", "statement", "--model", short, *ASK, "--out", tmp_path / "r2")
    assert code == 0
    assert "window of 6" in " ".join(out.split())


def test_pickled_weights_only_when_asked(fathom, causal, tmp_path):
    folder = save(tmp_path / "pickled", gpt2())
    (folder / "model.safetensors").unlink()
    torch.save(gpt2().state_dict(), folder / "pytorch_model.bin")
    code, _, err = fathom("probe", "statement", "--model", folder, *ASK, "--out", tmp_path / "r")
    assert code == 2
    assert "safetensors" in err
    code, *_ = fathom("probe", "statement", "--model", folder, *ASK, "--out", tmp_path / "r", "--allow-pickle")
    assert code == 0


def test_another_run_in_the_way(fathom, causal, tmp_path):
    fathom("probe", "statement", "--model", causal, *ASK, "--out", tmp_path / "r")
    code, _, err = fathom("probe", "statement", "--model", causal, *ASK, "--out", tmp_path / "r", "--seed", "5")
    assert code == 2
    assert "options.seed: there 0, here 5" in err


def test_ctrl_c_is_one_line(fathom, causal, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fathom.probes.statement.StatementProbe.evaluate", interrupted)
    code, _, err = fathom("probe", "statement", "--model", causal, *ASK, "--out", tmp_path / "r")
    assert code == 130
    assert "finished is kept" in err
    monkeypatch.setattr("fathom.api.forecast", interrupted)
    code, _, err = fathom("probe", "statement", "--model", causal, *ASK, "--out", tmp_path / "s", "--dry-run")
    assert code == 130
    assert "kept" not in err


def test_metrics_of_nothing(fathom, tmp_path):
    code, _, err = fathom("metrics", tmp_path)
    assert code == 2
    assert "not a run" in err


def test_data_commands(fathom, tmp_path):
    code, out, _ = fathom("data", "info", "geography")
    assert code == 0
    assert "781" in out
    code, out, _ = fathom("data", "check", "geography")
    assert (code, "no faults" in out) == (0, True)
    code, out, _ = fathom("data", "list")
    assert "geography" in out
    (tmp_path / "facts.jsonl").write_text("{\n")
    code, _, err = fathom("data", "check", tmp_path)
    assert code == 2
    assert "facts.jsonl:1" in err
    assert mentioned(err, "relations.jsonl")


def test_single_token_answers(fathom, causal):
    code, out, _ = fathom("data", "info", "geography", "--tokenizer", causal, "--format", "json")
    assert code == 0
    rows = json.loads(out)["by relation"]
    assert rows[0].keys() >= {"one token", "one token after a space", "majority"}


def test_help_teaches_and_loads_no_model_library():
    script = (
        "import sys, fathom, fathom.cli\n"
        "assert not {'torch', 'transformers'} & set(sys.modules), 'a model library was loaded'\n"
        "sys.argv = ['fathom', 'probe', 'statement', '--help-all']\n"
        "fathom.cli.main()\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    for word in ("--model", "--reduction", "--pll", "--no-capitalize", "--batch-tokens", "within-word-l2r"):
        assert word in found.stdout


def test_commands_on_finished_runs_load_no_model_library(fathom, causal, tmp_path):
    """Not even that of a part that finds nothing left to do."""
    ask = ("probe", "statement", "--model", causal, *ASK, "--templates", "0,1")
    for part in ("1/2", "2/2"):
        assert fathom(*ask, "--part", part, "--out", tmp_path / part[0])[0] == 0
    calls = [
        ("merge", tmp_path / "1", tmp_path / "2", "--out", tmp_path / "run"),
        (*ask, "--out", tmp_path / "run"),
        (*ask, "--part", "2/2", "--out", tmp_path / "run"),
        (*ask, "--part", "2/2", "--out", tmp_path / "2"),
        ("metrics", tmp_path / "run", "--by", "relation"),
        ("merge", tmp_path / "1", tmp_path / "2", "--out", tmp_path / "same"),
        ("compare", tmp_path / "run", tmp_path / "same"),
        ("report", tmp_path / "run", "--out", tmp_path / "report.html"),
    ]
    script = (
        "import sys, fathom.cli\n"
        f"for words in {[list(map(str, words)) for words in calls]!r}:\n"
        "    sys.argv = ['fathom', *words]\n"
        "    try:\n        fathom.cli.main()\n"
        "    except SystemExit as end:\n        print('ended', end.code)\n"
        "    assert not {'torch', 'transformers'} & set(sys.modules), words\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert re.findall(r"^ended (.*)", found.stdout, re.M) == ["0"] * len(calls), found.stderr


def test_a_finished_run_of_another_identity_is_refused(fathom, causal, tmp_path):
    """Though the model is loaded only where its folder, the data and the options are those of the run."""
    ask = ("probe", "statement", "--model", causal, *ASK, "--out", tmp_path / "run")
    assert fathom(*ask)[0] == 0
    left = tmp_path / "run" / ".manifest.json.0123456789abcdef.tmp"
    left.write_text("of a process that was stopped")
    assert fathom(*ask)[0] == 0
    assert not left.exists()
    for more in (("--templates", "0"), ("--dtype", "bfloat16"), ("--tokenizer", causal), ("--limit", "11")):
        code, _, err = fathom(*ask, *more)
        assert (code, "another run" in err) == (2, True)
    other = save(tmp_path / "other", gpt2(activation_function="relu"))
    code, _, err = fathom(*ask[:3], other, *ask[4:])
    assert (code, "content_hash" in err) == (2, True)


def test_exported_names():
    import fathom

    assert fathom.__all__ == ["__version__", *sorted(fathom.__all__[1:])]
    for name in fathom.__all__:
        assert getattr(fathom, name) is not None
    with pytest.raises(AttributeError, match=mentions("'porbe'")):
        _ = fathom.porbe


def test_sigterm_is_as_gentle_as_ctrl_c(tmp_path):
    out, printed = tmp_path / "here" / "out", tmp_path / "printed"
    out.parent.mkdir()
    words = ["plant", "--out", str(out), "--kind", "causal", "--epochs", "500"]
    process = ForkedCall(command_line, *words, said=printed)
    until = time.monotonic() + 120
    while not out.with_name(".out.tmp").exists() and time.monotonic() < until:
        time.sleep(0.05)
    process.send(signal.SIGTERM)
    code, said = process.ended(60)
    assert code == 143
    assert said.strip().splitlines()[-1].startswith("note: stopped; ")
    assert not list(out.parent.iterdir())


@pytest.mark.parametrize(("flags", "shown"), [((), False), (("--verbose",), True), (("--debug",), True)])
def test_warnings_of_libraries_are_for_the_curious(flags, shown):
    program = (
        "import sys, warnings, fathom.cli\n"
        "fathom.cli._call = lambda: warnings.warn('of a library', stacklevel=1)\n"
        f"sys.argv = ['fathom', *{flags!r}]\n"
        "fathom.cli.main()\n"
        "warnings.warn('afterwards', stacklevel=1)\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ("of a library" in found.stderr) == shown
    assert "afterwards" in found.stderr


SWALLOWING = """
import os, signal, time
try:
    os.kill(os.getpid(), signal.{name})
    time.sleep(1)
except BaseException:
    pass
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_during_an_import_is_not_lost(tmp_path, name):
    """Some libraries drop any exception of what they import in turn."""
    (tmp_path / "swallowing.py").write_text(SWALLOWING.format(name=name))
    program = "\n".join(
        (
            "import time",
            "from fathom.base.errors import Stopped",
            "from fathom.cli.commands import stoppable",
            "try:",
            "    with stoppable():",
            "        import swallowing",
            "        time.sleep(30)",
            "except Stopped as stop:",
            "    print(stop.exit_code)",
        )
    )
    asked = [sys.executable, "-c", program]
    found = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert found.stdout.strip() == str(128 + getattr(signal, name)), found.stderr


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # else ignored, if the tests run in the background
class Interrupting:
    def find_spec(self, name, *more):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from fathom.__main__ import main
main()
"""


def test_ctrl_c_at_the_start_shows_no_traceback():
    asked = [sys.executable, "-c", INTERRUPTED, "--version"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_that_a_library_wraps_is_a_stop(number):
    """As pydantic does with what its serializers raise."""

    def serialize() -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt as error:
            raise ValueError("cannot serialize") from error

    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # else ignored, if the tests run in the background
    try:
        with pytest.raises(Stopped) as stop, stoppable():
            serialize()
    finally:
        signal.signal(signal.SIGINT, before)
    assert stop.value.exit_code == 128 + number


def test_an_error_without_a_signal_stays_itself():
    with pytest.raises(ValueError, match="of its own"), stoppable():
        raise ValueError("of its own")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "https://me:secret-word@localhost/x", "--model", "m"), "https://…@localhost/x"),
        (("--data", "geography", "--model", "m", "me:secret-word@localhost"), "unused: …@localhost"),
        (("--data", "geography", "--subset", "x" * 100_000, "--model", "m"), "xxx"),
        (("--data", "geography", "--subset", "x y" * 30_000, "--model", "m"), "x y"),
    ],
)
def test_a_message_has_no_password_and_fits_a_screen(fathom, capsys, words, said):
    code, _, log = fathom("probe", "statement", *words, "--out", "out")
    assert code == 2
    assert said in log
    assert "secret-word" not in log
    assert len(log) < 2500


@pytest.mark.parametrize("device", ["meta", "nothing", "hpu", "privateuseone"])
def test_a_device_that_computes_nothing_is_refused(device):
    with pytest.raises(BadInput) as refused:
        device_of(device)
    assert mentioned(str(refused.value), f"--device {device}", "available: cpu")


def test_python_m_fathom_is_the_command():
    asked = [sys.executable, "-m", "fathom", "probe", "nothing"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "nothing" in found.stderr
    assert "Traceback" not in found.stderr
