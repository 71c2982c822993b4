"""Answers to a webhook: status, redirects, Retry-After, and what is recorded of them."""

from __future__ import annotations

import json

import pytest

from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.domain.retry import RETRY_AFTER_MAX_S
from holdfast.domain.states import Reason
from holdfast.egress.webhook.exchange import SHOWN_MAX, judge, retry_after_s
from receivers import raw_server, saying
from sink import Sink
from webhook_deliveries import NOW_MS, claim, deliver, deliverer

# What an answer means


async def test_every_status_from_200_to_599_has_its_outcome():
    statuses = list(range(200, 600))
    async with Sink(statuses) as sink, deliverer() as one:
        for status in statuses:
            outcome = await one.deliver(claim(sink.url))
            assert outcome.detail["status"] == status
            if status < 300:
                assert isinstance(outcome, Delivered)
            elif status < 400 or status >= 500 or status in (408, 425, 429):
                assert isinstance(outcome, Retry), status
            else:
                assert (type(outcome), outcome.reason) == (Dead, Reason.REJECTED), status
            if not isinstance(outcome, Delivered):
                assert str(status) in outcome.error
            assert ("gone" in outcome.detail) is (status == 410)
        assert len(sink.received) == len(statuses)


@pytest.mark.parametrize("status", [100, 101, 199, 600, 700, 999])
def test_a_status_that_means_nothing_is_tried_again(status):
    assert isinstance(judge(status, None, {}), Retry)


@pytest.mark.parametrize("status", ["600", "999", "101"])
async def test_an_odd_status_on_the_wire_is_tried_again(status):
    async with raw_server(saying(f"HTTP/1.1 {status} Odd\r\nContent-Length: 0\r\n\r\n".encode())) as url:
        assert isinstance(await deliver(url), Retry)


async def test_hints_before_the_answer_are_passed_over():
    async with raw_server(saying(b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")) as url:
        assert isinstance(await deliver(url), Delivered)


async def test_gone_ends_the_delivery_with_its_reason():
    async with Sink([410]) as sink:
        outcome = await deliver(sink.url)
    assert outcome == Dead(Reason.REJECTED, outcome.error, outcome.detail)
    assert "410 Gone" in outcome.error
    assert outcome.detail["gone"] is True


async def test_a_body_that_would_be_too_large_is_not_sent_and_not_tried_again():
    request = {"format": "template", "template": "{payload}" * 30}
    async with Sink() as sink, deliverer(request=request) as one:
        outcome = await one.deliver(claim(sink.url, json.dumps("x" * 100_000)))
        assert isinstance(outcome, Dead)
        assert "the template makes a body of more than" in outcome.error
        assert sink.received == []


async def test_an_answer_that_disables_a_contract_stands_in_the_history_like_any_other():
    disabled = []

    async def gone(contract_id):
        disabled.append(contract_id)

    async with Sink([(410, {"X-Why": "moved"}, b"no more")]) as sink:
        outcome = await deliver(sink.url, gone=gone)
    assert isinstance(outcome, Retry)
    assert len(disabled) == 1
    assert (outcome.detail["status"], outcome.detail["gone"], outcome.detail["response"]) == (410, True, "no more")
    assert outcome.detail["response_headers"]["X-Why"] == "moved"
    assert outcome.detail["request_headers"]["User-Agent"] == "Holdfast/test"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_the_metadata_service_is_not_followed(status):
    async with Sink([(status, {"Location": "http://169.254.169.254/latest/meta-data/"}, b"")]) as sink:
        outcome = await deliver(sink.url)
        assert isinstance(outcome, Retry)
        assert "redirect not followed" in outcome.error
        assert "169.254" not in outcome.error
        assert len(sink.received) == 1


async def test_a_redirect_to_an_allowed_target_is_not_followed_either():
    async with Sink() as other, Sink([(302, {"Location": other.url}, b"")]) as sink:
        assert isinstance(await deliver(sink.url), Retry)
        assert other.received == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("1000000000000", RETRY_AFTER_MAX_S),
        ("9" * 99, RETRY_AFTER_MAX_S),
        ("9" * 101, None),
        ("-5", None),
        ("1.5", 1.5),
        ("1.", None),
        (".5", None),
        ("1e3", None),
        ("1,5", None),
        ("+3", None),
        ("٣", None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", 60.0),
        ("Tue Nov 14 22:14:20 2023", 60.0),
        ("Tue, 14 Nov 2023 22:14:20", 60.0),
        ("Tue, 14 Nov 2023 23:14:20 +0100", 60.0),
        ("Tue, 14 Nov 2000 22:14:20 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_MAX_S),
        ("Fri, 31 Dec 9999 23:59:59 -2359", RETRY_AFTER_MAX_S),
        ("Tue, 99 Nov 2023 99:99:99 GMT", None),
        (None, None),
    ],
)
def test_retry_after_in_every_spelling(text, seconds):
    assert retry_after_s(text, NOW_MS) == seconds


@pytest.mark.parametrize("status", [302, 408, 425, 429, 500, 502, 503, 504])
async def test_retry_after_is_passed_to_the_outcome(status):
    async with Sink([(status, {"Retry-After": "17"}, b""), (status, {"Retry-After": "-1"}, b"")]) as sink:
        assert (await deliver(sink.url)).after_s == 17.0
        assert (await deliver(sink.url)).after_s is None


async def test_the_detail_shows_a_harmless_beginning_of_the_answer():
    body = b"\x1b[31mno\x00\r\n\xff\xc2\x9b\xe2\x80\xae" + b"y" * 2000
    async with Sink([(400, {}, body)]) as sink:
        outcome = await deliver(sink.url + "?token=hidden")
    heads = {"request_headers", "response_headers"}
    assert set(outcome.detail) == {"status", "duration_ms", "url", "response"} | heads
    assert outcome.detail["url"] == sink.url + "?…"
    shown = outcome.detail["response"]
    assert shown.isprintable()
    assert len(shown) == SHOWN_MAX
    assert "[31mno" in shown
    assert isinstance(outcome.detail["duration_ms"], int)
    json.dumps(outcome.detail)
    assert "hidden" not in repr(outcome)
