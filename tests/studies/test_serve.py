"""``fathom report --serve``: a local list of runs, readable only with its address."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from fathom.base.errors import BadInput
from fathom.store.folder import RunFolder
from fathom.studies.report.serve import RunsServer
from tests.answerers import answered, constant, world

for library in ("altair", "itables", "jinja2"):
    pytest.importorskip(library, reason="needs the extra report")
FACTS = world([[0], [1], [2], [3]] * 2, relations=2)
HOSTILE = "<script>alert(1)</script>'\""


@pytest.fixture
def server(tmp_path):
    answered(tmp_path / "runs" / "good", constant, FACTS)
    answered(tmp_path / "runs" / "deep" / HOSTILE.replace("/", "∕"), constant, FACTS, model=HOSTILE)
    begun = answered(tmp_path / "runs" / "begun", constant, FACTS)
    begun.file_of("0").unlink()
    damaged = answered(tmp_path / "runs" / "damaged", constant, FACTS).path / "manifest.json"
    damaged.write_text(json.dumps({"identity": 5}))
    (tmp_path / "runs" / "foreign").mkdir()
    with RunsServer(tmp_path / "runs") as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def get(address, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_all_runs_are_listed_and_names_are_text(server):
    status, page = get(server.address)
    assert status == 200
    assert page.count("type='checkbox'") == 2, "neither the one without predictions nor the damaged one"
    assert "0 of 1 shards" in page
    assert "cannot be read" in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "foreign" not in page
    assert page.count("<a href=") == 2
    [address] = re.findall("<a href='([^']*)'>good</a>", page)
    status, page = get(server.address + address)
    assert (status, "models/m" in page, "<title>" in page) == (200, True, True)


def test_chosen_runs_open_as_a_report(server):
    names = [run.relative_to(server.folder).as_posix() for run in (server.folder / "good",)]
    status, page = get(f"{server.address}report?{urllib.parse.urlencode({'run': names}, doseq=True)}")
    assert (status, "models/m" in page, "<title>" in page) == (200, True, True)
    assert sorted(path.name for path in server.folder.rglob("*.html")) == []
    for query in ("", "run=nowhere", "run=../runs/good", "run=damaged"):
        status, page = get(f"{server.address}report?{query}")
        assert status == 400, query


def test_nothing_without_the_token_or_from_another_host(server):
    root = f"http://127.0.0.1:{server.server_port}/"
    for path in ("", "x/", "x/report?run=good", server.token[:-1] + "/", "%00/", "é/".encode().decode("latin-1")):
        assert get(root + urllib.parse.quote(path, safe="/?=%"))[0] == 404, path
    assert get(server.address, Host="evil.example")[0] == 404
    assert server.server_address[0] == "127.0.0.1"


def test_what_is_no_folder_or_both(tmp_path, fathom):
    with pytest.raises(BadInput, match="expected a folder with runs"):
        RunsServer(tmp_path / "nothing")
    run = answered(tmp_path / "run", constant, FACTS)
    assert isinstance(run, RunFolder)
    for words in ((), (run.path, "--serve", tmp_path)):
        code, _, err = fathom("report", *words)
        assert (code, "--serve" in err) == (2, True)


def test_a_browser_that_leaves_is_no_news(server, capfd):
    """It closes the connection before the answer is written."""
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
    time.sleep(0.5)
    assert capfd.readouterr().err == ""
