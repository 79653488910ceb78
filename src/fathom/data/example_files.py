"""The example files of the tutorials, which come with the package."""

from __future__ import annotations

import shutil
from pathlib import Path

from fathom import data
from fathom.base.errors import refuse
from fathom.data.options import ExamplesOptions
from fathom.store.outputs import obstacles, signature_of, whole_folder

EXAMPLES = Path(data.__file__).parent / "examples"


def write_examples(options: ExamplesOptions) -> list[str]:
    """Copy the example files into a new folder and return their names.

    :raises BadInput: the folder is not empty.
    :raises MadeBefore: the same call has made it.
    :raises RunFailed: the disk is full.
    """
    signature = signature_of("data examples", {})
    refuse(obstacles(options.out, signature))
    with whole_folder(options.out, signature) as folder:
        shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    return sorted(entry.name for entry in EXAMPLES.iterdir())
