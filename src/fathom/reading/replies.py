"""What servers answer: from where they said they are, bounded in bytes and in time, JSON in any of Unicode's
encodings, pauses that are numbers."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from fathom.errors import BadInput
from fathom.reading.files import MEGABYTE
from fathom.reading.text import NotData, json_value

LARGEST_REPLY = 64 * MEGABYTE
"""Bytes, unpacked."""
LONGEST_PAUSE_S = 1e9
_ESCAPES = re.compile(
    r"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""Backslashes and whole characters (group 1), and halves of characters."""


SECRET = 8
"""Signs of a key from which on it is one: "none" and "x" stand in many replies."""
GRACE_S = 1.0
"""So much later than a library's own timeout, whose message says more."""

T = TypeVar("T")


class ReplyFault(OSError):
    """A reply that is too large, or takes too long."""


class Elsewhere(ReplyFault):
    """A reply that sends on to another host."""


def host_of(address: str, flag: str, example: str) -> str:
    """The host of a server's address.

    :param flag: where the address was given.
    :raises BadInput: it is none, or holds what may be secret: addresses are written into runs.
    """
    shown = words_of(re.sub(r"//[^/]*@|\?.*", lambda found: found[0][:2] + "…", address, flags=re.DOTALL), 80)
    try:
        parts = urlsplit(address)
        host = parts.hostname if parts.scheme in ("http", "https") and parts.port != 0 else None
    except ValueError:
        host = None
    if not host or not address.isprintable() or " " in address:
        raise BadInput(f"{flag} '{shown}' is not the address of a server: expected one such as {example}")
    if "@" in parts.netloc or parts.query:
        raise BadInput(
            f"{flag} '{shown}' holds a user, a key or a question: it would be written into every run; give the address "
            "alone, and a key in the environment"
        )
    return host


def within(seconds: float, call: Callable[[], T]) -> T:
    """What *call* gives. It asks a server and reads the whole reply, in a thread of its own, since the timeout of a
    library begins anew with every byte that comes.

    :raises ReplyFault: it takes :data:`GRACE_S` longer than *seconds*; the thread is left behind.
    """
    found: Future[T] = Future()

    def ask() -> None:
        try:
            found.set_result(call())
        except BaseException as error:  # raised where the caller is
            found.set_exception(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds + GRACE_S)
    if thread.is_alive():
        raise ReplyFault("the reply came too slowly: it was not whole in time")
    return found.result()


def whole_reply(parts: Iterable[bytes], most: int = LARGEST_REPLY) -> bytes:
    """What comes in parts, put together. :raises ReplyFault: it is larger than *most* bytes."""
    kept, total = [], 0
    for part in parts:
        kept.append(part)
        total += len(part)
        if total > most:
            raise ReplyFault(f"the reply is larger than {most // MEGABYTE} MB")
    return b"".join(kept)


def parts_of(read: Callable[[int], bytes], size: int = 1 << 16) -> Iterator[bytes]:
    """What *read* gives, such as a response's ``read1``, until it gives nothing."""
    while part := read(size):
        yield part


def guard(key: str) -> Callable[[Any], None]:
    """Reads the body of a response of httpx before anyone else does, no more than is sensible.

    :param key: that was sent: a server that sends it back must not have it shown or kept.
    :raises ReplyFault: it is too large. :raises Elsewhere: it sends on to another host or port, or to one
        without encryption.
    """
    return partial(_guarded, key.encode() if len(key) >= SECRET else b"")


def _guarded(key: bytes, response: Any) -> None:
    if response.has_redirect_location:
        asked, to = str(response.url), urljoin(str(response.url), response.headers["location"])
        if sends_elsewhere(asked, to):
            raise Elsewhere(f"the server sends on to {words_of(to, 80)}: neither questions nor keys are sent there")
    body = whole_reply(response.iter_bytes())
    response._content = body.replace(key, b"[the key]") if key else body


def sends_elsewhere(asked: str, to: str) -> bool:
    """Whether *to* is on another host or port than *asked*, or gives up its encryption."""
    return _place(to) not in (_place(asked), _with_encryption(_place(asked)))


_Place = tuple[str, str | None, int | None]
_PORTS = {"http": 80, "https": 443}


def _place(address: str) -> _Place:
    """Scheme, host and port."""
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _with_encryption(place: _Place) -> _Place:
    _, host, port = place
    return "https", host, _PORTS["https"] if port == _PORTS["http"] else port


def json_reply(body: bytes) -> Any:
    """The value of a reply, in UTF-8, UTF-16 or UTF-32; half of a character, where a server cut one in two, becomes
    the sign for what cannot be shown. :raises NotData: it is none that can be used."""
    try:
        text = body.decode(json.detect_encoding(body))
    except UnicodeDecodeError as error:
        raise NotData(1, f"not text (byte {error.start})") from error
    return json_value(_ESCAPES.sub(lambda found: found[1] or "\\ufffd", text) if "\\u" in text else text)


def pause_asked(header: str | None) -> float:
    """Seconds that ``Retry-After`` asks for; 0 where it says nothing that can be obeyed.

    Dates are passed over: clocks differ, and the pauses between attempts grow anyway.
    """
    said = (header or "").strip()
    if not said.isascii() or not said.isdigit():
        return 0.0
    return float(said) if len(said) <= 9 else LONGEST_PAUSE_S


def words_of(body: bytes | str, most: int = 200) -> str:
    """The beginning of a reply on one line, without signs that steer a terminal."""
    begins = body[: 8 * most]
    text = begins.decode("utf-8", "replace") if isinstance(begins, bytes) else begins
    line = "".join(sign if sign.isprintable() else "�" for sign in " ".join(text.split()))
    return line if len(line) <= most else f"{line[:most]}…"
