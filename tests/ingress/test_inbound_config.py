"""The section `hooks.inbound`: what loads, with which defaults, and which mistakes it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.config.config import Config, load_config
from holdfast.domain.canonical import BYTES_MAX
from holdfast.domain.errors import BadConfig
from holdfast.ingress.webhook import InboundSource
from holdfast.ingress.webhook.platforms import NAMED_VERIFIERS
from holdfast.ingress.webhook.verifiers.scheme import Scheme

CONFIG = """
hooks:
  # Inbound: receive webhooks from external platforms
  inbound:
    github:
      path: /hooks/github
      secret: ${GITHUB_WEBHOOK_SECRET}
      normalizer: github
    whatsapp:
      path: /hooks/whatsapp
      verify_token: ${WHATSAPP_VERIFY_TOKEN}
      secret: ${WHATSAPP_SECRET}
      normalizer: whatsapp

  # Subscriptions: declare interest in events
  subscriptions:
    - id: notify-on-error
      contract:
        source:
          match: system
        type:
          pattern: 'error.*'
      target:
        url: https://example.com/alerts
        secret: ${ALERT_SECRET}

    - id: log-sessions
      contract:
        type:
          pattern: 'session.*'
      target:
        handler: session_logger
"""


def load(folder: Path, text: str) -> Config:
    path = folder / "holdfast.yml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def source(folder: Path, line: str) -> InboundSource:
    (found,) = load(folder, f"hooks: {{inbound: {{{line}}}}}").inbound
    return found


def test_the_section_as_it_was_first_written_down_loads_unchanged(tmp_path, monkeypatch):
    for name in ("GITHUB_WEBHOOK_SECRET", "WHATSAPP_VERIFY_TOKEN", "WHATSAPP_SECRET", "ALERT_SECRET"):
        monkeypatch.setenv(name, f"canary {name}")
    config = load(tmp_path, CONFIG)
    github, whatsapp = config.inbound
    assert len(config.subscriptions) == 2
    assert (github.name, github.path, github.normalizer, github.verify_token) == (
        "github",
        "/hooks/github",
        "github",
        None,
    )
    assert github.check is not None
    assert (github.check.kind, github.check.secrets) == ("hub", ("canary GITHUB_WEBHOOK_SECRET",))
    assert (whatsapp.path, whatsapp.verify_token) == ("/hooks/whatsapp", "canary WHATSAPP_VERIFY_TOKEN")
    assert "canary" not in repr(github) + repr(whatsapp)


def test_a_secret_that_is_not_set_stops_the_start(tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_WEBHOOK_SECRET", raising=False)
    with pytest.raises(BadConfig, match=r"hooks.inbound.github.secret uses \$\{GITHUB_WEBHOOK_SECRET\}"):
        load(tmp_path, CONFIG)


def test_nothing_is_open_unless_it_is_named():
    assert load_config(None).inbound == ()


def test_the_defaults(tmp_path):
    found = source(tmp_path, "my-ci: {secret: s}")
    assert found.check is not None
    assert (found.path, found.normalizer, found.check.kind) == ("/hooks/inbound/my-ci", None, "hook")
    assert (found.check.scheme.tolerance_seconds, found.body_max_bytes) == (300, BYTES_MAX)
    (small,) = load(tmp_path, "server: {body_max_bytes: 5000}\nhooks: {inbound: {a: {secret: s}}}").inbound
    assert small.body_max_bytes == 5000


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("github: {secret: s}", "hub"),
        ("whatsapp: {secret: s}", "hub"),
        ("stripe: {secret: s}", "stripe"),
        ("slack: {secret: s}", "slack"),
        ("telegram: {secret: s}", "telegram"),
        (f"discord: {{secret: '{'0a' * 32}'}}", "discord"),
        ("standard: {secret: whsec_QUJDRA==}", "standard"),
        ("gh-enterprise: {secret: s, normalizer: github}", "hub"),
        ("github: {secret: s, normalizer: 'my.hooks:github'}", "hub"),
        ("clerk: {secret: whsec_QUJDRA==, normalizer: standard}", "standard"),
        ("clerk: {secret: whsec_QUJDRA==, verifier: standard}", "standard"),
        ("shop: {secret: s, verifier: hmac, header: X-Shopify-Hmac-Sha256, encoding: base64}", "hmac"),
        ("gitlab: {secret: s, verifier: token, header: X-Gitlab-Token}", "token"),
    ],
)
def test_a_platform_brings_its_verifier(tmp_path, line, kind):
    found = source(tmp_path, line)
    assert found.check is not None
    assert found.check.kind == kind


def test_the_plain_hmac_has_its_settings(tmp_path):
    found = source(
        tmp_path,
        "x: {secrets: [a, b], verifier: hmac, header: X-Sig, algorithm: sha512, encoding: base64, prefix: 'v=', "
        "tolerance_seconds: 60, id_header: X-Id, keep_headers: [X-Topic], body_max_bytes: 2000}",
    )
    assert found.check is not None
    assert found.check.secrets == ("a", "b")
    assert found.check.scheme == Scheme(
        "x-sig", algorithm="sha512", encoding="base64", prefix="v=", tolerance_seconds=60
    )
    assert (found.id_header, found.keep_headers, found.body_max_bytes) == ("x-id", ("x-topic",), 2000)


def test_an_unsigned_source_must_be_meant(tmp_path):
    assert source(tmp_path, "open: {insecure: true}").check is None
    for line in ("open: {}", "open: {verify_token: t}", "open: {secrets: []}"):
        with pytest.raises(BadConfig, match=r"cannot be verified.*insecure: true"):
            source(tmp_path, line)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x: 3", "hooks.inbound.x must be a mapping"),
        ("'a b': {secret: s}", "not a valid source name"),
        ("x: {secrt: s}", "unknown key 'secrt'; did you mean secret"),
        ("x: {secret: ''}", "must be a non-empty text"),
        ("x: {secret: 12345}", "quote it if it looks like a number"),
        ("x: {secrets: s}", "secrets must be a list"),
        ("x: {secret: s, insecure: true}", "remove one of them"),
        ("x: {insecure: 'yes'}", "true or false"),
        ("x: {secret: s, verifier: magic}", "verifier must be one of hub, hook"),
        ("x: {secret: s, verifier: hmac}", "needs header"),
        (
            "x: {secret: s, header: X-Sig}",
            "header is for the verifiers hmac, token; this source's is hook",
        ),
        ("x: {secret: s, verifier: hmac, header: 'X Sig'}", "name of a header"),
        ("x: {secret: s, verifier: hmac, header: X, algorithm: md5}", "algorithm must be one of sha256"),
        ("discord: {secret: zz}", "hooks.inbound.discord: the secret of this source is its sender's public key"),
        ("standard: {secret: whsec_!!}", "not base64"),
        ("x: {secret: s, tolerance_seconds: 0}", "whole number from 1"),
        ("x: {secret: s, body_max_bytes: 99999999}", "body_max_bytes must be a whole number"),
        ("x: {secret: s, keep_headers: [Authorization]}", "may carry a secret"),
        ("x: {secret: s, id_header: X-Token-Id}", "may carry a secret"),
        ("x: {secret: s, normalizer: ''}", "normalizer must be a non-empty text"),
        ("x: {secret: s, path: hooks}", "plain path"),
        ("x: {secret: s, path: /}", "plain path"),
        ("x: {secret: s, path: /hooks/}", "plain path"),
        ("x: {secret: s, path: /hooks/../api}", "plain path"),
        ("x: {secret: s, path: '/hooks/{id}'}", "plain path"),
        ("x: {secret: s, path: //x}", "plain path"),
        ("x: {secret: s, path: /hooks/%61}", "plain path"),
        ("x: {secret: s, path: /hooks/contracts}", "would hide /hooks/contracts"),
        ("x: {secret: s, path: /hooks/contracts/test}", "would hide /hooks/contracts"),
        ("x: {secret: s, path: /hooks/properties}", "would hide /hooks/properties"),
        ("x: {secret: s, path: /healthz}", "would hide /healthz"),
        ("x: {secret: s, path: /api/events}", "would hide /api"),
        ("x: {secret: s, path: /a}, y: {secret: s, path: /a}", "have the same path /a"),
    ],
)
def test_a_mistake_names_itself(tmp_path, line, complaint):
    with pytest.raises(BadConfig, match=complaint) as caught:
        source(tmp_path, line)
    assert not re.search(r"\bzz\b|whsec_!!|12345", caught.value.message), "it shows the secret"


@pytest.mark.parametrize("kind", NAMED_VERIFIERS)
def test_every_verifier_can_be_chosen(tmp_path, kind):
    secret = "0a" * 32 if kind == "discord" else "whsec_QUJDRA=="
    more = ", header: X-Sig" if kind in ("hmac", "token") else ", public_url: 'https://hooks.example.com/x'"
    found = source(tmp_path, f"x: {{secret: '{secret}', verifier: {kind}{more}}}")
    assert found.check is not None
    assert found.check.kind == kind
