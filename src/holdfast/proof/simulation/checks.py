"""The checks: pure functions over a case, one for each promise. Those of `proof.kills` are used where they fit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain, pairwise

from holdfast.domain.delivery import STARTS_MAX
from holdfast.proof.kills.checker import (
    ENDS,
    check_bytes,
    check_false_success,
    check_invented,
    check_keys,
    check_lost,
)
from holdfast.proof.kills.evidence import Evidence, Violation
from holdfast.proof.kills.records import Answered, Received
from holdfast.proof.simulation.fixtures import POLICIES
from holdfast.proof.simulation.ledger import Attempt, Case, Change
from holdfast.proof.simulation.receipts import check_receipts

ATTEMPTS = POLICIES["sim"].attempts or 0
FINAL = frozenset({"400", "410"})
NOTICED_S = 12.0
"""By then a process knows which leases an operator ended: one renewal, with a few retries if the file is busy."""


def check_case(case: Case) -> list[Violation]:
    """Every violation of every promise."""
    evidence = as_evidence(case)
    return list(
        chain(
            check_lost(evidence), check_keys(evidence), check_invented(evidence), check_bytes(evidence),
            check_false_success(evidence), check_success(case), check_refusals(case), check_lanes(case),
            check_stale(case), check_holders(case), check_leases(case), check_duplicates(case),
            check_absorbing(case), check_starts(case), check_spool(case), check_conservation(case),
            check_receipts(case), check_quiet(case),
        )
    )  # fmt: skip


def as_evidence(case: Case) -> Evidence:
    """The case as evidence for the checks of `proof.kills`. The ledger's counter takes the place of time."""
    ledger = case.ledger
    received = [
        Received(a.n, a.contract, a.event, a.stream, a.seq, a.key, a.digest, a.body, 0, a.n) for a in ledger.attempts
    ]
    answers = {a.n: Answered(a.n, a.answer, a.answered_n) for a in ledger.attempts if a.answer != "none"}
    return Evidence(
        ledger.sent, ledger.accepted, [], received, answers, [], [], case.store, case.ordered, case.contracts
    )


def check_success(case: Case) -> Iterator[Violation]:
    """A delivery ends as delivered only after an ok under the lease that ended it."""
    confirmed = {(item.delivery, item.token) for item in case.ledger.attempts if item.answer == "ok"}
    for change in case.ledger.changes:
        before, after = change.before, change.after
        ended = after.state == "delivered" and before is not None and before.state == "pending"
        if ended and before is not None and (after.id, before.token) not in confirmed:
            yield Violation("false_success", after.event, f"delivery {after.id} ended without an ok to its holder")


def check_refusals(case: Case) -> Iterator[Violation]:
    """A delivery dies only if it was rejected, has used all attempts, or was started too often without an end."""
    refused = {(item.delivery, item.token) for item in case.ledger.attempts if item.answer in FINAL}
    for change in case.ledger.changes:
        before, after = change.before, change.after
        if before is None or before.state != "pending" or after.state != "dead":
            continue
        justified = {
            "rejected": (after.id, before.token) in refused,
            "exhausted": after.attempts >= ATTEMPTS,
            "crash_loop": (before.starts or 0) > STARTS_MAX,
        }.get(after.reason or "", False)
        if not justified:
            yield Violation("given_up", after.event, f"delivery {after.id} ended as dead({after.reason}) without cause")


def check_stale(case: Case) -> Iterator[Violation]:
    """No attempt without a lease, except after a freeze or shortly after an operator ended the lease."""
    for item in case.ledger.attempts:
        if not item.stale or case.ledger.lives[item.life].may_lose(item.at_s):
            continue
        operated_s = case.ledger.operated.get(item.delivery)
        if operated_s is None or item.at_s > operated_s + NOTICED_S:
            yield Violation("stale", item.event, f"{item.life} attempted {item.delivery} without a valid lease")


def check_lanes(case: Case) -> Iterator[Violation]:
    """On an ordered lane no delivery overtakes a pending one, and first attempts are in order of `seq`."""
    firsts: defaultdict[tuple[str, str], dict[int, Attempt]] = defaultdict(dict)
    for item in case.ledger.attempts:
        if item.overtakes is not None:
            yield Violation("order", item.event, f"delivery {item.delivery} overtakes {item.overtakes}")
        if item.contract in case.ordered and item.generation == 1 and not item.stale:
            firsts[item.contract, item.stream].setdefault(item.seq, item)
    for (contract, stream), found in firsts.items():
        seqs = list(found)
        if seqs != sorted(seqs):
            yield Violation("order", f"{contract} {stream}", f"first attempts came in the order {seqs}")


def check_holders(case: Case) -> Iterator[Violation]:
    """An accepted settlement came from the holder of the lease at that moment."""
    ended = {(c.before.id, c.before.token) for c in case.ledger.changes if c.before is not None and _moved(c)}
    for item in case.ledger.settled:
        if not item.lost and (item.delivery, item.token) not in ended:
            yield Violation("fence", str(item.delivery), f"{item.life} settled it with a lease that was not valid")


