"""Chat models behind a server that speaks OpenAI's protocol: vLLM, llama.cpp, Ollama, `transformers serve`, OpenAI…

Every sampled reply is a call of its own, as llama.cpp, Ollama and `transformers serve` ignore ``n``: so all servers
are asked alike, and eight replies to a question that has five in the journal cost three calls. The price is that a
prompt is sent once per reply.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fathom.errors import BadInput, MissingExtra, RunFailed
from fathom.models.base import Identity
from fathom.progress import Progress, unseen
from fathom.reading import NotData
from fathom.reading.replies import Elsewhere, ReplyFault, guard, host_of, json_reply, pause_asked, within, words_of
from fathom.store.journal import Answer, Journal, request_key

if TYPE_CHECKING:
    import openai

T = TypeVar("T")
LONGEST_BACKOFF_S = 60.0
LONGEST_ANSWER = 1 << 20  # characters: ten times what models write at most
LONGEST_WAIT_S = 600.0
"""A server that asks for a longer pause than this (a daily quota) ends the run; the journal goes on another day."""
STEADY = ("id", "owned_by", "root", "parent", "max_model_len", "meta")
"""What servers say of a model that stays the same; vLLM and llama.cpp put the time of asking into ``created``."""


@dataclass(frozen=True)
class ChatRequest:
    """One question to a chat model.

    :param system: the system message, left out where empty (some models take none).
    :param n: how many replies.
    :param temperature: None leaves it to the server (reasoning models take no other than their own).
    :param seed: the first reply's; the second has seed + 1, and so on. A server may not honour it.
    :param top_logprobs: ask for the log-probability of each token written, and of so many likeliest ones there.
    """

    user: str
    system: str = ""
    n: int = 1
    temperature: float | None = 0.0
    max_tokens: int = 256
    seed: int | None = None
    top_logprobs: int | None = None


class ChatReply(NamedTuple):
    """What came back for one request, one entry per reply; all n of them where *fault* is None.

    :param texts: what the model said; "" where it said nothing (its tokens may have gone into reasoning).
    :param finish_reasons: as the server says: "stop", "length" (cut off at max_tokens), "content_filter"…
    :param logprobs: for each token written, ``[token, log-probability in nats, [[likely token, its own], …]]``; None
        where not asked for, or not given by the server.
    :param prompt_tokens: sum over the replies, 0 where the server does not count.
    :param completion_tokens: likewise.
    :param fault: why replies are missing.
    """

    texts: tuple[str, ...]
    finish_reasons: tuple[str, ...]
    logprobs: tuple[list[Any] | None, ...]
    prompt_tokens: int
    completion_tokens: int
    fault: str | None


class ChatServer:
    """A model behind ``{base_url}/chat/completions``.

    :param base_url: such as ``http://localhost:8000/v1``.
    :param model: its name, as the server lists it.
    :param key_env: the environment variable that holds the API key. None: OPENAI_API_KEY, but nothing for hosts nearby
        (this machine, a private network), so that a key goes only where it is meant to.
    :param concurrency: calls under way at a time.
    :param requests_per_minute: calls begun, retries included.
    :param timeout_s: how long to wait for an answer.
    :param retries: how often a call that failed is made again.
    :param journal: keeps every answer; what it has is not asked again.
    :param unlisted: the server need not list the model, nor list any (`transformers serve` of a local folder).
    :param backoff_s: pause before the first retry; it doubles with each, is shortened by up to half at random, and is
        at least what the server asks for.
    :param wait: how to pause, for tests.
    :raises BadInput: no such server or model, a wrong or missing key.
    :raises MissingExtra: openai is not installed.
    """

    tokenizer = device = None

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        key_env: str | None = None,
        concurrency: int = 8,
        requests_per_minute: float | None = None,
        timeout_s: float = 60.0,
        retries: int = 6,
        journal: Journal | None = None,
        unlisted: bool = False,
        backoff_s: float = 1.0,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self.base_url, self.model, self.journal = base_url.rstrip("/"), model, journal
        self._concurrency, self._retries, self._backoff_s = concurrency, retries, backoff_s
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait  # a run that ends wakes those who pause
        self._pace = _Pace(requests_per_minute, self._wait)
        self._limit_name = "max_tokens"
        self._timeout_s = timeout_s
        self._client = _client(self.base_url, key_env, timeout_s)
        fingerprint = {"base_url": self.base_url, "model": model, "listed": None if unlisted else self._listed()}
        self.identity = Identity(model, None, "server", request_key(fingerprint))

    def __repr__(self) -> str:
        return f"<ChatServer {self.model!r} at {self.base_url}>"

    def _listed(self) -> dict[str, Any]:
        """What the server says of the model.

        :raises BadInput: nothing.
        """
        try:
            models = self._call(self._client.models.with_raw_response.list, _models)
        except _Failure as failure:
            raise BadInput(f"{self.base_url}: {failure}") from failure
        if self.model not in models:
            some = ", ".join(f"'{name}'" for name in sorted(models)[:20]) or "none"
            raise BadInput(f"{self.base_url} has no model '{self.model}': it has {some}{', …' * (len(models) > 20)}")
        return {field: models[self.model].get(field) for field in STEADY}

    def ask(self, requests: Sequence[ChatRequest], progress: Progress | None = None) -> list[ChatReply]:
        """A reply to each request, in their order; one that fails for good has a fault. Equal ones are asked once.

        :param progress: told (calls done, all calls); a call is one sampled reply.
        :raises RunFailed: no further call can work (the key is refused, the server is gone, the quota is used up), or
            none of these has worked.
        """
        keyed = [[(request_key(call), call) for call in self._calls(request)] for request in requests]
        calls = {key: call for samples in keyed for key, call in samples}
        outcomes: dict[str, Answer | _Failure] = {}
        if self.journal is not None:
            outcomes = {key: answer for key in calls if (answer := self.journal.get(key)) is not None}
        report = progress or unseen
        report(len(outcomes), len(calls))
        with self._workers() as pool:
            pending = {pool.submit(self._outcome, key, calls[key]): key for key in calls if key not in outcomes}
            for future in as_completed(pending):
                outcomes[pending[future]] = future.result()
                report(len(outcomes), len(calls))
        self._stop_if_all_failed([outcomes[key] for key in pending.values()])
        return [_reply([outcomes[key] for key, _ in samples]) for samples in keyed]

    def _stop_if_all_failed(self, outcomes: Sequence[Answer | _Failure]) -> None:
        """A server that answers nothing is down, slow or full: its questions are for another time, not unscored. (One
        alone may fail for what is asked.)

        :raises RunFailed: none of the calls has an answer, for reasons that may pass.
        """
        failures = [outcome for outcome in outcomes if isinstance(outcome, _Failure)]
        if 1 < len(failures) == len(outcomes) and all(failure.may_pass for failure in failures):
            raise RunFailed(
                f"{self.base_url}: none of {len(failures)} calls has an answer, each tried {self._retries + 1} times, "
                f"the first: {failures[0]}; the same command goes on when the server answers"
            )

    def keep_answers(self, folder: Path) -> None:
        """Keep every answer in *folder*, and ask nothing that is answered there."""
        self.journal = Journal(folder / "answers.jsonl")

    def kept(self) -> dict[str, Any]:
        """What to note of the answers kept, of all sessions: no session's own counts add up to it."""
        if self.journal is None:
            return {}
        tokens = {name: self.journal.total(name) for name in ("prompt_tokens", "completion_tokens")}
        return {"journal": {"answers": len(self.journal), **tokens}}

    def _calls(self, request: ChatRequest) -> Iterator[dict[str, Any]]:
        """Each reply's call: what is sent, and the number of the sample."""
        system = [{"role": "system", "content": request.system}] if request.system else []
        messages = [*system, {"role": "user", "content": request.user}]
        call: dict[str, Any] = {"model": self.model, "messages": messages, "max_tokens": request.max_tokens}
        if request.temperature is not None:
            call["temperature"] = request.temperature
        if request.top_logprobs is not None:
            call |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        for sample in range(request.n):
            seed = {} if request.seed is None else {"seed": request.seed + sample}
            yield call | seed | {"sample": sample}

    @contextmanager
    def _workers(self) -> Iterator[ThreadPoolExecutor]:
        """Threads that, when something goes wrong, end the calls under way (they are paid for) and begin no more."""
        self._stopped.clear()
        pool = ThreadPoolExecutor(self._concurrency)
        try:
            yield pool
        finally:
            self._stopped.set()
            pool.shutdown(cancel_futures=True)

    def _outcome(self, key: str, call: dict[str, Any]) -> Answer | _Failure:
        try:
            answer = self._call(lambda: self._send(call), _answer)
        except _Failure as failure:
            if not failure.is_final:
                return failure
            self._stopped.set()  # before this thread takes the next call
            kept = f"; {len(self.journal)} answers are kept in {self.journal.path}" if self.journal is not None else ""
            raise RunFailed(f"{self.base_url}: {failure}{kept}") from failure
        if self.journal is not None:
            self.journal.add(key, answer)
        return answer

    def _send(self, call: Mapping[str, Any]) -> Any:
        import openai

        limit = {self._limit_name: call["max_tokens"]}
        body = {name: value for name, value in call.items() if name not in ("max_tokens", "sample")} | limit
        try:
            return self._client.chat.completions.with_raw_response.create(**body)
        except openai.BadRequestError as error:
            if "max_completion_tokens" not in str(error) or "max_tokens" not in limit:
                raise
            self._limit_name = "max_completion_tokens"  # OpenAI's reasoning models know no other name
            return self._send(call)

    def _call(self, send: Callable[[], Any], read: Callable[[Any], T]) -> T:
        """Send until an answer can be read.

        :raises _Failure: it cannot.
        """
        attempt = 0
        while True:
            self._pace.take()
            if self._stopped.is_set():
                raise _Failure("the run has ended")
            try:
                return read(_json(_sent(partial(within, self._timeout_s, send))))
            except _Failure as error:
                failure = error
            if not failure.may_pass or attempt >= self._retries:
                raise failure
            pause = min(self._backoff_s * 2**attempt, LONGEST_BACKOFF_S) * random.uniform(0.5, 1)
            self._wait(max(pause, failure.wait_s))
            attempt += 1


