"""The most that Fathom takes of each kind of input, so that none fills memory or keeps a process busy for hours."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1 << 20


@dataclass(eq=False)
class Bound:
    """The most of one kind.

    :param most: bytes are shown in MB.
    :param of: what is counted, with its unit first: "bytes in a line".
    """

    most: int
    of: str

    def fault(self) -> str:
        """Say in a message that something exceeds the bound."""
        unit, _, where = self.of.partition(" ")
        large = unit == "bytes" and self.most >= MEGABYTE
        amount = f"{self.most // MEGABYTE:,} MB" if large else f"{self.most:,} {unit}"
        return f"more than {amount}{where and f' {where}'} (the most that Fathom takes)"


LINE = Bound(32 * MEGABYTE, "bytes in a line")
TEXT = Bound(1024 * MEGABYTE, "bytes in a file")
OPTIONS = Bound(MEGABYTE, "bytes in a YAML file")  # which take ten seconds to parse
NODES = Bound(1_000_000, "values in a YAML file, aliases expanded")
DEPTH = Bound(100, "levels of lists or objects within each other")
FOLDERS = Bound(200, "folders within each other")  # many libraries fail in thousands
JOURNAL = Bound(1 << 40, "bytes in a journal of answers")  # which were paid for
CHECKPOINT = Bound(256 * MEGABYTE, "bytes in published weights, unpacked")
ROWS = Bound(50_000_000, "rows in a table")
MEMBERS = Bound(200_000, "files and folders in an archive")
DOWNLOAD = Bound(16_384 * MEGABYTE, "bytes in a download")
REPLY = Bound(64 * MEGABYTE, "bytes in a reply")
DOCUMENT = Bound(64 * MEGABYTE, "bytes in a document")
ARTICLES = Bound(256 * MEGABYTE, "bytes in a file of articles")
NAME = Bound(20_000, "characters in a name")
PROMPT = Bound(100_000, "characters in a template or sentence")
CHAT = Bound(100_000, "characters around a question, by the chat template")
LAYERS = Bound(2_000, "layers")
WIDTH = Bound(1_000_000, "values in a hidden state")
HEADS = Bound(10_000, "attention heads")
INNER = Bound(100_000_000, "values in a feed-forward layer")
TOKENS = Bound(100_000_000, "tokens in a vocabulary")
LABELS = Bound(100_000, "labels of a classifier")
SILENCE = Bound(60, "seconds without a byte")
WAIT = Bound(60, "seconds of a pause that a server asks for")

BOUNDS = tuple(value for value in list(globals().values()) if isinstance(value, Bound))
"""All of them, for tests and documentation."""

GROWS_FREELY = Bound(16 * MEGABYTE, "bytes unpacked of any file")
GROWTH = 300
"""Largest ratio of unpacked to packed size. Text has 3 to 30, zeros 1,030."""


def most_unpacked(size: int) -> int:
    """Return how many bytes a packed file of *size* bytes may have unpacked."""
    return max(GROWS_FREELY.most, GROWTH * size)


def grown(size: int) -> str:
    """Say that a packed file of *size* bytes unpacks to more."""
    return f"unpacks to more than {most_unpacked(size) // MEGABYTE:,} MB, over {GROWTH} times its size"
