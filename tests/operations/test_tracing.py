"""Tracing: one trace from publishing through delivery, and nothing at all without a provider."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import Outbox
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.errors import DedupConflict, Reject
from holdfast.domain.event import new_event
from holdfast.domain.trace import parse_traceparent, without_traceparent
from holdfast.operations.tracing import find_tracing
from holdfast.ports import NO_TRACING
from holdfast.store.open import open_store
from sink import Sink

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What a provider of this process would export. A real one can be set only once."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


async def refuse(event: object) -> None:
    raise Reject("no such customer")


@pytest.fixture
async def runtime(tmp_path: Path, exporter: InMemorySpanExporter) -> AsyncIterator[Runtime]:
    (tmp_path / "holdfast.yml").write_text("egress: {allow: [127.0.0.0/8]}\n")
    store = open_store(f"sqlite:///{tmp_path}/app.db", keep=True, driver="sqlite3")
    running = Runtime(store, load_config(tmp_path / "holdfast.yml"), None, handlers={"refuse": refuse})
    await running.start()
    yield running
    await running.stop()


async def spans(exporter: InMemorySpanExporter, *names: str) -> dict[str, ReadableSpan]:
    """Wait until there are spans of all these names."""
    while True:
        found = {span.name: span for span in exporter.get_finished_spans()}
        if found.keys() >= set(names):
            return found
        await asyncio.sleep(0.01)


async def test_one_trace_leads_from_publish_to_the_receiver(
    runtime: Runtime, exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    outbox = Outbox(f"sqlite:///{tmp_path}/app.db")
    async with Sink() as sink:
        body: Any = {"id": "hook", "target": {"url": sink.url}, "type_criterion": "order.placed"}
        await runtime.operations.contracts.add(body)
        with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
            with trace.get_tracer_provider().get_tracer("shop").start_as_current_span("order") as span:
                outbox.publish(connection, "order.placed", {"id": 42}, properties={"size": "big"})
            connection.commit()
        (received,) = await sink.wait_for(1)
        context = span.get_span_context()
        parent = parse_traceparent(received.headers["traceparent"])
        assert parent is not None
        assert (parent.trace_id, parent.span_id) == (context.trace_id, context.span_id)
        found = await spans(exporter, "route", "attempt", "settle")
        for name in ("route", "attempt", "settle"):
            assert found[name].parent is not None
            assert found[name].parent.span_id == context.span_id
            assert found[name].context.trace_id == context.trace_id
            assert found[name].end_time >= found[name].start_time
        assert found["attempt"].attributes["holdfast.contract"] == "hook"
        assert found["settle"].attributes["holdfast.state"] == "delivered"


async def test_a_failed_attempt_is_an_error_of_its_span(runtime: Runtime, exporter: InMemorySpanExporter) -> None:
    await runtime.operations.events.append(new_event("a", 1, to="handler:refuse", properties={"traceparent": PARENT}))
    found = await spans(exporter, "accept", "attempt", "settle")
    assert found["attempt"].status.description == "no such customer"
    assert found["settle"].attributes["holdfast.state"] == "dead"
    assert f"{found['accept'].context.trace_id:032x}" == PARENT.split("-")[1]


async def test_an_event_without_a_context_makes_no_span(runtime: Runtime, exporter: InMemorySpanExporter) -> None:
    await runtime.operations.events.append(new_event("a", 1, to="handler:refuse", properties={"traceparent": "x"}))
    await runtime.operations.events.append(new_event("a", 1, to="handler:refuse"))
    while (await runtime.operations.dead_letters.count()).count < 2:
        await asyncio.sleep(0.01)
    assert exporter.get_finished_spans() == ()


async def test_the_context_does_not_count_when_a_dedup_key_is_used_again(runtime: Runtime) -> None:
    events = runtime.store.events
    first = new_event("a", 1, dedup_key="k", properties={"traceparent": PARENT, "x": 1})
    again = new_event("a", 1, dedup_key="k", properties={"x": 1, "traceparent": PARENT.replace("b7", "c8")})
    (stored,) = await events.append([first])
    (known,) = await events.append([again])
    assert (known.id, known.duplicate) == (stored.id, True)
    with pytest.raises(DedupConflict):
        await events.append([new_event("a", 1, dedup_key="k", properties={"x": 2})])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-x",
        PARENT.upper(),
        "ff" + PARENT[2:],
        PARENT.replace("b7ad6b7169203331", "0" * 16),
        PARENT + "-00",
        5,
        None,
    ],
)
def test_a_malformed_context_is_ignored(text: object) -> None:
    assert parse_traceparent(text) is None


def test_the_context_is_removed_wherever_it_stands() -> None:
    for raw, rest in (
        (b'{"a":1,"traceparent":"x"}', b'{"a":1}'),
        (b'{"traceparent":"x","z":",}"}', b'{"z":",}"}'),
        (b'{"traceparent":"x"}', b"{}"),
        (b'{"a":1}', b'{"a":1}'),
    ):
        assert without_traceparent(raw) == rest


def test_without_a_provider_nothing_is_traced() -> None:
    assert find_tracing() is NO_TRACING


def test_publishing_imports_no_tracing(tmp_path: Path) -> None:
    code = (
        "import sys; from holdfast.ingress.publish import event_from_call\n"
        "event = event_from_call('a', 1, {'properties': {'x': 1}})\n"
        "assert event.properties == b'{\"x\":1}'\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
