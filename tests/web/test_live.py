"""Live updates: new rows, results of deliveries, and limits under a flood of events."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from daemon import Daemon
from page_world import Receiver, emit, log_in, post

pytest_plugins = ("chromium",)

FLOOD = 2000
ROWS_MAX = 200
UPDATES_A_SECOND = 10


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon(config="egress: {allow: [127.0.0.0/8]}") as daemon:
        yield daemon


@pytest.fixture
def visit(page: Page, daemon: Daemon) -> Page:
    log_in(page, daemon)
    page.goto(f"{daemon.url}/events")
    expect(page.locator("[data-live].on")).to_be_visible()
    return page


def test_an_event_and_then_its_result_appear_by_themselves(visit: Page, daemon: Daemon, errors: list[str]) -> None:
    with Receiver(200) as receiver:
        contract = {"id": "seen", "target": {"url": receiver.url}, "type_criterion": {"match": "seen.it"}}
        post(daemon, "/hooks/contracts", contract)
        row = visit.locator(f"#{emit(daemon, 'seen.it')}")
        expect(row).to_be_visible()
        expect(row.locator(".state.delivered")).to_be_visible(timeout=60_000)
    assert errors == []


def test_a_filtered_table_gets_only_what_matches(visit: Page, daemon: Daemon, errors: list[str]) -> None:
    visit.goto(f"{daemon.url}/events?q=plan%3Dpro&source=shop")
    expect(visit.locator("[data-live].on")).to_be_visible()
    others = [emit(daemon, "a.b", source="shop", properties={"plan": "free"}), emit(daemon, "a.b", source="x")]
    wanted = emit(daemon, "a.b", source="shop", properties={"plan": "Pro"})
    expect(visit.locator(f"#{wanted}")).to_be_visible()
    for id in others:
        assert visit.locator(f"#{id}").count() == 0
    assert errors == []


def test_while_someone_reads_the_table_new_events_are_counted(visit: Page, daemon: Daemon, errors: list[str]) -> None:
    first = emit(daemon, "first.one")
    expect(visit.locator(f"#{first}")).to_be_visible()
    visit.keyboard.press("j")
    ids = [emit(daemon, "later.one") for _ in range(3)]
    news = visit.locator("[data-show-news]")
    expect(news).to_have_text("3 new events")
    assert visit.locator(f"#{ids[0]}").count() == 0
    visit.keyboard.press("n")
    expect(visit.locator(f"#{ids[2]}")).to_be_visible()
    expect(news).to_be_hidden()
    assert errors == []


def test_a_flood_of_events_keeps_the_table_and_its_updates_bounded(
    visit: Page, daemon: Daemon, errors: list[str]
) -> None:
    visit.evaluate("""() => {
      window.moments = [];
      new MutationObserver(() => window.moments.push(performance.now()))
        .observe(document.querySelector("[data-feed]"), {childList: true});
    }""")
    flood(daemon)
    last = emit(daemon, "flood.last")
    expect(visit.locator(f"#{last}")).to_be_visible(timeout=60_000)
    assert visit.locator("[data-feed] tr").count() <= ROWS_MAX
    moments = visit.evaluate("window.moments")
    assert moments, "nothing was inserted"
    crowded = [at for at in moments if sum(at <= other < at + 1000 for other in moments) > UPDATES_A_SECOND]
    assert crowded == [], f"more than {UPDATES_A_SECOND} updates within a second: {moments}"
    assert errors == []


def flood(daemon: Daemon) -> None:
    """A thousand events a second for two seconds, as an application publishes them, or as fast as this machine can."""
    connection = sqlite3.connect(daemon.home / "holdfast.db", isolation_level=None, timeout=60)
    started = time.monotonic()
    for part in range(FLOOD // 50):
        connection.execute("BEGIN IMMEDIATE")
        rows = [(f"flood.{part}", "{}") for _ in range(50)]
        connection.executemany("INSERT INTO holdfast_publish (type, payload) VALUES (?, ?)", rows)
        connection.execute("COMMIT")
        time.sleep(max(0.0, started + part * 0.05 - time.monotonic()))
    connection.close()


def test_details_that_were_opened_stay_open(visit: Page, daemon: Daemon, errors: list[str]) -> None:
    with Receiver(200) as receiver:
        contract = {"id": "open", "target": {"url": receiver.url}, "type_criterion": {"match": "open.it"}}
        post(daemon, "/hooks/contracts", contract)
        id = emit(daemon, "open.it")
        visit.goto(f"{daemon.url}/events/{id}")
        expect(visit.locator(".state.delivered").first).to_be_visible(timeout=60_000)
        visit.get_by_text("Request and response").click()
        expect(visit.locator("details[open]")).to_have_count(1)
        with visit.expect_response(lambda answer: answer.url.endswith(id)):
            emit(daemon, "another.one")
        with visit.expect_response(lambda answer: answer.url.endswith(id)):
            emit(daemon, "another.one")
        expect(visit.locator("details[open]")).to_have_count(1)
    assert errors == []
