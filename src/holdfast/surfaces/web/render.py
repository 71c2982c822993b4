"""Templates, and how values are shown on the page. Everything is escaped; payloads are only ever text."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.operations.answers.contract_statistics import ContractStatistics
from holdfast.operations.answers.contracts import ContractAnswer, CriterionAnswer
from holdfast.operations.elapsed import ago, span
from holdfast.surfaces.web.charts import points

if TYPE_CHECKING:
    from jinja2 import Environment

PAYLOAD_MAX = 64 * 1024
TEXT_MAX = 400


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Created for the first page, because the import takes 100 ms."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("holdfast.surfaces.web"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip
    made.filters |= {
        "ago": relative,
        "compact": compact,
        "criteria": criteria,
        "cut": cut,
        "duration": duration,
        "health": health,
        "number": number,
        "plus": plus,
        "points": points,
        "pretty": pretty,
        "rate": rate,
        "seconds": seconds,
        "sentence": sentence,
        "short": short,
        "target": target,
        "wants": wants,
        "without": without,
    }
    return made


def render(template: str, **values: object) -> str:
    return environment().get_template(template).render(**values)


def relative(iso: str | None) -> str:
    """A time such as `3 min ago`."""
    return "–" if iso is None else ago(iso, time.time())


def duration(seconds: float | None) -> str:
    return "–" if seconds is None else span(seconds)


def number(value: float | None) -> str:
    """
    >>> number(1234567), number(None)
    ('1,234,567', 'unknown')
    """
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def pretty(value: object) -> str:
    """JSON for people, cut where it is long."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= PAYLOAD_MAX else f"{text[:PAYLOAD_MAX]}\n… ({len(text):,} characters in all)"


def short(id: str) -> str:
    """The start of an event's id, long enough for the command line to accept it."""
    return f"{id[:16]}…" if id.startswith("evt_") and len(id) > 18 else id


def cut(text: str | None, length: int = TEXT_MAX) -> str:
    if text is None:
        return ""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def sentence(text: str) -> str:
    """
    >>> sentence("it has 1 delivery")
    'It has 1 delivery.'
    """
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def compact(value: float | None) -> str:
    """
    >>> compact(950), compact(12_345), compact(2_400_000), compact(None)
    ('950', '12.3k', '2.4M', 'unknown')
    """
    if value is None:
        return "unknown"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1000 if unit == 'k' else size):.1f}{unit}"
    return f"{value:,.0f}"


def rate(value: float) -> str:
    """
    >>> rate(0.0166), rate(3.26), rate(1234)
    ('0.02', '3.3', '1,234')
    """
    return f"{value:.2g}" if value < 1 else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    """
    >>> seconds(0.0124), seconds(2.5), seconds(200)
    ('12 ms', '2.5 s', '3 min')
    """
    if value is None:
        return "–"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s" if value < 60 else span(value)


def health(contract: ContractAnswer, figures: ContractStatistics) -> str:
    """The state of a contract in one word."""
    if contract.misconfigured:
        return "misconfigured"
    if not contract.active:
        return "disabled"
    if figures.paused:
        return "paused"
    failed, delivered = figures.last_failed_at or "", figures.last_delivered_at or ""
    return "failing" if failed > delivered and figures.last_day.failed else "active"


def target(contract: ContractAnswer) -> str:
    """Where a contract delivers: a URL, or `handler:ship`."""
    for kind in ("url", "handler", "session"):
        if value := contract.target.get(kind):
            return str(value) if kind == "url" else f"{kind}:{value}"
    return "–"


def wants(criterion: CriterionAnswer | None) -> str:
    """
    >>> wants(None), wants(CriterionAnswer(["eu", "us"], None, True))
    ('any', 'eu or us')
    """
    if criterion is None:
        return "any"
    if criterion.match is None:
        return criterion.pattern or "any value"
    return criterion.match if isinstance(criterion.match, str) else " or ".join(criterion.match)


def criteria(contract: ContractAnswer) -> str:
    """Which events a contract wants, in short: `order.* from shop, region=eu`."""
    found = [] if contract.type_criterion is None else [wants(contract.type_criterion)]
    if contract.source_criterion is not None:
        found.append(f"from {wants(contract.source_criterion)}")
    properties = [f"{name}={wants(criterion)}" for name, criterion in contract.properties.items()]
    return ", ".join(filter(None, [" ".join(found), *properties])) or "everything"


def plus(one: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    return {**one, **other}


def without(value: Mapping[str, object], *names: str) -> dict[str, object]:
    return {name: inner for name, inner in value.items() if name not in names}
