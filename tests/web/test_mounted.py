"""REST and the page inside the user's own application: the examples for FastAPI and Django, as real processes."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Page, expect

from daemon import run_cli, wait_until
from holdfast import Outbox

pytest_plugins = ("chromium",)

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_S = 60.0


class Running:
    """An example that is served by uvicorn."""

    def __init__(self, process: subprocess.Popen[str], url: str, database: Path, home: Path) -> None:
        self.process, self.url, self.database, self.home = process, url, database, home

    def client(self, **options: Any) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=LIMIT_S, **options)

    def publish(self, type: str, payload: object = None) -> str:
        connection = sqlite3.connect(self.database, timeout=LIMIT_S)
        with connection:
            id = Outbox(f"sqlite:///{self.database}").publish(connection, type, payload).id
        connection.close()
        return id

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT_S)


@contextmanager
def serving(app: str, folder: Path, code: Path = EXAMPLES) -> Iterator[Running]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home, database = folder / "home", folder / "shop.db"
    home.mkdir(mode=0o700)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    env = {**kept, "HOLDFAST_HOME": str(home), "SHOP_DB": str(database)}
    command = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--log-level", "warning"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=code, env=env, stdout=log, stderr=log, text=True)
    running = Running(process, f"http://127.0.0.1:{port}", database, home)

    def answers() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(answers, LIMIT_S, lambda: (folder / "log").read_text())
        yield running
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def fastapi(tmp_path: Path) -> Iterator[Running]:
    with serving("mounted_fastapi:app", tmp_path) as running:
        yield running


@pytest.fixture
def django(tmp_path: Path) -> Iterator[Running]:
    with serving("mounted_django:application", tmp_path) as running:
        yield running


def test_the_applications_own_login_decides(fastapi: Running) -> None:
    with fastapi.client() as visitor:
        assert visitor.get("/holdfast/").status_code == 401
        visitor.get("/enter", params={"user": "bob"})
        for path in ("/holdfast/", "/holdfast/events"):
            shown = visitor.get(path)
            assert shown.status_code == 200
            assert 'href="/holdfast/static/page.css?v=' in shown.text
            assert 'action="/holdfast/events"' in shown.text
        assert visitor.get("/holdfast/static/page.css").status_code == 200
        assert visitor.get("/holdfast/api/status").json()["events"] == 0
        form = {"every": "1"}
        assert visitor.post("/holdfast/dead-letters/reprocess", data=form).status_code == 403
        visitor.get("/enter", params={"user": "ada"})
        done = visitor.post("/holdfast/dead-letters/reprocess", data=form)
        assert done.status_code == 303
        assert done.headers["location"].startswith("/holdfast/dead-letters")
        refused = visitor.post("/holdfast/dead-letters/reprocess", data=form, headers={"Origin": "http://evil.example"})
        assert refused.status_code == 403


def test_what_the_application_publishes_is_seen_handled_in_the_mounted_page(
    fastapi: Running, page: Page, errors: list[str]
) -> None:
    page.goto(f"{fastapi.url}/enter?user=ada")
    page.goto(f"{fastapi.url}/holdfast/events")
    expect(page.locator("[data-live].on")).to_be_visible(timeout=LIMIT_S * 1000)
    id = fastapi.publish("order.placed", {"id": 42})
    row = page.locator(f"#{id}")
    expect(row).to_be_visible(timeout=LIMIT_S * 1000)
    expect(row.locator(".state.delivered")).to_be_visible(timeout=LIMIT_S * 1000)
    row.get_by_role("link").click()
    page.wait_for_url(f"**/holdfast/events/{id}")
    expect(page.locator("#deliveries")).to_contain_text("pack")
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("status")).to_have_text("The delivery is due now.")
    assert of_page(errors) == []


def test_an_open_page_does_not_keep_the_application_from_stopping(fastapi: Running, page: Page) -> None:
    page.goto(f"{fastapi.url}/enter?user=ada")
    page.goto(f"{fastapi.url}/holdfast/")
    expect(page.locator("[data-live].on")).to_be_visible(timeout=LIMIT_S * 1000)
    started = time.monotonic()
    assert fastapi.stop() in (0, -signal.SIGTERM)
    assert time.monotonic() - started < LIMIT_S


def of_page(errors: list[str]) -> list[str]:
    """Without those of the application itself, whose icon and style sheets are missing here."""
    return [error for error in errors if "Failed to load resource" not in error]


def create_user(running: Running, name: str, **more: object) -> None:
    """As `manage.py createsuperuser` does, in a process of its own."""
    fields = "".join(f", {key}={value!r}" for key, value in more.items())
    script = (
        "import mounted_django\nfrom django.contrib.auth.models import User\n"
        f"User.objects.create_user({name!r}, password='a-password'{fields})"
    )
    env = {**os.environ, "HOLDFAST_HOME": str(running.home), "SHOP_DB": str(running.database)}
    subprocess.run([sys.executable, "-c", script], cwd=EXAMPLES, env=env, check=True, timeout=LIMIT_S)


def enter(page: Page, running: Running, name: str) -> None:
    page.goto(f"{running.url}/admin/login/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill("a-password")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/admin/")


def test_in_django_the_staff_of_the_project_sees_the_page(django: Running, page: Page, errors: list[str]) -> None:
    create_user(django, "ada", is_staff=True)
    create_user(django, "eve")
    page.goto(f"{django.url}/holdfast/")
    expect(page.locator("main")).to_contain_text("holdfast open")
    enter(page, django, "ada")
    page.goto(f"{django.url}/holdfast/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.get_by_role("link", name="Events").click()
    expect(page.locator("[data-live].on")).to_be_visible(timeout=LIMIT_S * 1000)
    id = django.publish("user.created", {"name": "<b>Ada</b>"})
    expect(page.locator(f"#{id}")).to_be_visible(timeout=LIMIT_S * 1000)
    page.locator(f"#{id}").get_by_role("link").click()
    expect(page.locator("pre").last).to_contain_text("<b>Ada</b>")
    page.get_by_role("button", name="Route again").click()
    expect(page.get_by_role("status")).to_have_text("The event is routed again.")
    assert page.get_by_role("link", name=re.compile("Create a contract")).count() == 0, "only a superuser may"
    assert of_page(errors) == []


def test_in_django_a_user_who_is_no_staff_sees_nothing(django: Running) -> None:
    create_user(django, "eve")
    with django.client(follow_redirects=True) as visitor:
        form = visitor.get("/admin/login/")
        token = re.search(r'csrfmiddlewaretoken" value="([^"]+)"', form.text)
        assert token is not None
        visitor.post(
            "/admin/login/", data={"username": "eve", "password": "a-password", "csrfmiddlewaretoken": token[1]}
        )
        assert visitor.get("/holdfast/").status_code == 401
        assert visitor.get("/holdfast/api/status").status_code == 401


def test_without_auth_the_tokens_of_the_store_apply(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(
        "import os\nfrom holdfast import Outbox\nfrom starlette.applications import Starlette\n"
        "outbox = Outbox('sqlite:///' + os.environ['SHOP_DB'])\noutbox.migrate()\n"
        "app = Starlette()\napp.mount('/deep/holdfast', outbox.asgi())\n",
        encoding="utf-8",
    )
    with serving("bare:app", tmp_path, code=tmp_path) as running:
        store = f"sqlite:///{running.database}"
        said = run_cli(running.home, "token", "create", "reader", "--scope", "read", "--store", store, "--json")
        with running.client() as visitor:
            for headers in ({}, {"Authorization": "Bearer wrong"}):
                assert visitor.get("/deep/holdfast/api/status", headers=headers).status_code == 401
                assert visitor.get("/deep/holdfast/", headers=headers).status_code == 401
            known = {"Authorization": f"Bearer {said.json['token']}"}
            assert visitor.get("/deep/holdfast/api/status", headers=known).status_code == 200
            assert visitor.get("/deep/holdfast/", headers=known).status_code == 200
            form = {"every": "1"}
            assert visitor.post("/deep/holdfast/dead-letters/reprocess", data=form, headers=known).status_code == 403
