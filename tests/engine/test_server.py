"""Chat servers and the journal of their answers, against a server on loopback whose behaviour each test scripts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="needs the extra api")

from fathom.base.errors import BadInput, MissingExtra, RunFailed
from fathom.engine.models.server import ChatReply, ChatRequest, ChatServer
from fathom.store.journal import Journal, request_key
from tests.forked import ForkedCall
from tests.messages import mentions

LISTED = {"object": "list", "data": [{"id": "tiny", "owned_by": "us", "created": 1}, {"id": "large"}]}


def completion(text, **more):
    """What a server sends: three prompt tokens, and one per word."""
    usage = {"prompt_tokens": 3, "completion_tokens": len(text.split())}
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop", **more}], "usage": usage}


def echo(body):
    return completion(body["messages"][-1]["content"].upper())


class Script:
    """A server on loopback. ``script`` holds what it does first: a status, (status, headers, line), a text, seconds to
    sleep, None to hang up, an object to send as JSON, or a function of the request; then it echoes in capitals."""

    def __init__(self, *script, models=LISTED, each=None):
        self.script, self.models, self.each = list(script), models, each
        self.bodies, self.keys, self.times = [], [], []
        self.busy = self.most_busy = 0
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.keys.append(self.headers["Authorization"])
                outer.send(self, outer.models if self.path == "/v1/models" else 404)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.bodies.append(body)
                    outer.times.append(time.monotonic())
                    outer.busy += 1
                    outer.most_busy = max(outer.most_busy, outer.busy)
                    act = outer.script.pop(0) if outer.script else (outer.each or echo)
                act = act(body) if callable(act) else act
                with outer.lock:
                    outer.busy -= 1
                outer.send(self, act, body)

            def log_message(self, *args):
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args):
                pass  # a client that has left

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def send(self, handler, act, body=None):
        if isinstance(act, float):
            time.sleep(act)
            act = echo(body)
        if act is None:
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers, line = 200, {}, "no"
        if isinstance(act, int):
            status = act
        elif isinstance(act, tuple):
            status, headers, line = act
        refused = json.dumps({"error": line if isinstance(line, dict) else {"message": line}})
        content = act if isinstance(act, str) else refused if status != 200 else json.dumps(act)
        handler.send_response(status)
        kind = "text/html" if content.startswith("<") else "application/json"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content.encode())

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def chat(server, **options):
    return ChatServer(server.url, "tiny", **{"backoff_s": 0.001} | options)


def ask_one(server, **options):
    return chat(server, **options).ask([ChatRequest("hello you")])[0]


RIGHT = ChatReply(("HELLO YOU",), ("stop",), 3, 2, None)


# What is asked and what comes back


def test_replies_come_in_the_order_of_the_requests(serve):
    server = serve(each=lambda body: float(0.02 * (3 - int(body["messages"][-1]["content"]))))
    told = []
    replies = chat(server, concurrency=3).ask(
        [ChatRequest(str(n)) for n in (0, 1, 2, 3)], lambda *args: told.append(args)
    )
    assert [reply.texts for reply in replies] == [("0",), ("1",), ("2",), ("3",)]
    assert told == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


def test_no_requests_no_replies(serve):
    assert chat(serve()).ask([]) == []


def test_what_is_sent(serve):
    server = serve()
    request = ChatRequest("you", "be brief", n=2, temperature=0.7, max_tokens=9, seed=5)
    replies = chat(server, concurrency=1).ask([request, ChatRequest("alone", temperature=None)])
    same = {
        "model": "tiny",
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "you"}],
        "temperature": 0.7,
        "max_tokens": 9,
    }
    plain = {"model": "tiny", "messages": [{"role": "user", "content": "alone"}], "max_tokens": 256}
    assert server.bodies == [same | {"seed": 5}, same | {"seed": 6}, plain]
    # Two replies of one word to a prompt that the server counts as three tokens.
    assert replies[0] == ChatReply(("YOU", "YOU"), ("stop", "stop"), 6, 2, None)


def test_a_reply_without_text_or_counts(serve):
    server = serve({"choices": [{"message": {"content": None}, "finish_reason": "length"}]})
    assert ask_one(server) == ChatReply(("",), ("length",), 0, 0, None)


def test_equal_requests_are_asked_once(serve):
    server = serve()
    assert chat(server).ask([ChatRequest("hello you")] * 3) == [RIGHT] * 3
    assert len(server.bodies) == 1


def test_the_other_name_of_the_token_limit(serve):
    # The line of OpenAI's reasoning models.
    line = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    server = serve(each=lambda body: echo(body) if "max_completion_tokens" in body else (400, {}, line))
    assert chat(server, concurrency=1).ask([ChatRequest("a"), ChatRequest("b")])[1].texts == ("B",)
    # The name is learnt once: the second request is sent right at once.
    names = [sorted(body.keys() & {"max_tokens", "max_completion_tokens"}) for body in server.bodies]
    assert names == [["max_tokens"], ["max_completion_tokens"], ["max_completion_tokens"]]


def test_identity(serve):
    first, again = serve(), serve()
    identity = chat(first).identity
    assert (identity.name, identity.revision) == ("tiny", None)
    assert chat(first).identity == identity
    assert chat(again).identity != identity, "another address may be another model"
    first.models = {"data": [LISTED["data"][0] | {"created": 2}]}
    assert chat(first).identity == identity, "vLLM's `created` is the time of asking"
    first.models = {"data": [LISTED["data"][0] | {"root": "other-weights"}]}
    assert chat(first).identity != identity


def test_the_example_of_the_document(serve, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "howto" / "servers.md").read_text(encoding="utf-8")
    example = page.split("```py\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(example.replace("http://localhost:8000/v1", serve().url).replace("my-model", "tiny"), {})
    asked = "WHAT IS THE CAPITAL OF PERU? ANSWER WITH ITS NAME."
    assert capsys.readouterr().out == f"{(asked,) * 3} None\n9 tokens in, 30 out\n"


# What goes wrong and may pass


@pytest.mark.parametrize(
    "script",
    [
        [500, 502, 503],
        [429],
        ["{torn"],
        [""],
        [{"error": {"message": "upstream"}}],
        [{"choices": []}],
        [None],
    ],
    ids=["5xx", "429", "garbage", "empty", "error with 200", "no choices", "hung up"],
)
def test_tried_again(serve, script):
    server = serve(*script)
    pauses = []
    assert ask_one(server, wait=pauses.append, backoff_s=1.0) == RIGHT
    assert len(server.bodies) == len(script) + 1
    # The pause doubles and is shortened by at most half.
    assert all(2**n / 2 <= pause <= 2**n for n, pause in enumerate(pauses))
    assert len(pauses) == len(script)


def test_a_server_too_busy_says_how_long_to_wait(serve):
    pauses = []
    assert ask_one(serve((429, {"Retry-After": "7"}, "slow down")), wait=pauses.append) == RIGHT
    assert pauses == [7]


def test_no_pause_is_longer_than_a_minute_unless_asked_for(serve):
    pauses = []
    assert ask_one(serve(*[500] * 9), retries=9, wait=pauses.append, backoff_s=1.0) == RIGHT
    assert max(pauses) <= 60


def test_a_late_answer_is_asked_again(serve):
    server = serve(20.0)
    begun = time.monotonic()
    assert ask_one(server, timeout_s=0.5) == RIGHT
    assert len(server.bodies) == 2
    assert time.monotonic() - begun < 20


def test_what_fails_for_good_is_a_fault_and_the_rest_goes_on(serve, tmp_path):
    server = serve(each=lambda body: 500 if body["messages"][-1]["content"] == "bad" else echo(body))
    journal = Journal(tmp_path / "journal.jsonl")
    replies = chat(server, retries=2, journal=journal).ask([ChatRequest("bad"), ChatRequest("hello you")])
    assert replies == [ChatReply((), (), 0, 0, '{"error": {"message": "no"}} (500)'), RIGHT]
    assert Counter(body["messages"][-1]["content"] for body in server.bodies) == {"bad": 3, "hello you": 1}
    assert len(journal) == 1, "a fault is no answer: it is asked again another time"


def test_some_replies_of_a_request(serve):
    reply = chat(serve(400), concurrency=1).ask([ChatRequest("hello you", n=2, seed=1)])[0]
    assert (reply.texts, reply.fault) == (("HELLO YOU",), '{"error": {"message": "no"}} (400)')


def test_a_request_that_the_server_refuses_is_not_sent_again(serve):
    server = serve(each=lambda body: 400)
    assert ask_one(server).fault == '{"error": {"message": "no"}} (400)'
    assert len(server.bodies) == 1


# What the user must put right


def test_a_model_that_the_server_has_not(serve):
    server = serve()
    with pytest.raises(BadInput, match=mentions("'tny'", "'large'", "'tiny'")):
        ChatServer(server.url, "tny")
    assert ChatServer(server.url, "tny", unlisted=True).ask([ChatRequest("hello you")]) == [RIGHT]


@pytest.mark.parametrize(
    ("models", "line"),
    [
        ("<html>hello</html>", "a web page"),
        ("garbage", "found garbage"),
        ({"models": []}, "list of models"),
        ([], "list of models"),
        (401, "API key"),
        (404, ("not found", "'/v1'")),
    ],
)
def test_a_server_that_is_none(serve, models, line):
    with pytest.raises(BadInput, match=mentions(line)) as error:
        chat(serve(models=models), retries=1)
    assert "\n" not in str(error.value)


def test_nothing_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun = time.monotonic()
    with pytest.raises(BadInput, match=mentions(f"127.0.0.1:{port}/v1", "refused")):
        ChatServer(f"http://127.0.0.1:{port}/v1", "tiny", backoff_s=60)
    assert time.monotonic() - begun < 10, "a refused connection is not tried again"


def test_no_such_host(monkeypatch):
    def unknown(*args, **kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    pauses = []
    with pytest.raises(BadInput, match=mentions("http://nowhere/v1", "Name or service")):
        ChatServer("http://nowhere/v1", "tiny", wait=pauses.append)
    assert pauses == []


@pytest.mark.parametrize("url", ["localhost:8000", "http://", "ftp://host/v1", "http://[", "http://localhost:port/v1"])
def test_not_a_url(url):
    with pytest.raises(BadInput, match="address of a server"):
        ChatServer(url, "tiny")


def test_keys(serve, monkeypatch):
    server = serve()
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OUR_KEY", "ours")
    chat(server)
    chat(server, key_env="OUR_KEY")
    assert server.keys == ["Bearer none", "Bearer ours"], "OpenAI's key is not for a server nearby"
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(BadInput, match=mentions("OPENAI_API_KEY")):
        ChatServer("https://api.example.org/v1", "tiny")
    with pytest.raises(BadInput, match=mentions("MISSING_KEY")):
        ChatServer("https://api.example.org/v1", "tiny", key_env="MISSING_KEY")


def test_the_extra_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=r"pip install '.\[api\]'"):
        ChatServer("http://localhost:1/v1", "tiny")


# A run that cannot go on


@pytest.mark.parametrize(
    ("act", "line"),
    [
        (401, "API key"),
        (402, "nothing left"),
        (
            (429, {}, {"message": "You exceeded your current quota", "code": "insufficient_quota"}),
            "nothing left to pay",
        ),
        (404, "not found"),
        ("<html>", "a web page"),
        ((429, {"Retry-After": "3600"}, "enough for today"), "asks to wait 3600 s"),
    ],
)
def test_the_run_ends(serve, tmp_path, act, line):
    server = serve(echo, act)
    journal = Journal(tmp_path / "journal.jsonl")
    asking = chat(server, concurrency=1, journal=journal)
    requests = [ChatRequest(f"question {n}") for n in range(20)]
    with pytest.raises(RunFailed, match=mentions(line, "1 answers", "journal.jsonl")):
        asking.ask(requests)
    assert len(server.bodies) == 2, "no call after the one that ended the run"
    assert [reply.fault for reply in asking.ask(requests)] == [None] * 20, "and it goes on when the fault is mended"


def test_the_end_of_a_run_wakes_those_who_pause(serve):
    def later_refused(body):
        time.sleep(0.1)
        return 401

    server = serve(each=lambda body: 500 if body["messages"][-1]["content"] == "pause" else later_refused(body))
    begun = time.monotonic()
    with pytest.raises(RunFailed, match=mentions("API")):
        chat(server, backoff_s=60).ask([ChatRequest("pause"), ChatRequest("end")])
    assert time.monotonic() - begun < 20
    assert len(server.bodies) == 2, "who paused does not ask again"


# How much at a time


def test_concurrency_is_bounded(serve):
    three = threading.Barrier(3, timeout=20)

    def together(body):
        three.wait()
        time.sleep(0.02)  # a fourth call would come now
        return echo(body)

    server = serve(each=together)
    chat(server, concurrency=3).ask([ChatRequest(str(n)) for n in range(12)])
    assert server.most_busy == 3


def test_calls_per_minute(serve):
    pauses = []
    asking = chat(serve(), requests_per_minute=1, wait=pauses.append)
    asking.ask([ChatRequest(str(n)) for n in range(3)])
    # One call a minute, after the one for the list of models; little time goes by, as nobody really pauses.
    assert [round(pause, -1) for pause in sorted(pauses)] == [60, 120, 180]


# The journal


def test_what_is_answered_is_not_asked_again(serve, tmp_path):
    server = serve()
    path = tmp_path / "calls" / "journal.jsonl"
    request = ChatRequest("hello you", n=2, temperature=1.0)
    first = chat(server, journal=Journal(path)).ask([request])
    assert chat(server, journal=Journal(path)).ask([request]) == first
    assert len(server.bodies) == 2
    # A third reply to the same question costs one call.
    chat(server, journal=Journal(path)).ask([ChatRequest("hello you", n=3, temperature=1.0)])
    assert len(server.bodies) == 3
    # Three calls of three prompt tokens and two words.
    assert (Journal(path).total("prompt_tokens"), Journal(path).total("completion_tokens")) == (9, 6)


@pytest.mark.parametrize(
    "other",
    [
        ChatRequest("hello me"),
        ChatRequest("hello you", "system"),
        ChatRequest("hello you", temperature=0.5),
        ChatRequest("hello you", temperature=None),
        ChatRequest("hello you", max_tokens=9),
        ChatRequest("hello you", seed=0),
    ],
)
def test_another_question_is_another_call(serve, tmp_path, other):
    server = serve()
    asking = chat(server, journal=Journal(tmp_path / "journal.jsonl"))
    asking.ask([ChatRequest("hello you")])
    asking.ask([other])
    assert len(server.bodies) == 2


def _asked(url, path):
    asked = ChatServer(url, "tiny", journal=Journal(path), concurrency=2)
    asked.ask([ChatRequest(f"question {n}") for n in range(60)])


def test_killed_and_resumed(serve, tmp_path):
    def slow(body):
        time.sleep(0.02)
        return echo(body)

    server, path = serve(each=slow), tmp_path / "journal.jsonl"
    process = ForkedCall(_asked, server.url, str(path), said=tmp_path / "said")
    while not path.exists() or path.read_bytes().count(b"\n") < 10:
        assert process.goes_on()
        time.sleep(0.005)
    process.send(signal.SIGKILL)
    assert process.ended()[0] == -signal.SIGKILL
    answered = {json.loads(line)["answer"]["text"].lower() for line in path.read_text().splitlines(keepends=True)}
    assert 10 <= len(answered) < 60
    with path.open("ab") as file:
        file.write(b'{"key": "torn')
    before = len(server.bodies)
    journal = Journal(path)
    replies = chat(server, journal=journal).ask([ChatRequest(f"question {n}") for n in range(60)])
    assert [reply.texts[0] for reply in replies] == [f"QUESTION {n}" for n in range(60)]
    asked = {body["messages"][-1]["content"] for body in server.bodies[before:]}
    assert asked == {f"question {n}" for n in range(60)} - answered
    assert len(Journal(path)) == 60
    assert journal.total("completion_tokens") == 120


KEPT = {"text": "x", "finish_reason": "stop", "prompt_tokens": 3, "completion_tokens": 1}


def test_a_torn_last_line_is_cut(tmp_path):
    path = tmp_path / "journal.jsonl"
    first, second = KEPT | {"text": "été"}, KEPT | {"text": "d"}
    Journal(path).add("a", first)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.replace(b'"a"', b'"b"')[:-1])
    journal = Journal(path)
    assert (len(journal), path.read_bytes()) == (1, whole)
    journal.add("c", second)
    assert Journal(path).get("c") == second
    assert Journal(path).get("a") == first


OTHERWISE = {
    "prompt_tokens": [True, -1, "3", 1.5],
    "finish_reason": [None, 3],
    "text": [None, ["x"]],
}


@pytest.mark.parametrize("line", [
    "not json", "{}", '{"key": "a", "answer": 3}', "[]", json.dumps({"key": 3, "answer": KEPT}),
    *(json.dumps({"key": "a", "answer": KEPT | {key: value}}) for key, values in OTHERWISE.items() for value in values),
])  # fmt: skip
def test_a_line_that_is_none_of_ours(tmp_path, line):
    path = tmp_path / "journal.jsonl"
    good = KEPT | {"logprobs": None}  # of an earlier version
    path.write_text(json.dumps({"key": "a", "answer": good}) + "\n" + line + "\n")
    with pytest.raises(BadInput, match=r"journal.jsonl:2: expected .* found "):
        Journal(path)
    assert path.read_text().count("\n") == 2, "nothing is thrown away"


def test_a_journal_that_cannot_be_written(serve, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadInput, match="a folder"):
        Journal(tmp_path / "folder")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFailed, match="cannot write"):
        ask_one(serve(), journal=Journal(tmp_path / "file" / "journal.jsonl"))


def test_after_a_write_that_failed_the_next_one_is_whole(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.add("a", {"text": "A"})

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RunFailed, match="No space left"):
            journal.add("b", {"text": "B"})
    assert journal.get("b") is None
    journal.add("c", {"text": "C"})
    assert [json.loads(line)["key"] for line in journal.path.read_text().splitlines()] == ["a", "c"]


def test_keys_of_requests():
    assert request_key({"a": 1, "b": "ü"}) == request_key({"b": "ü", "a": 1})
    assert request_key({"a": 1}) != request_key({"a": "1"})
    assert len(request_key({})) == 32


# A real server


def cached_chat_model(cache):
    """A random GPT-2 of a few words in the layout of the hub's cache, from which `transformers serve` serves it.

    :returns: its folder.
    """
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from tests.scripted import word_tokenizer

    words = ["<s>", "<unk>", "Paris", "Rome", "is", "in", "France", "Italy", "where", "user", "assistant"]
    tokenizer = word_tokenizer({word: number for number, word in enumerate(words)}, None)
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}assistant"
    tokenizer.eos_token = "<s>"
    folder = cache / "models--fathom--tiny"
    snapshot = folder / "snapshots" / ("0" * 40)
    config = GPT2Config(vocab_size=len(words), n_positions=64, n_embd=16, n_layer=1, n_head=2, eos_token_id=None)
    torch.manual_seed(0)
    GPT2LMHeadModel(config).save_pretrained(snapshot)
    tokenizer.save_pretrained(snapshot)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)
    return snapshot


@pytest.fixture
def transformers_serve(tmp_path, monkeypatch):
    """Base URL of a `transformers serve` that has the model fathom/tiny, and the model's folder."""
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    assert not missing, f"transformers serve needs {' and '.join(missing)}: pip install '.[test]'"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    folder = cached_chat_model(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", "--host", "127.0.0.1"]
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen([*command, "--port", str(port)], env=environment, stdout=out, stderr=out)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}/v1", folder
    finally:
        process.kill()
        process.wait()


