"""The fleet: every configured component that answers the three dead letter verbs, behind one view."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.domain.errors import HoldfastError, TargetRefused
from holdfast.domain.event import iso_time
from holdfast.domain.fleet import ComponentFigures, FleetComponent, alerts_of
from holdfast.domain.json_value import Json
from holdfast.net.answer import Answer
from holdfast.net.client import Client
from holdfast.operations.answers.fleet import Fleet, FleetComponentAnswer
from holdfast.operations.context import OperationsContext
from holdfast.operations.dead_letters import DeadLetterVerbs
from holdfast.version import __version__

CONNECT_S, TOTAL_S = 3.0, 8.0
BODY_MAX = 256 * 1024
AT_ONCE = 8
FRESH_MS = 2000
ERROR_CHARS = 500
SELF = "this"


class Reply(NamedTuple):
    """The JSON of one request, or why there is none. `status`: that of an answer, if there was one."""

    value: Mapping[str, Json] | None
    status: int | None = None
    error: str = ""


class FleetVerbs:
    """Asks all components at once, each with a time limit. An answer is reused for two seconds."""

    def __init__(self, context: OperationsContext) -> None:
        self._context, self._dead_letters = context, DeadLetterVerbs(context)
        self._last: tuple[int, Fleet] | None = None
        self._asking = asyncio.Lock()

    async def show(self) -> Fleet:
        """Every component with its figures. One that cannot be reached is unknown, never 0."""
        async with self._asking:
            now_ms = self._context.clock.boot_ms()
            if self._last is None or now_ms - self._last[0] > FRESH_MS:
                self._last = now_ms, await self._ask_all()
            return self._last[1]

    async def _ask_all(self) -> Fleet:
        places = asyncio.Semaphore(AT_ONCE)
        client = Client(self._context.guard, None, CONNECT_S)

        async def ask(component: FleetComponent) -> FleetComponentAnswer:
            async with places:
                return self._answer(component, await _figures(client, component))

        try:
            if self._context.fleet:
                await client.start()
            own = self._answer(FleetComponent(SELF, ""), await self._own())
            others = await asyncio.gather(*map(ask, self._context.fleet))
        finally:
            await client.close()
        components = [own, *others]
        return Fleet(all(component.state == "ok" for component in components), components)

    async def _own(self) -> ComponentFigures:
        try:
            figures = await self._context.store.operator.figures()
            page = await self._dead_letters.inspect(limit=1) if figures.dead else None
        except HoldfastError as error:
            return ComponentFigures(error=error.message)
        oldest_ms = figures.oldest_pending_ms
        now_ms = self._context.clock.now_ms()
        return ComponentFigures(
            dlq_count=figures.dead,
            pending=figures.pending,
            in_flight=figures.in_flight,
            oldest_pending_s=None if oldest_ms is None else max(0, (now_ms - oldest_ms) // 1000),
            backend=self._context.store.url.partition(":")[0],
            last_error=page.items[0].last_error if page is not None and page.items else None,
        )

    def _answer(self, component: FleetComponent, figures: ComponentFigures) -> FleetComponentAnswer:
        alerts = alerts_of(component, figures)
        state = "unknown" if figures.error is not None else "alert" if alerts else "ok"
        last_error = figures.error if figures.error is not None else figures.last_error
        return FleetComponentAnswer(
            name=component.name,
            url=component.url,
            state=state,
            dlq_count=figures.dlq_count,
            pending=figures.pending,
            in_flight=figures.in_flight,
            oldest_pending_seconds=figures.oldest_pending_s,
            backend=figures.backend,
            last_error=None if last_error is None else last_error[:ERROR_CHARS],
            alerts=alerts,
            checked_at=iso_time(self._context.clock.now_ms()),
        )


async def _figures(client: Client, component: FleetComponent) -> ComponentFigures:
    """What a component reports. Only the count must be answered: a component may have no status."""
    if component.token_env is not None and component.token is None:
        return ComponentFigures(error=f"the environment variable {component.token_env} is not set")
    counted = await _get(client, component, "/api/dlq/count")
    count = None if counted.value is None else _whole(counted.value, "count")
    if count is None:
        return ComponentFigures(error=counted.error or "its answer to /api/dlq/count has no count")
    last_error = None
    if count:
        newest = (await _get(client, component, "/api/dlq?limit=1")).value or {}
        items = newest.get("items")
        first = items[0] if isinstance(items, list) and items else None
        last_error = first.get("last_error") if isinstance(first, dict) else None
    status = (await _get(client, component, "/api/status")).value or {}
    store = status.get("store")
    return ComponentFigures(
        dlq_count=count,
        pending=_whole(status, "pending"),
        in_flight=_whole(status, "in_flight"),
        oldest_pending_s=_whole(status, "oldest_pending_seconds"),
        backend=store.partition(":")[0] if isinstance(store, str) else None,
        last_error=last_error if isinstance(last_error, str) else None,
    )


async def _get(client: Client, component: FleetComponent, path: str) -> Reply:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": f"holdfast/{__version__}"}
    if component.token is not None:
        headers["Authorization"] = f"Bearer {component.token}"
    answer = Answer(body_max=BODY_MAX)
    try:
        with client.timeout(answer, TOTAL_S, TOTAL_S):
            await client.get(component.url + path, headers, answer, trusted=True)
    except TargetRefused as error:
        return Reply(None, error=error.message)
    except Exception as error:
        return Reply(None, answer.status, client.describe(error, answer))
    if not answer.is_success:
        return Reply(None, answer.status, f"it answered {answer.status} to {path.partition('?')[0]}")
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return Reply(None, answer.status, f"its answer to {path.partition('?')[0]} is not a JSON object")
    return Reply(value, answer.status)


def _whole(value: Mapping[str, Json], key: str) -> int | None:
    found = value.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None
