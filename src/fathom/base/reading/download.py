"""Downloads that resume where the last attempt stopped.

Received bytes are in a ``.part`` file. Next to it, ``.part.json`` records address and version, so that a file that has
changed is downloaded from the start, as from servers without range requests. Only the given host is contacted.
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
from fathom.base.errors import BadInput, RunFailed
from fathom.base.reading.bounds import DOWNLOAD, SILENCE, WAIT
from fathom.base.reading.files import BLOCK, stands
from fathom.base.reading.replies import excerpt_of, host_of, pause_asked, sends_elsewhere
from fathom.base.reading.text import NotData, json_value

ATTEMPTS = 4
"""In a row without a new byte."""
_BUSY = (408, 425, 429, 500, 502, 503, 504)
_RESUME = "received bytes are kept: run the same command to resume"
OnBytes = Callable[[int, int], None]
"""Called with the number of bytes received, and of the whole file; 0 if unknown."""


class SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects on the same host alone. :param advice: what to do about others."""

    def __init__(self, advice: str) -> None:
        self.advice = advice

    def redirect_request(self, request: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if sends_elsewhere(request.full_url, newurl):
            raise BadInput(f"{request.full_url} redirects to {excerpt_of(newurl, 80)}: {self.advice}")
        return super().redirect_request(request, fp, code, msg, headers, newurl)


def download(address: str, part: Path, on_bytes: OnBytes | None = None, *, pause_s: float = 1.0) -> str:
    """Download a file into *part*, resuming if it exists.

    :param pause_s: seconds before the second attempt, doubled before each further one.
    :returns: SHA-256 of the whole file.
    :raises BadInput: invalid address, missing file, refused, or redirected to another host.
    :raises RunFailed: the server repeatedly fails, or the disk is full.
    """
    host_of(address, "--url", "https://example.org/data.zip")
    transfer = _Transfer(address, part, on_bytes or (lambda done, total: None))
    tries = 0
    while True:
        before = transfer.size
        try:
            if transfer.attempt():
                return sha256_of(part)
            fault = f"{address} broke off after {transfer.size:,} of {transfer.total:,} bytes"
            wait_s = 0.0
        except _Busy as busy:
            fault, wait_s = str(busy), busy.wait_s
        tries = 1 if transfer.size > before else tries + 1
        if tries >= ATTEMPTS or wait_s > WAIT.most:
            raise RunFailed(f"{fault} ({tries} attempts without a new byte); {_RESUME}")
        time.sleep(max(wait_s, min(pause_s * 2 ** (tries - 1), WAIT.most)))


class _Busy(Exception):
    """A failure that may be temporary. :param wait_s: seconds requested by the server."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class _Transfer:
    """A download. *size*: bytes received; *total*: of the whole file, 0 if unknown."""

    def __init__(self, address: str, part: Path, on_bytes: OnBytes) -> None:
        self.address, self.part, self._on_bytes = address, part, on_bytes
        self._about = part.with_name(f"{part.name}.json")
        record = self._record()
        self._version = str(record.get("version") or "")
        if record.get("url") != address or not self._version:  # another file, or maybe another version
            part.unlink(missing_ok=True)
        self.size, self.total = (part.stat().st_size if stands(part) else 0), 0

    def attempt(self) -> bool:
        """Request the missing bytes. :returns: whether the file is complete. :raises _Busy: a temporary failure."""
        headers = {"Accept-Encoding": "identity", "User-Agent": f"fathom-lm/{VERSION} (data sets)"}
        if self.size:
            headers["Range"] = f"bytes={self.size}-"
            if self._version:
                headers["If-Range"] = self._version
        opener = urllib.request.build_opener(SameHost("if intended, give that address as --url"))
        try:
            with opener.open(urllib.request.Request(self.address, headers=headers), timeout=SILENCE.most) as response:
                return self._take(response)
        except urllib.error.HTTPError as error:
            return self._refused(error)
        except (urllib.error.URLError, TimeoutError, HTTPException, ConnectionError) as error:
            reason = getattr(error, "reason", error)
            message = f"{self.address} cannot be reached: {reason}"
            if isinstance(reason, socket.gaierror | ConnectionRefusedError | ssl.SSLCertVerificationError):
                raise RunFailed(f"{message}; without a network, fetch on another machine") from error
            raise _Busy(message) from error

    def _take(self, response: Any) -> bool:
        if (coded := response.headers.get("Content-Encoding", "identity")) != "identity":
            raise BadInput(f"{self.address} is sent encoded as {excerpt_of(coded, 20)}: give another --url")
        begins = _begin_of(response.headers.get("Content-Range")) if response.status == 206 else 0
        if begins != self.size:  # the whole file, or it has changed
            requested, self.size = self.size, 0
            if begins:
                raise _Busy(f"{self.address} sent the bytes from {begins:,} instead of {requested:,}")
        length = response.headers.get("Content-Length", "")
        self.total = self.size + int(length) if length.isdigit() else 0
        self._write_version(response.headers)
        try:
            with self.part.open("ab" if self.size else "wb") as file:
                self._write(response, file)
        except OSError as error:
            raise RunFailed(f"cannot write {self.part}: {error.strerror or error}; {_RESUME}") from error
        return not self.total or self.size == self.total

    def _write(self, response: Any, file: BinaryIO) -> None:
        while block := self._block(response):
            file.write(block)
            self.size += len(block)
            if self.size > DOWNLOAD.most:
                raise BadInput(f"{self.address}: {DOWNLOAD.fault()}")
            self._on_bytes(self.size, self.total)

    def _block(self, response: Any) -> bytes:
        try:
            return bytes(response.read1(BLOCK))
        except (OSError, HTTPException) as error:
            raise _Busy(f"{self.address} broke off after {self.size:,} bytes: {error}") from error

    def _refused(self, error: urllib.error.HTTPError) -> bool:
        """:returns: True if the file is complete."""
        with error:
            pause_s = pause_asked(error.headers.get("Retry-After"))
            whole = (error.headers.get("Content-Range") or "").rpartition("/")[2]
        if error.code == 416:  # range not satisfiable
            if whole == str(self.size):
                return True
            self.part.unlink(missing_ok=True)
            self.size = 0
            raise _Busy(f"{self.address} does not have the requested bytes") from error
        message = f"{self.address} answered with status {error.code} ({excerpt_of(error.reason or '', 60)})"
        if error.code in _BUSY:
            raise _Busy(message, pause_s) from error
        raise BadInput(f"{message}: if it has moved, give its new address as --url") from error

    def _record(self) -> dict[str, Any]:
        with suppress(OSError, NotData, UnicodeDecodeError):
            record = json_value(self._about.read_text(encoding="utf-8")) if stands(self._about) else None
            return record if isinstance(record, dict) else {}
        return {}

    def _write_version(self, headers: Any) -> None:
        """Record the version. Weak tags do not identify bytes."""
        tag = headers.get("ETag") or ""
        self._version = (tag if tag.startswith('"') else "") or headers.get("Last-Modified") or ""
        try:
            self._about.write_text(json.dumps({"url": self.address, "version": self._version}), encoding="utf-8")
        except OSError as error:
            raise RunFailed(f"cannot write {self._about}: {error.strerror or error}") from error


def _begin_of(content_range: str | None) -> int:
    """Return the start of "bytes 100-199/200"; -1 if invalid."""
    begin = (content_range or "").removeprefix("bytes ").partition("-")[0]
    return int(begin) if begin.isdigit() else -1


def sha256_of(file: Path) -> str:
    """Return the digest in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