def _sent(send: Callable[[], Any]) -> bytes:
    """The reply. :raises _Failure: there is none that the library of the protocol can take."""
    import openai

    try:
        return bytes(send().content)
    except openai.APIError as error:
        raise _failure(error) from error
    except ReplyFault as error:
        raise _Failure(str(error), may_pass=True) from error
    except Exception as error:  # whatever a strange reply makes the library raise
        raise _Failure(f"the reply cannot be read: {words_of(str(error)) or type(error).__name__}") from error


class _Failure(Exception):
    """Why a call has no answer.

    :param may_pass: another attempt may work, after *wait_s* seconds.
    :param is_final: no call of the run can work.
    """

    def __init__(self, reason: str, *, may_pass: bool = False, is_final: bool = False, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.may_pass, self.is_final, self.wait_s = may_pass, is_final, wait_s


class _Pace:
    """A token bucket that holds one token: calls begin at least 60 / *per_minute* seconds apart, no burst at first."""

    def __init__(self, per_minute: float | None, wait: Callable[[float], object]) -> None:
        self._apart_s = 60 / per_minute if per_minute else 0.0
        self._wait, self._next, self._lock = wait, 0.0, threading.Lock()

    def take(self) -> None:
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._next)
            self._next = begin + self._apart_s
        if begin > now:
            self._wait(begin - now)


