"""Tables of data sets on the Hugging Face Hub, by ``hf://datasets/OWNER/NAME``, or with ``/FILE`` of several."""

from __future__ import annotations

from pathlib import Path

from fathom.base.errors import BadInput
from fathom.base.progress import log
from fathom.base.reading import first_few
from fathom.data.formats.fact_table import TABLES

HUB = "hf://datasets/"


def table_of(address: str) -> Path:
    """Return a table from the hub's cache, fetched first unless ``HF_HUB_OFFLINE`` is set.

    :raises BadInput: it cannot be fetched, or the data set has several tables or none.
    """
    from huggingface_hub import constants, hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    name, file = _parts(address)
    try:
        return Path(hf_hub_download(name, file or _only_table(address, name), repo_type="dataset"))
    except (OSError, ValueError, HfHubHTTPError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        offline = "it is not in the hub's cache, and HF_HUB_OFFLINE is set"
        raise BadInput(f"{address}: cannot be fetched: {offline if constants.HF_HUB_OFFLINE else reason}") from error


def _parts(address: str) -> tuple[str, str]:
    """Return the name of the data set and the file, "" if none is named."""
    parts = address.removeprefix(HUB).strip("/").split("/")
    if len(parts) < 2 or not all(parts):
        raise BadInput(f"{address}: expected {HUB}OWNER/NAME, or {HUB}OWNER/NAME/FILE")
    return "/".join(parts[:2]), "/".join(parts[2:])


def _only_table(address: str, name: str) -> str:
    tables = sorted(file for file in _files(name) if file.endswith(TABLES))
    if len(tables) != 1:
        found = f"one of {first_few(tables)}" if tables else f"a file that ends in {', '.join(TABLES)}; it has none"
        raise BadInput(f"{address}: name the table, {address.rstrip('/')}/FILE: {found}")
    log(f"{address}: {tables[0]}")
    return tables[0]


def _files(name: str) -> list[str]:
    from huggingface_hub import HfApi, constants, snapshot_download

    if not constants.HF_HUB_OFFLINE:
        return HfApi().list_repo_files(name, repo_type="dataset")
    folder = Path(snapshot_download(name, repo_type="dataset", local_files_only=True))
    return [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]
