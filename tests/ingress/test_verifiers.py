"""Verifiers against what the platforms' own libraries sign, and against everything that was never signed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

import discord_interactions
import nacl.signing
import pytest
import standardwebhooks
import stripe
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.signature import SignatureVerifier

from holdfast.domain.ed25519 import any_signed
from holdfast.domain.errors import BadInput, Unverified
from holdfast.ingress.webhook.headers import VALUE_MAX, Headers
from holdfast.ingress.webhook.platforms import NAMED_VERIFIERS
from holdfast.ingress.webhook.verifiers import VERIFIERS, prepare, verify
from holdfast.ingress.webhook.verifiers.check import Check
from holdfast.ingress.webhook.verifiers.request import InboundRequest

NOW = 1_790_000_000
BODY = '{"hello": "wörld"}'.encode()
SECRET = "s3cret-of-the-source"
WHSEC = "whsec_" + base64.b64encode(b"k" * 32).decode()
KEY = nacl.signing.SigningKey(b"\x07" * 32)
OTHER_KEY = nacl.signing.SigningKey(b"\x08" * 32)
WHPK = "whpk_" + base64.b64encode(bytes(KEY.verify_key)).decode()

Signed = Callable[[bytes, int], dict[str, str]]


def hub(body: bytes, now: int) -> dict[str, str]:
    return {"X-Hub-Signature-256": "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}


def hook(body: bytes, now: int) -> dict[str, str]:
    return {"X-Hook-Signature": hub(body, now)["X-Hub-Signature-256"]}


def shopify(body: bytes, now: int) -> dict[str, str]:
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).digest()
    return {"X-Shopify-Hmac-Sha256": base64.b64encode(digest).decode()}


def old_sha1(body: bytes, now: int) -> dict[str, str]:
    return {"X-Hub-Signature": "sha1=" + hmac.new(SECRET.encode(), body, hashlib.sha1).hexdigest().upper()}


def gitlab(body: bytes, now: int) -> dict[str, str]:
    return {"X-Gitlab-Token": SECRET}


def telegram(body: bytes, now: int) -> dict[str, str]:
    return {"X-Telegram-Bot-Api-Secret-Token": SECRET}


def standard(body: bytes, now: int) -> dict[str, str]:
    moment = datetime.fromtimestamp(now, UTC)
    signature = standardwebhooks.Webhook(WHSEC).sign("msg_1", moment, body.decode())
    return {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": signature}


def svix(body: bytes, now: int) -> dict[str, str]:
    return {name.replace("webhook-", "svix-"): value for name, value in standard(body, now).items()}


def standard_v1a(body: bytes, now: int) -> dict[str, str]:
    signature = base64.b64encode(KEY.sign(f"msg_1.{now}.".encode() + body).signature).decode()
    return {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": f"v1a,{signature}"}


def stripes(body: bytes, now: int) -> dict[str, str]:
    signature = stripe.WebhookSignature._compute_signature(f"{now}.{body.decode()}", SECRET)
    header = f"t={now},v1={'0' * 64},v1={signature},v0={'1' * 64}"
    assert stripe.WebhookSignature.verify_header(body.decode(), header, SECRET)
    return {"Stripe-Signature": header}


def slack(body: bytes, now: int) -> dict[str, str]:
    signature = SignatureVerifier(SECRET).generate_signature(timestamp=str(now), body=body)
    assert signature
    return {"X-Slack-Request-Timestamp": str(now), "X-Slack-Signature": signature}


def discord(body: bytes, now: int) -> dict[str, str]:
    signature = KEY.sign(str(now).encode() + body).signature.hex()
    assert discord_interactions.verify_key(body, signature, str(now), bytes(KEY.verify_key).hex())
    return {"X-Signature-Timestamp": str(now), "X-Signature-Ed25519": signature}


def checked(kind: str, secrets: tuple[str, ...], **changes: str | int) -> Check:
    return prepare(NAMED_VERIFIERS[kind], secrets, **changes)


CASES: dict[str, tuple[Check, Signed]] = {
    "hub": (checked("hub", (SECRET,)), hub),
    "hub by the other header": (checked("hub", (SECRET,)), hook),
    "hook": (checked("hook", (SECRET,)), hook),
    "hmac base64": (checked("hmac", (SECRET,), header="X-Shopify-Hmac-Sha256", encoding="base64"), shopify),
    "hmac sha1": (checked("hmac", (SECRET,), header="X-Hub-Signature", algorithm="sha1", prefix="sha1="), old_sha1),
    "token": (checked("token", (SECRET,), header="X-Gitlab-Token"), gitlab),
    "telegram": (checked("telegram", (SECRET,)), telegram),
    "standard": (checked("standard", (WHSEC,)), standard),
    "standard by svix's names": (checked("standard", (WHSEC,)), svix),
    "standard v1a": (checked("standard", (WHPK,)), standard_v1a),
    "stripe": (checked("stripe", (SECRET,)), stripes),
    "slack": (checked("slack", (SECRET,)), slack),
    "discord": (checked("discord", (bytes(KEY.verify_key).hex(),)), discord),
}
TIMED = ("standard", "standard v1a", "stripe", "slack", "discord")
OVER_BODY = [name for name in CASES if name not in ("token", "telegram")]


def raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]


def passes(check: Check, headers: Mapping[str, str], body: bytes = BODY, now: int = NOW) -> None:
    verify(check, InboundRequest(Headers(raw(headers)), body), now)


def refusal(check: Check, headers: Mapping[str, str], body: bytes = BODY, now: int = NOW) -> str:
    with pytest.raises(Unverified) as caught:
        passes(check, headers, body, now)
    message = caught.value.message
    assert "\n" not in message
    assert message[0].islower()
    assert SECRET not in message
    return message


def test_every_general_verifier_has_a_case():
    of_platforms = {"telegram", "stripe", "slack", "discord"}  # the others: test_platform_signatures.py
    assert {check.kind for check, _ in CASES.values()} == set(VERIFIERS) | of_platforms


@pytest.mark.parametrize("name", CASES)
def test_a_request_signed_by_the_sender_passes(name):
    check, sign = CASES[name]
    passes(check, sign(BODY, NOW))


@pytest.mark.parametrize("name", ["hub", "hook", "stripe", "slack", "discord"])
def test_hex_of_either_case_passes(name):
    check, sign = CASES[name]
    upper = {header: re.sub("[0-9a-f]{40,}", _upper, value) for header, value in sign(BODY, NOW).items()}
    assert upper != sign(BODY, NOW)
    passes(check, upper)


def _upper(found: re.Match[str]) -> str:
    return found[0].upper()


@pytest.mark.parametrize("name", CASES)
def test_either_of_two_secrets_may_have_signed(name):
    check, sign = CASES[name]
    another = {"discord": bytes(OTHER_KEY.verify_key).hex()}.get(check.kind, "whsec_" + "QUJD" * 8)
    passes(replace(check, secrets=(another, *check.secrets)), sign(BODY, NOW))
    refusal(replace(check, secrets=(another,)), sign(BODY, NOW))


@pytest.mark.parametrize("name", OVER_BODY)
@pytest.mark.parametrize("body", [BODY + b" ", BODY[:-1], b"", BODY.replace(b"hello", b"hellO")])
def test_another_body_is_refused(name, body):
    check, sign = CASES[name]
    assert "match" in refusal(check, sign(BODY, NOW), body)


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize("off", [-301, 301, -10_000_000])
def test_a_time_outside_the_window_is_refused(name, off):
    check, sign = CASES[name]
    assert "more than 300 seconds from now" in refusal(check, sign(BODY, NOW + off))
    passes(check, sign(BODY, NOW + (300 if off > 0 else -300)))


@pytest.mark.parametrize("name", TIMED)
def test_the_time_is_part_of_the_signed_text(name):
    check, sign = CASES[name]
    moved = {header: value.replace(str(NOW), str(NOW + 1)) for header, value in sign(BODY, NOW).items()}
    assert "match" in refusal(check, moved)


@pytest.mark.parametrize("name", CASES)
def test_a_missing_empty_doubled_or_endless_header_is_refused_by_name(name):
    check, sign = CASES[name]
    headers = sign(BODY, NOW)
    for missing in headers:
        rest = {header: value for header, value in headers.items() if header != missing}
        assert "missing" in refusal(check, rest)
        assert "missing" in refusal(check, {**headers, missing: ""})
        assert missing.lower() in refusal(check, {**headers, missing: "x" * (VALUE_MAX + 1)})
        with pytest.raises(Unverified, match="2 times"):
            verify(check, InboundRequest(Headers([*raw(headers), *raw({missing: headers[missing]})]), BODY), NOW)


GARBLED = [
    "x", "=", ",", "sha256=", "sha256", "sha256=zz", "v0=", "v0=zz", "v1=ab", "t=,v1=", "t=1", "t=1,t=2,v1=ab", "v1,",
    "v1,!!", "v1a,AAAA", "v2,AAAA", "a,b,c", "\xff\xfe", "sha256=\xe9\xe9", "1e9", "-5", "179\xb2",
    "00" * 64, "ff" * 32, "sha1=" + "0" * 64, "t=179\xb2,v1=ab", " ", "'; drop table",
]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("junk", GARBLED)
def test_a_garbled_header_is_refused_and_never_raises_anything_else(name, junk):
    check, sign = CASES[name]
    headers = sign(BODY, NOW)
    for spoiled in headers:
        if spoiled.lower() not in ("webhook-id", "svix-id"):
            refusal(check, {**headers, spoiled: junk})


HEADERS = sorted({name.lower().encode() for _, sign in CASES.values() for name in sign(BODY, NOW)})


@given(st.dictionaries(st.sampled_from(HEADERS), st.binary()))
def test_no_bytes_in_any_header_pass_or_raise(headers):
    for check, _ in CASES.values():
        with pytest.raises(Unverified):
            verify(check, InboundRequest(Headers(headers.items()), BODY), NOW)


@pytest.mark.parametrize("name", OVER_BODY)
def test_a_cut_signature_is_refused(name):
    check, sign = CASES[name]
    headers = sign(BODY, NOW)
    carrier = max(headers, key=lambda header: len(headers[header]))
    behind = len(",v0=") + 64 if check.kind == "stripe" else 0
    refusal(check, {**headers, carrier: headers[carrier][: -behind - 4]})


def test_githubs_published_example_passes():
    secret, body = "It's a Secret to Everybody", b"Hello, World!"
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    passes(checked("hub", (secret,)), {"X-Hub-Signature-256": signature}, body)


def test_several_standard_signatures_in_one_header_count_each():
    headers = standard(BODY, NOW)
    several = f"v2,abc v1,{'A' * 43}= {headers['webhook-signature']} junk"
    passes(checked("standard", (WHSEC,)), {**headers, "webhook-signature": several})
    both = f"{standard_v1a(BODY, NOW)['webhook-signature']} {headers['webhook-signature']}"
    passes(checked("standard", (WHPK, WHSEC)), {**headers, "webhook-signature": both})


def test_a_standard_id_with_a_dot_is_refused():
    assert "dot" in refusal(checked("standard", (WHSEC,)), {**standard(BODY, NOW), "webhook-id": "msg.1"})


@pytest.mark.parametrize(
    ("kind", "secret", "complaint"),
    [
        ("discord", "abc", "64 hex digits"),
        ("discord", "ü" * 64, "64 hex digits"),
        ("standard", "whsec_!!!", "not base64"),
        ("standard", "whpk_QUJD", "32 bytes"),
        ("standard", "whsk_" + "A" * 44, "private key"),
        ("hmac", "x", "needs header"),
        ("token", "x", "needs header"),
    ],
)
def test_a_key_that_could_never_verify_is_refused_at_the_start(kind, secret, complaint):
    with pytest.raises(BadInput, match=complaint):
        checked(kind, (secret,))


def test_a_check_never_shows_its_secrets():
    assert SECRET not in repr(checked("hub", (SECRET,)))


def test_the_mathematics_can_be_replaced():
    asked = []

    def is_signed(key: bytes, signature: bytes, message: bytes) -> bool:
        asked.append((key, signature, message))
        return signature == b"good"

    assert any_signed([b"k"], [b"bad", b"good"], b"m", is_signed)
    assert asked == [(b"k", b"bad", b"m"), (b"k", b"good", b"m")]
