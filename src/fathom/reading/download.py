"""Files that servers publish: fetched whole, or gone on with where the last attempt stopped.

What has come lies in a ``.part`` file; beside it, ``.part.json`` says from where and which version, so that a file that
has changed meanwhile is begun anew. A server that gives no parts of files (status 200 to a question for the rest) is
heard from the beginning. Only the host that was named is asked.
"""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, BinaryIO

from fathom._version import VERSION
from fathom.errors import BadInput, RunFailed
from fathom.reading.files import BLOCK, MEGABYTE, stands
from fathom.reading.replies import host_of, pause_asked, sends_elsewhere, words_of
from fathom.reading.text import NotData, json_value

LARGEST_FILE = 16_384 * MEGABYTE
"""Bytes that are fetched at most: a server may send without end."""
ATTEMPTS = 4
"""In a row without a byte that is new."""
TIMEOUT_S = 60.0
"""Without a byte."""
LONGEST_WAIT_S = 60.0
_BUSY = (408, 425, 429, 500, 502, 503, 504)
_GONE_ON = "what has come is kept: the same command goes on from there"
OnBytes = Callable[[int, int], None]
"""Called with the bytes that are there and those of the whole, 0 where the server does not say."""


class SameHost(urllib.request.HTTPRedirectHandler):
    """Follows a server on its own host alone. :param advice: what to do where another host is meant."""

    def __init__(self, advice: str) -> None:
        self.advice = advice

    def redirect_request(self, request: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if sends_elsewhere(request.full_url, newurl):
            raise BadInput(f"{request.full_url} sends on to {words_of(newurl, 80)}: {self.advice}")
        return super().redirect_request(request, fp, code, msg, headers, newurl)


def download(address: str, part: Path, on_bytes: OnBytes | None = None, *, pause_s: float = 1.0) -> str:
    """Fetch a file into *part*; what is there of it is kept, and asked for no more.

    :param pause_s: seconds before the second attempt; doubled before each further one.
    :returns: SHA-256 of the whole file.
    :raises BadInput: no address, not there (404), refused, or sent on to another host.
    :raises RunFailed: the server cannot be reached or breaks off, again and again, or the disk is full.
    """
    host_of(address, "--url", "https://example.org/data.zip")
    fetching = _Fetching(address, part, on_bytes or (lambda done, total: None))
    tries = 0
    while True:
        before = fetching.size
        try:
            if fetching.attempt():
                return sha256_of(part)
            fault = f"{address} broke off after {fetching.size:,} of {fetching.total:,} bytes"
            wait_s = 0.0
        except _Busy as busy:
            fault, wait_s = str(busy), busy.wait_s
        tries = 1 if fetching.size > before else tries + 1
        if tries >= ATTEMPTS or wait_s > LONGEST_WAIT_S:
            raise RunFailed(f"{fault} ({tries} attempts without a new byte); {_GONE_ON}")
        time.sleep(max(wait_s, min(pause_s * 2 ** (tries - 1), LONGEST_WAIT_S)))


class _Busy(Exception):
    """Another attempt may work. :param wait_s: seconds that the server asks to wait."""

    def __init__(self, said: str, wait_s: float = 0.0) -> None:
        super().__init__(said)
        self.wait_s = wait_s


class _Fetching:
    """A file on its way. *size*: bytes that are there; *total*: of the whole, 0 where that is not known."""

    def __init__(self, address: str, part: Path, on_bytes: OnBytes) -> None:
        self.address, self.part, self._on_bytes = address, part, on_bytes
        self._about = part.with_name(f"{part.name}.json")
        known = self._known()
        self._version = str(known.get("version") or "")
        if known.get("url") != address or not self._version:  # of another file, or perhaps of another version
            part.unlink(missing_ok=True)
        self.size, self.total = (part.stat().st_size if stands(part) else 0), 0

    def attempt(self) -> bool:
        """Ask for what is missing. :returns: whether all is there. :raises _Busy: another attempt may work."""
        headers = {"Accept-Encoding": "identity", "User-Agent": f"fathom-lm/{VERSION} (data sets)"}
        if self.size:
            headers["Range"] = f"bytes={self.size}-"
            if self._version:
                headers["If-Range"] = self._version
        opener = urllib.request.build_opener(SameHost("if that is meant, give it as --url"))
        try:
            with opener.open(urllib.request.Request(self.address, headers=headers), timeout=TIMEOUT_S) as response:
                return self._take(response)
        except urllib.error.HTTPError as error:
            return self._refused(error)
        except (urllib.error.URLError, TimeoutError, HTTPException, ConnectionError) as error:
            reason = getattr(error, "reason", error)
            said = f"{self.address} cannot be reached: {reason}"
            if isinstance(reason, socket.gaierror | ConnectionRefusedError | ssl.SSLCertVerificationError):
                raise RunFailed(f"{said}; where there is no network, fetch on a machine that has one") from error
            raise _Busy(said) from error

    def _take(self, response: Any) -> bool:
        if (coded := response.headers.get("Content-Encoding", "identity")) != "identity":
            raise BadInput(f"{self.address} is sent as {words_of(coded, 20)}, not as it is: give another --url")
        begins = _begin_of(response.headers.get("Content-Range")) if response.status == 206 else 0
        if begins != self.size:  # the whole instead of its rest, or the file has changed
            self.size = 0
            if begins:
                raise _Busy(f"{self.address} gave the bytes from {begins:,}, not those that were asked for")
        length = response.headers.get("Content-Length", "")
        self.total = self.size + int(length) if length.isdigit() else 0
        self._note(response.headers)
        try:
            with self.part.open("ab" if self.size else "wb") as file:
                self._write(response, file)
        except OSError as error:
            raise RunFailed(f"cannot write {self.part}: {error.strerror or error}; {_GONE_ON}") from error
        return not self.total or self.size == self.total

    def _write(self, response: Any, file: BinaryIO) -> None:
        while block := self._block(response):
            file.write(block)
            self.size += len(block)
            if self.size > LARGEST_FILE:
                raise BadInput(f"{self.address} is larger than {LARGEST_FILE // MEGABYTE:,} MB, the most fetched")
            self._on_bytes(self.size, self.total)

    def _block(self, response: Any) -> bytes:
        try:
            return bytes(response.read1(BLOCK))
        except (OSError, HTTPException) as error:
            raise _Busy(f"{self.address} broke off after {self.size:,} bytes: {error}") from error

    def _refused(self, error: urllib.error.HTTPError) -> bool:
        """:returns: True where nothing is missing."""
        with error:
            asked = pause_asked(error.headers.get("Retry-After"))
            whole = (error.headers.get("Content-Range") or "").rpartition("/")[2]
        if error.code == 416:  # there is nothing behind the bytes that are here
            if whole == str(self.size):
                return True
            self.part.unlink(missing_ok=True)
            self.size = 0
            raise _Busy(f"{self.address} has not the bytes that were asked for") from error
        said = f"{self.address} answered with status {error.code} ({words_of(error.reason or '', 60)})"
        if error.code in _BUSY:
            raise _Busy(said, asked) from error
        raise BadInput(f"{said}: where it has moved to, give that address as --url") from error

    def _known(self) -> dict[str, Any]:
        with suppress(OSError, NotData, UnicodeDecodeError):
            known = json_value(self._about.read_text(encoding="utf-8")) if stands(self._about) else None
            return known if isinstance(known, dict) else {}
        return {}

    def _note(self, headers: Any) -> None:
        """Which version it is. A weak tag says nothing about bytes, so it is none."""
        tag = headers.get("ETag") or ""
        self._version = (tag if tag.startswith('"') else "") or headers.get("Last-Modified") or ""
        try:
            self._about.write_text(json.dumps({"url": self.address, "version": self._version}), encoding="utf-8")
        except OSError as error:
            raise RunFailed(f"cannot write {self._about}: {error.strerror or error}") from error


def _begin_of(content_range: str | None) -> int:
    """Of "bytes 100-199/200"; -1 where it says nothing of the kind."""
    begin = (content_range or "").removeprefix("bytes ").partition("-")[0]
    return int(begin) if begin.isdigit() else -1


def sha256_of(file: Path) -> str:
    """In hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
