"""Signatures: what we sign others verify, what others sign we verify, and nothing altered passes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from domain_strategies import examples, json_values
from holdfast.domain.canonical import dump_json
from holdfast.domain.errors import BadInput
from holdfast.domain.signature import (
    TOLERANCE_S,
    hook_signature,
    secret_key,
    sign,
    verify_hook,
    verify_standard,
)

NOW = 1_700_000_000
BODY = b'{"a":1}'
ID = "evt_018bcfe5680000000000000000000000"
whsec = st.binary(min_size=1, max_size=64).map(lambda key: "whsec_" + base64.b64encode(key).decode())
secrets = whsec | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(
    lambda text: not text.startswith("whsec_")
)
ids = st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True)
bodies = st.binary(max_size=200)


@given(whsec, ids, json_values)
@examples
def test_the_reference_library_verifies_our_signatures(secret, message_id, value):
    body = dump_json(value)
    assert Webhook(secret).verify(body, sign([secret], message_id, int(time.time()), body)) == json.loads(body)


@given(whsec, ids, json_values)
@examples
def test_we_verify_signatures_of_the_reference_library(secret, message_id, value):
    body = dump_json(value)
    signature = Webhook(secret).sign(message_id, datetime.fromtimestamp(NOW, UTC), body.decode())
    headers = {"webhook-id": message_id, "webhook-timestamp": str(NOW), "webhook-signature": signature}
    assert verify_standard([secret], headers, body, NOW)


@given(st.lists(secrets, min_size=1, max_size=4), ids, bodies)
@examples
def test_in_a_rotation_any_secret_on_either_side_is_enough(known, message_id, body):
    headers = sign(known, message_id, NOW, body)
    assert len(headers["webhook-signature"].split(" ")) == len(known)
    for secret in known:
        assert verify_standard([secret], headers, body, NOW)
        assert verify_standard(["another", secret], sign([secret], message_id, NOW, body), body, NOW)


def test_the_public_library_accepts_each_secret_of_a_rotation():
    known = ["whsec_" + base64.b64encode(key * 24).decode() for key in (b"a", b"b")]
    headers = sign(known, ID, int(time.time()), BODY)
    for secret in known:
        assert Webhook(secret).verify(BODY, headers) == {"a": 1}


@given(secrets, secrets, bodies)
@examples
def test_another_secret_does_not_verify(one, other, body):
    if secret_key(one) != secret_key(other):
        assert not verify_standard([other], sign([one], ID, NOW, body), body, NOW)
        assert not verify_standard([], sign([one], ID, NOW, body), body, NOW)


@given(secrets, bodies, bodies)
@examples
def test_a_tampered_body_is_refused(secret, body, other):
    headers = sign([secret], ID, NOW, body)
    assert verify_standard([secret], headers, other, NOW) is (body == other)
    assert verify_hook([secret], other, headers["X-Hook-Signature"]) is (body == other)


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook-id": "evt_other"},
        {"webhook-id": ""},
        {"webhook-id": "evt.1"},
        {"webhook-id": "é"},
        {"webhook-id": ID + "\udcff"},  # a byte that is not UTF-8, as HTTP servers hand it on
        {"webhook-timestamp": str(NOW + 1)},
        {"webhook-timestamp": ""},
        {"webhook-timestamp": "-1"},
        {"webhook-timestamp": "1e9"},
        {"webhook-timestamp": f" {NOW}"},
        {"webhook-timestamp": "١٧٠٠٠٠٠٠٠٠"},  # digits, but not ASCII
        {"webhook-timestamp": "9" * 5000},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "é"},
        {"webhook-signature": "v1,\udcff"},
    ],
    ids=ascii,
)
def test_a_changed_or_malformed_header_is_refused(changed):
    headers = sign(["s"], ID, NOW, BODY)
    assert verify_standard(["s"], headers, BODY, NOW)
    assert not verify_standard(["s"], {**headers, **changed}, BODY, NOW)


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_refused(missing):
    headers = sign(["s"], ID, NOW, BODY)
    del headers[missing]
    assert not verify_standard(["s"], headers, BODY, NOW)


@given(st.integers(-2 * TOLERANCE_S, 2 * TOLERANCE_S))
@examples
def test_a_timestamp_counts_only_within_the_tolerance_on_either_side(drift):
    headers = sign(["s"], ID, NOW, BODY)
    assert verify_standard(["s"], headers, BODY, NOW + drift) is (abs(drift) <= TOLERANCE_S)


@given(secrets, bodies)
@examples
def test_the_hook_signature_is_plain_sha256_over_the_body(secret, body):
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    assert hook_signature(secret, body) == expected
    assert sign([secret, "next"], ID, NOW, body)["X-Hook-Signature"] == expected
    assert verify_hook(["next", secret], body, expected)
    assert not verify_hook([], body, expected)


@pytest.mark.parametrize("header", ["", "sha256=", "sha1=00", "é", "sha256=\udcff"], ids=ascii)
def test_a_malformed_hook_signature_is_refused(header):
    assert not verify_hook(["s"], BODY, header)


def test_without_a_secret_nothing_is_signed_but_the_id_is_sent():
    assert sign([], ID, NOW, BODY) == {"webhook-id": ID, "webhook-timestamp": str(NOW)}


def test_an_id_with_a_dot_is_not_signed():
    with pytest.raises(BadInput, match="dot"):
        sign(["s"], "a.1", NOW, BODY)


@given(st.binary(min_size=1, max_size=40))
@examples
def test_a_whsec_secret_is_its_key_with_or_without_padding(key):
    text = "whsec_" + base64.b64encode(key).decode()
    assert secret_key(text) == secret_key(text.rstrip("=")) == key


@pytest.mark.parametrize("secret", ["whsec_!", "whsec_a", "whsec_é", "whsec_a b="])
def test_a_whsec_secret_that_is_not_base64_is_refused(secret):
    with pytest.raises(BadInput, match="not base64"):
        secret_key(secret)
