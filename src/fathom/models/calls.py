"""Calls to a server that speaks OpenAI's protocol: how many at a time, how often again, and what was answered before.

What is asked and how a reply is read is for :mod:`fathom.models.server` (chats) and :mod:`fathom.models.likelihoods`
(log-probabilities) to say.
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
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fathom.errors import BadInput, MissingExtra, RunFailed
from fathom.progress import Progress, unseen
from fathom.reading import NotData
from fathom.reading.replies import Elsewhere, ReplyFault, guard, host_of, json_reply, pause_asked, within, words_of
from fathom.store.journal import Answer, Journal

if TYPE_CHECKING:
    import openai

T = TypeVar("T")
Call = dict[str, Any]
"""What one call is sent, and what tells it from others."""
LONGEST_BACKOFF_S = 60.0
LONGEST_WAIT_S = 600.0
"""A server that asks for a longer pause than this (a daily quota) ends the run; the journal goes on another day."""
STEADY = ("id", "owned_by", "root", "parent", "max_model_len", "meta")
"""What servers say of a model that stays the same; vLLM and llama.cpp put the time of asking into ``created``."""


class Failure(Exception):
    """Why a call has no answer.

    :param may_pass: another attempt may work, after *wait_s* seconds.
    :param is_final: no call of the run can work.
    """

    def __init__(self, reason: str, *, may_pass: bool = False, is_final: bool = False, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.may_pass, self.is_final, self.wait_s = may_pass, is_final, wait_s


class Server:
    """A model behind a server, and how to call it.

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
        self._timeout_s = timeout_s
        self._client = _client(self.base_url, key_env, timeout_s)
        self.listed = None if unlisted else self._listed()
        """What the server says of the model that stays the same; None where it was not asked."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model!r} at {self.base_url}>"

    def _listed(self) -> dict[str, Any]:
        """What the server says of the model.

        :raises BadInput: nothing.
        """
        try:
            models = self._call(self._client.models.with_raw_response.list, _models)
        except Failure as failure:
            raise BadInput(f"{self.base_url}: {failure}") from failure
        if self.model not in models:
            some = ", ".join(f"'{name}'" for name in sorted(models)[:20]) or "none"
            raise BadInput(f"{self.base_url} has no model '{self.model}': it has {some}{', …' * (len(models) > 20)}")
        return {field: models[self.model].get(field) for field in STEADY}

    def keep_answers(self, folder: Path) -> None:
        """Keep every answer in *folder*, and ask nothing that is answered there."""
        self.journal = Journal(folder / "answers.jsonl")

    def kept(self) -> dict[str, Any]:
        """What to note of the answers kept, of all sessions: no session's own counts add up to it."""
        if self.journal is None:
            return {}
        tokens = {name: self.journal.total(name) for name in ("prompt_tokens", "completion_tokens")}
        return {"journal": {"answers": len(self.journal), **tokens}}

    def _send(self, calls: Sequence[Call]) -> Any:
        """Put *calls* to the server, in one request. :returns: a raw response of the library of the protocol."""
        raise NotImplementedError

    def _read(self, calls: Sequence[Call], body: Any) -> Sequence[Answer | Failure]:
        """What the reply says to each of *calls*. :raises Failure: it is none to these."""
        raise NotImplementedError

    def _outcomes(
        self, calls: Mapping[str, Call], progress: Progress | None = None, together: int = 1
    ) -> dict[str, Answer | Failure]:
        """The answer to each call, or why there is none, by its key.

        :param progress: told (calls done, all calls).
        :param together: how many calls one request can take.
        :raises RunFailed: no further call can work (the key is refused, the server is gone, the quota is used up), or
            none of these has worked.
        """
        outcomes: dict[str, Answer | Failure] = {}
        if self.journal is not None:
            outcomes = {key: answer for key in calls if (answer := self.journal.get(key)) is not None}
        report = progress or unseen
        report(len(outcomes), len(calls))
        asked = [key for key in calls if key not in outcomes]
        with self._workers() as pool:
            bundles = [asked[start : start + together] for start in range(0, len(asked), together)]
            pending = {pool.submit(self._bundle, keys, [calls[key] for key in keys]): keys for keys in bundles}
            for future in as_completed(pending):
                outcomes |= dict(zip(pending[future], future.result(), strict=True))
                report(len(outcomes), len(calls))
        self._stop_if_all_failed([outcomes[key] for key in asked])
        return outcomes

    def _stop_if_all_failed(self, outcomes: Sequence[Answer | Failure]) -> None:
        """A server that answers nothing is down, slow or full: its questions are for another time, not unscored. (One
        alone may fail for what is asked.)

        :raises RunFailed: none of the calls has an answer, for reasons that may pass.
        """
        failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        if 1 < len(failures) == len(outcomes) and all(failure.may_pass for failure in failures):
            raise RunFailed(
                f"{self.base_url}: none of {len(failures)} calls has an answer, each tried {self._retries + 1} times, "
                f"the first: {failures[0]}; the same command goes on when the server answers"
            )

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

    def _bundle(self, keys: Sequence[str], calls: Sequence[Call]) -> Sequence[Answer | Failure]:
        """Of calls in one request; where it is refused as a whole, each by itself, as one of them may be to blame."""
        try:
            outcomes = self._call(lambda: self._send(calls), partial(self._read, calls))
        except Failure as failure:
            if failure.is_final:
                self._stopped.set()  # before this thread takes the next call
                kept = ""
                if self.journal is not None:
                    kept = f"; {len(self.journal)} answers are kept in {self.journal.path}"
                raise RunFailed(f"{self.base_url}: {failure}{kept}") from failure
            if len(calls) == 1 or failure.may_pass:
                return [failure] * len(calls)
            return [self._bundle([key], [call])[0] for key, call in zip(keys, calls, strict=True)]
        if self.journal is not None:
            self.journal.add_all(
                {key: found for key, found in zip(keys, outcomes, strict=True) if not isinstance(found, Failure)}
            )
        return outcomes

    def _call(self, send: Callable[[], Any], read: Callable[[Any], T], retries: int | None = None) -> T:
        """Send until an answer can be read.

        :raises Failure: it cannot.
        """
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


