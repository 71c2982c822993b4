"""No credential of a sink appears in what the daemon, the command line or the API show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import Daemon
from holdfast.proof.streams.nats_server import NatsServer
from holdfast.proof.streams.redis_server import RedisServer

PASSWORDS = {name: f"canary{name}" for name in ("REDIS", "NATS", "KAFKA", "SECRET", "TOKEN", "WRONG")}
PATHS = ("/api/readers", "/api/status", "/api/events", "/api/streams", "/openapi.json", "/api/deliveries")
COMMANDS = (
    ("doctor", "--json"),
    ("status", "--json"),
    ("streams", "readers", "--json"),
    ("streams", "list"),
)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[RedisServer, NatsServer]]:
    redis = RedisServer(tmp_path / "r", password=PASSWORDS["REDIS"])
    nats = NatsServer(tmp_path / "n", password=PASSWORDS["NATS"])
    redis.start()
    nats.start()
    yield redis, nats
    redis.kill()
    nats.kill()


@pytest.mark.slow
def test_no_credential_of_a_sink_is_shown(tmp_path: Path, servers: tuple[RedisServer, NatsServer]) -> None:
    redis, nats = servers
    config = f"""
streams:
  sinks:
    - {{name: cache, url: "redis://:${{REDIS}}@127.0.0.1:{redis.port}/0", streams: "*"}}
    - {{name: bus, url: "nats://ann:${{NATS}}@127.0.0.1:{nats.port}", streams: "*"}}
    - {{name: denied, url: "redis://:${{WRONG}}@127.0.0.1:{redis.port}/0", streams: "*"}}
    - {{name: refused, url: "nats://ann:${{WRONG}}@127.0.0.1:{nats.port}", streams: "*", timeout_seconds: 1}}
    - {{name: down, url: "kafka://ann:${{KAFKA}}@127.0.0.1:9", streams: "*", timeout_seconds: 1}}
    - {{name: hook, url: "http://127.0.0.1:9/x", streams: "*", secret: "${{SECRET}}", token: "${{TOKEN}}"}}
"""
    shown: list[str] = []
    with Daemon(tmp_path / "home", config=config, env=PASSWORDS) as daemon:
        assert daemon.request("POST", "/api/events", {"type": "a", "stream": "s"})[0] == 201
        failing = {"sink:denied", "sink:refused", "sink:hook"}
        daemon.wait_for(
            "/api/readers",
            lambda page: failing <= {one["name"] for one in page["items"] if one["activity"]["failures"]},
        )
        shown += [json.dumps(daemon.request("GET", path)[1]) for path in PATHS]
        for words in COMMANDS:
            said = daemon.cli(*words)
            assert "Traceback" not in said.err, said.err
            shown += [said.out, said.err]
        found = {one["id"]: one for one in json.loads(shown[len(PATHS)])["findings"]}
        assert "syncs its append-only file before" in found["sink.cache"]["text"]
        assert "file storage, 1 copy" in found["sink.bus"]["text"]
        assert {found[f"sink.{name}"]["level"] for name in ("denied", "refused", "down")} == {"warn"}
        bad = config.replace("timeout_seconds: 1", "nonsense: 1")
        (daemon.home / "holdfast.yml").write_text(bad)
        said = daemon.cli("doctor")
        shown += [said.out, said.err, daemon.log, Path(f"/proc/{daemon.pid}/cmdline").read_text()]
        daemon.stop()
        shown.append(daemon.log)
    assert [text for text in shown if "canary" in text] == []
