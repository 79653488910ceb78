"""Likelihoods from servers: stand-ins on loopback with a real model behind them, each telling log-probabilities as a
kind of server does, and real servers where they are installed."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest
import torch

pytest.importorskip("openai", reason="needs the extra api")

import fathom
from fathom.base.errors import BadInput, RunFailed
from fathom.engine.models.checks import token_log_probs
from fathom.engine.models.likelihoods import FROM, LikelihoodServer, Text
from fathom.engine.models.loading import load
from fathom.store.journal import Journal
from fathom.training.small import learn_tokenizer
from tests.conftest import save_llama
from tests.engine.test_server import wait_for
from tests.messages import correspond, mentions
from tests.probes.test_chat import dressed

WORDS = "Peru Chad Lima Paris The capital of is in a town by the sea, said 1998 and 12 or 85 Asia Europe Africa"
SAID = ["The capital of Peru is Lima.", "The capital of Peru is in Chad", "Zürich is a town – said Ånd", "Lima"]
NO_LOG_PROBS = (400, {}, "logprobs are not supported")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A random model of Llama's shape and its byte-level tokenizer."""
    tokenizer = learn_tokenizer([WORDS] * 3, 330, "causal")
    return save_llama(tmp_path_factory.mktemp("llama"), tokenizer, hidden_size=32, intermediate_size=48)


@pytest.fixture(scope="module")
def local(folder):
    return load(str(folder))


