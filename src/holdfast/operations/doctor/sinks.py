"""Checks of the sinks in the configuration: whether each can be reached, and what its server promises."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.operations.doctor.finding import Finding, ok, warn
from holdfast.streams.sinks.registry import make_sink
from holdfast.streams.sinks.sink import PublishFailed, SinkConfig

ANSWER_S = 15.0
CLOSE_S = 2.0


async def check_sinks(sinks: Sequence[SinkConfig]) -> list[Finding]:
    """All at the same time: one that does not answer holds up no other."""
    return list(await asyncio.gather(*(_check_sink(config) for config in sinks)))


async def _check_sink(config: SinkConfig) -> Finding:
    id, sink = f"sink.{config.name}", make_sink(config)
    try:
        async with asyncio.timeout(ANSWER_S):
            await sink.open()
            return ok(id, await sink.durability())
    except PublishFailed as failed:
        return warn(id, str(failed), "events wait until it can be reached; check its server, URL and credentials")
    except TimeoutError:
        return warn(id, f"sink {config.name}: no answer within {ANSWER_S:g} s", "check its server and URL")
    finally:
        async with asyncio.timeout(CLOSE_S):
            await sink.close()
