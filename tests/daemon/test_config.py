"""Configuration: a mistake names itself and the remedy."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.config import load_config
from holdfast.config.settings_file import settings_in_force
from holdfast.domain.errors import BadConfig, HoldfastError


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "holdfast.yml"
    path.write_text(text)
    return path


def test_the_defaults_alone_are_a_configuration() -> None:
    config = load_config(None)
    assert (config.host, config.port) == ("127.0.0.1", 4653)
    assert config.retention.delivered_ms == 7 * 86400 * 1000
    assert set(config.policies) == {"hook", "webhook", "patient", "message", "receipt"}


def test_a_file_overrides_what_it_mentions(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "server: {port: 5000}\negress: {allow: [127.0.0.0/8]}"))
    assert (config.host, config.port, config.egress_allow) == ("127.0.0.1", 5000, ("127.0.0.0/8",))


def test_rate_and_concurrency_of_deliveries_can_be_set(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "egress: {rate: 10/s, concurrency: 8}"))
    assert (config.interval_us, config.concurrency_per_host) == (120_000, 8)
    assert (load_config(None).interval_us, load_config(None).concurrency_per_host) == (0, 64)


def test_a_policy_can_be_added(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "policies:\n  hourly: {schedule: [60, 3600], attempts: 5}"))
    assert config.policies["hourly"].schedule_s == (60.0, 3600.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sever: {}", "did you mean server"),
        ("server: {prot: 1}", "did you mean server.port"),
        ("server: 5", "server must be a mapping"),
        ("server: {port: abc}", "server.port must be a number"),
        ("server: {port: 70000}", "between 1 and 65535"),
        ("egress: {allow: 127.0.0.0/8}", "egress.allow must be a list"),
        ("egress: {rate: fast}", "egress.rate: rate must be a number of requests per s, m or h"),
        ("egress: {rate: 10}", "egress.rate must be text"),
        ("egress: {concurrency: 0}", "egress.concurrency must be a positive number"),
        ("egress: {concurrency: 1000000}", "egress.concurrency must be a whole number from 1 to 10,000"),
        ("store: ${NOT_SET_ANYWHERE}", "NOT_SET_ANYWHERE is not set"),
        ("a: [", "not valid YAML"),
        ("- a", "must be a mapping"),
        ("policies: {p: 1}", "policies.p must be a mapping"),
        ("policies: {p: {schedule: []}}", "1 to 100 positive"),
        ("policies: {p: {schedule: [1], atempts: 3}}", "unknown key"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadConfig, match=message):
        load_config(write(tmp_path, text))


def test_variables_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "5001")
    monkeypatch.delenv("HOST", raising=False)
    config = load_config(write(tmp_path, "server:\n  port: ${PORT}\n  host: ${HOST:-127.0.0.2}"))
    assert (config.port, config.host) == (5001, "127.0.0.2")


@settings(max_examples=100)
@given(text=st.text(max_size=200))
def test_no_text_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("config") / "holdfast.yml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(HoldfastError):
        load_config(path)


def test_shown_settings_mask_secrets_and_name_variables(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.yml"
    path.write_text(
        "fleet: [{name: other, url: 'https://a.example', token_env: OTHER_TOKEN}]\n"
        "hooks: {inbound: {acme: {path: /acme, secret: 's3cret'}, github: {path: /g, secret: '${GITHUB_SECRET}'}}}\n"
    )
    shown = settings_in_force(path)
    assert shown["fleet"][0]["token_env"] == "OTHER_TOKEN"
    assert shown["hooks"]["inbound"]["acme"]["secret"] == "***"
    assert shown["hooks"]["inbound"]["github"]["secret"] == "${GITHUB_SECRET}"
