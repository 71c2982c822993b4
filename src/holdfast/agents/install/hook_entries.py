"""The two shapes in which hooks stand in a file: in groups with a matcher, and in plain lists.

    groups:  {"hooks": {"Stop": [{"matcher": …, "hooks": [HANDLER, …]}, …]}}     Claude, Codex, Gemini, Qwen
    lists:   {"hooks": {"stop": [HANDLER, …]}}                                   Copilot, Cursor

Both setters take what a file says and answer what it should say. An entry of ours is replaced where it stands, so that
the places of foreign hooks do not move (Codex remembers trust by place); a new one goes to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from holdfast.agents.install.files import Refused

Handler = dict[str, Any]
IsOwn = Callable[[Any], bool]


class HookEntry(NamedTuple):
    """A handler of ours in a file, and where."""

    event: str
    group: int
    place: int
    matcher: str | None
    handler: Handler


def set_groups(settings: Mapping[str, Any], wanted: Mapping[str, Handler], is_own: IsOwn) -> dict[str, Any]:
    """The settings with exactly these handlers of ours, each in a group of its own where it is new."""

    def place(groups: list[Any], handler: Handler | None) -> None:
        placed = False
        for group in list(groups):
            handlers = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(handlers, list) or not any(map(is_own, handlers)):
                continue
            placed = _settle(handlers, None if placed else handler, is_own) or placed
            if not handlers:
                groups.remove(group)
        if handler is not None and not placed:
            groups.append({"hooks": [deepcopy(handler)]})

    return _each(settings, wanted, place)


def set_lists(settings: Mapping[str, Any], wanted: Mapping[str, Handler], is_own: IsOwn) -> dict[str, Any]:
    """The same for plain lists."""

    def place(handlers: list[Any], handler: Handler | None) -> None:
        if not _settle(handlers, handler, is_own) and handler is not None:
            handlers.append(deepcopy(handler))

    return _each(settings, wanted, place)


def find_groups(settings: Any, is_own: IsOwn) -> list[HookEntry]:
    """Every handler of ours that stands in groups."""
    found = []
    for event, groups in _lists(settings):
        for at, group in enumerate(groups):
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for index, handler in enumerate(handlers if isinstance(handlers, list) else []):
                if is_own(handler):
                    found.append(HookEntry(event, at, index, group.get("matcher"), handler))
    return found


def find_lists(settings: Any, is_own: IsOwn) -> list[HookEntry]:
    """Every handler of ours that stands in plain lists."""
    return [
        HookEntry(event, 0, index, None, handler)
        for event, handlers in _lists(settings)
        for index, handler in enumerate(handlers)
        if is_own(handler)
    ]


def _each(
    settings: Mapping[str, Any], wanted: Mapping[str, Handler], place: Callable[[list[Any], Handler | None], None]
) -> dict[str, Any]:
    """Place the handlers event by event; what is empty only because ours went, goes too."""
    made = deepcopy(dict(settings))
    hooks = made.get("hooks", {})
    if not isinstance(hooks, dict):
        raise Refused("its 'hooks' are not an object")
    had_any = bool(hooks)
    for event in dict.fromkeys([*hooks, *wanted]):
        entries = hooks.get(event, [])
        if not isinstance(entries, list):
            if event in wanted:
                raise Refused(f"its hooks for {event} are not a list")
            continue
        had = bool(entries)
        place(entries, wanted.get(event))
        if entries:
            hooks[event] = entries
        elif had:
            del hooks[event]
    if hooks:
        made["hooks"] = hooks
    elif had_any:
        del made["hooks"]
    return made


def _settle(handlers: list[Any], wanted: Handler | None, is_own: IsOwn) -> bool:
    """The first of ours becomes the wanted one, all others go; whether the wanted one is there now."""
    kept: list[Any] = []
    placed = False
    for handler in handlers:
        if not is_own(handler):
            kept.append(handler)
        elif wanted is not None and not placed:
            kept.append(deepcopy(wanted))
            placed = True
    handlers[:] = kept
    return placed


def _lists(settings: Any) -> list[tuple[str, list[Any]]]:
    hooks = settings.get("hooks") if isinstance(settings, dict) else None
    pairs = hooks.items() if isinstance(hooks, dict) else ()
    return [(event, value) for event, value in pairs if isinstance(value, list)]
