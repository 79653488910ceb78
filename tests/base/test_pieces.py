"""Pieces of large files have every line once, for each compression and each cut."""

from __future__ import annotations

import bz2
import gzip
import io
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.base.reading import Unreadable, pieces
from fathom.base.reading.bounds import LINE
from fathom.base.reading.pieces import Piece, lines_of, pieces_of

PACK = {"json": bytes, "json.gz": gzip.compress, "json.bz2": lambda part: bz2.compress(part, 1)}


def stored(folder: Path, ending: str, parts: list[bytes]) -> Path:
    """A file of members, one for each part."""
    file = folder / f"dump.{ending}"
    file.write_bytes(b"".join(map(PACK[ending], parts)))
    return file


def all_lines(file: Path) -> list[bytes]:
    return [line for piece in pieces_of(file) for line in lines_of(file, piece)]


def split(content: bytes) -> list[bytes]:
    return io.BytesIO(content).readlines()


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(
        st.binary(max_size=3).map(lambda text: text.replace(b"\n", b"")) | st.just(b"ab" * 9_000), max_size=40
    ),
    cuts=st.lists(st.floats(0, 1), max_size=5),
    step=st.integers(1, 3_000),
    ending=st.sampled_from(sorted(PACK)),
    end=st.booleans(),
)
def test_each_line_is_in_one_piece(tmp_path_factory, lines, cuts, step, ending, end):
    content = b"\n".join(lines) + b"\n" * end
    places = sorted(int(share * len(content)) for share in cuts)
    parts = [content[start:stop] for start, stop in pairwise([0, *places, len(content)])]
    file = stored(tmp_path_factory.mktemp("pieces"), ending, parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", step)
        patch.setattr(pieces, "PACKED_PIECE", step)
        assert all_lines(file) == split(content)


@pytest.mark.parametrize("level", [1, 9])
def test_blocks_of_one_bzip2_stream_are_pieces(tmp_path, monkeypatch, level):
    """Blocks have 100 kB or 900 kB before compression, and begin at any bit."""
    content = b"".join(b"%d\n" % (number * 7919 % 1_000_003) for number in range(300_000))
    file = tmp_path / "dump.json.bz2"
    file.write_bytes(bz2.compress(content, level))
    monkeypatch.setattr(pieces, "PACKED_PIECE", 30_000)
    assert [sum(1 for _ in lines_of(file, piece)) > 0 for piece in pieces_of(file)].count(True) > (level == 1)
    assert all_lines(file) == split(content)


def test_a_block_is_in_the_piece_with_the_byte_in_which_it_begins(tmp_path):
    content = b"".join(b"%d\n" % (number * 7919 % 1_000_003) for number in range(60_000))
    file = tmp_path / "dump.json.bz2"
    file.write_bytes(bz2.compress(content, 1))
    size = file.stat().st_size
    for start in pieces._marks(file.read_bytes(), pieces._BLOCK_BEGINS)[1:]:
        for cut in (start // 8, start // 8 + 1):
            lines = [line for piece in (Piece(0, cut), Piece(cut, size)) for line in lines_of(file, piece)]
            assert lines == split(content)


def test_a_gzip_file_is_one_piece_with_all_its_members(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PACKED_PIECE", 1)
    file = stored(tmp_path, "json.gz", [b"a\nb", b"x\ny", b"z\n"])
    assert pieces_of(file) == [Piece(0, file.stat().st_size)]
    assert all_lines(file) == [b"a\n", b"bx\n", b"yz\n"]


@pytest.mark.parametrize("ending", ["json.gz", "json.bz2"])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_lines_before_a_damaged_place_can_be_read(tmp_path, monkeypatch, ending, damage):
    monkeypatch.setattr(pieces, "PACKED_PIECE", 20_000)
    lines = [b"%d\n" % (number * 7919 % 1_000_003) for number in range(100_000)]
    content = b"".join(lines)
    cuts = [0, 200_000, 400_000, len(content)]
    file = stored(tmp_path, ending, [content[start:end] for start, end in pairwise(cuts)])
    packed = bytearray(file.read_bytes())
    middle = len(packed) // 2
    packed[middle] ^= 255
    file.write_bytes(packed[:middle] if damage == "cut" else packed)
    found: list[bytes] = []
    with pytest.raises(Unreadable, match="cannot be read"):
        found.extend(line for piece in pieces_of(file) for line in lines_of(file, piece))
    assert lines[: len(found)] == found
    assert len(found) > 20_000


def test_a_line_that_is_too_long_is_cut_off_and_the_next_one_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(LINE, "most", 3 << 20)
    monkeypatch.setattr(pieces, "PIECE", 2 << 20)
    file = tmp_path / "dump.json"
    file.write_bytes(b"a\n" + b"b" * (5 << 20) + b"\nc\n")
    first, long, last = all_lines(file)
    assert (first, last) == (b"a\n", b"c\n")
    assert long == b"b" * LINE.most + b"\n"


def test_a_file_that_grows_too_large_is_refused(tmp_path):
    file = tmp_path / "dump.json.gz"
    file.write_bytes(gzip.compress(b"\n" * (64 << 20)))
    with pytest.raises(Unreadable, match="unpacks to more"):
        all_lines(file)
