"""PubMed's daily files of some months: listed on the page of a folder, each checked by its MD5 file."""

from __future__ import annotations

import hashlib
import re
from datetime import date
from pathlib import Path

from fathom.base.errors import BadInput
from fathom.base.reading.download import OnBytes, download
from fathom.data.fetch import FetchResult, fetch
from fathom.data.options import FetchOptions, last_day
from fathom.data.published import PublishedDataset, PublishedFile, shelf
from fathom.store.files import make_folder

UPDATES = "https://ftp.ncbi.nlm.nih.gov/pubmed/updatefiles/"
LICENCE = "NLM's terms (www.nlm.nih.gov/databases/download/terms_and_conditions.html); abstracts may be copyrighted"
_LISTED = re.compile(r'href="(pubmed\w+\.xml\.gz)"[^\n]*?(\d{4}-\d\d-\d\d)')
_MD5 = re.compile(r"\b[0-9a-f]{32}\b")


def fetch_pubmed(options: FetchOptions, *, on_bytes: OnBytes | None = None, pause_s: float = 1.0) -> FetchResult:
    """Fetch the files of some days to a folder that ``build cloze --input`` takes.

    :raises BadInput: no such file, a wrong checksum; nothing is written.
    :raises RunFailed: no connection, a full disk; received bytes are kept for the next attempt.
    """
    first, last = days_of(options)
    if last < first:
        raise BadInput(f"--from {first} is later than --to {last}")
    folder = (options.url or UPDATES).rstrip("/") + "/"
    wanted = [name for name, day in _list_files(folder, on_bytes, pause_s).items() if first <= day <= last]
    if not wanted:
        raise BadInput(f"{folder} lists no file of PubMed that was written from {first} to {last}")
    names = [file for name in wanted for file in (name, f"{name}.md5")]
    entry = PublishedDataset(
        name=f"pubmed-{first}-{last}",
        about=f"{len(wanted)} files of PubMed, {first} to {last}",
        home=folder,
        licence=LICENCE,
        sources=tuple(PublishedFile(url=folder + name, take=None, name=name) for name in names),
    )
    return fetch(entry, options, on_bytes=on_bytes, pause_s=pause_s, check=_check)


def days_of(options: FetchOptions) -> tuple[date, date]:
    """Return the first and the last day. :raises BadInput: one is missing, or no date."""
    if options.from_ is None or options.to is None:
        raise BadInput("pubmed is fetched by date: type fathom data fetch pubmed --from 2022-01 --to 2022-06")
    return _day_of(options.from_, "--from", last=False), _day_of(options.to, "--to", last=True)


def _day_of(value: str, option: str, *, last: bool) -> date:
    """Return the first or last day of a year, a month or a day. :raises BadInput: no date."""
    try:
        end = date.fromisoformat(str(last_day(value)))
    except (ValueError, BadInput) as error:
        raise BadInput(f"{option}: expected a date such as 2022-03-01, 2022-03 or 2022, found {value!r}") from error
    if last or value.count("-") == 2:
        return end
    return end.replace(day=1) if "-" in value else end.replace(month=1, day=1)


def _list_files(folder: str, on_bytes: OnBytes | None, pause_s: float) -> dict[str, date]:
    """Return the days of the files by their names. :raises BadInput: the page lists no file of PubMed."""
    place = shelf()
    if place is None:
        raise BadInput("there is no place for a cache: type export FATHOM_CACHE=FOLDER first")
    desk = place.parent / "downloads" / "pubmed"
    make_folder(desk)
    page = desk / "listing.part"
    try:
        download(folder, page, on_bytes, pause_s=pause_s)
        lines = _LISTED.findall(page.read_text(encoding="utf-8", errors="replace"))
    finally:
        for file in (page, page.with_name(f"{page.name}.json")):
            file.unlink(missing_ok=True)
    if not lines:
        line = '<a href="pubmed24n1220.xml.gz">… 2024-01-03'
        raise BadInput(f"{folder} lists no files of PubMed: expected lines like {line}")
    return {name: date.fromisoformat(day) for name, day in sorted(dict(lines).items())}


def _check(folder: Path) -> tuple[str, ...]:
    """Check each file against its MD5 file. :returns: the folder for a builder. :raises BadInput: it is another."""
    for md5_file in sorted(folder.glob("*.md5")):
        expected = _MD5.search(md5_file.read_text(encoding="utf-8", errors="replace").casefold())
        file = md5_file.with_suffix("")
        with file.open("rb") as opened:
            actual = hashlib.file_digest(opened, "md5").hexdigest()
        if expected is None or expected[0] != actual:
            wanted = expected[0] if expected else f"in {md5_file.name}"
            raise BadInput(f"{file.name} has another checksum: expected MD5 {wanted}, found {actual}; nothing is kept")
    return ("",)
