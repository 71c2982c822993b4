"""Charts as SVG: the points of lines, computed here so that a page without JavaScript shows them too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from holdfast.operations.answers.contract_statistics import ContractHourAnswer
from holdfast.operations.answers.history import CountHistory
from holdfast.operations.answers.sessions import SessionWithTimeline

WIDTH, HEIGHT = 600, 100
RATES = ("accepted", "delivered", "dead", "dropped")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chart. `name` is its class in the stylesheet, `total` what the legend shows."""

    name: str
    values: list[float]
    total: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines with a common scale. `unit` stands after its highest value, `times` below it."""

    title: str
    unit: str
    lines: list[Line]
    times: list[str]

    @property
    def top(self) -> float:
        return max((value for line in self.lines for value in line.values), default=0.0)


def charts_of(history: CountHistory, span: str) -> list[Chart]:
    """Events accepted and deliveries ended by second, and the age of the oldest pending delivery."""
    items = history.items[:-1] or history.items  # the newest point is not over yet
    times = [f"1 {span} ago", "30 min ago" if span == "hour" else "12 h ago", "now"]
    rates = []
    for name in RATES:
        counts = [getattr(item, name) for item in items]
        rates.append(Line(name, [count / history.seconds for count in counts], sum(counts)))
    ages = [float(item.oldest_pending_seconds) for item in items]
    return [
        Chart("Per second", "/s", rates, times),
        Chart("Oldest pending", "s", [Line("oldest", ages, max(ages, default=0.0))], times),
    ]


BAR_WIDTH, BAR_HEIGHT = 10, 40


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour: what was delivered, and above it what failed, as places in a picture of 24 bars."""

    x: int
    delivered: float
    failed: float
    text: str


def bars_of(hours: Sequence[ContractHourAnswer]) -> list[Bar]:
    highest = max((hour.delivered + hour.failed for hour in hours), default=0) or 1
    return [
        Bar(
            index * BAR_WIDTH,
            round(hour.delivered / highest * BAR_HEIGHT, 1),
            round(hour.failed / highest * BAR_HEIGHT, 1),
            f"{hour.at[11:16]} UTC: {hour.delivered:,} delivered, {hour.failed:,} failed attempts",
        )
        for index, hour in enumerate(hours)
    ]


LANE_WIDTH = 1000
LANE_S = 3600.0
KINDS = ("message", "prompt", "tool", "answer", "waiting", "session", "error")


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened in a session: its kind, a short text, and where it stands on the time axis."""

    kind: str
    text: str
    x: float


def lanes_of(sessions: Sequence[SessionWithTimeline], now: datetime) -> dict[str, list[Mark]]:
    """What happened in each session in the last hour, by the id of the session."""
    lanes: dict[str, list[Mark]] = {}
    for session in sessions:
        marks = lanes.setdefault(session.id, [])
        for entry in session.timeline:
            age_s = (now - datetime.fromisoformat(entry.at)).total_seconds()
            if age_s <= LANE_S and entry.kind in KINDS:
                marks.append(Mark(entry.kind, entry.text[:80], round(LANE_WIDTH * (1 - max(0.0, age_s) / LANE_S), 1)))
    return lanes


def points(values: Sequence[float], top: float | None = None) -> str:
    """The `points` attribute of a line through these values, scaled to the width and height of a chart.

    >>> points([0, 1, 2])
    '0,99 300,50 600,1'
    """
    if not values:
        return ""
    highest = max(top or 0.0, *values) or 1.0
    step = WIDTH / max(1, len(values) - 1)
    return " ".join(
        f"{round(index * step, 1):g},{round(HEIGHT - 1 - value / highest * (HEIGHT - 2), 1):g}"
        for index, value in enumerate(values)
    )
