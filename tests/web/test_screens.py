"""Every screen with real contents: accessible, inside its width, small, readable without JavaScript, and pictured.

`make screenshots` keeps the pictures that the docs show.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from page import Visitor
from page_world import World, busy_daemon, log_in

pytest_plugins = ("chromium",)

WIDTHS = (390, 1024, 1600)
KEPT = {
    ("overview", 1024, "light"), ("event", 1024, "dark"), ("dead-letters", 1024, "light"), ("sessions", 1024, "dark"),
    ("contract", 1024, "light"), ("overview", 390, "dark"),
}  # fmt: skip
TRANSFERRED_MAX = 60_000
STYLESHEET_MAX = 15_000


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with busy_daemon() as world:
        yield world


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_is_accessible_and_inside_its_width(
    page: Page, world: World, errors: list[str], tmp_path: Path, scheme: Any
) -> None:
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    log_in(page, world.daemon)
    for name, path in world.screens.items():
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 844 if width < 500 else 800})
            page.goto(world.daemon.url + path)
            expect(page.locator("h1")).to_be_visible()
            expect(page.locator("[data-live].on")).to_be_attached()
            found = Axe().run(page).response["violations"]
            serious = [item["id"] for item in found if item["impact"] in ("serious", "critical")]
            assert serious == [], f"{path} at {width} pixels: {found}"
            wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert not page.evaluate(wide), f"{path} is wider than {width} pixels"
            picture = page.screenshot()
            assert len(picture) > 5000, "the picture is empty"
            if (name, width, scheme) in KEPT or folder == tmp_path:
                kept = f"{name}-{width}-{scheme}" if width < 500 else f"{name}-{scheme}"
                (folder / f"{kept}.png").write_bytes(picture)
    assert errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_without_a_login_are_accessible_too(page: Page, world: World, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    for path in (Visitor(world.daemon).link(), "/events", "/login?code=used"):
        page.goto(world.daemon.url + path)
        violations = Axe().run(page).response["violations"]
        assert [item["id"] for item in violations if item["impact"] in ("serious", "critical")] == []


def test_every_screen_can_be_read_without_javascript(browser: Browser, world: World) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = log_in(context.new_page(), world.daemon)
    contents = {
        "overview": ("Needs attention", "deliveries are dead", "node-0001", "orders-to-billing"),
        "events": ("order.placed", "user.created"),
        "event": ("answered 404", "the warehouse was moved", "TEA-EARL-GREY", "agent-stops"),
        "sessions": ("Rewrite the introduction", "waiting"),
        "session": ("needs your permission",),
        "contracts": ("orders-to-warehouse", "misconfigured"),
        "contract": ("order.*", "delivered, 24 h"),
        "dead-letters": ("rejected", "answered 404"),
        "streams": ("order:1001", "sink:log"),
        "stream": ("order.placed", "order.paid"),
    }
    for name, texts in contents.items():
        page.goto(world.daemon.url + world.screens[name])
        for text in texts:
            expect(page.locator("main")).to_contain_text(text)
    for hidden in ("[data-copy]", "[data-live]", "[data-open-help]", "[data-tick-all]"):
        expect(page.locator(hidden).first).to_be_hidden()
    page.goto(world.daemon.url)
    page.locator("nav").get_by_role("link", name="Streams").click()
    expect(page.get_by_role("heading", name="Streams")).to_be_visible()
    context.close()


def test_every_screen_is_small(page: Page, world: World) -> None:
    """What a browser with an empty cache loads for a screen: page, stylesheet, modules and icon."""
    visitor = Visitor(world.daemon)
    visitor.log_in()
    static = 0
    for name in ("page.css", "page.js", "live.js", "keyboard.js", "icon-trouble.svg"):
        answer = visitor.get(f"/static/{name}", **{"Accept-Encoding": "gzip"})
        static += len(answer.body)
    assert len(visitor.get("/static/page.css").body) < STYLESHEET_MAX
    for path in world.screens.values():
        assert len(visitor.get(path).body) + static < TRANSFERRED_MAX, path


def test_a_payload_stays_text(page: Page, world: World, errors: list[str]) -> None:
    log_in(page, world.daemon)
    page.goto(f"{world.daemon.url}/events?type=report.requested")
    page.get_by_role("link", name="report.requested").click()
    expect(page.get_by_text("<script>document.title = 'x'</script>")).to_be_visible()
    assert "report.requested" in page.title()
    assert page.locator("main script").count() == 0
    assert errors == []


def test_the_charts_show_the_value_under_the_pointer(page: Page, world: World, errors: list[str]) -> None:
    log_in(page, world.daemon)
    legend = page.locator("figure").first.locator(".legend .accepted b")
    total = legend.inner_text()
    page.locator("figure svg").first.hover()
    expect(legend).not_to_have_text(total)
    page.mouse.move(0, 0)
    expect(legend).to_have_text(total)
    assert errors == []
