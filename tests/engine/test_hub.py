"""What to type where a model cannot be had, against a hub on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from fathom.base.errors import BadInput
from fathom.engine.models.checks import token_log_probs
from fathom.engine.models.loading import load, load_shape, wrap
from tests.conftest import TINY_VOCABULARY, build, own_log_probs, tiny_tokenizer
from tests.messages import mentioned, mentions

IDS = [0, 9, 10, 11, 12, 9, 13]
SAYS = {
    "/gated/": (403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to model gated/model is restricted"}),
    "/nobody/": (401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}),
    "/revised/": (404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"}),
}


class _Hub(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        code, headers = next((said for part, said in SAYS.items() if part in self.path), (404, {}))
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


ASKED = """
import sys
from fathom.cli import main
_, out, *models = sys.argv
for model in models:
    sys.argv = ["fathom", "probe", "statement", "--model", model, "--data", "geography", "--out", out]
    try:
        main()
    except SystemExit as stop:
        print(model, stop.code)
"""
ANSWERS = {
    "gated/model": ("gated", "hf auth login"),
    "nobody/model": ("no model", "hf auth login"),
    "revised/model": "--revision",
}


@pytest.mark.slow
def test_what_the_hub_answers(hub: str, tmp_path: Path) -> None:
    """Each on one line, in a process of its own: the hub's address is read when its library is imported."""
    done = subprocess.run(
        [sys.executable, "-c", ASKED, tmp_path / "run", *ANSWERS],
        env={**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines() == [f"{model} 2" for model in ANSWERS], done.stderr
    assert not (tmp_path / "run").exists()
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    for line, told in zip(lines, ANSWERS.values(), strict=True):
        assert mentioned(line, told)


def said(fathom: Callable[..., tuple[int, str, str]], model: str, folder: Path) -> str:
    """What the command line says of a model that it cannot have, where the hub is not to be asked."""
    code, _, told = fathom("probe", "statement", "--model", model, "--data", "geography", "--out", folder / "run")
    assert code == 2, told
    assert not (folder / "run").exists()
    [line] = [line for line in told.splitlines() if line.startswith("error: ")]
    return line


def test_offline(fathom, tmp_path: Path) -> None:
    line = said(fathom, "some/model", tmp_path)
    assert "HF_HUB_OFFLINE" in line
    assert "hf download some/model" in line


def test_no_such_folder(fathom, tmp_path: Path) -> None:
    assert "no such folder" in said(fathom, "/no/such/folder", tmp_path)


def test_the_folder_of_a_fetched_model_is_opened(fathom, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path))
    assert "type fathom model fetch Gemma-3-270m" in said(fathom, "gemma-3-270M", tmp_path)
    assert "HF_HUB_OFFLINE" in said(fathom, "Gemma-3-27b-it", tmp_path)
    (folder := tmp_path / "models" / "Gemma-3-270m").mkdir(parents=True)
    assert f"{folder}': the folder holds no config.json" in said(fathom, "Gemma-3-270m", tmp_path)


def llama(folder: Path, rows: int = TINY_VOCABULARY) -> str:
    """Wide enough for a block of four-bit weights, of which a kernel of bitsandbytes (AVX-512) needs one a row."""
    network = build(
        "LlamaForCausalLM", hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, vocab_size=rows,
    )  # fmt: skip
    network.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def lora(base: str, folder: Path, target: str, *, tokens: int = 0) -> str:
    """An adapter with weights of its own; :param tokens: how many were added."""
    peft = pytest.importorskip("peft")
    import torch
    from transformers import AutoModelForCausalLM

    network, tokenizer = AutoModelForCausalLM.from_pretrained(base), tiny_tokenizer()
    if tokens:
        tokenizer.add_tokens([f"new{number}" for number in range(tokens)])
        network.resize_token_embeddings(len(tokenizer))
        tokenizer.save_pretrained(folder)
    torch.manual_seed(len(target))
    adapted = peft.get_peft_model(network, peft.LoraConfig(target_modules=[target], r=2))
    with torch.no_grad():
        for key, value in adapted.named_parameters():
            if "lora" in key:
                value.copy_(torch.randn_like(value))
    adapted.save_pretrained(folder, save_embedding_layers=bool(tokens))
    return str(folder)


def test_an_adapter_as_the_model(tmp_path: Path) -> None:
    base = llama(tmp_path / "base")
    adapter = lora(base, tmp_path / "adapter", "q_proj")
    import torch

    alone, beside = load(adapter), load(base, adapter=adapter)
    torch.testing.assert_close(token_log_probs(alone, IDS)[1:], token_log_probs(beside, IDS)[1:], atol=1e-6, rtol=0)
    assert alone.identity.name == adapter
    assert alone.identity.content_hash == beside.identity.content_hash


def cached(cache: Path, name: str, revision: str, folder: str) -> None:
    """Lay *folder* into the cache of the hub as that revision of the repository *name*."""
    repository = cache / "hub" / f"models--{name.replace('/', '--')}"
    commit = hashlib.sha1(f"{name} {revision}".encode()).hexdigest()
    shutil.copytree(folder, repository / "snapshots" / commit)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / revision).write_text(commit)


