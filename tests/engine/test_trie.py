"""Token tries and the blocks they are cut into."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.engine.scoring.trie import AnswerTrie, Lookup, Trie, blocks_from, build_trie


def all_blocks(trie: Trie, size: int, times: int = 3) -> list[tuple[np.ndarray, int]]:
    found, start = [], 0
    while start < len(trie.inner):
        blocks, after = blocks_from(trie, start, size, times * size)
        assert after > start, "no progress"
        assert len(blocks) == 1 or len(blocks) * max(len(block.nodes) for block in blocks) <= times * size
        found += blocks
        start = after
    return found


def test_preorder_by_hand() -> None:
    # As a tree, children by token id, each node written token(number):
    #
    #   1(0) ── 2(1) ── 3(2)
    #            └──── 4(3) ── 9(4)
    #     └─── 5(5)
    #   7(6) ── 2(7)
    sequences = [[7, 2], [1, 2, 4, 9], [1, 5], [1, 2, 3]]
    trie = build_trie(sequences)
    assert trie.tokens.tolist() == [1, 2, 3, 4, 9, 5, 7, 2]
    assert trie.depth.tolist() == [0, 1, 2, 2, 3, 1, 0, 1]
    assert trie.parent.tolist() == [-1, 0, 1, 1, 3, 0, -1, 6]
    # Subtrees: 0 holds 0…5, 1 holds 1…4, 3 holds 3 and 4, 6 holds 6 and 7; the others themselves only.
    assert trie.end.tolist() == [6, 5, 3, 5, 5, 6, 8, 8]
    assert trie.inner.tolist() == [0, 1, 3, 6]
    # Rows as given, not as sorted.
    assert trie.paths.tolist() == [[6, 7, -1, -1], [0, 1, 3, 4], [0, 5, -1, -1], [0, 1, 2, -1]]


def test_blocks_by_hand() -> None:
    # The tree above has the inner nodes 0, 1, 3, 6. Two nodes at a time: 0 and 1 fill the first block. 3 has the
    # ancestors 0 and 1, which fill the next one, so it holds as many new nodes again: 3 and 6; also with room for two
    # in all, since a path cannot be cut.
    trie = build_trie([[7, 2], [1, 2, 4, 9], [1, 5], [1, 2, 3]])
    found = [(block.nodes.tolist(), block.context) for block in all_blocks(trie, size=2)]
    assert found == [([0, 1], 0), ([0, 1, 3, 6], 2)]
    found = [(block.nodes.tolist(), block.context) for block in all_blocks(trie, size=2, times=1)]
    assert found == [([0, 1], 0), ([0, 1, 3, 6], 2)]


def test_a_long_beginning_is_not_run_again_for_every_few_nodes() -> None:
    # 300 tokens that 60 answers of three share. Of size 128: the beginning takes 128 + 128 + 256 nodes, the rest of it
    # and the 120 inner nodes of the answers: 300 are seen by 164. Of one new node each it would be 36,000 nodes more.
    beginning = list(range(1000, 1300))
    trie = build_trie([[*beginning, answer, 5, 6] for answer in range(60)])
    blocks = all_blocks(trie, size=128, times=16)
    assert [(len(block.nodes), block.context) for block in blocks] == [(128, 0), (256, 128), (420, 256)]


def test_equal_sequences_share_a_path() -> None:
    trie = build_trie([[3, 1], [3, 1], [3, 1, 4], [3, 1]])
    assert trie.tokens.tolist() == [3, 1, 4]
    assert trie.paths.tolist() == [[0, 1, -1], [0, 1, -1], [0, 1, 2], [0, 1, -1]]


def test_prefixes_of_one_another() -> None:
    trie = build_trie([[5, 6, 7], [5], [5, 6]])
    assert trie.tokens.tolist() == [5, 6, 7]
    assert trie.inner.tolist() == [0, 1]
    assert trie.paths.tolist() == [[0, 1, 2], [0, -1, -1], [0, 1, -1]]


def test_token_zero_is_a_token_like_any_other() -> None:
    # Paths are padded with −1 inside; an id of 0 must not be taken for the padding.
    trie = build_trie([[0, 0, 0], [0, 0], [0, 1]])
    assert trie.tokens.tolist() == [0, 0, 0, 1]
    assert trie.paths.tolist() == [[0, 1, 2], [0, 1, -1], [0, 3, -1]]


def test_one_sequence() -> None:
    trie = build_trie([[8, 8, 8]])
    assert trie.tokens.tolist() == [8, 8, 8]
    assert trie.parent.tolist() == [-1, 0, 1]
    assert trie.end.tolist() == [3, 3, 3]
    assert trie.inner.tolist() == [0, 1]


def test_single_tokens_have_no_inner_nodes() -> None:
    trie = build_trie([[4], [2], [4]])
    assert trie.inner.tolist() == []
    assert blocks_from(trie, 0, 8, 4) == ([], 0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 2, 5, 16, 1000])
def test_blocks_own_every_inner_node_once(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    # Few distinct tokens: much is shared, some sequences are equal, some are prefixes.
    sequences = [rng.integers(0, 3, rng.integers(1, 9)).tolist() for _ in range(60)]
    trie = build_trie(sequences)
    for sequence, path in zip(sequences, trie.paths, strict=True):
        nodes = path[path >= 0]
        assert trie.tokens[nodes].tolist() == sequence
        assert trie.parent[nodes].tolist() == [-1, *nodes[:-1].tolist()]

    blocks = all_blocks(trie, size)
    owned = np.concatenate([block.nodes[block.context :] for block in blocks])
    assert owned.tolist() == trie.inner.tolist()
    for block in blocks:
        present = set(block.nodes.tolist())
        assert len(present) == len(block.nodes)
        assert all(np.diff(block.nodes) > 0), "preorder"
        above = trie.parent[block.nodes]
        assert all(parent in present for parent in above[above >= 0].tolist()), "an ancestor is missing"
        # More than asked only where as many are new as are seen.
        assert len(block.nodes) <= max(size, 2 * block.context, block.context + 1)
        # Context stands above the first new node, so it is needed.
        first = int(block.nodes[block.context])
        assert all(node <= first < trie.end[node] for node in block.nodes[: block.context].tolist())


def test_a_look_up_finds_every_place_of_a_value() -> None:
    index, places = Lookup(np.array([5, 2, 5, 7])).find(np.array([7, 3, 5]))
    assert list(zip(index.tolist(), places.tolist(), strict=True)) == [(0, 3), (2, 0), (2, 2)]


def test_answers_by_hand() -> None:
    # The tree of the first test: nodes 1(0) 2(1) 3(2) 4(3) 9(4) 5(5) 7(6) 2(7); two candidates are called alike.
    answers = AnswerTrie([[7, 2], [1, 2, 4, 9], [1, 5], [1, 2], [7, 2], [1, 2, 3]])
    assert answers.roots.tolist() == [0, 6]
    assert answers.terminal.tolist() == [7, 4, 5, 1, 7, 2]
    assert answers.tokens == 2 + 4 + 2 + 2 + 2 + 3
    assert answers.longest.tolist() == [4, 4, 3, 4, 4, 2, 2, 2]
    assert answers.is_inner.tolist() == [True, True, False, True, False, False, True, False]
    index, places = answers.ending.find(np.array([0, 1, 7]))  # no answer ends at the first
    assert list(zip(index.tolist(), places.tolist(), strict=True)) == [(1, 3), (2, 0), (2, 4)]
    assert answers.trie.path(1).tolist() == [0, 1, 3, 4]