class Standin:
    """Answers ``/completions`` from a model.

    :param tells: what it can do of "prompt_logprobs", "echo", "grammar", "texts" (takes nothing but texts, puts BOS
        before each and says nothing of the token behind it).
    :param most: log-probabilities of the next token that may be asked for.
    :param shift: of places by which it is wrong.
    """

    def __init__(self, model, tells, most=10_000, shift=0, together=True):
        self.model, self.tokenizer, self.tells, self.most = model, model.tokenizer, tells, most
        self.shift, self.together, self.lock = shift, together, threading.Lock()
        letters = [self.tokenizer.decode([token]) for token in range(5, model.vocabulary_size)]
        self.plain = [at for at, own in enumerate(letters, 5) if "\N{REPLACEMENT CHARACTER}" not in own and own.strip()]

    def __call__(self, body):
        with self.lock:  # a local model is asked by one thread at a time
            return self.reply(body)

    def reply(self, body):
        prompts = body["prompt"]
        if not isinstance(prompts, str) and self.tells == "texts":
            return (422, {}, "prompt: not of this type")
        prompts = prompts if isinstance(prompts[:1], list) and isinstance(prompts[0], list) else [prompts]
        if len(prompts) > 1 and not self.together:
            return (500, {}, "one prompt at a time")
        if (body.get("logprobs") or 0) > self.most:
            return (400, {}, f"at most {self.most} logprobs")
        ids = [self.ids(prompt) for prompt in prompts]
        if max(map(max, ids)) >= self.model.vocabulary_size:
            return (400, {}, "a token is out of vocabulary")
        choices = [self.choice(body, own) | {"index": at} for at, own in enumerate(ids)]
        written = sum(len(choice.pop("written")) for choice in choices)
        return {"choices": choices[::-1], "usage": {"prompt_tokens": len(ids[0]), "completion_tokens": written}}

    def ids(self, prompt):
        if isinstance(prompt, str):
            core = self.tokenizer.backend_tokenizer  # as llama.cpp: no space is put in front
            whole = core.encode(f"x\n{prompt}", add_special_tokens=False).ids
            before = core.encode("x\n", add_special_tokens=False).ids
            assert whole[: len(before)] == before
            return [self.tokenizer.bos_token_id, *whole[len(before) :]]
        return prompt

    def choice(self, body, ids):
        logits = self.log_probs(ids)
        forced = [int(token) for token in re.findall(r"\[(\d+)\]", body.get("grammar", ""))]
        if forced and self.tells == "grammar":
            return self.forced(ids, forced)
        biased = logits[-1].clone()
        for token, bias in (body.get("logit_bias") or {}).items():
            biased[int(token)] += bias
        new = max(self.plain, key=biased.__getitem__)
        found = {"text": self.tokenizer.decode([new]), "written": [new], "logprobs": None, "finish_reason": "length"}
        if "prompt_logprobs" in body and self.tells == "prompt_logprobs":
            told = [{str(token): self.place(row, token)} for row, token in zip(logits, ids[1:], strict=False)]
            found["prompt_logprobs"] = [None, *told]
        if body.get("echo") and self.tells in ("echo", "texts"):
            values = [None, *(row[token].item() for row, token in zip(logits, ids[1:], strict=False))]
            pieces = [self.tokenizer.decode([token]) for token in (*ids, new)]
            values.append(logits[-1, new].item())
            if self.tells == "texts":
                pieces, values = pieces[1:], [None, *values[2:]]
            found["logprobs"] = {"tokens": pieces, "token_logprobs": values}
        elif body.get("logprobs"):
            found["logprobs"] = self.written(logits[-1], new, body)
        return found

    def place(self, row, token):
        return {"logprob": row[token].item(), "rank": 1, "decoded_token": self.tokenizer.decode([token])}

    def written(self, row, new, body):
        tops = row.topk(min(body["logprobs"], len(row))).indices.tolist()
        if self.tells == "grammar":
            if "\N{REPLACEMENT CHARACTER}" in self.tokenizer.decode([new]):
                return None
            top = [{"id": token, "token": "", "logprob": row[token].item()} for token in tops]
            return {"content": [self.told(row, new) | {"top_logprobs": top}]}
        name = "token_id:{}".format if body.get("return_tokens_as_token_ids") else lambda t: self.tokenizer.decode([t])
        return {
            "tokens": [self.tokenizer.decode([new])],
            "token_logprobs": [row[new].item()],
            "top_logprobs": [{name(token): row[token].item() for token in tops}],
        }

    def told(self, row, token):
        return {"id": token, "token": self.tokenizer.decode([token]), "logprob": row[token].item()}

    def forced(self, ids, forced):
        if any("\N{REPLACEMENT CHARACTER}" in self.tokenizer.decode([token]) for token in forced):
            return {"written": [], "logprobs": None}
        rows = self.log_probs([*ids, *forced])[len(ids) - 1 :]
        return {
            "written": forced,
            "logprobs": {"content": [self.told(row, token) for row, token in zip(rows, forced, strict=False)]},
        }

    def log_probs(self, ids):
        with torch.inference_mode():
            hidden = self.model.hidden(self.model.embed(torch.tensor([ids])))[0]
            return torch.log_softmax(self.model.logits(hidden), dim=-1).roll(self.shift, 0)


KINDS = {
    "prompt_logprobs": "server: prompt_logprobs",
    "echo": "server: echo of tokens",
    "grammar": "server: tokens forced by a grammar",
    "texts": "server: echo of a text",
}


@pytest.fixture
def standin(serve, local):
    def make(tells, **options):
        return serve(each=Standin(local, tells, **options))

    return make


def connect(server, local, **options):
    return LikelihoodServer(server.url, "tiny", local.tokenizer, backoff_s=0.001, **options)


def spoken(local, text, start=1):
    return Text(
        (local.tokenizer.bos_token_id, *local.tokenizer(text, add_special_tokens=False)["input_ids"]), text, start
    )


