"""White space and Unicode forms of names, which no reader sees and every tokenizer does.

All readers of data take their texts through :class:`Spelling` (JSON, tables, Parquet) or :func:`tidy_column` (lines of
triples), so that two spellings of a name are one name.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Respelt = tuple[Path, int | None, str]
"""File, line and original of a text that is read in another spelling."""
OUTER = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028"
    "\u2029\u202f\u205f\u3000\u200b\u200e\u200f\u2060\ufeff"
)
"""Characters dropped at the ends of texts: all white space, the zero-width space, direction marks, word joiner, BOM."""

_MARKS = "\u200e\u200f"


def tidy(text: str) -> str:
    """Return a text in Unicode's composed form (NFC), without white space at its ends."""
    text = text.strip(OUTER)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def tidy_column(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with each text as of :func:`tidy`."""
    import pyarrow.compute as pc

    texts = pc.utf8_trim(texts, OUTER)
    return texts if pc.all(pc.string_is_ascii(texts)).as_py() else pc.utf8_normalize(texts, "NFC")


def is_respelt(text: str, tidied: str) -> bool:
    """Return whether a text was changed in more than marks of direction, which names copied from pages end in."""
    return bool(tidied) and text != tidied and text.strip(_MARKS) != tidied


def folded(name: str) -> str:
    """Return what names have in common that look alike: equal but for case, width, spaces and invisible signs."""
    seen = "".join(sign for sign in name if unicodedata.category(sign) != "Cf")
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold()).split())


class Spelling:
    """Tidies the texts of a file. :param respelt: is extended by those that had another spelling."""

    def __init__(self, file: Path, respelt: list[Respelt]) -> None:
        self._file, self._respelt = file, respelt

    def of(self, line: int | None, value: Any) -> Any:
        """Return a value of JSON with all its texts tidied; keys as well, unless two become equal."""
        if isinstance(value, str):
            text = tidy(value)
            if is_respelt(value, text):
                self._respelt.append((self._file, line, value))
            return text
        if isinstance(value, list):
            return [self.of(line, item) for item in value]
        if isinstance(value, dict):
            keys = {key: self.of(line, key) or key for key in value}
            keys = keys if len(set(keys.values())) == len(keys) else {key: key for key in value}
            return {keys[key]: self.of(line, item) for key, item in value.items()}
        return value
