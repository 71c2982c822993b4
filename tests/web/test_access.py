"""Who may see the page, and what a visitor may do there."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator

import pytest
from starlette.requests import Request
from starlette.responses import Response

from daemon import Daemon, wait_until
from holdfast.domain.scopes import ADMIN
from holdfast.surfaces.web.access import Cookies
from holdfast.surfaces.web.actions import ACTIONS
from page import Visitor

PARAMETERS = {"{id}": "1", "{id:path}": "1", "{scope}": "contract", "{name:path}": "c"}
POSTS = ["/contracts/new"]
for action in ACTIONS:
    path = action.path
    for name, value in PARAMETERS.items():
        path = path.replace(name, value)
    POSTS.append(path)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon(config="egress: {allow: [127.0.0.0/8]}") as daemon:
        yield daemon


@pytest.fixture
def visitor(daemon: Daemon) -> Visitor:
    return Visitor(daemon)


@pytest.fixture(scope="module")
def reader(daemon: Daemon) -> dict[str, str]:
    said = daemon.cli("token", "create", "reader", "--scope", "read", "--json")
    return {"Authorization": f"Bearer {said.json['token']}"}


@pytest.mark.parametrize("path", ["/", "/events", "/sessions", "/contracts", "/dead-letters", "/streams", "/live"])
def test_without_a_login_no_screen_is_shown(visitor: Visitor, path: str) -> None:
    answer = visitor.get(path)
    assert answer.status == 401
    assert "holdfast open" in answer.text


def test_a_link_logs_in_once(visitor: Visitor) -> None:
    path = visitor.link()
    assert "Log in to Holdfast" in visitor.get(path).text
    assert "Log in to Holdfast" in visitor.get(path).text, "looking at the link must not use it up"
    code = path.partition("code=")[2]
    answer = visitor.post("/login", code=code)
    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert visitor.get("/").status == 200
    thief = Visitor(visitor.daemon)
    assert thief.post("/login", code=code).status == 403
    assert "used already" in thief.get(path).text
    assert thief.get("/").status == 401


def test_the_cookie_is_for_this_site_alone_and_not_for_scripts(visitor: Visitor) -> None:
    attributes = {part.strip() for part in visitor.log_in().headers["set-cookie"].split(";")[1:]}
    assert attributes == {"HttpOnly", "Max-Age=43200", "Path=/", "SameSite=strict"}


@pytest.mark.parametrize(
    ("scheme", "mount", "expected"), [("https", "", {"Secure", "Path=/"}), ("http", "/a", {"Path=/a"})]
)
def test_the_cookie_is_bound_to_the_scheme_and_the_mount(scheme: str, mount: str, expected: set[str]) -> None:
    scope = {"type": "http", "scheme": scheme, "path": f"{mount}/login", "root_path": mount, "headers": []}
    answer = Response()
    Cookies(lambda: "secret").grant(answer, Request(scope), ADMIN)
    attributes = {part.strip() for part in answer.headers["set-cookie"].split(";")[1:]}
    assert expected <= attributes
    assert ("Secure" in attributes) == (scheme == "https")


def test_a_login_ends_with_the_file_of_the_token() -> None:
    with Daemon() as daemon:
        visitor = Visitor(daemon)
        visitor.log_in()
        assert visitor.get("/").status == 200
        (daemon.home / "token").write_text("another-token-of-at-least-thirty-two-characters")
        wait_until(lambda: visitor.get("/").status == 401, 60, lambda: "the old login still works")


def test_a_forged_or_changed_cookie_is_worth_nothing(visitor: Visitor) -> None:
    visitor.log_in()
    name, _, value = visitor.cookie.partition("=")
    body, _, signature = value.partition(".")
    for forged in (f"{body}x.{signature}", f"{body}.{'0' * 64}", body, ".", "x" * 5000):
        visitor.cookie = f"{name}={forged}"
        assert visitor.get("/").status == 401


def test_log_out_ends_the_login(visitor: Visitor) -> None:
    visitor.log_in()
    assert visitor.post("/logout").status == 303
    assert visitor.get("/").status == 401


@pytest.mark.parametrize("path", POSTS)
def test_a_form_from_another_site_is_refused(visitor: Visitor, path: str) -> None:
    visitor.log_in()
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        assert visitor.post(path, headers, every=1).status == 403


@pytest.mark.parametrize("path", POSTS)
def test_a_token_that_may_only_read_cannot_act(reader: dict[str, str], visitor: Visitor, path: str) -> None:
    answer = visitor.post(path, reader, every=1, address="http://127.0.0.1:9/", to="contract:c", text="x", secret="s")
    assert answer.status == 403
    assert "scope" in answer.text


@pytest.mark.parametrize("path", POSTS)
def test_without_a_login_no_button_works(visitor: Visitor, path: str) -> None:
    assert visitor.post(path, every=1).status == 401


def test_nothing_changes_by_looking(visitor: Visitor) -> None:
    visitor.log_in()
    for path in POSTS:
        if path != "/contracts/new":  # the form
            assert visitor.get(path).status in (404, 405)


def test_a_link_from_another_site_leads_to_the_page(visitor: Visitor) -> None:
    visitor.log_in()
    cookie, visitor.cookie = visitor.cookie, ""  # a browser sends no Strict cookie with it
    first = visitor.get("/events", **{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert 'http-equiv="refresh"' in first.text
    visitor.cookie = cookie
    assert visitor.get("/events").status == 200


def test_another_host_is_refused(visitor: Visitor) -> None:
    assert visitor.get("/", Host="evil.example").status == 421


def test_a_token_that_may_only_read_sees_no_buttons(daemon: Daemon, reader: dict[str, str], visitor: Visitor) -> None:
    daemon.request("POST", "/hooks/contracts", {"id": "c", "target": {"url": "http://127.0.0.1:9/"}})
    daemon.request("POST", "/api/events", {"type": "t", "stream": "s"})
    for path in ("/", "/events", "/contracts", "/contracts/c", "/dead-letters", "/streams/s", "/sessions"):
        shown = visitor.get(path, **reader)
        assert shown.status == 200
        forms = re.findall(r'<form[^>]*method="post"[^>]*action="([^"]*)"', shown.text)
        assert forms == ["/logout"], path


def test_a_token_that_may_not_read_sees_nothing(daemon: Daemon, visitor: Visitor) -> None:
    said = daemon.cli("token", "create", "writer", "--scope", "append", "--json")
    bearer = {"Authorization": f"Bearer {said.json['token']}"}
    for path in ("/", "/events", "/live"):
        answer = visitor.get(path, **bearer)
        assert answer.status == 403
        assert "orders" not in answer.text


def test_every_answer_forbids_inline_code_and_foreign_frames(visitor: Visitor) -> None:
    before = [visitor.get("/"), visitor.get(visitor.link()), visitor.post("/contracts/c/pause")]
    login = visitor.log_in()
    after = [visitor.get(path) for path in ("/", "/events", "/contracts/new", "/events/evt_none", "/streams")]
    for answer in (*before, login, *after):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert re.search(r"<script(?! type=\"module\" src=)|<style|\sstyle=|\son\w+=", answer.text) is None


def test_static_files_are_small_and_kept_by_browsers(visitor: Visitor) -> None:
    visitor.log_in()
    (address,) = re.findall(r'href="(/static/page\.css\?v=\w+)"', visitor.get("/").text)
    plain = visitor.get(address)
    assert plain.headers["cache-control"] == "max-age=31536000, immutable"
    packed = visitor.get(address, **{"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert visitor.get(address, **{"If-None-Match": plain.headers["etag"]}).status == 304
    assert visitor.get("/static/page.css?v=old").headers["cache-control"] == "max-age=300"
    script = visitor.get("/static/page.js").text
    version = address.partition("?")[2]
    assert f'from "./live.js?{version}"' in script, "modules of one release load only each other"
    assert visitor.get("/static/../site.py").status in (401, 404)
    assert visitor.get("/static/site.py").status == 404


def test_an_unknown_address_is_a_page_too(visitor: Visitor) -> None:
    visitor.log_in()
    answer = visitor.get("/events/evt_unknown")
    assert answer.status == 404
    assert "<h1>" in answer.text
