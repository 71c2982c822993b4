"""Signatures that the platforms publish: the examples of their documentation and of their libraries' tests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.errors import BadInput, Unverified
from holdfast.ingress.webhook.content import FORM
from holdfast.ingress.webhook.headers import Headers
from holdfast.ingress.webhook.platforms import PLATFORMS
from holdfast.ingress.webhook.verifiers import prepare, verify
from holdfast.ingress.webhook.verifiers.check import Check
from holdfast.ingress.webhook.verifiers.request import InboundRequest


def checked(platform: str, *secrets: str, public_url: str = "") -> Check:
    return prepare(PLATFORMS[platform].verifier, secrets, public_url)


def passes(check: Check, headers: Mapping[str, str], body: bytes, now: int = 0, query: str = "") -> None:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    verify(check, InboundRequest(Headers(raw), body, query=query), now)


def refusal(check: Check, headers: Mapping[str, str], body: bytes, now: int = 0, query: str = "") -> str:
    with pytest.raises(Unverified) as caught:
        passes(check, headers, body, now, query)
    return caught.value.message


TWILIO_FORM = b"Digits=1234&To=%2B18005551212&From=%2B14158675309&Caller=%2B14158675309&CallSid=CA1234567890ABCDE"
TWILIO_URL = "https://mycompany.com/myapp.php"
TWILIO_JSON = b'{"property": "value", "boolean": true}'
TWILIO_SHA256 = "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620"


def twilio(signature: str, kind: str = FORM) -> dict[str, str]:
    return {"X-Twilio-Signature": signature, "Content-Type": kind}


@pytest.mark.parametrize(
    ("url", "body", "signature"),
    [
        (TWILIO_URL, TWILIO_FORM, "RSOYDt4T1cUTdK1PDd93/VVr8B8="),
        (TWILIO_URL, b"Sid=CA123&SidAccount=AC123&Digits=5678&Digits=1234&Digits=1234", "IK+Dwps556ElfBT0I3Rgjkr1wJU="),
        ("https://MyCompany.com/myapp.php", TWILIO_FORM, "g9IN/x4Cft2g517EjYvEvM/W7LU="),
        ("https://MyCompany.com:1234/myapp.php", TWILIO_FORM, "PCqOZm8cnu/L6+u5i5fuEd+Iac4="),
        ("https://mycompany.com:1234/myapp.php", TWILIO_FORM, "RSOYDt4T1cUTdK1PDd93/VVr8B8="),  # the port left out
        ("http://mycompany.com:1234/myapp.php", TWILIO_FORM, "Zmvh+3yNM1Phv2jhDCwEM3q5ebU="),
        (TWILIO_URL, TWILIO_FORM, "kvajT1Ptam85bY51eRf/AJRuM3w="),  # :443 put in
        ("http://mycompany.com/myapp.php", TWILIO_FORM, "0ZXoZLH/DfblKGATFgpif+LLRf4="),  # :80 put in
    ],
)
def test_twilios_published_examples(url, body, signature):
    check = checked("twilio", "12345", public_url=url)
    passes(check, twilio(signature), body, query="foo=1&bar=2")
    assert "does not match" in refusal(check, twilio(signature), body + b"&a=1", query="foo=1&bar=2")
    assert "does not match" in refusal(check, twilio(signature), body, query="foo=1&bar=3")
    assert "not a form" in refusal(check, twilio(signature, "application/json"), body, query="foo=1&bar=2")


def test_twilios_published_example_of_a_json_body():
    check = checked("twilio", "other", "12345", public_url=TWILIO_URL)
    headers = twilio("a9nBmqA0ju/hNViExpshrM61xv4=", "application/json")
    query = f"foo=1&bar=2&bodySHA256={TWILIO_SHA256}"
    passes(check, headers, TWILIO_JSON, query=query)
    assert "bodySHA256 in the URL does not match" in refusal(check, headers, TWILIO_JSON + b" ", query=query)
    assert "bodySHA256" in refusal(check, headers, TWILIO_JSON, query=f"{query}&bodySHA256={TWILIO_SHA256}")
    assert "does not match" in refusal(check, headers, TWILIO_JSON, query=f"bodySHA256={TWILIO_SHA256}")
    assert "not a form" in refusal(check, headers, TWILIO_JSON, query="foo=1&bar=2")


def test_squares_published_example():
    check = checked("square", "asdf1234", public_url="https://example.com/webhook")
    headers = {"X-Square-HmacSha256-Signature": "2kRE5qRU2tR+tBGlDwMEw2avJ7QM4ikPYD/PJ3bd9Og="}
    passes(check, headers, b'{"hello":"world"}')
    assert "https://example.com/webhook" in refusal(check, headers, b'{"hello":"World"}')


@pytest.mark.parametrize(
    ("stamp", "signature"),
    [
        (1693657560000, "K36dawei4A+QBNolUOqo7s91KQDWQ5MXZ/QufNYuk/Y="),
        (1700000300000, "RnbPH7+UMKVkbV32P8bz450N4M56aPmcru1+D3kSDtw="),
    ],
)
def test_hubspots_published_examples(stamp, signature):
    check = checked("hubspot", "yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy", public_url="https://www.example.com/webhook_uri")
    headers = {"X-HubSpot-Signature-v3": signature, "X-HubSpot-Request-Timestamp": str(stamp)}
    body = b"{'example_field':'example_value'}"
    passes(check, headers, body, now=stamp // 1000 + 300)
    assert "does not match" in refusal(check, headers, body, now=stamp // 1000, query="a=1")
    assert "more than 300 seconds" in refusal(check, headers, body, now=stamp // 1000 + 301)


def test_a_url_of_twilio_with_too_many_parameters_is_refused():
    check = checked("twilio", "12345", public_url=TWILIO_URL)
    assert "more than 100 parameters" in refusal(check, twilio("AAAA"), b"", query="&".join("a=1" for _ in range(101)))


WHSEC = "whsec_" + "QUJD" * 8
CHECKS = [
    checked(name, WHSEC if name != "discord" else "0a" * 32, public_url="https://hooks.example.com/x")
    for name in PLATFORMS
]
HEADERS = sorted(
    {name for check in CHECKS for name in (check.scheme.header, check.scheme.timestamp_header) if name}
    | {"webhook-id", "webhook-timestamp", "webhook-signature", "content-type"}
)
VALUES = st.binary(max_size=80) | st.sampled_from(
    [b"1790000000", b"1790000000000", b"2026-09-21T14:13:20Z", b"9999-99-99T99:99:99Z", b"v0=" + b"00" * 32, b"AAAA",
     b"t=1790000000,v1=" + b"00" * 32, b"ts=1790000000;h1=" + b"00" * 32, FORM.encode()]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(HEADERS).map(str.encode), VALUES),
    st.binary(max_size=100) | st.just(b'{"webhookTimestamp": 1e999}'),
    st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=60) | st.just("bodySHA256=x"),
)
def test_unsigned_requests_are_always_refused_as_unverified(headers, body, query):
    for check in CHECKS:
        with pytest.raises(Unverified):
            verify(check, InboundRequest(Headers(headers.items()), body, "POST", "/x", query), 1_790_000_000)


@pytest.mark.parametrize("platform", ["twilio", "square", "hubspot"])
def test_a_sender_that_signs_its_url_needs_it_configured(platform):
    with pytest.raises(BadInput, match=r"cannot know it behind a tunnel or a proxy; set public_url: to that URL"):
        checked(platform, "secret")


def test_gitlab_takes_its_secret_token_or_its_signing_token():
    token, signing = "a-secret-token", "whsec_" + "QUJD" * 8
    both = checked("gitlab", token, signing)
    passes(both, {"X-Gitlab-Token": token}, b"{}")
    assert "x-gitlab-token is not a secret" in refusal(both, {"X-Gitlab-Token": signing}, b"{}")
    assert "webhook-id is missing" in refusal(both, {"X-Gitlab-Token": token, "webhook-signature": "v1,x"}, b"{}")
    assert "webhook-id is missing" in refusal(checked("gitlab", signing), {"X-Gitlab-Token": signing}, b"{}")
    with pytest.raises(BadInput, match="not base64"):
        checked("gitlab", "whsec_!")