def check_leases(case: Case) -> Iterator[Violation]:
    """A lease ends early only by release, by an operator, or because its holder died or was frozen too long."""
    lives = {life.owner: life for life in case.ledger.lives.values()}
    for change in case.ledger.changes:
        before = change.before
        if before is None or before.token is None or before.token == change.after.token or _moved(change):
            continue
        life = lives.get(before.owner)
        if life is None or life.may_lose(change.at_s) or (life.died_n is not None and life.died_n < change.n):
            continue
        if (before.id, before.token) in case.ledger.released or before.id in case.ledger.operated:
            continue
        if before.owner is not None and not life.stopping:
            yield Violation("lease", before.event, f"{life.name} lost its lease of {before.id} without a cause")


def check_duplicates(case: Case) -> Iterator[Violation]:
    """An event answered with ok is sent again only if its sender died or lost its lease before it settled."""
    by_life: defaultdict[tuple[int, int], list[Attempt]] = defaultdict(list)
    for item in case.ledger.attempts:
        by_life[item.delivery, item.generation].append(item)
    lost = {
        (change.before.id, change.before.token)
        for change in case.ledger.changes
        if change.before is not None and change.before.token != change.after.token and not _moved(change)
    }
    for attempts in by_life.values():
        for first, second in pairwise(attempts):
            died_n = case.ledger.lives[first.life].died_n
            died = died_n is not None and died_n < second.n
            excused = first.answer != "ok" or first.stale or second.stale or died
            if not excused and (first.delivery, first.token) not in lost:
                yield Violation("duplicate", first.event, f"delivery {first.delivery} was accepted, and sent again")


def check_absorbing(case: Case) -> Iterator[Violation]:
    """An end is final; only an operator starts a new generation, and attempts never decrease within one."""
    for change in case.ledger.changes:
        before, after = change.before, change.after
        if before is None:
            continue
        reprocessed = after.generation > before.generation
        if reprocessed and before.id not in case.ledger.operated:
            yield Violation("absorbing", after.event, f"delivery {after.id} was reprocessed without an operator")
        elif not reprocessed and before.state in ENDS and (before.state, before.reason) != (after.state, after.reason):
            yield Violation("absorbing", after.event, f"delivery {after.id} had ended as {before.state}")
        elif not reprocessed and after.attempts < before.attempts:
            yield Violation("absorbing", after.event, f"delivery {after.id} lost an attempt")


def check_starts(case: Case) -> Iterator[Violation]:
    """Every claim counts as a start."""
    for change in case.ledger.changes:
        token = change.before.token if change.before is not None else None
        if change.after.token not in (None, token) and not change.after.starts:
            yield Violation(
                "starts", change.after.event, f"delivery {change.after.id} was claimed without counting a start"
            )


def check_spool(case: Case) -> Iterator[Violation]:
    """Each spool record is stored once, under its own id, in the order of writing."""
    events = {row.id: row for row in case.store.events}
    lines: defaultdict[str, list[int]] = defaultdict(list)
    for id, key, stream in case.ledger.spooled:
        row = events.get(id)
        if row is not None:
            lines[stream].append(row.seq)
        elif case.quiet:
            yield Violation("lost", id, f"written to the spool with key {key}, but not in the store")
    for stream, seqs in lines.items():
        if seqs != sorted(seqs):
            yield Violation("order", stream, f"the spool was imported in the order {seqs}")


def check_conservation(case: Case) -> Iterator[Violation]:
    """No gaps in streams, and one delivery for each event and contract."""
    seqs: defaultdict[str, list[int]] = defaultdict(list)
    for row in case.store.events:
        if row.stream is not None:
            seqs[row.stream].append(row.seq)
    for stream, found in seqs.items():
        if sorted(found) != list(range(1, len(found) + 1)):
            yield Violation("conservation", stream, "the seq numbers of the stream have a gap or a duplicate")
    pairs = Counter((row.event, row.contract) for row in case.store.deliveries)
    for (event, contract), times in pairs.items():
        if times > 1:
            yield Violation("conservation", event, f"has {times} deliveries for contract {contract}")
    for row in case.store.events:
        for contract in sorted(case.contracts):
            if row.id not in case.store.unrouted and (row.id, contract) not in pairs:
                yield Violation("conservation", row.id, f"is routed, but has no delivery for contract {contract}")


def check_quiet(case: Case) -> Iterator[Violation]:
    """After the last fault all work ends, and there were no unexpected errors."""
    for error in case.errors:
        yield Violation("error", "simulation", error)
    waiting = [row for row in case.store.deliveries if row.state not in ENDS]
    if not case.quiet or waiting or case.store.unrouted:
        what = f"{len(waiting)} deliveries and {len(case.store.unrouted)} unrouted events pending after the quiet phase"
        yield Violation("liveness", waiting[0].event if waiting else "", what)
    elif case.store.leases:
        yield Violation("liveness", str(case.store.leases[0].delivery), "is leased although nothing is pending")


def _moved(change: Change) -> bool:
    """Whether the delivery itself changed, not only its lease."""
    before, after = change.before, change.after
    return before is None or (before.state, before.attempts, before.generation) != (
        after.state, after.attempts, after.generation,
    )  # fmt: skip
