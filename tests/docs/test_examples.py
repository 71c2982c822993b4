"""The examples run as separate processes, with a real daemon and real HTTP."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from holdfast.domain.signature import sign

EXAMPLES = Path(__file__).parents[2] / "examples"
SECRET = "whsec_ZXhhbXBsZSBzZWNyZXQgb2YgdGhpcnR5LXR3byBieXRlcw=="
TIMEOUT_S = 60.0


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "holdfast.yml").write_text('egress: {allow: ["127.0.0.0/8"]}\n', encoding="utf-8")
    return folder


@pytest.fixture
def environment(home, tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return {**kept, "HOLDFAST_HOME": str(home), "SHOP_DB": str(tmp_path / "shop.db"), "HOOK_SECRET": SECRET}


@contextlib.contextmanager
def process(arguments, environment):
    """A separate process in the examples folder; killed at the end of the test if it still runs."""
    started = subprocess.Popen(
        [sys.executable, *arguments], cwd=EXAMPLES, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.communicate()


@contextlib.contextmanager
def daemon(environment, *options):
    with process(["-m", "holdfast", "up", "--port", "0", *options], environment) as running:
        greeting = running.stdout.readline()
        assert "is up at" in greeting, running.stderr.read()
        yield greeting.split()[-1], running


def wait_for(check):
    deadline = time.monotonic() + TIMEOUT_S
    while not (value := check()):
        assert time.monotonic() < deadline, "not true within the time limit"
        time.sleep(0.02)
    return value


def post(url, body, headers):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def get(url, headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def admin(home):
    return {"Authorization": f"Bearer {(home / 'token').read_text().strip()}"}


def order(environment, item, quantity):
    done = subprocess.run(
        [sys.executable, "shop.py", item, quantity], cwd=EXAMPLES, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_shop_ships_orders_placed_before_and_during_the_run_of_the_daemon(environment, home):
    assert order(environment, "tea", "2") == "placed order 1\n"

    def shipments():
        with contextlib.closing(sqlite3.connect(environment["SHOP_DB"])) as connection:
            return dict(connection.execute("SELECT order_id, total FROM shipments").fetchall())

    with daemon(environment, "--app", "shop:outbox") as (url, running):
        wait_for(lambda: shipments() == {1: 8})
        order(environment, "coffee", "3")
        wait_for(lambda: shipments() == {1: 8, 2: 15})
        order(environment, "gold", "1")
        (letter,) = wait_for(lambda: get(f"{url}/api/dlq", admin(home))["items"])
        assert (letter["reason"], letter["payload"]["item"]) == ("rejected", "gold")
        assert get(f"{url}/api/receipts/verify", admin(home))["ok"]
        running.terminate()
        assert running.wait(TIMEOUT_S) == 0


def test_the_receiver_accepts_a_signed_webhook_of_a_real_daemon(environment, home):
    with process(["receiver.py", "0"], environment) as receiver, daemon(environment) as (url, _):
        target = receiver.stdout.readline().split()[-1]
        contract = {"id": "partner", "target": {"url": target, "secret": SECRET}, "type_criterion": "order.placed"}
        post(f"{url}/hooks/contracts", contract, admin(home))
        sent = post(f"{url}/api/events", {"type": "order.placed", "payload": {"order": 42}}, admin(home))
        assert receiver.stdout.readline() == 'order.placed {"order": 42}\n'

        def ended():
            (delivery,) = get(f"{url}/api/events/{sent['id']}", admin(home))["deliveries"]
            return delivery["state"] != "pending" and delivery["state"]

        assert wait_for(ended) == "delivered"


def test_the_receiver_refuses_requests_without_a_fresh_valid_signature(environment):
    body = b'{"id":"evt_1","type":"order.placed","payload":null}'

    def answer(target, secrets, stamp, sent=body):
        request = urllib.request.Request(target, sent, sign(secrets, "evt_1", stamp, body))
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answered:
                return answered.status
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code

    with process(["receiver.py", "0"], environment) as receiver:
        target = receiver.stdout.readline().split()[-1]
        now = int(time.time())
        assert answer(target, [SECRET], now) == 204
        assert answer(target, [SECRET], now - 3600) == 401
        assert answer(target, ["another"], now) == 401
        assert answer(target, [], now) == 401
        assert answer(target, [SECRET], now, sent=body.replace(b"null", b"true")) == 401


def test_the_example_and_the_library_agree_about_every_form_of_secret():
    spec = importlib.util.spec_from_file_location("receiver_example", EXAMPLES / "receiver.py")
    receiver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(receiver)
    for secret in (SECRET, "a plain secret", "ünïcode"):
        signed = {name.lower(): value for name, value in sign([secret], "evt_1", 1_700_000_000, b"{}").items()}
        assert receiver.is_standard(secret, signed, b"{}", 1_700_000_000.5)
        assert receiver.is_hook(secret, signed, b"{}")
        assert not receiver.is_standard(secret, signed, b"{}", 1_700_000_400)
        assert not receiver.is_hook(secret, signed, b"{} ")


def test_the_projection_counts_every_step_once(environment, tmp_path):
    environment = {**environment, "TOTALS_DB": str(tmp_path / "totals.db")}

    def totals(*arguments):
        return subprocess.run(
            [sys.executable, "totals.py", *arguments], cwd=EXAMPLES, env=environment, text=True, capture_output=True,
            timeout=TIMEOUT_S,
        )  # fmt: skip

    for number in ("1", "2"):
        done = totals("run", number)
        assert done.returncode == 0, done.stderr
    assert "UNIQUE constraint failed" in totals("run", "1").stderr
    with daemon(environment, "--app", "totals:outbox"):
        counted = totals("count")
        assert (counted.stdout, counted.returncode) == ("run:1 3\nrun:2 3\n", 0), counted.stderr
        assert totals("run", "3").returncode == 0
        assert totals("count").stdout == "run:1 3\nrun:2 3\nrun:3 3\n"
