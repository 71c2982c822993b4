"""`verify:` in the configuration: a sender's scheme described part by part, and every mistake in it named."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nacl.signing
import pytest
import yaml

from holdfast.config.config import load_config
from holdfast.config.inbound_check import VERIFY_KEYS
from holdfast.domain.errors import BadConfig, Unverified
from holdfast.ingress.webhook.content import FORM
from holdfast.ingress.webhook.headers import Headers
from holdfast.ingress.webhook.verifiers import template, verify
from holdfast.ingress.webhook.verifiers.check import Check
from holdfast.ingress.webhook.verifiers.request import InboundRequest
from holdfast.ingress.webhook.verifiers.scheme import Scheme

NOW = 1_790_000_000
NOW_ISO = "2026-09-21T14:13:20Z"
SECRET = "canary-s3cret"
BODY = '{"hello": "wörld"}'.encode()
KEY = nacl.signing.SigningKey(b"\x07" * 32)


def load(folder: Path, verify: Any, secret: str = SECRET, **more: Any) -> Check:
    """The check of a source with this section `verify`, through the configuration file."""
    path = folder / "holdfast.yml"
    source = {"secret": secret, "verify": verify, **more}
    path.write_text(yaml.safe_dump({"hooks": {"inbound": {"sender": source}}}), encoding="utf-8")
    (found,) = load_config(path).inbound
    assert found.check is not None
    return found.check


def mac(content: bytes, algorithm: str = "sha256", key: bytes = SECRET.encode()) -> bytes:
    return hmac.new(key, content, algorithm).digest()


def passes(check: Check, headers: Mapping[str, str], body: bytes = BODY, now: int = NOW, **more: str) -> None:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    verify(check, InboundRequest(Headers(raw), body, **more), now)


def refusal(check: Check, headers: Mapping[str, str], body: bytes = BODY, now: int = NOW, **more: str) -> str:
    with pytest.raises(Unverified) as caught:
        passes(check, headers, body, now, **more)
    assert "canary" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha384", "sha512", "hmac-sha384"])
@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("hex", lambda raw: raw.hex()),
        ("hex", lambda raw: raw.hex().upper()),
        ("base64", lambda raw: base64.b64encode(raw).decode()),
        ("base64", lambda raw: base64.b64encode(raw).decode().rstrip("=")),
        ("base64url", lambda raw: base64.urlsafe_b64encode(raw).decode()),
        ("base64url", lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("=")),
    ],
)
def test_every_algorithm_in_every_encoding(tmp_path, algorithm, encoding, encode):
    check = load(tmp_path, {"header": "X-Sig", "algorithm": algorithm, "encoding": encoding, "prefix": "v="})
    body = BODY + b"~~~"
    signature = encode(mac(body, algorithm.removeprefix("hmac-")))
    passes(check, {"X-Sig": f"v={signature}"}, body)
    assert "does not match" in refusal(check, {"X-Sig": f"v={signature}"}, body + b" ")
    assert "does not begin with v=" in refusal(check, {"X-Sig": signature}, body)


def test_ed25519_by_a_public_key_in_hex_or_base64(tmp_path):
    section = {"header": "X-Sig", "content": "{timestamp}|{body}", "timestamp_header": "X-Time", "encoding": "base64"}
    signature = base64.b64encode(KEY.sign(f"{NOW}|".encode() + BODY).signature).decode()
    for secret, encoding in (
        (bytes(KEY.verify_key).hex(), "hex"),
        (base64.b64encode(bytes(KEY.verify_key)).decode(), "base64"),
    ):
        check = load(tmp_path, {**section, "algorithm": "ed25519", "secret_encoding": encoding}, secret)
        passes(check, {"X-Sig": signature, "X-Time": str(NOW)})
        assert "does not match" in refusal(check, {"X-Sig": signature, "X-Time": str(NOW)}, BODY + b" ")


@pytest.mark.parametrize(
    ("encoding", "secret"),
    [
        ("raw", "some text"),
        ("hex", "00ff" * 8),
        ("base64", base64.b64encode(bytes(range(32))).decode()),
        ("base64", "whsec_" + base64.b64encode(bytes(range(32))).decode().rstrip("=")),
    ],
)
def test_a_secret_may_be_an_encoded_key(tmp_path, encoding, secret):
    keys = {"raw": secret.encode(), "hex": b"\x00\xff" * 8, "base64": bytes(range(32))}
    check = load(tmp_path, {"header": "X-Sig", "secret_encoding": encoding}, secret)
    passes(check, {"X-Sig": mac(BODY, key=keys[encoding]).hex()})


TIMED = {"header": "X-Sig", "content": "{timestamp}.{body}", "timestamp_header": "X-Time"}


@pytest.mark.parametrize(
    ("unit", "written", "late"),
    [
        ("s", str(NOW), str(NOW - 301)),
        ("ms", f"{NOW}123", f"{NOW - 301}000"),
        ("iso", NOW_ISO, "2026-09-21T14:08:19Z"),
        ("iso", "2026-09-21T16:13:20.5+02:00", "2026-09-21T14:18:21.9Z"),
    ],
)
def test_the_time_in_every_unit(tmp_path, unit, written, late):
    check = load(tmp_path, {**TIMED, "timestamp_unit": unit})
    for stamp, reason in (
        (written, ""),
        (late, "more than 300 seconds"),
        ("soon", "not a time"),
        ("1e9", "not a time"),
    ):
        headers = {"X-Sig": mac(f"{stamp}.".encode() + BODY).hex(), "X-Time": stamp}
        if reason:
            assert reason in refusal(check, headers)
        else:
            passes(check, headers)
    moved = {"X-Sig": mac(f"{written}.".encode() + BODY).hex(), "X-Time": written.replace("0", "1", 1)}
    assert refusal(check, moved)


def test_the_tolerance_is_a_setting(tmp_path):
    headers = {"X-Sig": mac(f"{NOW}.".encode() + BODY).hex(), "X-Time": str(NOW)}
    for check in (load(tmp_path, {**TIMED, "tolerance_seconds": 5}), load(tmp_path, TIMED, tolerance_seconds=5)):
        passes(check, headers, now=NOW + 5)
        assert "more than 5 seconds" in refusal(check, headers, now=NOW + 6)


def test_a_list_of_times_and_signatures(tmp_path):
    check = load(
        tmp_path,
        {
            "header": "X-Sig", "content": "{timestamp}:{body}", "separator": ";", "signature_key": "h1",
            "timestamp_key": "ts",
        },
    )  # fmt: skip
    good = mac(f"{NOW}:".encode() + BODY).hex()
    passes(check, {"X-Sig": f"ts={NOW};h1={good}"})
    passes(check, {"X-Sig": f"ts={NOW}; h1={'0' * 64}; h1=junk; h2=x; h1={good}"})
    assert "exactly one ts=" in refusal(check, {"X-Sig": f"h1={good}"})
    assert "exactly one ts=" in refusal(check, {"X-Sig": f"ts={NOW};ts={NOW};h1={good}"})
    assert "has no h1= signature" in refusal(check, {"X-Sig": f"ts={NOW};h2={good}"})
    assert refusal(check, {"X-Sig": ";" * 40 + f"ts={NOW};h1={good}"}), "members are bounded"


def test_the_time_in_the_signed_body(tmp_path):
    check = load(tmp_path, {"header": "X-Sig", "timestamp_field": "meta.sent", "timestamp_unit": "ms"})
    for sent, reason in (
        (NOW * 1000, ""),
        (str(NOW * 1000), ""),
        ((NOW - 301) * 1000, "more than 300"),
        (True, "field meta.sent"),
    ):
        body = json.dumps({"meta": {"sent": sent}}).encode()
        if reason:
            assert reason in refusal(check, {"X-Sig": mac(body).hex()}, body)
        else:
            passes(check, {"X-Sig": mac(body).hex()}, body)
    assert "does not match" in refusal(check, {"X-Sig": mac(b"x").hex()}, b"{}"), "the signature comes first"
    assert "field meta.sent" in refusal(check, {"X-Sig": mac(b"not JSON").hex()}, b"not JSON")


def test_everything_a_sender_may_sign(tmp_path):
    content = "{{v1}}|{method}|{url}|{path}|{query}|{header:X-Request-Id}|{timestamp}|{body}|{body_sha256}"
    check = load(
        tmp_path, {"header": "X-Sig", "content": content, "timestamp_header": "X-Time"},
        public_url="https://hooks.example.com/a/b",
    )  # fmt: skip
    signed = "|".join(
        ["{v1}", "POST", "https://hooks.example.com/a/b?x=%20y&z", "/hooks/inbound/sender", "x=%20y&z", "r-1", str(NOW)]
    ).encode() + b"|" + BODY + b"|" + hashlib.sha256(BODY).hexdigest().encode()  # fmt: skip
    headers = {"X-Sig": mac(signed).hex(), "X-Time": str(NOW), "X-Request-Id": "r-1"}
    passes(check, headers, path="/hooks/inbound/sender", query="x=%20y&z")
    for changed in ({"method": "PUT"}, {"query": "x=1"}, {"path": "/other"}):
        assert "does not match" in refusal(
            check, headers, **{"path": "/hooks/inbound/sender", "query": "x=%20y&z", **changed}
        )
    assert "x-request-id is missing" in refusal(check, {**headers, "X-Request-Id": ""}, query="x=%20y&z")


def test_hubspots_way_to_write_a_url(tmp_path):
    check = load(tmp_path, {"header": "X-Sig", "content": "{decoded_url}{body}"}, public_url="https://x.example/a")
    signed = b"https://x.example/a?u=https://y/@!$'()*,;&s=%20%26%3D&q=?" + BODY
    query = "u=https%3A%2f%2F" + "y%2F%40%21%24%27%28%29%2A%2C%3B&s=%20%26%3D&q=%3F"
    passes(check, {"X-Sig": mac(signed).hex()}, query=query)


def test_a_refusal_over_a_url_names_the_url_it_was_checked_with(tmp_path):
    check = load(tmp_path, {"header": "X-Sig", "content": "{url}{body}"}, public_url="https://hooks.example.com")
    assert check.public_url == "https://hooks.example.com/hooks/inbound/sender"
    assert "exactly the sender's URL, now https://hooks.example.com/hooks/inbound/sender" in refusal(
        check, {"X-Sig": "00" * 32}
    )


def test_the_fields_of_a_form_are_sorted_and_each_counts_once(tmp_path):
    check = load(tmp_path, {"header": "X-Sig", "content": "{sorted_form}"})
    form = {"Content-Type": FORM + "; charset=utf-8"}
    signature = {"X-Sig": mac("B2Bodyhi yoüa1a2empty".encode()).hex()}
    passes(check, {**form, **signature}, b"empty=&a=2&B=2&a=1&a=2&Body=hi+yo%C3%BC&")
    assert "does not match" in refusal(check, {**form, **signature}, b"empty=&a=2&B=2&a=1&Body=hi+yo%C3%BC&c=")
    assert "not a form" in refusal(check, {**signature, "Content-Type": "application/json"}, b"{}")
    assert "1,001 fields" in refusal(check, {**form, **signature}, b"&".join(b"a" for _ in range(1001)))


def test_a_known_scheme_under_other_names(tmp_path):
    stripe = load(tmp_path, {"header": "Calendly-Webhook-Signature", "tolerance_seconds": 180}, verifier="stripe")
    assert stripe.scheme == Scheme(
        "calendly-webhook-signature", "{timestamp}.{body}", signature_key="v1", timestamp_key="t", tolerance_seconds=180
    )
    slack = load(tmp_path, {"header": "X-Zm-Signature", "timestamp_header": "X-Zm-Request-Timestamp"}, verifier="slack")
    assert slack.scheme == Scheme(
        "x-zm-signature", "v0:{timestamp}:{body}", prefix="v0=", timestamp_header="x-zm-request-timestamp"
    )


def test_either_of_several_secrets_may_have_signed(tmp_path):
    check = load(tmp_path, {"header": "X-Sig"}, secrets=["second", "third"])
    for secret in (SECRET, "second", "third"):
        passes(check, {"X-Sig": mac(BODY, key=secret.encode()).hex()})
    assert "does not match" in refusal(check, {"X-Sig": mac(BODY, key=b"fourth").hex()})


@pytest.mark.parametrize(
    ("section", "complaint"),
    [
        ({}, "sender: the verifier hmac needs header"),
        ({"heder": "X"}, r"sender.verify has an unknown key 'heder'; did you mean header\?"),
        ({"header": "X", "content": "{time}{body}"}, r"unknown placeholder \{time\}; known are \{body\}, .*\{header:"),
        ({"header": "X", "content": "{body!r}"}, r"unknown placeholder \{body!r\}"),
        ({"header": "X", "content": "{body:>9}"}, r"unknown placeholder \{body:>9\}"),
        ({"header": "X", "content": "{body.decode}"}, r"unknown placeholder \{body.decode\}"),
        ({"header": "X", "content": "{0}{body}"}, r"unknown placeholder \{0\}"),
        ({"header": "X", "content": "{header:}{body}"}, r"unknown placeholder \{header\}"),
        ({"header": "X", "content": "{header:X Y}{body}"}, r"unknown placeholder \{header:X Y\}"),
        ({"header": "X", "content": "{body"}, "is not a template"),
        ({"header": "X", "content": "body}"}, "is not a template"),
        ({"header": "X", "content": "{method}"}, r"content must contain \{body\}"),
        ({"header": "X", "content": "{body}" + "x" * 600}, "at most 500 characters"),
        ({"header": "X", "content": "{body}" * 30}, "30 placeholders; the limit is 20"),
        ({"header": "X", "content": "{timestamp}{body}"}, "timestamp_key or timestamp_header"),
        ({"header": "X", "timestamp_header": "T"}, r"content must contain \{timestamp\}"),
        ({"header": "X", "timestamp_header": "T", "timestamp_field": "t"}, "exclude each other"),
        ({"header": "X", "content": "{timestamp}{body}", "timestamp_key": "t"}, "needs signature_key"),
        ({"header": "X", "prefix": "v=", "signature_key": "s"}, "exclude each other"),
        ({"header": "X", "content": "{url}{body}"}, "a tunnel or a proxy; set public_url: to that URL"),
        ({"header": "X", "algorithm": "md5"}, "sender.verify.algorithm must be one of sha256, sha1, sha384, sha512"),
        ({"header": "X", "encoding": "rot13"}, "sender.verify.encoding must be one of hex, base64, base64url"),
        ({"header": "X", "timestamp_unit": "h"}, "timestamp_unit must be one of s, ms, iso"),
        ({"header": "X", "secret_encoding": "hex"}, "a secret is not hex"),
        ({"header": "X", "secret_encoding": "base64"}, "a secret is not base64"),
        ({"header": "X", "algorithm": "ed25519"}, "public key: 64 hex digits"),
        ({"header": "X", "timestamp_field": "a..b"}, "must be the path of a field"),
        ({"header": "X", "separator": ""}, "separator must be a non-empty text"),
        ({"header": "X", "tolerance_seconds": 100_000}, "whole number from 1 to 86400"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_scheme_stops_the_start_and_is_named(tmp_path, section, complaint):
    with pytest.raises(BadConfig, match=complaint) as caught:
        load(tmp_path, section)
    assert "canary" not in caught.value.message


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"verify": 3}, "sender.verify must be a mapping"),
        ({"verify": {"header": "X"}, "header": "Y"}, "are the same setting"),
        ({"verify": {"header": "X"}, "verifier": "hub"}, "header is for the verifiers hmac"),
        ({"verify": {"content": "{body}"}, "verifier": "token"}, "content is for the verifiers hmac"),
        ({"public_url": "hooks.example.com"}, "public_url must be the URL the sender sends to"),
        ({"public_url": "ftp://x"}, "public_url must be the URL"),
        ({"public_url": "https://u:p@x/"}, "public_url must be the URL"),
        ({"public_url": "https://x:99999/"}, "public_url must be the URL"),
        ({"public_url": 3}, "public_url must be the URL"),
        ({"public_url": "https://x/?a=1"}, "must not have a query"),
        ({"platform": "gitlob"}, "platform must be one of json, discord, github"),
        ({"id_header": "X-Id", "id_field": "id"}, "has id_header and id_field; remove one"),
        ({"type_header": "X-Type", "type_field": "type"}, "has type_header and type_field; remove one"),
        ({"type_header": "X-Token"}, "may carry a secret"),
        ({"type_header": "X-Event", "platform": "github"}, "type_header is for the normalizer json; github names its"),
        ({"type_field": "type", "normalizer": "my:own"}, "type_field is for the normalizer json; my:own names its"),
        ({"id_field": "a b"}, "must be the path of a field"),
    ],
)
def test_a_mistake_beside_the_scheme_is_named_too(tmp_path, more, complaint):
    with pytest.raises(BadConfig, match=complaint):
        load(tmp_path, more.pop("verify", {"header": "X"}), **more)


def test_every_part_of_a_scheme_can_be_configured_and_explained():
    assert set(VERIFY_KEYS) == set(Scheme.__slots__)
    page = (Path(__file__).parents[2] / "docs" / "webhooks" / "inbound.md").read_text(encoding="utf-8")
    for name in (*VERIFY_KEYS, *(f"{{{name}}}" for name in template.PLACEHOLDERS)):
        assert f"`{name}`" in page, name