@pytest.mark.parametrize("tells", KINDS)
def test_scores_are_those_of_the_model(standin, local, tells):
    """Also of letters that are several tokens, of which a grammar knows nothing."""
    asked = connect(standin(tells), local)
    assert asked.engine == KINDS[tells]
    texts = [spoken(local, text) for text in SAID]
    assert "\N{REPLACEMENT CHARACTER}" in "".join(local.tokenizer.decode([token]) for token in texts[2].ids)
    for text, found in zip(texts, asked.log_probs(texts), strict=True):
        expected = token_log_probs(local, list(text.ids)).numpy()
        if tells == "texts":
            assert asked.lacks_first
            expected[1] = np.nan
        np.testing.assert_allclose(found.log_probs, expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("tells", KINDS)
@pytest.mark.parametrize("count", [3, FROM])
@pytest.mark.parametrize("most", [20, 10_000])
def test_the_next_token(standin, local, tells, count, most):
    """One by one, or out of the whole distribution where the server gives it by numbers of tokens."""
    if tells == "grammar" and most == 20:
        pytest.skip("llama.cpp has no limit")
    server = standin(tells, most=most)
    asked = connect(server, local)
    texts, tokens = [spoken(local, text) for text in SAID[:2]], list(range(312 - count, 312))
    before = len(server.bodies)
    found = asked.next_log_probs(texts, tokens)
    whole = count >= FROM and most > 20 and tells != "texts"
    calls = len(server.bodies) - before
    assert calls <= 3 if whole else calls > 3 or tells in ("prompt_logprobs", "echo")
    for text, scores in zip(texts, found, strict=True):
        with torch.inference_mode():
            hidden = local.hidden(local.embed(torch.tensor([text.ids])))[0, -1:]
            expected = torch.log_softmax(local.logits(hidden), dim=-1)[0, tokens].numpy()
        if scores.log_probs is None:  # a server of texts may make other tokens of the two together
            assert tells == "texts"
            assert "the server makes" in scores.fault
        else:
            np.testing.assert_allclose(scores.log_probs, expected, atol=1e-4)


def test_only_what_is_wanted(standin, local):
    """Where a server has to write a text, it writes none of what is given."""
    server = standin("grammar")
    asked = connect(server, local)
    text = spoken(local, SAID[0])
    text = text._replace(start=len(text.ids) - 2)
    [found] = asked.log_probs([text])
    assert server.bodies[-1]["prompt"] == list(text.ids[:-2])
    assert np.isnan(found.log_probs).tolist() == [True] * (len(text.ids) - 2) + [False] * 2
    assert asked.log_probs([Text(text.ids[:1], "")])[0].log_probs.shape == (1,)


DATA = {"relations": ("capital",), "limit": 2}


def geography(name, model, **options):
    return fathom.probe(name, model=str(model), data="geography", progress=False, **(DATA | options))


def both(server, folder, name, tmp_path, **options):
    """Predictions of the model here and behind a server."""
    here = geography(name, folder, **options)
    there = geography(
        name, "tiny", server=server.url, tokenizer=str(folder), out=tmp_path / "there", concurrency=2, **options
    )
    return here, there


def same(here, there, within=1e-3):
    first, second = (run.folder.predictions().to_pylist() for run in (here, there))
    assert len(first) == len(second) > 0
    for own, other in zip(first, second, strict=True):
        assert own["unscored"] == other["unscored"]
        if own["unscored"] is None:
            np.testing.assert_allclose(
                np.array(own["scores"], float), np.array(other["scores"], float), atol=within, equal_nan=True
            )
            assert own["rank"] == other["rank"]
    return first


@pytest.mark.slow
@pytest.mark.parametrize("tells", ["prompt_logprobs", "grammar"])
def test_the_statement_probe(standin, folder, tmp_path, tells):
    server = standin(tells)
    here, there = both(server, folder, "statement", tmp_path, templates=(0,), perplexity=True, keep_tokens=True)
    rows = same(here, there)
    kept = [run.folder.predictions().column("token_log_probs").to_pylist()[0][0] for run in (here, there)]
    assert kept[0]["tokens"] == kept[1]["tokens"]
    assert kept[0]["log_probs"] == pytest.approx(kept[1]["log_probs"], abs=1e-3)
    perplexities = [run.folder.predictions().column("prompt_log_prob").to_pylist() for run in (here, there)]
    assert perplexities[0] == pytest.approx(perplexities[1], abs=1e-3)
    manifest = there.folder.manifest
    assert manifest["identity"]["model"]["dtype"] == "server"
    assert manifest["circumstances"]["engine"] == KINDS[tells]
    assert manifest["circumstances"]["statements"] == sum(row["num_candidates"] for row in rows)
    assert manifest["circumstances"]["journal"]["answers"] > 100


@pytest.mark.slow
def test_a_statement_behind_a_first_token_that_is_not_told(standin, folder, tmp_path):
    """What begins with the answer has no score; the rest is as here."""
    server = standin("texts")
    here, there = both(server, folder, "statement", tmp_path, templates=(0,), score=("conditional",))
    same(here, there)
    answer_first = geography(
        "statement", "tiny", server=server.url, tokenizer=str(folder), templates=(1,), score=("answer",)
    )
    reasons = {row["unscored"] for row in answer_first.folder.predictions().to_pylist()}
    assert correspond(reasons, "first token")


@pytest.mark.parametrize("tells", ["prompt_logprobs", "grammar"])
def test_the_vocabulary_probe(standin, folder, tmp_path, tells):
    here, there = both(standin(tells), folder, "vocabulary", tmp_path, relations=("continent",), shots=1, limit=6)
    assert any(row["unscored"] is None for row in same(here, there))


@pytest.mark.parametrize("chat", [False, True])
def test_the_choice_probe(standin, folder, tmp_path, chat, serve):
    """By likelihoods where the tokenizer is given; also through its chat template."""
    model = load(str(folder))
    chatty = tmp_path / "chatty"
    tokenizer = dressed(model.tokenizer)
    tokenizer.save_pretrained(chatty)
    model.network.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.network.save_pretrained(chatty)
    server = serve(each=Standin(load(str(chatty)), "echo"))
    here, there = both(server, chatty, "choice", tmp_path, options=3, score=("letter", "text-sum"), chat=chat)
    same(here, there)
    assert there.folder.manifest["identity"]["resolved"]["attention"] == "causal"
    assert there.folder.manifest["circumstances"]["engine"] == KINDS["echo"]


def test_going_on_asks_nothing_again(standin, folder, local, tmp_path):
    server = standin("prompt_logprobs")
    texts = [spoken(local, text) for text in SAID]
    path = tmp_path / "answers.jsonl"
    first = connect(server, local, journal=Journal(path)).log_probs(texts)
    again = connect(server, local, journal=Journal(path))
    before = len(server.bodies)
    for one, other in zip(first, again.log_probs([*texts, texts[0]]), strict=False):
        np.testing.assert_array_equal(one.log_probs, other.log_probs)
    assert len(server.bodies) == before
    assert Journal(path).total("prompt_tokens") > 0
    geography("statement", "tiny", server=server.url, tokenizer=str(folder), templates=(0,), out=tmp_path / "run")
    (tmp_path / "run" / "predictions" / "part-00000.parquet").unlink()
    before = len(server.bodies)
    geography("statement", "tiny", server=server.url, tokenizer=str(folder), templates=(0,), out=tmp_path / "run")
    asked = [body for body in server.bodies[before:] if isinstance(body["prompt"][0], list)]
    assert len(asked) <= 1, "but for the known text, of which two go together"


def test_several_texts_in_a_call(standin, local):
    texts = [spoken(local, f"{text} {number}") for text in SAID for number in range(5)]
    counts = {}
    for together in (True, False):
        server = standin("prompt_logprobs", together=together)
        asked = connect(server, local)
        before = len(server.bodies)
        asked.log_probs(texts)
        counts[together] = len(server.bodies) - before
    assert counts == {True: 2, False: 20}


def test_one_text_that_is_refused(serve, local):
    """Each of its bundle is asked again by itself."""
    standin = Standin(local, "prompt_logprobs")
    texts = [spoken(local, text) for text in SAID]

    def each(body):
        prompts = body["prompt"] if isinstance(body["prompt"][0], list) else [body["prompt"]]
        return (400, {}, "too long") if list(texts[1].ids) in prompts else standin(body)

    found = connect(serve(each=each), local).log_probs(texts)
    refused = '{"error": {"message": "too long"}} (400)'
    assert correspond([scores.fault for scores in found], None, refused, None, None)


def test_a_text_longer_than_the_window(serve, local, folder):
    models = {"data": [{"id": "tiny", "max_model_len": 12}]}
    server = serve(each=Standin(local, "prompt_logprobs"), models=models)
    run = geography("statement", "tiny", server=server.url, tokenizer=str(folder), templates=(0,))
    reasons = {row["unscored"] for row in run.folder.predictions().to_pylist()}
    assert any(re.search(r"\d+ tokens .* window of 11", str(why)) for why in reasons)


# What the user must put right


def told(reply):
    return lambda body: {"choices": [reply]}


@pytest.mark.parametrize(
    "each",
    [
        told({"text": "Lima", "logprobs": None}),
        told({"text": "Lima", "logprobs": {"tokens": ["Lima"], "token_logprobs": [-1.0]}}),
        told({"text": "Lima", "prompt_logprobs": [None, {"3": {"logprob": 1.0}}]}),
        lambda body: NO_LOG_PROBS,
        lambda body: "[]",
    ],
)
def test_a_server_without_log_probabilities(serve, local, each):
    server = serve(each=each)
    with pytest.raises(BadInput, match=mentions("'tiny'", "SGLang")) as error:
        connect(server, local)
    assert "\n" not in str(error.value)
    assert len(server.bodies) <= 5, "nothing is tried again"


@pytest.mark.parametrize("tells", KINDS)
def test_another_tokenizer(serve, local, tells):
    """One with other tokens, and one that has the same words in another order."""
    other = learn_tokenizer([WORDS * 2 + " Zürich isn't"] * 3, 320, "causal")
    for tokenizer in (other, _shuffled(local.tokenizer)):
        with pytest.raises(BadInput, match=mentions("--tokenizer", "'tiny' at http")) as error:
            LikelihoodServer(serve(each=Standin(local, tells)).url, "tiny", tokenizer)
        assert "\n" not in str(error.value)


def _shuffled(tokenizer):
    """The same words under other numbers; what is text stays text. A server of texts shows only words, so these merge
    otherwise, too."""
    from transformers import PreTrainedTokenizerFast

    core = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = core["model"]["vocab"]
    plain = [word for word, number in vocabulary.items() if number >= 5]
    core["model"]["vocab"] |= dict(zip(plain, (vocabulary[word] for word in reversed(plain)), strict=True))
    core["model"]["merges"] = core["model"]["merges"][:5]
    from tokenizers import Tokenizer

    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(core)), bos_token="<s>", eos_token="</s>"
    )