LOADED = """
import json, sys
from fathom.engine.models.checks import token_log_probs
from fathom.engine.models.loading import load
model = load("we/adapter", revision="v2", tokenizer="we/words")
other = load("we/base", revision="v1", tokenizer="we/words", adapter="we/adapter")
print(json.dumps([token_log_probs(one, json.loads(sys.argv[1]))[1:].tolist() for one in (model, other)]))
"""


@pytest.mark.slow
def test_a_revision_is_of_what_is_named_alone(tmp_path: Path) -> None:
    """Neither another tokenizer, nor the model of an adapter, nor what is put on top has a revision of that name."""
    base, cache = llama(tmp_path / "base"), tmp_path / "cache"
    adapters = {"main": lora(base, tmp_path / "old", "q_proj"), "v2": lora(base, tmp_path / "new", "up_proj")}
    for revision, folder in adapters.items():
        configuration = Path(folder) / "adapter_config.json"
        content = json.loads(configuration.read_text()) | {"base_model_name_or_path": "we/base"}
        configuration.write_text(json.dumps(content))
        cached(cache, "we/adapter", revision, folder)
    cached(cache, "we/words", "main", base)
    for revision in ("main", "v1"):
        cached(cache, "we/base", revision, base)
    done = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(IDS)],
        env={**os.environ, "HF_HOME": str(cache), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for found, adapter in zip(json.loads(done.stdout), (adapters["v2"], adapters["main"]), strict=True):
        expected = token_log_probs(load(base, adapter=adapter), IDS)[1:].tolist()
        assert found == pytest.approx(expected, abs=1e-5)  # rounding of another process, with other threads


def test_an_adapter_of_a_model_that_is_not_here(tmp_path: Path) -> None:
    adapter = lora(llama(tmp_path / "base"), tmp_path / "adapter", "q_proj")
    (tmp_path / "base").rename(tmp_path / "moved")
    with pytest.raises(BadInput, match=mentions("--model", "FOLDER_OF")):
        load(adapter)


@pytest.mark.filterwarnings("ignore:Already found a `peft_config`")  # peft 0.18, of the reference below
def test_several_adapters_add_up(tmp_path: Path) -> None:
    import torch

    base = llama(tmp_path / "base")
    adapters = [lora(base, tmp_path / target, target) for target in ("q_proj", "up_proj")]
    model = load(base, adapter=adapters)
    expected = load(base).network
    for adapter in adapters:  # what each changes, by peft's own arithmetic
        from peft import PeftModel

        expected = PeftModel.from_pretrained(expected, adapter).merge_and_unload()
    torch.testing.assert_close(token_log_probs(model, IDS)[1:], own_log_probs(expected, IDS), atol=1e-5, rtol=0)
    one = token_log_probs(load(base, adapter=adapters[0]), IDS)[1:]
    assert (token_log_probs(model, IDS)[1:] - one).abs().max() > 1e-2


def test_an_adapter_with_added_tokens(tmp_path: Path) -> None:
    adapter = lora(llama(tmp_path / "base"), tmp_path / "adapter", "q_proj", tokens=3)
    model = load(adapter)
    assert model.vocabulary_size == TINY_VOCABULARY + 3
    assert model.tokenizer.convert_tokens_to_ids("new2") == TINY_VOCABULARY + 2


def test_another_tokenizer_and_a_kind(tmp_path: Path) -> None:
    base = llama(tmp_path / "base")
    (tmp_path / "base" / "tokenizer.json").unlink()
    (tmp_path / "base" / "tokenizer_config.json").unlink()
    tiny_tokenizer().save_pretrained(tmp_path / "tokenizer")
    with pytest.raises(BadInput, match="cannot load"):
        load(base)
    assert load(base, tokenizer=str(tmp_path / "tokenizer")).vocabulary_size == TINY_VOCABULARY
    file = tmp_path / "base" / "config.json"
    content = json.loads(file.read_text()) | {"architectures": ["OurOwn"], "model_type": "llama"}
    file.write_text(json.dumps(content))
    assert load(base, tokenizer=str(tmp_path / "tokenizer"), kind="causal").attention == "causal"


@pytest.mark.parametrize("quantize", ["4bit", "8bit"])
def test_quantised_while_loading(quantize: str, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    base = llama(tmp_path / "base")
    model = load(base, quantize=quantize)
    assert type(model.network.model.layers[0].mlp.up_proj).__module__.startswith("bitsandbytes")
    assert model.identity.dtype == f"bitsandbytes {quantize}, float32"
    exact = token_log_probs(load(base), IDS)[1:]
    off = (token_log_probs(model, IDS)[1:] - exact).abs().max()
    assert 1e-4 < off < 2  # near, and not the same


def test_precision_as_saved(tmp_path: Path) -> None:
    import torch

    network = build("GPT2LMHeadModel", n_embd=16, n_layer=1, n_head=2, n_positions=64, vocab_size=TINY_VOCABULARY)
    network.to(torch.bfloat16).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    assert load(str(tmp_path / "model"), dtype="auto").identity.dtype == "bfloat16"
    assert load(str(tmp_path / "model")).identity.dtype == "float32"


def test_float16_needs_a_gpu(tmp_path: Path) -> None:
    """Products in float16 have no fast instructions on most CPUs: six to twelve times the time of float32."""
    folder = llama(tmp_path / "model")
    for opened in (load, load_shape):
        with pytest.raises(BadInput, match=mentions("--dtype float16", "bfloat16")):
            opened(folder, dtype="float16", device="cpu")
    load(folder).network.half().save_pretrained(folder)
    with pytest.raises(BadInput, match=mentions("--dtype auto", "bfloat16")):
        load(folder, dtype="auto", device="cpu")
    assert load(folder, dtype="bfloat16", device="cpu").identity.dtype == "bfloat16"


def test_configuration_and_tokenizer_need_no_model_code(tmp_path: Path) -> None:
    """Checks before a plan, and counts of tokens, start seconds earlier without the library's code of networks."""
    script = (
        "import sys\n"
        "from fathom.engine.models.parts import find_model, load_tokenizer\n"
        f"find_model({llama(tmp_path / 'model')!r})\n"
        f"load_tokenizer({str(tmp_path / 'model')!r})\n"
        "assert 'transformers.modeling_utils' not in sys.modules\n"
        "import fathom.engine.models.loading\n"
        "assert 'transformers.modeling_utils' in sys.modules, 'the library names it otherwise now'\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_network_of_no_known_kind() -> None:
    network = build("LlamaForCausalLM", hidden_size=32, intermediate_size=32, num_hidden_layers=1,
                    num_attention_heads=4, max_position_embeddings=64, vocab_size=TINY_VOCABULARY)  # fmt: skip
    network.__class__ = type("OurOwn", (type(network),), {})
    with pytest.raises(BadInput, match="kind='causal', 'masked' or 'seq2seq'"):
        wrap(network, tiny_tokenizer())
    assert wrap(network, tiny_tokenizer(), kind="causal").attention == "causal"
