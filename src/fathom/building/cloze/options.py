"""Options of ``fathom build cloze``."""

from __future__ import annotations

import calendar
import re
from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from fathom.options import Group, Seed, opt


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


Day = Annotated[str, BeforeValidator(last_day)]


class ClozeBuildOptions(BaseModel):
    """Options for reading, selecting and writing sentences."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.SELECTION

    after: Day | None = opt(
        None, "Keep only documents later than this day, month or year, by the earliest date they carry."
    )
    language: str = opt("en", "Language of the texts, two letters: for splitting, and for PubMed records.", Group.DATA)
    titles: bool = opt(False, "Also read the titles of PubMed and JATS articles.", Group.DATA)
    lines: bool = opt(False, "Treat each line of a .txt file as a document; by default each file is one.", Group.DATA)
    encoding: str = opt("utf-8", "Encoding of all files but XML, which declares its own.", Group.DATA)
    case: Literal["smart", "exact", "ignore"] = opt(
        "smart",
        "How names are matched; smart: proper names (Turkey), names of up to three letters and those with inner "
        "capitals (tin, mRNA) only as written, others in any case.",
    )
    min_letters: int = opt(3, "Minimum letters and digits of a name; shorter ones often mean something else.", ge=1)
    min_words: int = opt(
        5,
        "Minimum telling words of a sentence: all but its answer, function words, words for kinds of things (gene, "
        "city) and words of up to two letters.",
        ge=0,
    )
    quality: bool = opt(
        True,
        "Drop fragments, sentences with an address, those that reveal their answer, and names within a hyphenated "
        "word, a number or a citation.",
    )
    exclude_guessable: bool = opt(
        False,
        "Drop sentences that an n-gram model of the corpus's other sentences answers; by default they are marked.",
    )
    sample: int = opt(200, "Sentences of each type drawn for the reviewers.", Group.OUTPUT, ge=0)
    seed: Seed = opt(0, "Seed of the sample for the reviewers.", Group.RUN)