def _sent(send: Callable[[], Any]) -> bytes:
    """The reply. :raises Failure: there is none that the library of the protocol can take."""
    import openai

    try:
        return bytes(send().content)
    except openai.APIError as error:
        raise _failure(error) from error
    except ReplyFault as error:
        raise Failure(str(error), may_pass=True) from error
    except Exception as error:  # whatever a strange reply makes the library raise
        raise Failure(f"the reply cannot be read: {words_of(str(error)) or type(error).__name__}") from error


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
        raise Failure("a web page came instead of JSON: most servers want '/v1' at the end of the URL", is_final=True)
    try:
        return json_reply(body)
    except NotData as error:
        raise Failure(f"expected JSON, found {words_of(body) or 'nothing'}", may_pass=True) from error


def _models(body: Any) -> dict[str, dict[str, Any]]:
    """What ``/models`` says of each model, by name."""
    try:
        return {entry["id"]: entry for entry in body["data"] if isinstance(entry["id"], str)}
    except (KeyError, TypeError) as error:
        raise Failure(f"expected a list of models, found {words_of(json.dumps(body))}") from error


def _failure(error: openai.APIError) -> Failure:
    """What an error of the wire means."""
    import openai

    if isinstance(error, openai.APITimeoutError):
        return Failure("no answer in time", may_pass=True)
    if isinstance(error, openai.APIConnectionError):
        return _unconnected(error)
    if isinstance(error, openai.APIStatusError):
        return _refused(error)
    return Failure(words_of(str(error)))


def _unconnected(error: BaseException) -> Failure:
    """A refused connection or an unknown host is said at once; a connection that broke may come back."""
    while (cause := error.__cause__ or error.__context__) is not None and not isinstance(error, ReplyFault):
        error = cause
    if isinstance(error, ReplyFault):
        return Failure(str(error), may_pass=not isinstance(error, Elsewhere), is_final=isinstance(error, Elsewhere))
    if isinstance(error, ConnectionRefusedError):
        return Failure("connection refused: is the server running?", is_final=True)
    lasting = type(error).__name__ in ("gaierror", "SSLCertVerificationError")
    return Failure(f"no connection: {words_of(str(error))}", may_pass=not lasting, is_final=lasting)


def _refused(error: openai.APIStatusError) -> Failure:
    status, said = error.status_code, f"{words_of(error.response.content)} ({error.status_code})"
    if status == 401:
        return Failure(f"the API key was refused: {said}", is_final=True)
    if status == 402 or error.code == "insufficient_quota":
        return Failure(f"the account has nothing left to pay with: {said}", is_final=True)
    if status == 404:
        return Failure(f"not found: {said}; most servers want '/v1' at the end of the URL", is_final=True)
    if status not in (408, 409, 429) and status < 500:
        return Failure(said)
    asked = error.response.headers.get("retry-after", "")
    wait_s = pause_asked(asked)
    if wait_s > LONGEST_WAIT_S:
        return Failure(f"the server asks to wait {asked.strip()[:20]} s: {said}", is_final=True)
    return Failure(said, may_pass=True, wait_s=wait_s)


def count_of(tokens: Any) -> int:
    """0 where the server does not count, or says what is no number of tokens."""
    return tokens if type(tokens) is int and 0 <= tokens < 1 << 40 else 0