def _client(base_url: str, key_env: str | None, timeout_s: float) -> openai.OpenAI:
    """:raises BadInput: not a URL, or a host far away and no key.
    :raises MissingExtra: openai is not installed.
    """
    try:
        import openai
    except ImportError as error:
        raise MissingExtra("openai", "api") from error
    host = host_of(base_url, "--server", "http://localhost:8000/v1")
    nearby = _is_nearby(host)
    variable = key_env or ("" if nearby else "OPENAI_API_KEY")
    key = os.environ.get(variable, "").strip()
    if not key and not nearby:
        raise BadInput(f"{host} needs an API key and {variable} is not set: type export {variable}=… first")
    http = openai.DefaultHttpxClient(timeout=timeout_s, event_hooks={"response": [guard(key)]})
    client = openai.OpenAI(base_url=base_url, api_key=key or "none", timeout=timeout_s, max_retries=0, http_client=http)
    weakref.finalize(client, http.close)  # as the library does with a client of its own
    return client


def _is_nearby(host: str) -> bool:
    """This machine or a private network: such servers seldom have keys."""
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(".local")


def _json(body: bytes) -> Any:
    if body.lstrip().startswith(b"<"):
        raise _Failure("a web page came instead of JSON: most servers want '/v1' at the end of the URL", is_final=True)
    try:
        return json_reply(body)
    except NotData as error:
        raise _Failure(f"expected JSON, found {words_of(body) or 'nothing'}", may_pass=True) from error


def _models(body: Any) -> dict[str, dict[str, Any]]:
    """What ``/models`` says of each model, by name."""
    try:
        return {entry["id"]: entry for entry in body["data"] if isinstance(entry["id"], str)}
    except (KeyError, TypeError) as error:
        raise _Failure(f"expected a list of models, found {words_of(json.dumps(body))}") from error


