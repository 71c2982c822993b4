"""What a receiver sends before it has a request is never the answer to that request."""

from __future__ import annotations

import asyncio
import ssl
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.delivery import Dead, Delivered, Outcome
from receivers import self_signed
from stray_answers import STRAY_OK, Proof, answer, claim, deliverer
from threaded_receiver import Plan, ThreadedReceiver

# The case that was found


def test_a_receiver_that_sends_an_extra_200_after_each_404_gets_nothing_delivered():
    answered = Plan((b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",), (STRAY_OK,))

    async def run(receiver: ThreadedReceiver) -> list[Outcome]:
        outcomes = []
        async with deliverer() as one:
            for n in range(400):
                outcomes.append(await one.deliver(claim(f"http://127.0.0.1:{receiver.port}/hook", n)))
                receiver.wait(n)  # the extra answer is in the socket, and the event loop has not read it
        return outcomes

    with ThreadedReceiver(lambda n: answered).running() as receiver:
        outcomes = asyncio.run(run(receiver))
    assert [type(outcome) for outcome in outcomes] == [Dead] * 400
    assert receiver.received == dict.fromkeys(range(400), 1)


# Anything, at any moment
STRAYS = st.one_of(
    st.sampled_from(
        [
            STRAY_OK,
            b"HTTP/1.1 204 No\r\n\r\n",
            b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 408 Idle\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n" + STRAY_OK,
            b"HTTP/1.0 100 Continue\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nX: ",
            b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nstray",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nstray\r\n",
            b"H",
            b"HTTP/1.1 2",
            b"\r\n",
            b"\0",
        ]
    ),
    st.binary(min_size=1, max_size=200),
)


class Step(NamedTuple):
    """One request: its answer, cut in two, what is sent after it, and how often the event loop runs before the next."""

    status: int
    form: str
    cut: int
    strays: list[bytes]
    together: bool
    early: bool
    close: bool
    turns: int
    size: int

    def plan(self, n: int) -> Plan:
        text = answer(n, self.status, self.form)
        pieces = (text[: self.cut], text[self.cut :] + (b"".join(self.strays) if self.together else b""))
        strays = () if self.together else tuple(self.strays)
        return Plan(tuple(filter(None, pieces)), strays, self.close, self.early)


STEPS = st.lists(
    st.builds(
        Step,
        status=st.sampled_from([200, 201, 302, 304, 404, 429, 500]),
        form=st.sampled_from(["length", "chunked", "interim"]),
        cut=st.integers(0, 60),
        strays=st.lists(STRAYS, max_size=3),
        together=st.booleans(),
        early=st.booleans(),
        close=st.booleans(),
        turns=st.integers(0, 3),
        size=st.sampled_from([0, 0, 300_000]),
    ),
    min_size=2,
    max_size=6,
)


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> Proof:
    certificate, key = self_signed(tmp_path_factory.mktemp("tls"), "localhost")
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(certificate, key)
    return Proof(shown, ssl.create_default_context(cafile=certificate))


async def deliver_all(receiver: ThreadedReceiver, steps: list[Step], tls: ssl.SSLContext | None) -> list[Outcome]:
    url = f"{'https' if tls else 'http'}://localhost:{receiver.port}/hook"
    outcomes = []
    async with deliverer(tls) as one:
        for n, step in enumerate(steps):
            outcomes.append(await one.deliver(claim(url, n, step.size)))
            receiver.wait(n)
            for _ in range(step.turns):
                await asyncio.sleep(0)
    return outcomes


async def test_no_connection_is_kept_to_a_receiver_that_sent_a_stray_once() -> None:
    """The next stray may come after the next request, where nothing can tell it from an answer."""

    def plan(n: int) -> Plan:
        return Plan((answer(n, 404, "length"),), (STRAY_OK,) if n == 0 else ())

    with ThreadedReceiver(plan).running() as receiver:
        async with deliverer() as one:
            for n in range(4):
                await one.deliver(claim(f"http://127.0.0.1:{receiver.port}/", n))
                receiver.wait(n)
                for _ in range(20):
                    await asyncio.sleep(0.001)
            assert one._client._idle_count == 0
        assert receiver.connections == 4


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
@settings(deadline=None, max_examples=60)
@given(steps=STEPS)
def test_whatever_a_receiver_sends_each_delivery_ends_by_the_answer_to_its_own_request(
    proof: Proof, secured: bool, steps: list[Step]
):
    shown, trusted = proof if secured else (None, None)
    with ThreadedReceiver(lambda n: steps[n].plan(n), shown).running() as receiver:
        outcomes = asyncio.run(deliver_all(receiver, steps, trusted))
    for n, (step, outcome) in enumerate(zip(steps, outcomes, strict=True)):
        assert outcome.detail["status"] == step.status, outcome
        assert outcome.detail["response"] == ("" if step.status == 304 else f"for {n}")
        assert isinstance(outcome, Delivered) is (step.status < 300)
        read = receiver.received[n]
        assert read == 1 or (read == 0 and step.early and step.status >= 300), "a refusal may come before the body"
