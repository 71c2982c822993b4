"""Merkle proofs: every leaf of every tree can be proven, and nothing else can."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import examples
from holdfast.domain.chain_check import GENESIS, merkle_root
from holdfast.domain.receipt import NO_LINKS, link, proof, proves

leaves = st.lists(st.binary(max_size=8), min_size=1, max_size=33, unique=True)


def root_of(lines: list[bytes]) -> bytes:
    return merkle_root([sha256(b"\x00" + line).digest() for line in lines])


@pytest.mark.parametrize("size", range(1, 34))
def test_every_leaf_of_every_size_is_proven_and_no_other_leaf_in_its_place(size):
    lines = [f"leaf {number}".encode() for number in range(size)]
    root = link("c", NO_LINKS, 0, lines).root
    for index, line in enumerate(lines):
        path = proof(lines, index)
        assert proves(line, path, root)
        assert not proves(line + b"!", path, root)
        assert not any(proves(other, path, root) for other in lines if other != line)


@given(leaves, st.data())
@examples
def test_a_proof_is_no_longer_than_the_tree_is_high(lines, data):
    index = data.draw(st.integers(0, len(lines) - 1))
    assert len(proof(lines, index)) <= (len(lines) - 1).bit_length()


@given(leaves.filter(lambda lines: len(lines) > 1), st.data())
@examples
def test_a_bent_path_proves_nothing(lines, data):
    index = data.draw(st.integers(0, len(lines) - 1))
    path, root = proof(lines, index), root_of(lines)
    step = data.draw(st.integers(0, len(path) - 1))
    side, sibling = path[step]
    other = bytes([sibling[0] ^ 1]) + sibling[1:]
    turned = "left" if side == "right" else "right"
    for bent in ((side, other), (turned, sibling)):
        assert not proves(lines[index], [*path[:step], bent, *path[step + 1 :]], root)
    assert not proves(lines[index], path[:step], root)


@given(leaves, leaves)
@examples
def test_two_lists_have_one_root_only_if_they_are_the_same(one, other):
    assert (root_of(one) == root_of(other)) is (one == other)


def test_an_inner_node_cannot_pose_as_a_leaf():
    left, right = (sha256(b"\x00" + line).digest() for line in (b"a", b"b"))
    assert not proves(left + right, [], root_of([b"a", b"b"]))
    assert not proves(b"\x01" + left + right, [], root_of([b"a", b"b"]))


def test_an_odd_node_moves_up_unchanged():
    a, b, c = (sha256(b"\x00" + line).digest() for line in (b"a", b"b", b"c"))
    pair = sha256(b"\x01" + a + b).digest()
    assert root_of([b"a", b"b", b"c"]) == sha256(b"\x01" + pair + c).digest()
    assert root_of([b"a", b"b", b"c"]) != root_of([b"a", b"b", b"c", b"c"])


def test_no_leaves_and_one_leaf_have_their_own_roots():
    assert merkle_root([]) == GENESIS
    assert root_of([b"a"]) == sha256(b"\x00a").digest()
    assert proof([b"a"], 0) == []
