"""The application of the daemon under load: a handler that does nothing."""

from __future__ import annotations

import os

from holdfast import Event, Outbox

outbox = Outbox(os.environ["BENCH_STORE"])


@outbox.on("soak.*", name="soak")
async def take(event: Event) -> None:
    pass
