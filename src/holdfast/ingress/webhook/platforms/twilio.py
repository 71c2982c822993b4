"""Twilio: base64 HMAC-SHA1 by the auth token over the URL and the sorted fields of the form.

A JSON body (Event Streams, for one) is not in the signed text; its SHA-256 is in the signed URL instead, as the
parameter `bodySHA256`. Twilio signs some URLs with and some without their port, so both are tried.
`I-Twilio-Idempotency-Token` stays the same over retries. An answer with a body would be read as TwiML: it gets none.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from holdfast.domain.errors import Unverified
from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import event_type, object_of, properties, rfc3339, sent_by, stream, text
from holdfast.ingress.webhook.verifiers import EVERYTHING, check_scheme, template
from holdfast.ingress.webhook.verifiers.check import Check, Verifier
from holdfast.ingress.webhook.verifiers.request import InboundRequest
from holdfast.ingress.webhook.verifiers.scheme import Scheme
from holdfast.ingress.webhook.verifiers.signature import find_secret, mismatch_text, read_signatures

PORTS = {"https": 443, "http": 80}
STREAMED = "com.twilio."
QUERY_MAX = 100


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent | list[HookEvent]:
    """`twilio.message.received`, `twilio.call.completed`, …, one stream per phone number at the other end."""
    if isinstance(payload, list):
        return [_streamed(item) for item in payload]
    body = object_of(payload, "Twilio")
    message, call = text(body, "MessageSid") or text(body, "SmsSid"), text(body, "CallSid")
    status = text(body, "MessageStatus") or text(body, "SmsStatus") or text(body, "CallStatus")
    kind = "message" if message else "call" if call else None
    sender, recipient = text(body, "From"), text(body, "To")
    inbound = status == "received" or text(body, "Direction") == "inbound"
    return HookEvent(
        source="twilio",
        type=event_type("twilio", kind, status or "received"),
        properties=properties(
            message_sid=message,
            call_sid=call,
            account=text(body, "AccountSid"),
            status=status,
            sender=sender,
            recipient=recipient,
            text=text(body, "Body"),
            media=text(body, "NumMedia"),
            direction=text(body, "Direction"),
            error_code=text(body, "ErrorCode"),
            **(sent_by(sender, channel=sender, message=message, headline=f"Twilio: {sender} wrote") if inbound else {}),
        ),
        payload=body,
        stream=stream("twilio", (sender if inbound else recipient) or message or call),
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return headers.get("i-twilio-idempotency-token")


def answer(payload: Json) -> Json:
    return None


def verify(check: Check, request: InboundRequest, now_s: int) -> str:
    scheme = check.scheme
    signatures = read_signatures(scheme, request.headers.one(scheme.header), scheme.header)
    digests = _digests(request.query)
    if digests:
        _check_digest(digests, request.body)
    content = "{url}" if digests else scheme.content
    urls = _with_and_without_port(request.url(check.public_url))
    contents = [template.render(content, template.Signing(request, url, "")) for url in urls]
    matching = find_secret(check, contents, signatures)
    if matching is None:
        raise Unverified(mismatch_text(check, scheme.header))
    return matching


def _digests(query: str) -> list[str]:
    try:
        return [value for name, value in parse_qsl(query, max_num_fields=QUERY_MAX) if name == "bodySHA256"]
    except ValueError:
        raise Unverified(f"the URL has more than {QUERY_MAX} parameters") from None


def _check_digest(digests: list[str], body: bytes) -> None:
    expected = hashlib.sha256(body).hexdigest().encode()
    given = digests[0].lower().encode("utf-8", "replace")
    if len(digests) > 1 or not hmac.compare_digest(expected, given):
        raise Unverified("bodySHA256 in the URL does not match the body")


def _with_and_without_port(url: str) -> list[str]:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    bare = host.rpartition(":")[0] if parts.port is not None else host
    hosts = (bare, f"{bare}:{parts.port or PORTS[parts.scheme]}")
    return [url, *(urlunsplit(parts._replace(netloc=each)) for each in hosts)]


def _streamed(item: Json) -> HookEvent:
    """One event of Event Streams, which come as CloudEvents."""
    kind = text(item, "type") or "unknown"
    return HookEvent(
        source="twilio",
        type=event_type("twilio", kind.removeprefix(STREAMED)),
        timestamp=rfc3339(item.get("time")) if isinstance(item, Mapping) else None,
        properties=properties(
            event=kind,
            event_id=text(item, "id"),
            message_sid=text(item, "data", "messageSid"),
            call_sid=text(item, "data", "callSid"),
            account=text(item, "data", "accountSid"),
        ),
        payload=item,
        stream=stream("twilio", text(item, "data", "accountSid")),
        dedup_key=text(item, "id"),
    )


_SCHEME = Scheme("x-twilio-signature", "{url}{sorted_form}", algorithm="sha1", encoding="base64")
PLATFORM = Platform(
    "twilio",
    normalize,
    Verifier("twilio", verify, _SCHEME, EVERYTHING - {"content"}, check_scheme),
    ("i-twilio-idempotency-token",),
    delivery_id,
    answer,
    empty_status=204,
)
