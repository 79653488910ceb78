"""Downloads that are no data set: refused by the reader before anything is kept."""

from __future__ import annotations

import errno
import gzip
import io
import random
import tarfile

import pytest

from tests.data.test_fetch import FACTS, left_in, site, zipped  # noqa: F401 # site is a fixture
from tests.messages import mentioned


def tarred(files, kind="gz", **settings):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=f"w:{kind}", **settings) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def flipped(content, part):
    """Return content with a bit changed within *part*."""
    place = content.index(part)
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


NOISE = random.Random(1).randbytes(9000)
GOOD = {"mine/facts.tsv": FACTS}
TWO = GOOD | {"mine/more.tsv": FACTS}
SECOND = 512 * (1 + 33)
"""Bytes before the second file of a tar: a header and 16,800 bytes of facts, in blocks."""
ARRIVED = {
    "a web page": ("facts.tsv", b"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "a web page"),
    "a web page for a zip": ("mine.zip", b"<html><body>404</body></html>", "a web page"),
    "an empty file": ("facts.tsv", b"", "an empty file"),
    "an empty zip": ("mine.zip", b"", "an empty file"),
    "random bytes": ("facts.tsv", NOISE[:4000], "no format fits"),
    "random bytes for a zip": ("mine.zip", NOISE[:4000], "no format fits"),
    "a truncated zip": (
        "mine.zip",
        zipped({"mine/facts.tsv": NOISE})[:4000],
        "a truncated zip archive",
    ),
    "a truncated tar": (
        "mine.tar.gz",
        tarred({"mine/facts.tsv": NOISE})[:4000],
        "is damaged",
    ),
    "a flipped bit in a tar.gz": ("mine.tar.gz", flipped(tarred(GOOD, compresslevel=0), b"Madrid"), "is damaged"),
    "a tar.gz without its checksum": ("mine.tar.gz", tarred(GOOD)[:-8], "is damaged"),
    "a tar.bz2 without its last bytes": ("mine.tar.bz2", tarred(GOOD, "bz2")[:-9], "is damaged"),
    "a tar.xz without its last bytes": ("mine.tar.xz", tarred(GOOD, "xz")[:-9], "is damaged"),
    "a tar that ends before its second file": ("mine.tar", tarred(TWO, "")[:SECOND], "is damaged"),
    "a tar with a flipped bit in its second header": ("mine.tar", flipped(tarred(TWO, ""), b"mine/more"), "is damaged"),
    "zeros after a tar.gz": ("mine.tar.gz", tarred(GOOD) + gzip.compress(bytes(40 << 20)), ("16 MB", "300 times")),
    "another archive": ("mine.zip", zipped({"theme/style.css": b"a {}", "theme/x.js": b"1"}), "no format fits"),
    "a name that is too long": ("mine.zip", zipped({f"mine/{'a' * 300}.tsv": FACTS}), "over 255 bytes"),
    "a long path": ("mine.zip", zipped({"mine/" + "a/" * 3000 + "b.tsv": FACTS, "mine/x.tsv": FACTS}), "too long"),
    "a file that is a folder": (
        "mine.zip",
        zipped({"mine/a": FACTS, "mine/a/b.tsv": FACTS}),
        "both a file and a folder",
    ),
    "a name that is not UTF-8": ("mine.tar.gz", tarred({"mine/a\udcff.tsv": FACTS, "mine/b.tsv": FACTS}), "udcff"),
    "data with faults": ("facts.tsv", FACTS + b"Italy\tRome\n", "facts.tsv:801"),
}


@pytest.mark.parametrize("case", ARRIVED)
def test_nothing_is_kept_of_what_no_reader_accepts(site, fathom, tmp_path, case):  # noqa: F811
    name, content, expected = ARRIVED[case]
    site.files[f"/{name}"] = content
    address = f"{site.url}/{name}"
    code, _, err = fathom("data", "fetch", "mine", "--url", address)
    assert (code, err.count("\n")) == (2, 1), err
    assert mentioned(err, "error: ", address, expected)
    assert left_in(tmp_path / "cache") == []

    site.files[f"/{name}"] = {"tsv": FACTS, "zip": zipped(GOOD)}.get(name.rpartition(".")[2], tarred(GOOD))
    assert fathom("data", "fetch", "mine", "--url", address)[0] == 0


def test_an_archive_of_several_data_sets_names_each(site, fathom):  # noqa: F811
    site.files["/both.zip"] = zipped({"both/one/facts.tsv": FACTS, "both/two/facts.tsv": FACTS, "both/README.md": b"x"})
    code, out, err = fathom("data", "fetch", "both", "--url", f"{site.url}/both.zip")
    assert (code, "both/one" in out, "both/two" in out) == (0, True, True), err


def test_an_archive_is_kept_while_the_disk_is_full(site, fathom, tmp_path, monkeypatch):  # noqa: F811
    site.files["/mine.zip"] = zipped(GOOD)
    address = f"{site.url}/mine.zip"

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("fathom.data.fetch.unpack", full)
        assert fathom("data", "fetch", "mine", "--url", address)[0] != 0
    requests = len(site.asked)
    assert fathom("data", "fetch", "mine", "--url", address)[0] == 0
    assert len(site.asked) == requests
