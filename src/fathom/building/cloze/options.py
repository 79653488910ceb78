"""Options of ``fathom build cloze``."""

from __future__ import annotations

import calendar
import re
from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, NonNegativeInt, model_validator

from fathom.errors import BadInput
from fathom.options import Group, Seed, listed, opt, separated


def last_day(value: Any) -> Any:
    """Return the last day of a year, month or day, so that later dates are never in it.

    :raises ValueError: not a date.
    """
    if value is None or isinstance(value, date):
        return None if value is None else value.isoformat()
    match = re.fullmatch(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?", str(value).strip())
    if not match:
        raise ValueError("expected a date such as 2021-12-31, 2021-12 or 2021")
    year, month = int(match[1]), int(match[2] or 12)
    if not 1 <= month <= 12:
        raise ValueError("there is no such month")
    return date(year, month, int(match[3] or calendar.monthrange(year, month)[1])).isoformat()


Fault = Literal["token", "url", "table", "letters", "beginning", "abbreviation"]
"""Kinds of :mod:`~fathom.building.cloze.boilerplate` and :mod:`~fathom.building.cloze.leaks`."""
Day = Annotated[str, BeforeValidator(last_day)]


class ClozeBuildOptions(BaseModel):
    """Options for reading, selecting and writing sentences."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.SELECTION

    after: Day | None = opt(
        None, "Keep only documents later than this day, month or year, by the earliest date they carry."
    )
    language: str = opt("en", "Language of the texts, two letters: for splitting, and for PubMed records.", Group.DATA)
    any_language: bool = opt(False, "Also read PubMed records in other languages.")
    titles: bool = opt(False, "Also read the titles of PubMed and JATS articles.", Group.DATA)
    lines: bool = opt(False, "Treat each line of a .txt file as a document; by default each file is one.", Group.DATA)
    encoding: str = opt("utf-8", "Encoding of all files but XML, which declares its own.", Group.DATA)
    case: Literal["smart", "exact", "ignore"] = opt(
        "smart",
        "How names are matched; smart: names of up to three letters and those with inner capitals (tin, mRNA) only "
        "as written, others in any case.",
    )
    min_letters: int = opt(3, "Minimum letters and digits of a name; shorter ones often mean something else.", ge=1)
    ambiguous: Literal["drop", "first"] = opt(
        "drop", "Treatment of names of several entities: drop their sentences, or use the first entity listed."
    )
    hyphenated: bool = opt(
        False, "Also keep sentences whose name is part of a hyphenated word: insulin in insulin-dependent."
    )
    min_words: int = opt(4, "Minimum words of a sentence.", ge=0)
    max_words: int | None = opt(None, "Maximum words of a sentence.", ge=1)
    keep: Annotated[tuple[Fault, ...], BeforeValidator(separated)] = opt(
        (),
        "Kinds of sentences to keep that are dropped by default, separated by commas. Boilerplate: token (special "
        "tokens), url, table (rows of a table). Sentences that give away their answer: by its letters in another "
        "form, by a word that begins as it does, by an abbreviation of it.",
    )
    merge: bool = opt(
        True, "Merge sentences that differ only in their answer into one query with several gold answers."
    )
    near_duplicates: float | None = opt(
        None,
        "Drop documents that share so much of their runs of five words with an earlier one, such as 0.8; "
        "by default they are not compared.",
        ge=0.5,
        le=0.95,
    )
    splits: Annotated[tuple[NonNegativeInt, ...], BeforeValidator(listed)] = opt(
        (),
        "Shares of train, dev and test, such as 80,10,10, for --subset; documents that nearly repeat each "
        "other stay together. By default nothing is split.",
    )
    answerable: Literal["mark", "drop", "off"] = opt(
        "mark",
        "Sentences that an n-gram model of the corpus's other sentences answers: mark and count them, "
        "drop them, or do not compute it (off; results have no n-gram baseline).",
    )
    candidates: Literal["found", "listed"] = opt(
        "found", "Candidates of each type: the entities that occur, or all of the list."
    )
    sample: int = opt(200, "Sentences of each type drawn for the reviewers.", Group.OUTPUT, ge=0)
    seed: Seed = opt(0, "Seed of the sample for the reviewers, and of the splits.", Group.RUN)

    @model_validator(mode="after")
    def _has_room(self) -> ClozeBuildOptions:
        if self.max_words is not None and self.max_words < self.min_words:
            raise BadInput(f"--max-words {self.max_words} is less than --min-words {self.min_words}: no sentence fits")
        if self.splits and (len(self.splits) != 3 or sum(map(bool, self.splits)) < 2):
            shares = ",".join(map(str, self.splits))
            raise BadInput(f"--splits {shares}: expected shares of train, dev and test, such as 80,10,10 or 80,0,20")
        return self
