"""The results page and its plots, made from the figures alone, so that it can be made again without measuring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks import svg
from benchmarks.goals import explanations, goals, series
from benchmarks.measure import Book, Figure
from benchmarks.sizes import PEERS

EARLIER = Path(__file__).with_name("earlier.txt")
STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
WAYS = ("in process", "REST", "another process")


def write(book: Book, page: Path) -> None:
    """The page, and its plots in a folder of the same name beside it."""
    plots = page.with_suffix("")
    plots.mkdir(parents=True, exist_ok=True)
    sections = [
        _head(book),
        _goals(book),
        _peers(book, plots),
        _sqlite(book, plots),
        _latency(book),
        _publish(book),
        _restart(book),
        _webhooks(book),
        _http(book),
        _idle(book),
        _matching(book),
        _backlog(book, plots),
        _paths(book, "streams", "Streams", "streams"),
        _paths(book, "payload", "Payload", "bytes"),
        _agents(book),
        _missing(book),
        _method(book),
    ]
    page.write_text("\n\n".join(section for section in sections if section) + "\n", encoding="utf-8")


def _head(book: Book) -> str:
    facts = book.facts
    quick = (
        "**A quick look with small sizes: it shows that every part works, and is no result.**\n\n"
        if facts.get("quick")
        else ""
    )
    return (
        "# Numbers\n\n"
        + quick
        + "Each part was measured in one run on one machine, beside the limit of that machine or beside a peer: "
        "read the ratios. Each figure is the median of its repetitions; the brackets hold the lowest and the highest. "
        f"The page is made by `{facts['command']}`; `make bench` does the same.\n\n"
        + table(
            ("what", "it was"),
            [
                ("Holdfast", f"{facts['holdfast']}, commit {facts['commit']}"),
                ("date", facts["date"]),
                (
                    "machine",
                    f"{facts['processor']}, {facts['cores']} cores, {facts['memory_gb']} GB, {facts['system']}",
                ),
                ("file system", facts["file system"]),
                ("load before", str(facts["load before"])),
                ("Python", facts["Python"]),
                ("SQLite", facts["SQLite"]),
                ("PostgreSQL", facts.get("PostgreSQL", "not started")),
                ("packages", ", ".join(f"{name} {number}" for name, number in facts["packages"].items())),
                ("took", ", ".join(f"{part} {took:.0f} s" for part, took in facts.get("took_s", {}).items())),
            ],
        )
    )


def _goals(book: Book) -> str:
    why, rows, missed = explanations(), [], []
    for goal in goals():
        value, met = goal.read(book), goal.met(book)
        sign = "≥" if goal.at_least else "≤"
        goal_text = f"{sign} {amount(goal.bound)} {goal.unit}"
        if value is None:
            rows.append((goal.what, goal_text, "–", "–", "not measured"))
            continue
        of_goal = goal.ratio(book)
        rows.append(
            (goal.what, goal_text, f"{amount(value)} {goal.unit}", f"{of_goal:.2f}" if of_goal else "–",
             "yes" if met else "**no**")
        )  # fmt: skip
        if not met:
            missed.append(f"- **{goal.what}**: {why.get(goal.id, 'missed, and not explained yet.')}")
    text = "## Goals\n\nThe ratio says how the figure stands to the goal: 1 is met, more is better.\n\n"
    text += table(("what", "goal", "measured", "ratio", "met"), rows)
    return text + ("\n\nWhat limits where a goal is missed:\n\n" + "\n".join(missed) if missed else "")


def _peers(book: Book, plots: Path) -> str:
    names = ("holdfast", *PEERS)
    if not any(name.startswith("pg.") for name in book.figures):
        return ""
    columns = (
        "single",
        "batch",
        "drain",
        "latency from commit, p50",
        "latency from commit, p99",
        "latency from call, p50",
        "drain memory",
    )
    rows = []
    for peer in names:
        label = "**holdfast**" if peer == "holdfast" else f"{peer} {book.facts['peers'][peer]}"
        if why := book.missing.get(f"pg.{peer}"):
            rows.append((label, why, *[""] * (len(columns))))
            continue
        cells = [cell(book, f"pg.{column}.{peer}") for column in columns]
        ours, theirs = book.median("pg.drain.holdfast"), book.median(f"pg.drain.{peer}")
        rows.append((label, *cells, f"{ours / theirs:.2f}" if ours and theirs else "–"))
    for label in ("holdfast, routed on the way", "pgmq, archived"):
        rows.append((label, "", "", cell(book, f"pg.drain.{label}"), *[""] * 5))
    head = ("", "enqueue one", "enqueue 1,000", "drain", "commit → handler p50", "p99", "call → handler p50", "memory")
    pictures = [
        _bars(book, plots, f"pg-{work}", title, f"pg.{work}.")
        for work, title in (
            ("single", "PostgreSQL: enqueue one at a time, one caller"),
            ("batch", "PostgreSQL: enqueue in batches of 1,000"),
            ("drain", "PostgreSQL: drain a backlog to a no-op handler"),
        )
    ]
    settings = [(peer, text) for peer, text in book.facts.get("settings", {}).items()]
    return (
        "## PostgreSQL, beside its peers\n\n1 KB payloads, one server for all, every job counted by the handler and by "
        "the database. Holdfast keeps each event and writes receipts; its backlog is routed before the drain, except "
        "in the row that says so. pgmq is bare SQL: no worker, no retries, no receipts.\n\n"
        + table((*head, "holdfast's drain to it"), rows)
        + "\n\n"
        + "\n\n".join(pictures)
        + "\n\n"
        + table(("peer", "settings"), settings)
    )


def _sqlite(book: Book, plots: Path) -> str:
    rows = [(name.removeprefix("sqlite."), cell(book, name)) for name in book.figures if name.startswith("sqlite.")]
    if not rows:
        return ""
    pictures = [
        _bars(book, plots, "sqlite-accept", "SQLite, every commit flushed: accept", "sqlite.accept."),
        _bars(book, plots, "sqlite-drain", "SQLite: drain", "sqlite.drain."),
    ]
    return "## SQLite\n\n" + table(("what", "rate"), rows) + "\n\n" + "\n\n".join(pictures)


def _latency(book: Book) -> str:
    rows = [
        (shown, way, cell(book, f"latency.{store}.{way}.p50"), cell(book, f"latency.{store}.{way}.p99"))
        for store, shown in STORES.items()
        for way in WAYS
    ]
    if all(row[2] == "–" for row in rows):
        return ""
    said = (
        "Light load: one event at a time, 20 ms apart. Over REST the time runs from the request, which is before the "
        "commit; everywhere else from the return of the commit.\n\n"
    )
    return "## Commit to handler\n\n" + said + table(("store", "way in", "p50", "p99"), rows)


def _publish(book: Book) -> str:
    rows = [
        (driver, *[cell(book, f"publish.{driver}.{what}") for what in ("bare", "with", "adds", "an insert adds")])
        for driver in ("sqlite3", "psycopg", "asyncpg")
    ]
    if all(row[1] == "–" for row in rows):
        return ""
    return (
        "## What publish adds to a transaction\n\nA transaction with one insert, with and without a publish, in turn; "
        "medians, and the difference of the medians. Beside it what another plain insert adds to the same transaction, "
        "by hand into a table with one index: the least that an outbox costs.\n\n"
        + table(("driver", "without", "with", "publish adds", "an insert adds"), rows)
    )


def _restart(book: Book) -> str:
    rows = [(shown, cell(book, f"restart.{store}")) for store, shown in STORES.items()]
    if all(row[1] == "–" for row in rows):
        return ""
    return (
        "## Start with a backlog\n\nFrom the start of the process to the first delivery, after kills and clean stops "
        f"in turn, with {book.facts.get('sizes', {}).get('restart', 0):,} pending.\n\n"
        + table(("store", "first delivery"), rows)
    )


def _webhooks(book: Book) -> str:
    return _plain(
        book,
        "webhooks.",
        "## Webhooks out\n\nSigned requests of 1 KB to a local nginx, 64 at a time, from the store until settled, "
        "beside aiohttp alone and our own client alone; and from accepted to settled at 99 receivers while the "
        "hundredth hangs.",
    )


def _http(book: Book) -> str:
    return _plain(
        book,
        "http.",
        "## Requests in\n\n1 KB of JSON over kept connections, sent by `wrk` from a process of its own. Events and "
        "signed webhooks are on disk before they are answered; the webhooks are normalized beside it. The bare "
        "Starlette endpoint parses the same JSON and stores nothing.",
    )


def _idle(book: Book) -> str:
    return _plain(
        book,
        "idle.",
        "## A daemon with nothing to do\n\nAs the kernel counts it: processor time of one core, how often any of its "
        "threads woke up, and resident memory.",
    )


def _plain(book: Book, prefix: str, head: str) -> str:
    """A table of all figures of one part, beside what they were before, where that is known."""
    names = [name for name in book.figures if name.startswith(prefix)]
    if not names:
        return ""
    before = earlier()
    if not any(name in before for name in names):
        return f"{head}\n\n" + table(
            ("what", "figure"), [(name.replace(".", ": ", 1), cell(book, name)) for name in names]
        )
    rows = [(name.replace(".", ": ", 1), cell(book, name), before.get(name, "")) for name in names]
    return f"{head}\n\n" + table(("what", "figure", "before"), rows)


def earlier() -> dict[str, str]:
    """Figures of earlier code, taken on the same kind of machine: `name | figure | commit, date`, one a line."""
    found = {}
    for line in EARLIER.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, figure, when = (part.strip() for part in line.split("|"))
            found[name] = f"{figure} ({when})"
    return found


def _matching(book: Book) -> str:
    shapes = [name.removeprefix("matching.").removesuffix(".grows") for name in book.figures if name.endswith(".grows")]
    if not shapes:
        return ""
    counts = [size for size, _ in series(book, f"matching.{shapes[0]}.", "")]
    columns = ("each", *map(str, counts), "grows")
    head = ("contracts", f"asking each of {counts[0]:,}", *(f"index, {count:,}" for count in counts), "grows")
    return (
        "## Matching\n\nProcessor time to find who wants one event, as contracts become many and those that want it "
        f"stay the same. To replace one contract of {counts[-1]:,}: {cell(book, 'matching.change of one')}.\n\n"
        + table(head, [(shape, *(cell(book, f"matching.{shape}.{column}") for column in columns)) for shape in shapes])
    )


def _backlog(book: Book, plots: Path) -> str:
    rows, drains, claims = [], [], []
    for store, shown in STORES.items():
        sizes = [size for size, _ in series(book, f"backlog.{store}.", ".drain")]
        for size in sizes:
            names = [f"backlog.{store}.{size}.{what}" for what in ("drain", "CPU", "memory")]
            rows.append(
                (shown, f"{size:,}", cell(book, f"claim.{store}.{size}"), *[cell(book, name) for name in names])
            )
        if sizes:
            drains.append(svg.Line(shown, series(book, f"backlog.{store}.", ".drain")))
            claims.append(svg.Line(shown, series(book, f"claim.{store}.", "")))
    if not rows:
        return ""
    text = (
        "## Backlog\n\nThe same work at each size of the backlog: claims of 100, and the first deliveries to a no-op "
        "handler. CPU is that of the delivering process, for each delivery; memory its peak.\n\n"
    )
    text += table(("store", "pending", "claim of 100", "drain", "CPU", "memory"), rows)
    plot(plots / "backlog.svg", svg.lines("Drain, by backlog", "pending deliveries", "/s", drains))
    plot(plots / "claims.svg", svg.lines("A claim of 100, by backlog", "pending deliveries", "ms", claims))
    return text + f"\n\n![Drain, by backlog]({plots.name}/backlog.svg)\n\n![Claim, by backlog]({plots.name}/claims.svg)"


def _paths(book: Book, part: str, title: str, unit: str) -> str:
    columns = ("accept", "route", "drain", "CPU", "CPU of the server", "memory")
    rows = []
    for store, shown in STORES.items():
        for size, _ in series(book, f"{part}.{store}.", ".accept"):
            cells = [cell(book, f"{part}.{store}.{size}.{column}") for column in columns]
            rows.append((shown, f"{size:,}", *cells))
    if not rows:
        return ""
    said = (
        "Accepted in batches, then routed, then delivered, one stretch after another. CPU is for each event over all "
        "three; memory is the peak of the process.\n\n"
    )
    return f"## {title}\n\n{said}" + table(("store", unit, *columns), rows)


def _agents(book: Book) -> str:
    """What hooks cost the agent, and when their sessions show them."""
    states, forms = ("up", "down", "busy"), ("true", "bare", "python", "fast")
    rows = [(f"daemon {state}, {part}", *[cell(book, f"receiver.{state}.{form}.{part}") for form in forms])
            for state in states for part in ("p50", "p99")]  # fmt: skip
    rows.append(("many at once, all of them", *[cell(book, f"receiver.crowd.{form}") for form in forms]))
    hooks = [(name, *[cell(book, f"hooks.{name}.{part}") for part in ("p50", "p99", "count")])
             for name in ("alone", "beside noise elsewhere", "beside noise")]  # fmt: skip
    if all(text == "–" for row in (*rows, *hooks) for text in row[1:]):
        return ""
    return (
        "## Hooks of agents\n\nA receiver from its start to its exit, beside the barest programs there are, in turn. "
        "Then from its exit until the row of its session shows what it brought, in 20 quiet sessions: alone; while an "
        "agent sends tool events without a pause to a home that no daemon keeps; and while it sends them here.\n\n"
        + table(("", "/bin/true", "bare interpreter", "receiver in Python", "fast path"), rows)
        + "\n\n"
        + table(("exit to row", "p50", "p99", "hooks"), hooks)
    )


def _missing(book: Book) -> str:
    if not book.missing:
        return ""
    return "## Missing\n\n" + table(("what", "why"), list(book.missing.items()))


def _method(book: Book) -> str:
    settings = ", ".join(f"`{name} = {value}`" for name, value in book.facts.get("server settings", {}).items())
    return (
        "## How it is measured\n\n"
        "- Every measurement runs in a process of its own. Each peer has an environment of its own, made from "
        "its own lock file with hashes.\n"
        "- Repetitions are interleaved: everybody has a turn before anybody has a second one.\n"
        f"- PostgreSQL runs with {settings or 'its defaults'}; whatever is not named is the server's default. "
        "Everybody connects over the Unix socket and gets an empty database.\n"
        "- SQLite runs in WAL mode with `synchronous = FULL`.\n"
        "- A drain counts from the first job handled to the last one settled in the database. The statistics of the "
        "database are fresh.\n"
        "- Large backlogs are put in by the database itself, with the rows that accepting and routing write."
    )


def _bars(book: Book, plots: Path, name: str, title: str, prefix: str) -> str:
    rows = [(key.removeprefix(prefix), figure) for key, figure in book.figures.items() if key.startswith(prefix)]
    rows.sort(key=lambda row: -row[1].median)
    if not rows:
        return ""
    plot(plots / f"{name}.svg", svg.bars(title, rows))
    return f"![{title}]({plots.name}/{name}.svg)"


def plot(path: Path, drawn: str) -> None:
    path.write_text(drawn, encoding="utf-8")


def cell(book: Book, name: str) -> str:
    figure = book.figures.get(name)
    return "–" if figure is None else shown_figure(figure)


def shown_figure(figure: Figure) -> str:
    """
    >>> shown_figure(Figure((1.0, 2.0, 3.0), "ms"))
    '2.00 ms (1.00 to 3.00)'
    """
    spread = f" ({amount(figure.low)} to {amount(figure.high)})" if len(figure.values) > 1 else ""
    return f"{amount(figure.median)} {figure.unit}{spread}"


def amount(value: float) -> str:
    """
    >>> amount(25000), amount(0.7), amount(12.34), amount(-0.5)
    ('25,000', '0.70', '12.3', '-0.50')
    """
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(part).replace("|", "/") for part in row) + " |" for row in rows])