def wait_for(url, process, log, timeout_s=300):
    until = time.monotonic() + timeout_s
    while True:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)


@pytest.mark.slow
def test_against_transformers_serve(transformers_serve, tmp_path):
    from fathom.engine.models.loading import load

    url, folder = transformers_serve
    with pytest.raises(BadInput, match=mentions("'fathom/large'", "'fathom/tiny'")):
        ChatServer(url, "fathom/large")
    journal = Journal(tmp_path / "journal.jsonl")
    server = ChatServer(url, "fathom/tiny", journal=journal, concurrency=2)
    requests = [
        ChatRequest("where is Paris", max_tokens=4),
        ChatRequest("where is Rome", n=2, temperature=1.0, seed=1, max_tokens=4),
    ]
    greedy, sampled = server.ask(requests)
    # What the model writes here, asked without a server: the template's five tokens, then four, as none ends a reply.
    here = load(str(folder)).generate(["user where is Paris assistant"], 4)[0]
    assert greedy == ChatReply((here.text,), ("length",), 5, 4, None)
    assert len(here.text.split()) > 1, "a reply that says something"
    assert (sampled.fault, sampled.prompt_tokens, sampled.completion_tokens) == (None, 10, 8)
    assert len(sampled.texts) == 2
    assert journal.total("prompt_tokens") == 15
    again = ChatServer(url, "fathom/tiny", journal=Journal(journal.path))
    assert again.ask(requests) == [greedy, sampled]
    assert len(Journal(journal.path)) == 3
