"""Contracts that sign by private key: others verify it with the public key that the contract's answer shows."""

from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path

import pytest
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain import ed25519
from holdfast.domain.errors import BadInput
from holdfast.domain.event import new_event
from holdfast.domain.extras import install_command
from holdfast.domain.signature import check_signing, sign
from holdfast.ingress.webhook.headers import Headers
from holdfast.ingress.webhook.verifiers import VERIFIERS, prepare, verify
from holdfast.ingress.webhook.verifiers.request import InboundRequest
from holdfast.operations.answers.encode import encode
from holdfast.store.open import open_store
from sink import Sink

SEED = bytes(range(32))
SECRET = "whsk_" + base64.b64encode(SEED).decode()
PUBLIC = "whpk_" + base64.b64encode(bytes(SigningKey(SEED).verify_key)).decode()
SHARED = "whsec_" + base64.b64encode(b"shared" * 5).decode()
NOW = 1_700_000_000


def tokens(headers):
    return dict(token.split(",", 1) for token in headers["webhook-signature"].split(" "))


def is_by(public: str, headers, body: bytes) -> bool:
    """With a library of its own, and nothing of ours."""
    key = VerifyKey(base64.b64decode(public.removeprefix("whpk_")))
    message = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    try:
        key.verify(message, base64.b64decode(tokens(headers)["v1a"]))
    except BadSignatureError:
        return False
    return True


@pytest.mark.parametrize(
    "secret", [SECRET, "whsk_" + base64.b64encode(SEED + bytes(SigningKey(SEED).verify_key)).decode()]
)
def test_another_library_verifies_what_a_private_key_signed(secret):
    headers = sign([secret], "evt_1", NOW, b'{"a":1}')
    assert set(tokens(headers)) == {"v1a"}
    assert "X-Hook-Signature" not in headers
    assert is_by(PUBLIC, headers, b'{"a":1}')
    assert not is_by(PUBLIC, headers, b'{"a":2}')


def test_in_a_rotation_both_kinds_sign_side_by_side():
    headers = sign([SECRET, SHARED], "evt_1", NOW, b"{}")
    assert set(tokens(headers)) == {"v1a", "v1"}
    assert is_by(PUBLIC, headers, b"{}")
    assert headers["X-Hook-Signature"] == sign([SHARED], "evt_1", NOW, b"{}")["X-Hook-Signature"]
    assert SECRET not in str(headers)


def test_another_holdfast_accepts_the_signature():
    headers = sign([SECRET], "evt_1", NOW, b"{}")
    raw = Headers([(name.lower().encode(), value.encode()) for name, value in headers.items()])
    verify(prepare(VERIFIERS["standard"], (PUBLIC,)), InboundRequest(raw, b"{}"), NOW)


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        ("whsk_", "32 bytes"),
        ("whsk_!!", "32 bytes"),
        ("whsk_" + base64.b64encode(b"short").decode(), "32 bytes"),
        ("whsk_" + base64.b64encode(SEED + SEED).decode(), "second half"),
        (PUBLIC, "public key"),
    ],
)
def test_a_key_that_cannot_sign_is_refused_and_not_shown(secret, message):
    with pytest.raises(BadInput, match=message) as refused:
        check_signing(secret)
    assert secret not in refused.value.message or secret == "whsk_"


def test_without_the_extra_the_error_names_what_to_install(monkeypatch):
    for cached in (ed25519.load, ed25519.signer):
        cached.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(BadInput, match=re.escape(install_command("ed25519"))):
        check_signing(SECRET)


async def test_a_contract_shows_the_public_key_and_its_receiver_verifies_with_it(tmp_path: Path):
    (tmp_path / "holdfast.yml").write_text("egress: {allow: [127.0.0.0/8]}")
    runtime = Runtime(open_store(f"sqlite:///{tmp_path}/x.db", keep=True), load_config(tmp_path / "holdfast.yml"), None)
    await runtime.start()
    try:
        contracts = runtime.operations.contracts
        async with Sink() as sink:
            body = {"id": "c", "target": {"url": sink.url, "secret": SHARED}, "type_criterion": {"match": "a.b"}}
            assert "public_keys" not in encode(await contracts.add(body))
            made = encode(await contracts.rotate("c", {"secret": SECRET}))
            assert made["public_keys"] == [PUBLIC]
            assert made == encode(await contracts.show("c"))
            assert SECRET.removeprefix("whsk_") not in json.dumps(made)
            await runtime.store.events.append([new_event("a.b", {"n": 1})])
            (got,) = await sink.wait_for(1)
        assert set(tokens(got.headers)) == {"v1a", "v1"}
        assert is_by(made["public_keys"][0], got.headers, got.body)
    finally:
        await runtime.stop()