@pytest.mark.parametrize("shift", [1, -1])
@pytest.mark.parametrize("tells", ["prompt_logprobs", "echo"])
def test_a_server_that_is_off_by_one(serve, local, tells, shift):
    """In a prompt it tells of the token behind, or of the one before."""
    standin = Standin(local, tells)
    right = standin.log_probs

    def wrong(body):
        asks = "prompt_logprobs" in body or body.get("echo")
        standin.log_probs = (lambda ids: right(ids).roll(shift, 0)) if asks else right
        return standin(body)

    server = serve(each=wrong)
    with pytest.raises(BadInput, match=mentions("'tiny'", "'The capital of Peru is'")):
        connect(server, local, concurrency=1)


@pytest.mark.parametrize("tells", ["prompt_logprobs", "echo"])
@pytest.mark.parametrize("value", [0.0, -3.0])
def test_a_server_that_gives_every_token_the_same(serve, local, tells, value):
    standin = Standin(local, tells)
    right = standin.log_probs
    standin.log_probs = lambda ids: torch.full_like(right(ids), value)
    with pytest.raises(BadInput, match=mentions("'tiny'", f"{value:.3f}")):
        connect(serve(each=standin), local, concurrency=1)


@pytest.mark.parametrize("tells", ["prompt_logprobs", "echo"])
def test_a_server_that_is_wrong_after_one_text_alone(serve, local, tells):
    """Every text that can be read back must agree, not only the first."""
    standin = Standin(local, tells)
    right = standin.log_probs
    short = len(spoken(local, "It is").ids)
    standin.log_probs = lambda ids: right(ids) - (2.0 if len(ids) == short else 0.0)
    with pytest.raises(BadInput, match=mentions("'tiny'", "'It is'")):
        connect(serve(each=standin), local, concurrency=1)


