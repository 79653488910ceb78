"""``fathom report --serve``: a local list of runs, readable only with its address."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager

import pytest

from fathom.base.errors import BadInput
from fathom.store.folder import RunFolder
from fathom.studies.report.serve import RunsServer
from tests.answerers import answered, at_rank, constant, world
from tests.messages import mentioned

for library in ("altair", "itables", "jinja2"):
    pytest.importorskip(library, reason="needs the extra report")
FACTS = world([[0], [1], [2], [3]] * 2, relations=2)
HOSTILE = "<script>alert(1)</script>'\""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("FATHOM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@contextmanager
def serving(folder, port=0):
    with RunsServer(folder, port) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def server(tmp_path):
    answered(tmp_path / "runs" / "good", constant, FACTS)
    answered(tmp_path / "runs" / "deep" / HOSTILE.replace("/", "∕"), constant, FACTS, model=HOSTILE)
    begun = answered(tmp_path / "runs" / "begun", constant, FACTS)
    begun.file_of("0").unlink()
    begun.add_log(HOSTILE)
    damaged = answered(tmp_path / "runs" / "damaged", constant, FACTS).path / "manifest.json"
    damaged.write_text(json.dumps({"identity": 5}))
    (tmp_path / "runs" / "foreign").mkdir()
    (tmp_path / "runs" / "foreign" / "manifest.json").write_text("{}")
    secret = answered(tmp_path / "outside" / "secret", constant, FACTS)
    (tmp_path / "runs" / "link").symlink_to(secret.path)
    (tmp_path / "runs" / "half-link").mkdir()
    for name in ("manifest.json", "queries.parquet"):
        (tmp_path / "runs" / "half-link" / name).symlink_to(secret.path / name)
    with serving(tmp_path / "runs") as made:
        yield made


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
    assert not any(name in page for name in ("foreign", "link", "secret"))
    assert page.count("<a href='run/") == 4
    [address] = re.findall("<a href='([^']*)'>good</a>", page)
    assert address == "run/good"
    status, page = get(server.address + address)
    assert (status, "models/m" in page, "<title>" in page) == (200, True, True)


def cells_of(page, name):
    """Return the texts of the cells of a run's row by the texts of the head."""
    head = [re.sub("<.*?>", "", cell) for cell in re.findall("<th>(.*?)</th>", page)]
    [row] = [row for row in re.findall("<tr.*?>(.*?)</tr>", page) if f">{name}</a>" in row]
    return dict(zip(head, (re.sub("<.*?>", "", cell) for cell in re.findall("<td.*?>(.*?)</td>", row)), strict=True))


def test_the_leaderboard_has_accuracy_baselines_and_parts(server):
    """The constant answerer is right on the first of four facts of each relation. Random guessing has 1/20."""
    cells = cells_of(get(server.address)[1], "good")
    assert re.fullmatch(r"25\.0 % \[.*, .*\]", cells["Accuracy"])
    assert cells["Best baseline"].endswith(" %")
    assert (cells["Scoring"], cells["State"], cells["Model"]) == ("sum/full", "finished", "m")
    assert "r0" not in cells
    page = get(f"{server.address}?by=relation")[1]
    cells = cells_of(page, "good")
    assert all(cells[relation].startswith("25.0 %") for relation in ("r0", "r1"))
    assert cells_of(page, "begun")["r0"] == ""
    assert "<b>relation</b>" in page
    for unknown in ("nonsense", "<script>", "%3Cscript%3E", "nonsense&by=relation"):
        status, page = get(f"{server.address}?by={urllib.parse.quote(unknown, safe='%=&')}")
        assert (status, "<script>" in page) == (400, False)
        assert mentioned(page, "relation")


def test_stored_numbers_are_read_and_damaged_ones_named(server):
    file = server.folder / "good" / "metrics.json"
    number = {"value": 0.5, "low": 0.25, "high": 0.75}
    stored = {"metrics": {"accuracy": number}, "by": {"domain": {"Geo": {"accuracy": number}}}}
    file.write_text(json.dumps({"scorings": {"sum/full": stored, "mean/full": {"metrics": {}}}}))
    page = get(f"{server.address}?by=domain")[1]
    assert page.count(">good</a>") == 2, "a row for each scoring"
    assert page.count("50.0 % [25.0, 75.0]") == 2
    file.write_text(json.dumps({"scorings": {"sum/full": {"metrics": {"accuracy": {"value": "x"}}}}}))
    os.utime(server.folder / "good" / "manifest.json")
    assert mentioned(get(server.address)[1], "cannot be read", "metrics.json", "accuracy.value")


