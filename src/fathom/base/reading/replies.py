"""Replies of servers: from the given host alone, bounded in size and time."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from fathom.base.errors import BadInput
from fathom.base.reading.bounds import REPLY
from fathom.base.reading.text import NotData, json_value

LONGEST_PAUSE_S = 1e9
_ESCAPES = re.compile(
    r"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""Backslashes and surrogate pairs (group 1), and single surrogates."""
SECRET = 8
"""Characters of the shortest real key: "none" and "x" occur in many replies."""
GRACE_S = 1.0
"""Added to a library's own timeout, whose message says more."""

T = TypeVar("T")


class ReplyFault(OSError):
    """A reply that is too large, or takes too long."""


class Elsewhere(ReplyFault):
    """A redirect to another host."""


def host_of(address: str, flag: str, example: str) -> str:
    """Return the host of a server's address.

    :raises BadInput: it is invalid, or contains what may be secret, as addresses are written into runs.
    """
    shown = excerpt_of(without_secrets(address), 80)
    try:
        parts = urlsplit(address)
        host = parts.hostname if parts.scheme in ("http", "https") and parts.port != 0 else None
    except ValueError:
        host = None
    if not host or not address.isprintable() or " " in address:
        raise BadInput(f"{flag} '{shown}' is not the address of a server: expected one such as {example}")
    if not address.isascii():
        strange = next(sign for sign in address if not sign.isascii())
        raise BadInput(f"{flag} '{shown}': {strange!a} is no letter of an address: expected ASCII, as in {example}")
    if "@" in parts.netloc or parts.query:
        raise BadInput(
            f"{flag} '{shown}' contains a user, key or query, which would be written into every run: give the address "
            "alone, and the key in the environment"
        )
    return host


def without_secrets(address: str) -> str:
    """Return an address, with or without ``https://``, in which … replaces user, password and query."""
    return re.sub(r"^(\w+://)?.*(@)|(\?).*", r"\1\3…\2", address, flags=re.DOTALL)


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of *call*, which requests and reads a whole reply.

    It runs in a thread, as a library's own timeout restarts with every byte received.

    :raises ReplyFault: it takes :data:`GRACE_S` longer than *seconds*; the thread goes on.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # raised again in the caller's thread
            result.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds + GRACE_S)
    if thread.is_alive():
        raise ReplyFault("the reply was not complete in time")
    return result.result()


def whole_reply(parts: Iterable[bytes]) -> bytes:
    """Join the parts of a reply. :raises ReplyFault: it is too large."""
    received, total = [], 0
    for part in parts:
        received.append(part)
        total += len(part)
        if total > REPLY.most:
            raise ReplyFault(REPLY.fault())
    return b"".join(received)


def parts_of(read: Callable[[int], bytes], size: int = 1 << 16) -> Iterator[bytes]:
    """Yield the results of *read*, such as a response's ``read1``, until it is empty."""
    while part := read(size):
        yield part


def guard(key: str) -> Callable[[Any], None]:
    """Return a hook for httpx that reads a response within bounds.

    :param key: removed from the response, so that it is neither shown nor written.
    :raises ReplyFault: the response is too large. :raises Elsewhere: it redirects to another host, port or to http.
    """
    return partial(_guarded, key.encode() if len(key) >= SECRET else b"")


def _guarded(key: bytes, response: Any) -> None:
    if response.has_redirect_location:
        requested, to = str(response.url), urljoin(str(response.url), response.headers["location"])
        if sends_elsewhere(requested, to):
            raise Elsewhere(f"the server redirects to {excerpt_of(to, 80)}: neither queries nor keys are sent there")
    body = whole_reply(response.iter_bytes())
    response._content = body.replace(key, b"[the key]") if key else body


def sends_elsewhere(requested: str, to: str) -> bool:
    """Return whether *to* is on another host or port than *requested*, or drops encryption."""
    scheme, host, port = _place(requested)
    encrypted = "https", host, _PORTS["https"] if port == _PORTS["http"] else port
    return _place(to) not in ((scheme, host, port), encrypted)


_Place = tuple[str, str | None, int | None]
"""Scheme, host and port."""
_PORTS = {"http": 80, "https": 443}


def _place(address: str) -> _Place:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def json_reply(body: bytes) -> Any:
    """Parse a reply in UTF-8, UTF-16 or UTF-32. Single surrogates, from a character cut in two, become U+FFFD.

    :raises NotData: it is invalid.
    """
    try:
        text = body.decode(json.detect_encoding(body))
    except UnicodeDecodeError as error:
        raise NotData(1, f"not text (byte {error.start})") from error
    return json_value(_ESCAPES.sub(lambda match: match[1] or "\\ufffd", text) if "\\u" in text else text)


def pause_asked(header: str | None) -> float:
    """Return the seconds of a ``Retry-After`` header; 0 for none and for dates, as clocks differ."""
    seconds = (header or "").strip()
    if not seconds.isascii() or not seconds.isdigit():
        return 0.0
    return float(seconds) if len(seconds) <= 9 else LONGEST_PAUSE_S


def excerpt_of(body: bytes | str, most: int = 200) -> str:
    """Return the start of a reply on one line, without control characters."""
    start = body[: 8 * most]
    text = start.decode("utf-8", "replace") if isinstance(start, bytes) else start
    line = "".join(sign if sign.isprintable() else "�" for sign in " ".join(text.split()))
    return line if len(line) <= most else f"{line[:most]}…"