def _answer(body: Any) -> Answer:
    """What is kept of a chat completion."""
    try:
        choice, usage = body["choices"][0], body.get("usage") or {}
        return {
            "text": _text(choice["message"].get("content")),
            "finish_reason": str(choice.get("finish_reason") or ""),
            "logprobs": _log_probs((choice.get("logprobs") or {}).get("content")),
            "prompt_tokens": _count(usage.get("prompt_tokens")),
            "completion_tokens": _count(usage.get("completion_tokens")),
        }
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise _Failure(f"expected a chat completion, found {words_of(json.dumps(body))}", may_pass=True) from error


def _text(content: Any) -> str:
    """Of a message: a text, or a list of parts whose texts belong together. :raises TypeError: else, or if endless."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type", "text") == "text")
    if not isinstance(content, str | None) or len(content or "") > LONGEST_ANSWER:
        raise TypeError("no answer")
    return content or ""


def _count(tokens: Any) -> int:
    """0 where the server does not count, or says what is no number of tokens."""
    return tokens if type(tokens) is int and 0 <= tokens < 1 << 40 else 0


def _log_probs(written: list[dict[str, Any]] | None) -> list[Any] | None:
    """As in :class:`ChatReply`.

    :param written: what the server says of each token.
    """
    if written is None:
        return None
    likely = [[[top["token"], top["logprob"]] for top in at.get("top_logprobs") or []] for at in written]
    found = [[at["token"], at["logprob"], tops] for at, tops in zip(written, likely, strict=True)]
    pairs = [*(at[:2] for at in found), *(pair for tops in likely for pair in tops)]
    if not all(isinstance(token, str) and isinstance(value, int | float) for token, value in pairs):
        raise TypeError("no log-probabilities")
    return found


def _reply(outcomes: Sequence[Answer | _Failure]) -> ChatReply:
    answers = [outcome for outcome in outcomes if not isinstance(outcome, _Failure)]
    faults = dict.fromkeys(str(outcome) for outcome in outcomes if isinstance(outcome, _Failure))
    return ChatReply(
        tuple(answer["text"] for answer in answers),
        tuple(answer["finish_reason"] for answer in answers),
        tuple(answer["logprobs"] for answer in answers),
        sum(answer["prompt_tokens"] for answer in answers),
        sum(answer["completion_tokens"] for answer in answers),
        "; ".join(faults) or None,
    )


def _failure(error: openai.APIError) -> _Failure:
    """What an error of the wire means."""
    import openai

    if isinstance(error, openai.APITimeoutError):
        return _Failure("no answer in time", may_pass=True)
    if isinstance(error, openai.APIConnectionError):
        return _unconnected(error)
    if isinstance(error, openai.APIStatusError):
        return _refused(error)
    return _Failure(words_of(str(error)))


def _unconnected(error: BaseException) -> _Failure:
    """A refused connection or an unknown host is said at once; a connection that broke may come back."""
    while (cause := error.__cause__ or error.__context__) is not None and not isinstance(error, ReplyFault):
        error = cause
    if isinstance(error, ReplyFault):
        return _Failure(str(error), may_pass=not isinstance(error, Elsewhere), is_final=isinstance(error, Elsewhere))
    if isinstance(error, ConnectionRefusedError):
        return _Failure("connection refused: is the server running?", is_final=True)
    lasting = type(error).__name__ in ("gaierror", "SSLCertVerificationError")
    return _Failure(f"no connection: {words_of(str(error))}", may_pass=not lasting, is_final=lasting)


def _refused(error: openai.APIStatusError) -> _Failure:
    status, said = error.status_code, f"{words_of(error.response.content)} ({error.status_code})"
    if status == 401:
        return _Failure(f"the API key was refused: {said}", is_final=True)
    if status == 402 or error.code == "insufficient_quota":
        return _Failure(f"the account has nothing left to pay with: {said}", is_final=True)
    if status == 404:
        return _Failure(f"not found: {said}; most servers want '/v1' at the end of the URL", is_final=True)
    if status not in (408, 409, 429) and status < 500:
        return _Failure(said)
    asked = error.response.headers.get("retry-after", "")
    wait_s = pause_asked(asked)
    if wait_s > LONGEST_WAIT_S:
        return _Failure(f"the server asks to wait {asked.strip()[:20]} s: {said}", is_final=True)
    return _Failure(said, may_pass=True, wait_s=wait_s)
