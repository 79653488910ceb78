"""Models on servers that use OpenAI's protocol: calls with retries and a journal of answers, and chat models.

Each sampled reply is a call of its own, as llama.cpp, Ollama and `transformers serve` ignore ``n``. So all servers are
called alike, and eight replies to a question with five in the journal cost three calls; the prompt is sent each time.
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

from fathom.base.errors import BadInput, MissingExtra, RunFailed
from fathom.base.progress import Progress, unseen
from fathom.base.reading import NotData
from fathom.base.reading.replies import (
    Elsewhere,
    ReplyFault,
    excerpt_of,
    guard,
    host_of,
    json_reply,
    pause_asked,
    within,
)
from fathom.engine.models.base import AnyModel, Identity
from fathom.store.journal import Answer, Journal, request_key

if TYPE_CHECKING:
    import openai


T = TypeVar("T")
Call = dict[str, Any]
"""The content of one call, including what distinguishes it from others."""
LONGEST_BACKOFF_S = 60.0
LONGEST_WAIT_S = 600.0
"""A server that asks for a longer pause than this (a daily quota) ends the run; the journal resumes another day."""
STEADY = ("id", "owned_by", "root", "parent", "max_model_len", "meta")
"""Constant fields of a model in a server's list; vLLM and llama.cpp put the current time into ``created``."""


