"""What servers answer: bounded in bytes and in time, JSON in any of Unicode's encodings, pauses that are numbers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fathom.reading.files import MEGABYTE
from fathom.reading.text import NotData, json_value

LARGEST_REPLY = 64 * MEGABYTE
"""Bytes, unpacked."""
LONGEST_PAUSE_S = 1e9
_ESCAPES = re.compile(
    r"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
"""Backslashes and whole characters (group 1), and halves of characters."""


class ReplyFault(OSError):
    """A reply that is too large, or takes too long."""


def whole_reply(parts: Iterable[bytes], ends: float, most: int = LARGEST_REPLY) -> bytes:
    """What comes in parts, put together.

    :param ends: the moment, by :func:`time.monotonic`, when it must be there.
    :raises ReplyFault: it is larger than *most* bytes, or comes a little at a time and is not there in time.
    """
    kept, total = [], 0
    for part in parts:
        kept.append(part)
        total += len(part)
        if total > most:
            raise ReplyFault(f"the reply is larger than {most // MEGABYTE} MB")
        if time.monotonic() > ends:
            raise ReplyFault("the reply came too slowly: it was not whole in time")
    return b"".join(kept)


def parts_of(read: Callable[[int], bytes], size: int = 1 << 16) -> Iterator[bytes]:
    """What *read* gives, such as a response's ``read1``, until it gives nothing."""
    while part := read(size):
        yield part


def read_within(seconds: float) -> Callable[[Any], None]:
    """Reads the body of a response before anyone else does: no more than is sensible, and for so long as a whole, since
    the timeout of the library begins anew with every byte."""

    def read(response: Any) -> None:
        response._content = whole_reply(response.iter_bytes(), time.monotonic() + seconds)

    return read


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
