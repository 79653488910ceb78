"""How tables are printed."""

from enum import StrEnum


class Format(StrEnum):
    """For reading: text, md. For programs: json, csv."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MD = "md"