class Failure(Exception):
    """The reason why a call has no answer.

    :param may_pass: another attempt may succeed, after *wait_s* seconds.
    :param is_final: no call of the run can succeed.
    """

    def __init__(self, reason: str, *, may_pass: bool = False, is_final: bool = False, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.may_pass, self.is_final, self.wait_s = may_pass, is_final, wait_s


class Server(AnyModel):
    """A model on a server.

    :param base_url: such as ``http://localhost:8000/v1``.
    :param model: its name, as the server lists it.
    :param key_env: environment variable with the API key. None: OPENAI_API_KEY, but no key for hosts nearby (this
        machine, a private network), so that a key only goes where it belongs.
    :param concurrency: calls in progress at a time.
    :param requests_per_minute: calls begun, retries included.
    :param timeout_s: how long to wait for an answer.
    :param retries: how often a failed call is repeated.
    :param journal: stores each answer; calls answered there are not repeated.
    :param unlisted: the server need not list the model, nor list any (`transformers serve` of a local folder).
    :param backoff_s: pause before the first retry. It doubles with each, is shortened by up to half at random, and is
        at least what the server requests.
    :param wait: how to pause, for tests.
    :raises BadInput: no such server or model, a wrong or missing key.
    :raises MissingExtra: openai is not installed.
    """

    is_served = True

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
        self._wait = wait or self._stopped.wait  # the end of the run interrupts pauses
        self._pace = _Pace(requests_per_minute, self._wait)
        self._timeout_s = timeout_s
        self._client = _client(self.base_url, key_env, timeout_s)
        self.listed = None if unlisted else self._listed()
        """Constant facts about the model from the server's list; None if *unlisted*."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model!r} at {self.base_url}>"

    def _identity(self, **more: Any) -> Identity:
        """:param more: facts that distinguish the model, in addition to the server's."""
        fingerprint = {"base_url": self.base_url, "model": self.model, "listed": self.listed, **more}
        return Identity(self.model, None, "server", request_key(fingerprint))

    def _listed(self) -> dict[str, Any]:
        """:raises BadInput: the server does not list the model."""
        try:
            models = self._call(self._client.models.with_raw_response.list, _models)
        except Failure as failure:
            raise BadInput(f"{self.base_url}: {failure}") from failure
        if self.model not in models:
            some = ", ".join(f"'{name}'" for name in sorted(models)[:20]) or "none"
            raise BadInput(f"{self.base_url} has no model '{self.model}': it has {some}{', …' * (len(models) > 20)}")
        return {field: models[self.model].get(field) for field in STEADY}

    def keep_answers(self, folder: Path) -> None:
        self.journal = Journal(folder / "answers.jsonl")

    def circumstances(self) -> Mapping[str, Any]:
        """Count the answers of all sessions in the journal, which no session's own counts could."""
        if self.journal is None:
            return {}
        tokens = {name: self.journal.total(name) for name in ("prompt_tokens", "completion_tokens")}
        return {"journal": {"answers": len(self.journal), **tokens}}

    def _send(self, calls: Sequence[Call]) -> Any:
        """Send *calls* in one request. :returns: a raw response of the openai library."""
        raise NotImplementedError

    def _read(self, calls: Sequence[Call], body: Any) -> Sequence[Answer | Failure]:
        """Read the answer to each of *calls*. :raises Failure: the reply does not fit them."""
        raise NotImplementedError

    def _outcomes(
        self, calls: Mapping[str, Call], progress: Progress | None = None, together: int = 1
    ) -> dict[str, Answer | Failure]:
        """Return the answer to each call, or the reason why there is none, by its key."""
        outcomes: dict[str, Answer | Failure] = {}
        if self.journal is not None:
            outcomes = {key: answer for key in calls if (answer := self.journal.get(key)) is not None}
        report = progress or unseen
        report(len(outcomes), len(calls))
        missing = [key for key in calls if key not in outcomes]
        with self._workers() as pool:
            bundles = [missing[start : start + together] for start in range(0, len(missing), together)]
            pending = {pool.submit(self._bundle, keys, [calls[key] for key in keys]): keys for keys in bundles}
            for future in as_completed(pending):
                outcomes |= dict(zip(pending[future], future.result(), strict=True))
                report(len(outcomes), len(calls))
        self._stop_if_all_failed([outcomes[key] for key in missing])
        return outcomes

    def _stop_if_all_failed(self, outcomes: Sequence[Answer | Failure]) -> None:
        """Stop, so that no query is unscored because a server is down; a single call may fail by its content."""
        failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        if 1 < len(failures) == len(outcomes) and all(failure.may_pass for failure in failures):
            raise RunFailed(
                f"{self.base_url}: none of {len(failures)} calls has an answer, each tried {self._retries + 1} times, "
                f"the first: {failures[0]}; the same command resumes when the server answers"
            )

    @contextmanager
    def _workers(self) -> Iterator[ThreadPoolExecutor]:
        """Provide threads that, after an error, finish the calls in progress (they are paid for) and begin no more."""
        self._stopped.clear()
        pool = ThreadPoolExecutor(self._concurrency)
        try:
            yield pool
        finally:
            self._stopped.set()
            pool.shutdown(cancel_futures=True)

    def _bundle(self, keys: Sequence[str], calls: Sequence[Call]) -> Sequence[Answer | Failure]:
        """Send calls in one request; if it is refused as a whole, send each alone, as one may be at fault."""
        try:
            outcomes = self._call(lambda: self._send(calls), partial(self._read, calls))
        except Failure as failure:
            if failure.is_final:
                self._stopped.set()  # before this thread takes the next call
                hint = ""
                if self.journal is not None:
                    hint = f"; {len(self.journal)} answers are kept in {self.journal.path}"
                raise RunFailed(f"{self.base_url}: {failure}{hint}") from failure
            if len(calls) == 1 or failure.may_pass:
                return [failure] * len(calls)
            return [self._bundle([key], [call])[0] for key, call in zip(keys, calls, strict=True)]
        if self.journal is not None:
            self.journal.add_all(
                {key: answer for key, answer in zip(keys, outcomes, strict=True) if not isinstance(answer, Failure)}
            )
        return outcomes

    def _call(self, send: Callable[[], Any], read: Callable[[Any], T], retries: int | None = None) -> T:
        """Send until an answer can be read. :raises Failure: it cannot."""
        attempt, most = 0, self._retries if retries is None else retries
        while True:
            self._pace.take()
            if self._stopped.is_set():
                raise Failure("the run has ended")
            try:
                return read(_json(_sent(partial(within, self._timeout_s, send))))
            except Failure as error:
                failure = error
            if not failure.may_pass or attempt >= most:
                raise failure
            pause = min(self._backoff_s * 2**attempt, LONGEST_BACKOFF_S) * random.uniform(0.5, 1)
            self._wait(max(pause, failure.wait_s))
            attempt += 1


class _Pace:
    """A token bucket of one token: calls begin at least 60 / *per_minute* seconds apart, without an initial burst."""

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


def _sent(send: Callable[[], Any]) -> bytes:
    """Return the reply. :raises Failure: there is none that the openai library accepts."""
    import openai

    try:
        return bytes(send().content)
    except openai.APIError as error:
        raise _failure(error) from error
    except ReplyFault as error:
        raise Failure(str(error), may_pass=True) from error
    except Exception as error:  # any error of the library on a malformed reply
        raise Failure(f"the reply cannot be read: {excerpt_of(str(error)) or type(error).__name__}") from error


def _client(base_url: str, key_env: str | None, timeout_s: float) -> openai.OpenAI:
    """:raises BadInput: not a URL, or a remote host and no key."""
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
    weakref.finalize(client, http.close)  # as the library does with its own client
    return client


def _is_nearby(host: str) -> bool:
    """Recognise this machine and private networks, whose servers seldom have keys."""
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(".local")


def _json(body: bytes) -> Any:
    if body.lstrip().startswith(b"<"):
        raise Failure("a web page came instead of JSON: most servers want '/v1' at the end of the URL", is_final=True)
    try:
        return json_reply(body)
    except NotData as error:
        raise Failure(f"expected JSON, found {excerpt_of(body) or 'nothing'}", may_pass=True) from error


def _models(body: Any) -> dict[str, dict[str, Any]]:
    try:
        return {entry["id"]: entry for entry in body["data"] if isinstance(entry["id"], str)}
    except (KeyError, TypeError) as error:
        raise Failure(f"expected a list of models, found {excerpt_of(json.dumps(body))}") from error


def _failure(error: openai.APIError) -> Failure:
    import openai

    if isinstance(error, openai.APITimeoutError):
        return Failure("no answer in time", may_pass=True)
    if isinstance(error, openai.APIConnectionError):
        return _unconnected(error)
    if isinstance(error, openai.APIStatusError):
        return _refused(error)
    return Failure(excerpt_of(str(error)))


def _unconnected(error: BaseException) -> Failure:
    """Refused connections and unknown hosts are final; a broken connection may recover."""
    while (cause := error.__cause__ or error.__context__) is not None and not isinstance(error, ReplyFault):
        error = cause
    if isinstance(error, ReplyFault):
        return Failure(str(error), may_pass=not isinstance(error, Elsewhere), is_final=isinstance(error, Elsewhere))
    if isinstance(error, ConnectionRefusedError):
        return Failure("connection refused: is the server running?", is_final=True)
    lasting = type(error).__name__ in ("gaierror", "SSLCertVerificationError")
    return Failure(f"no connection: {excerpt_of(str(error))}", may_pass=not lasting, is_final=lasting)


def _refused(error: openai.APIStatusError) -> Failure:
    status, message = error.status_code, f"{excerpt_of(error.response.content)} ({error.status_code})"
    if status == 401:
        return Failure(f"the API key was refused: {message}", is_final=True)
    if status == 402 or error.code == "insufficient_quota":
        return Failure(f"the account has nothing left to pay with: {message}", is_final=True)
    if status == 404:
        return Failure(f"not found: {message}; most servers want '/v1' at the end of the URL", is_final=True)
    if status not in (408, 409, 429) and status < 500:
        return Failure(message)
    pause = error.response.headers.get("retry-after", "")
    wait_s = pause_asked(pause)
    if wait_s > LONGEST_WAIT_S:
        return Failure(f"the server asks to wait {pause.strip()[:20]} s: {message}", is_final=True)
    return Failure(message, may_pass=True, wait_s=wait_s)


def usage_of(body: Any) -> dict[str, int]:
    """Return the server's token counts of a call, 0 if it does not count."""
    usage = body.get("usage") if isinstance(body, dict) else None
    counts = usage if isinstance(usage, dict) else {}
    names = ("prompt_tokens", "completion_tokens")
    return {name: n if type(n := counts.get(name)) is int and 0 <= n < 1 << 40 else 0 for name in names}


LONGEST_ANSWER = 1 << 20  # characters: ten times what models write at most


@dataclass(frozen=True)
class ChatRequest:
    """One question to a chat model.

    :param system: the system message, omitted if empty (some models take none).
    :param examples: earlier turns of user and assistant.
    :param n: number of replies.
    :param temperature: None leaves it to the server (reasoning models take only their own).
    :param seed: the first reply's; the second has seed + 1, and so on. A server may ignore it.
    """

    user: str
    system: str = ""
    n: int = 1
    temperature: float | None = 0.0
    max_tokens: int = 256
    seed: int | None = None
    examples: tuple[tuple[str, str], ...] = ()


class ChatReply(NamedTuple):
    """The replies to one request, one entry per reply; all n of them if *fault* is None.

    :param texts: the answers; "" if there is none (its tokens may have gone into reasoning).
    :param finish_reasons: as the server states: "stop", "length" (cut off at max_tokens), "content_filter"…
    :param prompt_tokens: sum over the replies, 0 if the server does not count.
    :param completion_tokens: likewise.
    :param fault: why replies are missing.
    """

    texts: tuple[str, ...]
    finish_reasons: tuple[str, ...]
    prompt_tokens: int
    completion_tokens: int
    fault: str | None


class ChatServer(Server):
    """A model served at ``{base_url}/chat/completions``: see :class:`~fathom.engine.models.server.Server`."""

    def __init__(self, base_url: str, model: str, **options: Any) -> None:
        super().__init__(base_url, model, **options)
        self._limit_name = "max_tokens"
        self.identity = self._identity()

    def ask(self, requests: Sequence[ChatRequest], progress: Progress | None = None) -> list[ChatReply]:
        """Reply to each request, in order; one that fails for good has a fault. Equal requests are sent once.

        :param progress: called with (calls done, all calls); a call is one sampled reply.
        :raises RunFailed: no further call can succeed (key refused, server gone, quota used up), or none has.
        """
        keyed = [[(request_key(call), call) for call in self._calls(request)] for request in requests]
        outcomes = self._outcomes({key: call for samples in keyed for key, call in samples}, progress)
        return [_reply([outcomes[key] for key, _ in samples]) for samples in keyed]

    def _calls(self, request: ChatRequest) -> Iterator[Call]:
        """Yield the call of each reply: the request, and the number of the sample."""
        system = [{"role": "system", "content": request.system}] if request.system else []
        examples = [
            {"role": role, "content": content}
            for example in request.examples
            for role, content in zip(("user", "assistant"), example, strict=True)
        ]
        messages = [*system, *examples, {"role": "user", "content": request.user}]
        call: Call = {"model": self.model, "messages": messages, "max_tokens": request.max_tokens}
        if request.temperature is not None:
            call["temperature"] = request.temperature
        for sample in range(request.n):
            seed = {} if request.seed is None else {"seed": request.seed + sample}
            yield call | seed | {"sample": sample}

    def _send(self, calls: Sequence[Call]) -> Any:
        import openai

        [call] = calls
        limit = {self._limit_name: call["max_tokens"]}
        body = {name: value for name, value in call.items() if name not in ("max_tokens", "sample")} | limit
        try:
            return self._client.chat.completions.with_raw_response.create(**body)
        except openai.BadRequestError as error:
            if "max_completion_tokens" not in str(error) or "max_tokens" not in limit:
                raise
            self._limit_name = "max_completion_tokens"  # OpenAI's reasoning models know no other name
            return self._send(calls)

    def _read(self, calls: Sequence[Call], body: Any) -> list[Answer]:
        try:
            choice = body["choices"][0]
            answer: Answer = {
                "text": _text(choice["message"].get("content")),
                "finish_reason": str(choice.get("finish_reason") or ""),
                **usage_of(body),
            }
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise Failure(f"expected a chat completion, found {excerpt_of(json.dumps(body))}", may_pass=True) from error
        return [answer]


def _text(content: Any) -> str:
    """Return a message's text, or that of its parts. :raises TypeError: there is none, or it is too long."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type", "text") == "text")
    if not isinstance(content, str | None) or len(content or "") > LONGEST_ANSWER:
        raise TypeError("no answer")
    return content or ""


def _reply(outcomes: Sequence[Answer | Failure]) -> ChatReply:
    answers = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    faults = dict.fromkeys(str(outcome) for outcome in outcomes if isinstance(outcome, Failure))
    return ChatReply(
        tuple(answer["text"] for answer in answers),
        tuple(answer["finish_reason"] for answer in answers),
        sum(answer["prompt_tokens"] for answer in answers),
        sum(answer["completion_tokens"] for answer in answers),
        "; ".join(faults) or None,
    )
