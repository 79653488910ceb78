"""Settings that papers state, in ``tests/plans/conformance``: compared by a test, listed in docs/papers.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator

from fathom.base.options import read_yaml, separated

FOLDER = Path(__file__).parent / "plans" / "conformance"
PAPERS = tuple(file.stem for file in sorted(FOLDER.glob("*.yaml")))
Steps = Annotated[tuple[str, ...], BeforeValidator(separated)]


class Setting(BaseModel):
    """A setting that a paper states.

    :param where: section, table or figure of the paper.
    :param value: the paper's.
    :param step: where the plan has it: runs.NAME, studies.NAME, tables.NAME or data.NAME; published.FOLDER of the
        reference data; code.MODULE. Without any, nothing is compared.
    :param option: of each of these.
    :param here: the value in the plan, if it differs from the paper's.
    :param why: reason of the difference.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    setting: str
    where: str
    value: Any
    step: Steps = ()
    option: str = ""
    here: Any = None
    why: str = ""

    @property
    def differs(self) -> bool:
        return "here" in self.model_fields_set

    @property
    def expected(self) -> Any:
        """The value in the plan."""
        return self.here if self.differs else self.value

    @model_validator(mode="after")
    def _is_whole(self) -> Setting:
        assert bool(self.step) == bool(self.option), f"{self.setting}: a step needs an option"
        assert self.step or self.differs, f"{self.setting}: nothing can be compared"
        assert self.differs == bool(self.why), f"{self.setting}: a difference has a reason"
        assert not self.differs or self.here != self.value, f"{self.setting}: it does not differ"
        return self


class PaperTable(BaseModel):
    """Tables or figures of a paper, where Fathom has them, and what differs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paper: str
    here: str
    why: str = ""


class Conformance(BaseModel):
    """What a preset has of its paper."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tables: tuple[PaperTable, ...] = ()
    settings: tuple[Setting, ...]

    def lines_of_tables(self) -> Iterator[str]:
        """Yield the lines of the table of tables."""
        yield from ("| paper | here | what differs |", "|---|---|---|")
        yield from (f"| {table.paper} | {table.here} | {table.why} |".replace("  |", " |") for table in self.tables)

    def lines_of_settings(self) -> Iterator[str]:
        """Yield the lines of the table of settings that differ."""
        yield from ("| setting | paper | here | why |", "|---|---|---|---|")
        for one in (one for one in self.settings if one.differs):
            yield f"| {one.setting} | {_shown(one.value)} ({one.where}) | {_shown(one.here)} | {one.why} |"


def _shown(value: Any) -> str:
    words = {None: "not set", True: "yes", False: "no"}
    if value is None or isinstance(value, bool):
        return words[value]
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def read_conformance(name: str) -> Conformance:
    """Read the file of a preset. :raises ValidationError: it is no such file."""
    return Conformance(**read_yaml(FOLDER / f"{name}.yaml"))
