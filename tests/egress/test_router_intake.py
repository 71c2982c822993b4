"""Places that the router reserves for new deliveries."""

from __future__ import annotations

from holdfast.domain.delivery import Claim, Delivery
from holdfast.domain.event import Event
from holdfast.egress.router_intake import RouterIntake
from holdfast.store.roles.deliveries import Claimed, ClaimRequest, Served
from holdfast.store.roles.routing import Plan, RouteTarget

LEASE_MS = 30_000


def plans(*queues: int, lane: str | None = None) -> list[Plan]:
    targets = [RouteTarget(queue, f"handler:h{queue}", "handler", lane) for queue in queues]
    return [Plan(n, (target,), 0) for n, target in enumerate(targets)]


def claim_of(queue: int) -> Claim:
    event = Event(1, "e", None, 1, "app", "t", "", 0, "{}", "null")
    return Claim(Delivery(1, f"handler:h{queue}", None, 0, 1), event, queue, token=1, starts=1)


def request(limit: int = 100, **capacity: int) -> ClaimRequest:
    places = {int(name[1:]): count for name, count in capacity.items()}
    return ClaimRequest(1, Served(frozenset(), frozenset()), limit, {}, places, {})


def caught_up() -> RouterIntake:
    intake = RouterIntake()
    intake.note_claim(request(), Claimed([], None, 0))
    return intake


def places(intake: RouterIntake, some: list[Plan], free: int = 100, each: int = 10) -> dict[int, int] | None:
    offer = intake.offer(7, some, free, lambda target: (each, LEASE_MS), 5)
    return None if offer is None else dict(offer.places)


def test_nothing_is_reserved_before_the_first_claim() -> None:
    assert places(RouterIntake(), plans(1)) is None


def test_places_are_bounded_by_the_plans_the_queue_and_the_capacity() -> None:
    assert places(caught_up(), plans(1, 1, 2)) == {1: 2, 2: 1}
    assert places(caught_up(), plans(*[1] * 20)) == {1: 10}
    assert places(caught_up(), plans(1, 1, 2), free=2) == {1: 2, 2: 0}
    assert places(caught_up(), plans(1), free=0) is None
    assert places(caught_up(), plans(1), each=0) is None


def test_reserved_places_are_not_offered_twice() -> None:
    intake = caught_up()
    offer = intake.offer(7, plans(*[1] * 8), 100, lambda target: (10, LEASE_MS), 5)
    assert offer is not None
    assert (intake.reserved, intake.reserved_for(1)) == (8, 8)
    assert places(intake, plans(*[1] * 8)) == {1: 2}
    intake.end(offer)
    assert intake.reserved == 2


def test_a_queue_with_a_backlog_gets_its_deliveries_by_claims_first() -> None:
    intake = RouterIntake()
    intake.note_claim(request(q1=1, q2=5), Claimed([claim_of(1), claim_of(2)], None, 0))
    assert places(intake, plans(1, 2)) == {2: 1}
    intake.note_claim(request(q1=1, q2=5), Claimed([], None, 0))
    assert places(intake, plans(1, 2)) == {1: 1, 2: 1}


def test_a_claim_that_reached_its_limit_says_nothing_about_other_queues() -> None:
    intake = RouterIntake()
    intake.note_claim(request(limit=1, q1=5), Claimed([claim_of(1)], None, 0))
    assert places(intake, plans(2)) is None


def test_an_ordered_delivery_waits_for_its_lane() -> None:
    assert places(caught_up(), plans(1, lane="c s")) is None


async def test_the_router_waits_until_places_are_free_but_not_long() -> None:
    intake = caught_up()
    await intake.wait(lambda: True)
    await intake.wait(lambda: False)
    answers = iter([False, True])
    intake.freed()
    await intake.wait(lambda: next(answers))