def test_nothing_listens(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(BadInput, match="connection refused"):
        geography("statement", "tiny", server=url, tokenizer=str(folder))


def test_no_such_model(standin, folder):
    with pytest.raises(BadInput, match=mentions("'tny'", "'large'", "'tiny'")):
        geography("statement", "tny", server=standin("echo").url, tokenizer=str(folder))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"tokenizer": None}, "--tokenizer"),
        ({"dtype": "bfloat16"}, "--dtype: "),
        ({"tokenizer": "no/such"}, "no/such"),
        ({"bos": "none"}, "--bos none: "),
        ({}, "--score full: "),
    ],
)
def test_options_that_do_not_go_together(standin, folder, tmp_path, options, line):
    given = {"tokenizer": str(folder), "server": standin("texts").url, "out": tmp_path / "run"} | options
    with pytest.raises(BadInput, match=re.escape(line)):
        geography("statement", "tiny", **given)
    assert not (tmp_path / "run").exists()


def test_probes_that_need_more(standin, local):
    server = connect(standin("echo"), local)
    for name in ("embedding", "generation", "cloze"):
        with pytest.raises(BadInput, match="use statement"):
            fathom.probe(name, model=server, data="geography", progress=False, limit=2)


def test_the_key_is_refused_in_the_middle(serve, local, folder, tmp_path):
    standin = Standin(local, "prompt_logprobs")
    refused = []

    def each(body):
        return 401 if refused else standin(body)

    server = serve(each=each)
    asked = connect(server, local, journal=Journal(tmp_path / "answers.jsonl"), concurrency=1)
    asked.log_probs([spoken(local, SAID[0])])
    refused.append(True)
    with pytest.raises(RunFailed, match=mentions("API", "1", "answers.jsonl")):
        asked.log_probs([spoken(local, text) for text in SAID])


