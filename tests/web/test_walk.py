"""The page in a real browser, against a daemon with real traffic."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from daemon import Daemon
from holdfast.proof.messages.stage import Agent, TmuxServer
from page_world import Receiver, emit, log_in, post

pytest_plugins = ("chromium",)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon(config="egress: {allow: [127.0.0.0/8]}") as daemon:
        yield daemon


@pytest.fixture
def visit(page: Page, daemon: Daemon) -> Page:
    """A page that is logged in."""
    return log_in(page, daemon)


@pytest.fixture
def tmux() -> Iterator[TmuxServer]:
    server = TmuxServer()
    yield server
    server.close()


def test_a_failed_delivery_is_found_explained_repaired_and_delivered(
    visit: Page, daemon: Daemon, errors: list[str]
) -> None:
    with Receiver(404, b"<b>no such hook</b>") as receiver:
        contract = {"id": "orders", "target": {"url": receiver.url}, "type_criterion": {"pattern": "order.*"}}
        post(daemon, "/hooks/contracts", contract)
        emit(daemon, "order.placed", payload={"note": "<script>document.title='x'</script>"})
        attention = visit.locator("#attention li", has_text="1 delivery is dead.")
        attention.get_by_role("link", name="Inspect and requeue").click()
        visit.locator("tr[data-row]").get_by_role("link", name="order.placed").click()
        expect(visit.locator("#deliveries")).to_contain_text("answered 404")
        expect(visit.locator("#deliveries")).to_contain_text("<b>no such hook</b>")
        expect(visit.get_by_text("<script>document.title")).to_be_visible()
        assert "order.placed" in visit.title()
        receiver.status = 200
        visit.get_by_role("button", name="Send again").click()
        expect(visit.get_by_role("status")).to_have_text("The delivery is due now.")
        expect(visit.locator("#deliveries .state.delivered").first).to_be_visible()
    visit.goto(f"{daemon.url}/contracts/orders")
    expect(visit.locator("#figures")).to_contain_text("delivered, 24 h1")
    assert errors == []


def test_a_group_of_dead_letters_is_counted_confirmed_and_requeued(
    visit: Page, daemon: Daemon, errors: list[str]
) -> None:
    with Receiver(500) as receiver:
        contract = {"id": "bulk", "target": {"url": receiver.url}, "type_criterion": {"match": "bulk.sent"}}
        post(daemon, "/hooks/contracts", contract | {"attempts": 1})
        for _ in range(3):
            emit(daemon, "bulk.sent")
        daemon.wait_for("/api/dlq/count?contract=bulk", lambda answer: answer["count"] == 3)
        receiver.status = 200
        visit.goto(f"{daemon.url}/dead-letters")
        group = visit.locator("tr", has_text="exhausted").first
        group.get_by_role("button", name="Requeue 3").click()
        asked = visit.get_by_role("dialog")
        expect(asked).to_contain_text("Requeue 3 dead letters?")
        asked.get_by_role("button", name="Cancel").click()
        assert daemon.request("GET", "/api/dlq/count?contract=bulk")[1]["count"] == 3
        group.get_by_role("button", name="Requeue 3").click()
        asked.get_by_role("button", name="Yes").click()
        expect(visit.get_by_role("status")).to_have_text("3 requeued.")
        daemon.wait_for("/api/deliveries?contract=bulk&state=delivered", lambda answer: len(answer["items"]) == 3)
    assert errors == []


def test_some_dead_letters_are_ticked_and_discarded(visit: Page, daemon: Daemon, errors: list[str]) -> None:
    with Receiver(400) as receiver:
        contract = {"id": "some", "target": {"url": receiver.url}, "type_criterion": {"match": "some.sent"}}
        post(daemon, "/hooks/contracts", contract)
        for _ in range(2):
            emit(daemon, "some.sent")
        daemon.wait_for("/api/dlq/count?contract=some", lambda answer: answer["count"] == 2)
    visit.goto(f"{daemon.url}/dead-letters?contract=some")
    discard = visit.get_by_role("button", name="Discard ticked")
    expect(discard).to_be_disabled()
    visit.get_by_label(re.compile("Tick delivery")).first.check()
    discard.click()
    visit.get_by_role("dialog").get_by_role("button", name="Yes").click()
    expect(visit.get_by_role("status")).to_have_text("1 discarded.")
    assert daemon.request("GET", "/api/dlq/count?contract=some")[1]["count"] == 1
    assert errors == []


def test_a_contract_is_created_from_a_past_event_changed_paused_and_pinged(
    visit: Page, daemon: Daemon, errors: list[str]
) -> None:
    id = emit(daemon, "user.created", source="shop", properties={"plan": "pro"})
    with Receiver(200) as receiver:
        visit.goto(f"{daemon.url}/events/{id}")
        visit.get_by_role("link", name=re.compile("Create a contract")).click()
        expect(visit.get_by_label("Type")).to_have_value("user.created")
        visit.get_by_label("Name", exact=True).fill("new-users")
        visit.get_by_label("Target").fill(receiver.url)
        visit.get_by_label(re.compile("Properties")).fill("plan=free")
        visit.get_by_role("button", name="Try on past events").click()
        expect(visit.locator("#trial")).to_contain_text("0 of the last")
        expect(visit.locator("#trial")).to_contain_text("plan")
        visit.get_by_label(re.compile("Properties")).fill("plan=pro")
        visit.get_by_role("button", name="Try on past events").click()
        expect(visit.locator("#trial")).to_contain_text("1 of the last")
        visit.get_by_role("button", name="Create").click()
        expect(visit.get_by_role("heading", name="new-users")).to_be_visible()
        expect(visit.get_by_role("status")).to_have_text("The contract is in force.")
        visit.get_by_role("button", name="Ping").click()
        expect(visit.get_by_role("status")).to_have_text("The ping was delivered.")
        assert receiver.received == 1
        receiver.status = 500
        visit.goto(f"{daemon.url}/contracts/new-users")
        visit.get_by_role("button", name="Ping").click()
        expect(visit.get_by_role("status")).to_contain_text("not delivered")
        expect(visit.locator("#deliveries")).to_contain_text("500")
    visit.goto(f"{daemon.url}/contracts/new-users")
    visit.get_by_role("button", name="Pause").click()
    expect(visit.locator("#state .state")).to_have_text("paused")
    visit.get_by_role("button", name="Resume").click()
    visit.get_by_role("button", name="Disable").click()
    expect(visit.locator("#state .state")).to_have_text("disabled")
    visit.get_by_role("link", name="Edit").click()
    visit.get_by_label("Other options as JSON").fill('{"rate": "5/s"}')
    visit.get_by_role("button", name="Save").click()
    expect(visit.locator(".options")).to_contain_text("5/s")
    assert errors == []


def test_a_pause_is_ended_from_the_overview(visit: Page, daemon: Daemon, errors: list[str]) -> None:
    post(daemon, "/hooks/contracts", {"id": "held", "target": {"url": "http://127.0.0.1:9/"}})
    post(daemon, "/api/pause", {"scope": "contract", "name": "held"})
    visit.goto(daemon.url)
    row = visit.locator("#attention li", has_text="contract held")
    row.get_by_role("button", name="Resume").click()
    expect(visit.get_by_role("status")).to_have_text("Deliveries continue.")
    expect(row).to_have_count(0)
    assert errors == []


def test_a_message_is_sent_to_an_agent_and_shown_as_accepted(
    visit: Page, daemon: Daemon, tmux: TmuxServer, errors: list[str]
) -> None:
    agent = Agent(tmux, daemon.home)
    agent.wait_started()
    daemon.wait_for(f"/api/sessions/{agent.session_id}", lambda session: session.get("pane") == agent.pane)
    visit.goto(f"{daemon.url}/sessions")
    visit.locator(f"#session-{agent.session_id}").get_by_role("link").click()
    visit.get_by_label("Message to the agent").fill("please rebase <b>now</b>")
    visit.get_by_role("button", name="Send", exact=True).click()
    expect(visit.get_by_role("status")).to_have_text("The message is queued.")
    message = visit.locator("#timeline li.message")
    expect(message).to_contain_text("please rebase <b>now</b>")
    expect(message.locator(".state.accepted")).to_be_visible(timeout=60_000)
    assert agent.prompts == ["please rebase <b>now</b>"]
    assert errors == []


def test_a_part_of_a_stream_is_sent_again_to_a_contract(visit: Page, daemon: Daemon, errors: list[str]) -> None:
    for _ in range(4):
        emit(daemon, "run.step", stream="run:7")
    with Receiver(200) as receiver:
        contract = {"id": "late", "target": {"url": receiver.url}, "type_criterion": {"match": "run.step"}}
        post(daemon, "/hooks/contracts", contract)
        visit.goto(f"{daemon.url}/streams/run:7")
        visit.get_by_label("Send to").select_option("contract:late")
        visit.get_by_label("From number").fill("2")
        visit.get_by_label("To number").fill("3")
        visit.get_by_role("button", name="Replay").click()
        visit.get_by_role("dialog").get_by_role("button", name="Yes").click()
        expect(visit.get_by_role("status")).to_have_text("2 sent again.")
        daemon.wait_for("/api/deliveries?contract=late&state=delivered", lambda answer: len(answer["items"]) == 2)
        assert receiver.received == 2
    assert errors == []


def test_the_receipts_are_verified_and_a_fault_is_shown_with_its_place(errors: list[str], page: Page) -> None:
    with Daemon(config="egress: {allow: [127.0.0.0/8]}") as daemon:
        with Receiver(200) as receiver:
            post(daemon, "/hooks/contracts", {"id": "c", "target": {"url": receiver.url}})
            for _ in range(3):
                emit(daemon, "t")
            daemon.wait_for("/api/deliveries?state=delivered", lambda answer: len(answer["items"]) == 3)
        log_in(page, daemon)
        receipts = page.locator("#receipts")
        expect(receipts).to_contain_text("never")
        receipts.get_by_role("button", name="Verify now").click()
        expect(page.get_by_role("status")).to_contain_text("The receipts are whole")
        expect(receipts.locator(".state.whole")).to_be_visible()
        daemon.stop()
        change_a_link(daemon)
        daemon.start()
        log_in(page, daemon)
        receipts.get_by_role("button", name="Verify now").click()
        expect(page.get_by_role("status")).to_have_text("The receipts have faults.")
        expect(receipts.locator(".state.faulty")).to_be_visible()
        expect(receipts).to_contain_text("At link 2:")
        expect(page.locator("#attention")).to_contain_text("The receipts have")
        assert daemon.request("GET", "/api/status")[1]["receipts"]["fault"]["seq"] == 2
        assert "the last check of the receipts found" in daemon.cli("doctor").out
    assert [error for error in errors if "ERR_CONNECTION_REFUSED" not in error] == [], "it was stopped for a moment"


def change_a_link(daemon: Daemon) -> None:
    import sqlite3

    with sqlite3.connect(daemon.home / "holdfast.db") as connection:
        connection.execute("UPDATE holdfast_receipts SET leaves = leaves || ' ' WHERE seq = 2")
    connection.close()


def test_the_keyboard_is_enough(visit: Page, daemon: Daemon, errors: list[str]) -> None:
    """From the overview to a repaired delivery: search, open, requeue, a question answered, help."""
    with Receiver(404) as receiver:
        contract = {"id": "keys", "target": {"url": receiver.url}, "type_criterion": {"match": "keyboard.only"}}
        post(daemon, "/hooks/contracts", contract)
        id = emit(daemon, "keyboard.only", properties={"only": "keys"})
        daemon.wait_for("/api/dlq/count?contract=keys", lambda answer: answer["count"] == 1)
        receiver.status = 200
        press = visit.keyboard.press
        press("?")
        expect(visit.get_by_role("heading", name="Keyboard", exact=True)).to_be_visible()
        press("Escape")
        press("g")
        press("e")
        visit.wait_for_url("**/events")
        press("/")
        visit.keyboard.type("keyboard only=keys")
        press("Enter")
        visit.wait_for_url("**/events?q=*")
        press("j")
        press("Enter")
        visit.wait_for_url(f"**/events/{id}")
        press("g")
        press("d")
        visit.wait_for_url("**/dead-letters")
        visit.goto(f"{daemon.url}/dead-letters?contract=keys")
        press("j")
        press("x")
        expect(visit.get_by_label(re.compile("Tick delivery"))).to_be_checked()
        visit.get_by_role("button", name="Requeue ticked").focus()
        press("Enter")
        expect(visit.get_by_role("status")).to_have_text("1 requeued.")
        daemon.wait_for("/api/deliveries?contract=keys&state=delivered", lambda answer: len(answer["items"]) == 1)
    assert errors == []


def test_the_icon_and_the_title_show_trouble_on_every_screen(page: Page, errors: list[str]) -> None:
    with Daemon(config="egress: {allow: [127.0.0.0/8]}") as daemon, Receiver(404) as receiver:
        log_in(page, daemon)
        page.goto(f"{daemon.url}/events")
        icon = page.locator("link[rel=icon]")
        expect(icon).to_have_attribute("href", re.compile(r"/static/icon\.svg"))
        assert page.title() == "Events · Holdfast"
        post(daemon, "/hooks/contracts", {"id": "c", "target": {"url": receiver.url}})
        emit(daemon, "t")
        expect(icon).to_have_attribute("href", re.compile(r"/static/icon-trouble\.svg"), timeout=60_000)
        expect(page).to_have_title("(1) Events · Holdfast")
        expect(page.locator("nav .badge.bad")).to_have_text("1")
    assert errors == []