def test_a_run_at_work_shows_its_numbers_so_far(server):
    """The run has one of the two shards of its plan. The constant answerer is right on 2 of 8 facts."""
    run = server.folder / "good"
    manifest = json.loads((run / "manifest.json").read_text())
    manifest.pop("digest")
    (run / "manifest.json").write_text(json.dumps(manifest | {"plan": ["0", "1"]}))
    status, page = get(f"{server.address}run/good")
    assert (status, "1 of 2 shards" in page) == (200, True)
    assert mentioned(page, "<dt>Results so far</dt>", "25.0 %", "of 8 queries")
    assert "Results so far" not in get(f"{server.address}run/begun")[1]


def test_a_run_at_work_shows_its_state_and_its_log(server):
    status, page = get(f"{server.address}run/begun")
    assert (status, "0 of 1 shards" in page, 'http-equiv="refresh"' in page) == (200, True, True)
    assert mentioned(page, "&lt;script&gt;alert(1)", 'href="../"')
    assert "<script>" not in page


def test_a_damaged_run_and_nothing_outside_the_folder(server):
    assert mentioned(get(f"{server.address}run/damaged")[1], "manifest.json", "identity")
    names = ("damaged", "nowhere", "", ".", "..", "../outside/secret", "good/../../outside/secret", "link", "half-link")
    for name in (*names, "/etc", str(server.folder.parent / "outside" / "secret"), "good/manifest.json"):
        for spelt in (name, urllib.parse.quote(name, safe=""), urllib.parse.quote(name, safe="").replace(".", "%2e")):
            assert get(f"{server.address}run/{spelt}")[0] == 400, spelt
    for page in ("good", "runs/good", "../", "log.txt", "report/../run"):
        assert get(f"{server.address}{page}")[0] == 404, page


def test_addresses_stay_the_same(server, tmp_path, cache):
    port = server.server_port
    assert (cache / "addresses").stat().st_mode & 0o777 == 0o600
    with serving(server.folder) as other:
        assert other.address == server.address.replace(str(port), str(other.server_port))
        assert get(f"{other.address}run/deep/{urllib.parse.quote(HOSTILE.replace('/', '∕'))}")[0] == 200


def test_a_secret_that_others_may_know_is_replaced(server, cache):
    """One that others could read, one cut off by a full disk, and a link of another user."""
    file, secrets = cache / "addresses", {server.token}

    def next_secret():
        with serving(server.folder) as other:
            secrets.add(other.token)
            assert len(other.token) == len(server.token)

    file.chmod(0o644)
    next_secret()
    file.write_text("")
    next_secret()
    file.rename(cache / "elsewhere")
    file.symlink_to(cache / "elsewhere")
    next_secret()
    assert len(secrets) == 4


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


@pytest.mark.slow
def test_sorting_and_searching_in_a_browser(server):
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    for name, rank in (("best", 1), ("last", 9)):
        answered(server.folder / name, at_rank(rank), FACTS, model=name)
    faults = []
    with playwright.sync_playwright() as started:
        page = started.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.on("console", lambda said: said.type in ("error", "warning") and faults.append(said.text))
        page.goto(server.address)

        def shown():
            return page.locator("tbody tr:visible td:nth-child(2)").all_inner_texts()

        page.get_by_role("button", name="Accuracy").click()
        assert (shown()[0], shown()[3]) == ("best", "last"), "those without a number come last"
        assert set(shown()[4:]) == {"begun", "damaged"}
        page.get_by_role("button", name="Accuracy").click()
        assert (shown()[0], set(shown()[4:])) == ("last", {"begun", "damaged"})
        page.get_by_label("Search").fill("best")
        assert shown() == ["best"]
        page.get_by_label("Search").fill("")
        page.get_by_role("link", name="relation").click()
        page.get_by_role("button", name="r0").click()
        assert shown()[0] == "best"
        page.get_by_role("link", name="good").click()
        page.get_by_role("tab", name="Evidence").wait_for()
        assert page.url == f"{server.address}run/good"
    assert faults == []