# Real servers


@pytest.fixture
def real(folder, tmp_path, monkeypatch, request):
    """Base URL of a server of its own process, from a package."""
    for package in ("gguf", request.param):
        if find_spec(package) is None:
            pytest.skip(f"needs {package}: pip install {package.replace('_', '-')}")
    from tests.gguf_model import write_gguf

    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    file = tmp_path / "tiny.gguf"
    write_gguf(folder, file)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", f"tests.{request.param}_server", str(file), str(port)]
    if request.param == "llama_cpp":
        command = [sys.executable, "-m", "llama_cpp.server", "--model", str(file), "--model_alias", "tiny"]
        command += ["--host", "127.0.0.1", "--port", str(port), "--n_ctx", "256", "--n_threads", "1"]
        command += ["--logits_all", "true", "--type_k", "0", "--type_v", "0"]
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        wait_for(f"http://127.0.0.1:{port}/v1/models", process, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("real", ["xllamacpp", "llama_cpp"], indirect=True)
def test_against_a_real_server(real, folder, local, tmp_path):
    asked = LikelihoodServer(real, "tiny", local.tokenizer)
    kind = "texts" if asked.lacks_first else "grammar"
    assert asked.engine == KINDS[kind]
    for text, found in zip(SAID, asked.log_probs([spoken(local, text) for text in SAID]), strict=True):
        expected = token_log_probs(local, list(spoken(local, text).ids)).numpy()
        expected[1] = np.nan if kind == "texts" else expected[1]
        np.testing.assert_allclose(found.log_probs, expected, atol=1e-3)
    for name, options in {
        "statement": {"templates": (0,), "score": ("conditional",)},
        "vocabulary": {"relations": ("continent",), "shots": 1},
        "choice": {"options": 3, "score": ("letter",)},
    }.items():
        here = geography(name, folder, **options)
        same(here, geography(name, "tiny", server=real, tokenizer=str(folder), **options))
    with pytest.raises(BadInput, match=mentions("'tiny'")):
        LikelihoodServer(real, "tiny", learn_tokenizer([WORDS * 2 + " Zürich isn't"] * 3, 320, "causal"))
