"""Receipts: any edit of a chain shows, and what a chain alone cannot show, an exported head does."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import examples, texts
from holdfast.domain.canonical import dump_json, parse_json
from holdfast.domain.receipt import NO_LINKS, Head, Link, leaf_lines, link, verify

lines = st.binary(min_size=1, max_size=12).filter(lambda line: b"\n" not in line)
digests = st.binary(min_size=32, max_size=32)
batches = st.lists(lines, max_size=4)


def build(batches: list[list[bytes]], chain: str = "node-1") -> list[Link]:
    head, links = NO_LINKS, []
    for number, batch in enumerate(batches):
        links.append(link(chain, head, 1000 + number, batch))
        head = head_of(links)
    return links


def head_of(links: list[Link]) -> Head:
    return Head(links[-1].seq, links[-1].hash)


def stored(links: list[Link]) -> list[Link]:
    """Links in the order a store reads them."""
    return sorted(links, key=lambda item: (item.chain, item.seq))


chains = st.lists(batches, min_size=1, max_size=6).map(build)
long_chains = st.lists(batches, min_size=3, max_size=6).map(build)


@given(st.lists(batches, min_size=1, max_size=5), st.lists(batches, min_size=1, max_size=5))
@examples
def test_honest_chains_have_no_fault_and_agree_with_every_head_they_ever_had(one, other):
    first, second = build(one, "node-1"), build(other, "node-2")
    heads = {"node-1": head_of(first), "node-2": head_of(second), "node-3": NO_LINKS}
    anchors = [(item.chain, Head(item.seq, item.hash)) for item in first + second]
    assert list(verify(first + second, heads, [*anchors, ("node-3", NO_LINKS)])) == []
    assert [item.count for item in first] == [len(batch) for batch in one]


@given(chains, st.data())
@examples
def test_any_edit_of_any_field_of_any_link_is_reported(links, data):
    at = data.draw(st.integers(0, len(links) - 1))
    values = {
        "chain": st.sampled_from(["node-0", "node-2", ""]),
        "seq": st.integers(-1, 9),
        "at_ms": st.integers(0, 2000),
        "prev": digests,
        "root": digests,
        "hash": digests,
        "leaves": batches.map(b"\n".join),
    }
    field = data.draw(st.sampled_from(sorted(values)))
    value = data.draw(values[field].filter(lambda new: new != getattr(links[at], field)))
    edited = [*links[:at], replace(links[at], **{field: value}), *links[at + 1 :]]
    assert list(verify(stored(edited)))


@given(st.lists(st.lists(lines, min_size=1, max_size=4), min_size=1, max_size=4), st.data())
@examples
def test_any_edited_added_or_removed_leaf_is_reported_at_its_link(written, data):
    links = build(written)
    at = data.draw(st.integers(0, len(links) - 1))
    leaf = data.draw(st.integers(0, len(written[at]) - 1))
    batch, new = written[at], data.draw(lines.filter(lambda line: line != written[at][leaf]))
    for changed in (
        [*batch[:leaf], new, *batch[leaf + 1 :]],
        [*batch[:leaf], *batch[leaf + 1 :]],
        [*batch[:leaf], new, *batch[leaf:]],
    ):
        edited = [*links[:at], replace(links[at], leaves=b"\n".join(changed)), *links[at + 1 :]]
        found = list(verify(edited))
        assert {fault.seq for fault in found} == {at + 1}
        assert "edited_leaf" in {fault.kind for fault in found}


@given(long_chains, st.data())
@examples
def test_a_link_removed_from_the_middle_is_reported_even_when_the_rest_is_renumbered(links, data):
    at = data.draw(st.integers(0, len(links) - 2))
    rest = links[:at] + links[at + 1 :]
    assert next(verify(rest))[1:3] == (at + 1, "gap")
    assert list(verify([replace(item, seq=number) for number, item in enumerate(rest, 1)]))


@given(long_chains, st.data())
@examples
def test_two_links_that_changed_places_are_reported(links, data):
    one, other = sorted(data.draw(st.permutations(range(len(links))))[:2])
    swapped = list(links)
    swapped[one], swapped[other] = links[other], links[one]
    assert list(verify(swapped))
    assert list(verify([replace(item, seq=number) for number, item in enumerate(swapped, 1)]))


@given(chains, batches, st.data())
@examples
def test_a_link_inserted_before_another_is_reported_however_well_it_is_made(links, batch, data):
    at = data.draw(st.integers(0, len(links) - 1))
    before = head_of(links[:at]) if at else NO_LINKS
    forged = link("node-1", before, 7, batch)
    assert list(verify([*links[:at], forged, *links[at:]]))
    later = [replace(item, seq=item.seq + 1) for item in links[at:]]
    assert list(verify([*links[:at], forged, *later]))


@given(long_chains, st.data())
@examples
def test_a_cut_tail_shows_only_against_a_known_head(links, data):
    kept = links[: data.draw(st.integers(0, len(links) - 1))]
    head = head_of(links)
    assert list(verify(kept)) == []
    for found in (list(verify(kept, heads={"node-1": head})), list(verify(kept, anchors=[("node-1", head)]))):
        assert [fault[:3] for fault in found] == [("node-1", len(kept) + 1, "cut")]


@given(st.lists(batches, min_size=1, max_size=5), st.data())
@examples
def test_a_whole_rewrite_shows_only_against_an_exported_head(written, data):
    true = build(written)
    at = data.draw(st.integers(0, len(true) - 1))
    forged = build([[b"forged"], *written])
    anchor = ("node-1", Head(true[at].seq, true[at].hash))
    assert list(verify(forged, heads={"node-1": head_of(forged)})) == []
    found = list(verify(forged, heads={"node-1": head_of(forged)}, anchors=[anchor]))
    assert [fault[:3] for fault in found] == [("node-1", at + 1, "rewritten")]


@given(long_chains, st.data())
@examples
def test_a_chain_can_be_verified_from_where_an_earlier_look_ended(links, data):
    at = data.draw(st.integers(1, len(links) - 1))
    before, heads = {"node-1": head_of(links[:at])}, {"node-1": head_of(links)}
    assert list(verify(links[at:], heads, before=before)) == []
    assert before == {"node-1": head_of(links[:at])}
    assert [fault.kind for fault in verify(links[at:])] == ["gap"]
    moved = {"node-1": Head(at, bytes(32))}
    assert [fault[1:3] for fault in verify(links[at:], before=moved)] == [(at + 1, "broken_link")]


def test_a_head_exported_after_a_rewrite_does_not_hide_the_one_exported_before():
    true, forged = build([[b"paid"]]), build([[b"unpaid"]])
    anchors = [("node-1", head_of(true)), ("node-1", head_of(forged))]
    for known in (anchors, anchors[::-1]):
        assert [fault.kind for fault in verify(forged, anchors=known)] == ["rewritten"]


@given(chains, batches)
@examples
def test_a_link_the_store_does_not_know_of_is_reported(links, batch):
    longer = [*links, link("node-1", head_of(links), 9, batch)]
    assert [fault.kind for fault in verify(longer, heads={"node-1": head_of(links)})] == ["edited_head"]


@given(st.lists(batches, min_size=1, max_size=6), st.data())
@examples
def test_every_fault_is_reported_and_not_only_the_first(written, data):
    both = build(written, "node-1") + build(written, "node-2")
    edited = data.draw(st.sets(st.integers(0, len(both) - 1)))
    found = verify([replace(item, at_ms=1) if n in edited else item for n, item in enumerate(both)])
    expected = [(both[n].chain, both[n].seq, "edited_link") for n in sorted(edited)]
    assert [fault[:3] for fault in found] == expected


@given(texts, st.sampled_from([None, "exhausted"]), st.integers(0, 2**53))
@examples
def test_a_leaf_is_one_line_of_json_for_any_actor(actor, reason, number):
    line = leaf_lines([(number, 2, "evt_00", "dead", reason, 3)], 4, actor)[0]
    record = parse_json(line)
    assert b"\n" not in line
    assert record == {
        "actor": actor, "at": 4, "attempts": 3, "delivery": number,
        "event": "evt_00", "generation": 2, "reason": reason, "state": "dead",
    }  # fmt: skip
    assert dump_json(record) == line or not actor.isascii() or not actor.isprintable()
