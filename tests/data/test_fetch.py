"""Data sets fetched by name, against a server on this machine: checked, resumable, whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import re
import stat
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from fathom.base.errors import BadInput, RunFailed
from fathom.base.reading import bounds
from fathom.base.reading import download as downloading
from fathom.base.reading.archives import unpack
from fathom.base.reading.files import Unreadable
from fathom.data import fetch as fetching
from fathom.data import formats, published
from fathom.data.fetch import contents_of, fetch, one_source
from fathom.data.options import FetchOptions
from fathom.data.published import catalogue, entry_of
from tests.messages import mentioned, mentions, stated

FACTS = b"France\tcapital\tParis\nSpain\tcapital\tMadrid\n" * 400  # more than one packet
SHA = hashlib.sha256(FACTS).hexdigest()


class Site:
    """Serves *files* by path. *breaks*: bytes after which an answer breaks off, one for each request until used up.

    *asked*: (path, Range) of every request. *tag*: what ETag says. *says*: path → (status, headers) instead of a file.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.breaks: list[int] = []
        self.asked: list[tuple[str, str | None]] = []
        self.tag, self.ranges, self.says = '"one"', True, {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                site.answer(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def answer(self, request) -> None:
        span = request.headers.get("Range")
        self.asked.append((request.path, span))
        if request.path in self.says:
            status, headers = self.says[request.path]
            request.send_response(status)
            for name, value in {"Content-Length": "0", **headers}.items():
                request.send_header(name, value)
            request.end_headers()
            return
        if request.path not in self.files:
            request.send_error(404)
            return
        content, begin = self.files[request.path], 0
        fits = request.headers.get("If-Range", self.tag) == self.tag
        if span and self.ranges and fits:
            begin = int(re.fullmatch(r"bytes=(\d+)-", span)[1])
        request.send_response(206 if begin else 200)
        request.send_header("ETag", self.tag)
        request.send_header("Content-Length", str(len(content) - begin))
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        request.end_headers()
        cut = self.breaks.pop(0) if self.breaks else len(content)
        request.wfile.write(content[begin : begin + cut])
        request.close_connection = True


@pytest.fixture
def site(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FATHOM_DATA", raising=False)
    made = Site()
    yield made
    made.close()


@pytest.fixture
def facts(site):
    """A data set of one file."""
    site.files["/facts.tsv"] = FACTS
    return one_source(f"{site.url}/facts.tsv", "facts", SHA)


def go(entry, out=None, accept=False, **more):
    return fetch(entry, FetchOptions(out=out, accept=accept), pause_s=0.0, **more)


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def left_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


# -------------------------------------------------------------------------------------------------------- fetching


def test_a_file_comes_with_its_record(facts, site, tmp_path):
    got = go(facts)
    assert got[:3] == (tmp_path / "cache/data/facts", True, ())
    assert (got.folder / "facts.tsv").read_bytes() == FACTS
    record = json.loads((got.folder / "fetched.json").read_text())
    assert record["files"] == {"facts.tsv": {"sha256": SHA, "from": f"{site.url}/facts.tsv"}}
    assert left_in(tmp_path / "cache/downloads") == []
    assert not go(facts).made
    assert len(site.asked) == 1


def test_what_breaks_off_is_gone_on_with(facts, site):
    site.breaks = [5_000, 3_000]
    go(facts)
    assert site.asked == [("/facts.tsv", None), ("/facts.tsv", "bytes=5000-"), ("/facts.tsv", "bytes=8000-")]


def test_another_command_goes_on_where_one_ended(facts, site, tmp_path):
    site.breaks = [5_000, 0, 0, 0, 0]
    with pytest.raises(RunFailed, match=mentions("5,000", "16,800")):
        go(facts)
    assert not (tmp_path / "cache/data").exists()
    site.breaks, site.asked = [], []
    assert (go(facts).folder / "facts.tsv").read_bytes() == FACTS
    assert site.asked == [("/facts.tsv", "bytes=5000-")]


@pytest.mark.parametrize("change", ["another version", "no parts"])
def test_what_cannot_be_gone_on_with_is_begun_anew(facts, site, change):
    site.breaks = [5_000]
    site.ranges = change != "no parts"
    if change == "another version":
        answer = site.answer

        def changing(request):
            answer(request)
            site.tag = '"two"'

        site.answer = changing
    assert (go(facts).folder / "facts.tsv").read_bytes() == FACTS
    assert site.asked[1] == ("/facts.tsv", "bytes=5000-")
    assert len(site.asked) == 2


def test_a_server_without_versions_is_heard_from_the_beginning(facts, site):
    site.tag = 'W/"weak"'
    site.breaks = [5_000, 0, 0, 0, 0]
    with pytest.raises(RunFailed):
        go(facts)
    site.breaks, site.asked = [], []
    go(facts)
    assert site.asked == [("/facts.tsv", None)]


def test_a_busy_server_is_asked_again(facts, site):
    site.says["/facts.tsv"] = (503, {"Retry-After": "0"})
    with pytest.raises(RunFailed, match=mentions("503", "4")):
        go(facts)
    assert len(site.asked) == 4
    site.says["/facts.tsv"] = (503, {"Retry-After": "3600"})
    with pytest.raises(RunFailed, match=r"status 503 .*\(1 attempts"):
        go(facts)


# ---------------------------------------------------------------------------------------------------- what goes wrong


def nothing_is_left(tmp_path: Path) -> None:
    assert left_in(tmp_path / "cache") == []
    assert not list((tmp_path / "cache/data").glob("*")) if (tmp_path / "cache/data").exists() else True


def test_a_file_that_is_not_there(facts, site, tmp_path):
    del site.files["/facts.tsv"]
    with pytest.raises(BadInput, match=mentions("/facts.tsv", "404 (Not Found)", "--url")):
        go(facts)
    nothing_is_left(tmp_path)


def test_a_wrong_checksum(facts, site, tmp_path):
    site.files["/facts.tsv"] = FACTS[:-1] + b"!"
    with pytest.raises(BadInput, match=mentions("SHA-256", SHA)):
        go(facts)
    nothing_is_left(tmp_path)


def test_another_host_is_not_followed(facts, site, tmp_path):
    other = Site()
    other.files["/facts.tsv"] = FACTS
    site.says["/facts.tsv"] = (302, {"Location": f"{other.url}/facts.tsv"})
    with pytest.raises(BadInput, match=mentions(f"{other.url}/facts.tsv", "--url")):
        go(facts)
    assert other.asked == []
    other.close()
    nothing_is_left(tmp_path)


def test_another_place_of_the_same_host_is_followed(facts, site):
    site.files["/moved.tsv"] = site.files.pop("/facts.tsv")
    site.says["/facts.tsv"] = (302, {"Location": "/moved.tsv"})
    assert go(facts).made


def test_no_server(site):
    gone = Site()
    gone.close()
    with pytest.raises(RunFailed, match="refused"):
        go(one_source(f"{gone.url}/facts.tsv", "facts"))


def test_a_full_disk(facts, monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(downloading._Transfer, "_write", full)
    with pytest.raises(RunFailed, match=mentions(".part", "No space")):
        go(facts)
    monkeypatch.undo()
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching.shutil, "copyfile", full)
    with pytest.raises(RunFailed, match=mentions("data/facts:", "No space")):
        go(facts)
    assert not (tmp_path / "cache/data/facts").exists()


def test_a_stop_leaves_no_folder_and_goes_on(facts, site, tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(facts, on_bytes=stop)
    assert left_in(tmp_path / "cache/data") == []
    assert go(facts).made


def test_an_endless_answer(facts, monkeypatch):
    monkeypatch.setattr(bounds.DOWNLOAD, "most", 10_000)
    with pytest.raises(BadInput, match=mentions("facts", "10,000 bytes")):
        go(facts)


def test_contents_are_recorded_and_checked_from_then_on(site, tmp_path):
    site.files["/facts.tsv"] = FACTS
    entry = one_source(f"{site.url}/facts.tsv", "facts")
    assert go(entry).first == (f"{site.url}/facts.tsv",)
    site.files["/facts.tsv"] = FACTS + b"Italy\tcapital\tRome\n"
    with pytest.raises(BadInput, match=mentions("--accept")):
        go(entry, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()
    assert go(entry, tmp_path / "mine", accept=True)[:3] == (tmp_path / "mine", True, ())
    assert go(entry, tmp_path / "other").made


def test_a_folder_that_changed_or_is_not_ours(facts, tmp_path):
    folder = go(facts).folder
    (folder / "facts.tsv").write_bytes(b"x")
    with pytest.raises(BadInput, match=mentions("facts.tsv")):
        go(facts)
    (tmp_path / "mine").mkdir()
    with pytest.raises(BadInput, match="in the way"):
        go(facts, tmp_path / "mine")


# ------------------------------------------------------------------------------------------------------------ archives

TREE = {"set-1/data/P1.jsonl": b"one", "set-1/data/P2.jsonl": b"two", "set-1/README.md": b"read"}


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_archives_give_the_files_asked_for(tmp_path, kind):
    archive = tmp_path / "a"
    if kind == "zip":
        archive.write_bytes(zipped(TREE))
    else:
        with tarfile.open(archive, "w:gz") as tarred:
            for name, content in TREE.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tarred.addfile(info, io.BytesIO(content))
    assert unpack(archive, tmp_path / "some", ["*/data/P*.jsonl"], 2) == ["P1.jsonl", "P2.jsonl"]
    assert (tmp_path / "some/P2.jsonl").read_bytes() == b"two"
    assert sorted(unpack(archive, tmp_path / "all")) == ["README.md", "data/P1.jsonl", "data/P2.jsonl"]


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "a\\..\\evil", "C:evil"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_archives_write_nowhere_else(tmp_path, name, kind):
    archive, folder = tmp_path / "a", tmp_path / "in" / "folder"
    if kind == "zip":
        archive.write_bytes(zipped({"good": b"", name: b"evil"}))
    else:
        with tarfile.open(archive, "w") as tarred:
            tarred.addfile(tarfile.TarInfo(name))
    with pytest.raises(Unreadable, match="nothing is unpacked"):
        unpack(archive, folder)
    assert left_in(tmp_path) == ["a"]


def test_links_in_archives(tmp_path):
    link = zipfile.ZipInfo("set/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("set/P1.jsonl", "one")
    with pytest.raises(Unreadable, match=mentions("'set/link'")):
        unpack(tmp_path / "a", tmp_path / "all")
    assert unpack(tmp_path / "a", tmp_path / "some", ["*.jsonl"]) == ["P1.jsonl"]
    with tarfile.open(tmp_path / "b", "w") as tarred:
        info = tarfile.TarInfo("hard")
        info.type, info.linkname = tarfile.LNKTYPE, "/etc/passwd"
        tarred.addfile(info)
    with pytest.raises(Unreadable, match=mentions("'hard'")):
        unpack(tmp_path / "b", tmp_path / "tarred")


def test_archives_that_cannot_be(tmp_path):
    archive = tmp_path / "a"
    for content, said in (
        (b"<!doctype html><p>Sign in", "a web page"),
        (zipped(TREE).replace(b"PK\x03\x04", b"PK\x03\x05"), "is damaged"),
        (zipped({"a/x": b"1", "b/x": b"2"}), "first 1 folders"),
        (zipped({"a/zeros": bytes(40 << 20)}), ("16 MB", "300 times")),
    ):
        archive.write_bytes(content)
        with pytest.raises(Unreadable, match=mentions(said)):
            unpack(archive, tmp_path / "out", strip=1)
    archive.write_bytes(zipped(TREE))
    with pytest.raises(Unreadable, match=mentions("*.csv")):
        unpack(archive, tmp_path / "out", ["*.csv"])


def test_an_archive_that_is_refused_leaves_nothing(site, tmp_path):
    site.files["/set.zip"] = zipped({"good": b"", "../evil": b""})
    with pytest.raises(BadInput, match=mentions("set.zip: '../evil'")):
        go(one_source(f"{site.url}/set.zip", None))
    nothing_is_left(tmp_path)


# ----------------------------------------------------------------------------------------------------------- the table


def test_the_table_reads():
    table = catalogue()
    assert {"BEAR", "BEAR-big", "LAMA", "KAMEL", "OntoProbe", "WN18RR", "FB15k-237", "CoDEx-S"} <= table.keys()
    assert all(source.url.startswith("https://") for entry in table.values() for source in entry.whole_sources)
    assert all(entry.licence and entry.home for entry in table.values())
    assert entry_of("bear-BIG", table).name == "BEAR-big"
    with pytest.raises(BadInput, match=mentions("'Baer'", "BEAR")):
        entry_of("Baer", table)


def test_the_checksums_are_those_of_the_reference_data(shared_data):
    """Every checksum of the table, against the published files that lie here."""
    table, compared = catalogue(), 0
    where = {"BEAR": "bear", "BEAR-big": "bear", "KAMEL": "kamel", "OntoProbe": "ontoprobe", "WN18RR": "wn18rr",
             "FB15k-237": "fb15k237", "CoDEx-S": "codex/codex-s", "CoDEx-M": "codex/codex-m",
             "DyKnow": "dyknow"}  # fmt: skip
    for name, folder in where.items():
        for source in table[name].sources:
            if source.sha256 and (shared_data / folder / source.place).is_file():
                found = downloading.sha256_of(shared_data / folder / source.place)
                assert found == source.sha256, (name, source.place)
                compared += 1
    assert compared == 26
    for name, folder, patterns in (
        ("BEAR", "bear/BEAR", ("P*.jsonl", "metadata_relations.json")),
        ("BEAR-big", "bear/BEAR-big", ("P*.jsonl", "metadata_relations.json")),
        ("KAMEL", "kamel", ("P*/test.jsonl",)),
    ):
        inside = shared_data / folder
        places = [path.relative_to(inside).as_posix() for pattern in patterns for path in inside.glob(pattern)]
        assert contents_of(inside, places) == table[name].sources[0].contents


def test_bear_as_it_is_published_is_read_by_name(site, fathom, shared_data, tmp_path, monkeypatch):
    files = {path.name: path.read_bytes() for path in (shared_data / "bear/BEAR").iterdir()}
    top = "BEAR-725b4e3139d0a5fdf914b0419ba744273dddc689"
    others = {f"{top}/README.md": b"", f"{top}/BEAR-big/P6.jsonl": b"{}", f"{top}/BEAR/notes.txt": b""}
    site.files["/bear.zip"] = zipped({f"{top}/BEAR/{name}": content for name, content in files.items()} | others)
    for name in ("bear_lite_indices.json", "relation_info.json"):
        site.files[f"/{name}"] = (shared_data / "bear" / name).read_bytes()
    entry = yaml.safe_load(published.TABLE.read_text())["BEAR"]
    for source, name in zip(entry["sources"], site.files, strict=True):
        source["url"] = f"{site.url}{name}"
    monkeypatch.setattr(published, "catalogue", lambda: {"BEAR": published.PublishedDataset(name="BEAR", **entry)})
    code, out, err = fathom("data", "fetch", "bear")
    assert (code, err) == (0, "")
    assert stated(out, "CC BY-SA", "in the paper")
    assert out.endswith(f"in {tmp_path}/cache/data/BEAR: type --data BEAR\n")
    code, out, _ = fathom("data", "info", "BEAR", "--format", "json")
    assert code == 0
    totals = json.loads(out)
    assert "7731" in json.dumps(totals)
    assert formats.read("BEAR").licence
    _, out, _ = fathom("data", "list", "--format", "csv")
    assert f",{tmp_path}/cache/data/BEAR" in out


def test_a_folder_within_is_found_by_name(site, tmp_path):
    site.files["/set.zip"] = zipped({"data/relations.jsonl": b"{}", "data/TREx/P1.jsonl": b"{}"})
    go(one_source(f"{site.url}/set.zip", "LAMA"), check=lambda folder: ("TREx",))
    assert formats.locate("lama/TREx") == tmp_path / "cache/data/LAMA/TREx"
    for name in ("LAMA/none", "LAMA/../LAMA", "LAMA2"):
        with pytest.raises(BadInput, match="no data at"):
            formats.locate(name)


def test_what_can_be_fetched_is_said(site):
    with pytest.raises(BadInput, match=mentions("'bear'", "BEAR")):
        formats.locate("bear")


def test_bad_command_lines(site, fathom):
    for arguments, said in (
        ([], ("fathom data list", "--url")),
        (["nothing"], ("'nothing'", "BEAR")),
        (["--sha256", "ab"], ("--sha256", "--url")),
        (["x", "--url", f"{site.url}/a", "--sha256", "ab"], ("--sha256: ", "64 hexadecimal", "'ab'")),
        (["--url", "http://"], "--url 'http://' is not the address"),
        (["--url", "http://localhost/.."], "fathom data fetch NAME --url"),
        (["x", "--url", "file:///etc/passwd"], "--url 'file:///etc/passwd'"),
        (["x", "--url", "http://u:p@a/b"], "a user, key"),
    ):
        code, _, err = fathom("data", "fetch", *arguments)
        assert code == 2
        assert err.count("\n") == 1
        assert mentioned(err, said)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://еxample.com/v1.zip", r"\u0435"),
        ("http://localhost:1/д.zip", r"\u0434"),
        ("http://me:secret@h/v1", "key"),
    ],
)
def test_an_address_that_cannot_be_asked_is_refused_before_it_is_shown(fathom, tmp_path, url, said):
    code, printed, log = fathom("data", "fetch", "xx", "--url", url, "--out", tmp_path / "out")
    assert code == 2
    assert mentioned(log, "--url", said)
    assert "secret" not in printed + log
    assert len(log.splitlines()) == 1
