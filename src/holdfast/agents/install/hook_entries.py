"""Our hook entries in a settings object. CLIs use one of two shapes: groups with a matcher, or plain lists.

    groups:  {"hooks": {"Stop": [{"matcher": …, "hooks": [HANDLER, …]}, …]}}
    lists:   {"hooks": {"stop": [HANDLER, …]}}

The setters take the current settings and return the changed ones. An entry of ours is replaced in place, so that the
indexes of other hooks do not change (a CLI may remember trust by index); a new one is appended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import NamedTuple

from holdfast.agents.install.files import Refused
from holdfast.domain.json_value import Json, JsonObject, text_in

Handler = JsonObject
IsOwn = Callable[[object], bool]


class HookEntry(NamedTuple):
    """A handler of ours and where it is: event, index of the group, index within it."""

    event: str
    group: int
    position: int
    matcher: str | None
    handler: Handler


def set_in_groups(settings: Mapping[str, Json], handlers: Mapping[str, Handler], is_own: IsOwn) -> JsonObject:
    """The settings with exactly these handlers of ours. A new handler gets its own group."""

    def place(groups: list[Json], handler: Handler | None) -> None:
        placed = False
        for group in list(groups):
            in_group = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(in_group, list) or not any(map(is_own, in_group)):
                continue
            placed = _replace_own(in_group, None if placed else handler, is_own) or placed
            if not in_group:
                groups.remove(group)
        if handler is not None and not placed:
            groups.append({"hooks": [deepcopy(handler)]})

    return _for_each_event(settings, handlers, place)


def set_in_lists(settings: Mapping[str, Json], handlers: Mapping[str, Handler], is_own: IsOwn) -> JsonObject:
    """The settings with exactly these handlers of ours, in plain lists."""

    def place(in_list: list[Json], handler: Handler | None) -> None:
        if not _replace_own(in_list, handler, is_own) and handler is not None:
            in_list.append(deepcopy(handler))

    return _for_each_event(settings, handlers, place)


def find_in_groups(settings: object, is_own: IsOwn) -> list[HookEntry]:
    """Every handler of ours in groups."""
    entries = []
    for event, groups in _lists(settings):
        for number, group in enumerate(groups):
            if not isinstance(group, dict) or not isinstance(in_group := group.get("hooks"), list):
                continue
            for index, handler in enumerate(in_group):
                if isinstance(handler, dict) and is_own(handler):
                    entries.append(HookEntry(event, number, index, text_in(group, "matcher"), handler))
    return entries


def find_in_lists(settings: object, is_own: IsOwn) -> list[HookEntry]:
    """Every handler of ours in plain lists."""
    return [
        HookEntry(event, 0, index, None, handler)
        for event, in_list in _lists(settings)
        for index, handler in enumerate(in_list)
        if isinstance(handler, dict) and is_own(handler)
    ]


def _for_each_event(
    settings: Mapping[str, Json], handlers: Mapping[str, Handler], place: Callable[[list[Json], Handler | None], None]
) -> JsonObject:
    """Place the handlers of each event. A list or object that becomes empty with our entries is removed."""
    changed = deepcopy(dict(settings))
    hooks = changed.get("hooks", {})
    if not isinstance(hooks, dict):
        raise Refused("its 'hooks' are not an object")
    had_any = bool(hooks)
    for event in dict.fromkeys([*hooks, *handlers]):
        entries = hooks.get(event, [])
        if not isinstance(entries, list):
            if event in handlers:
                raise Refused(f"its hooks for {event} are not a list")
            continue
        had = bool(entries)
        place(entries, handlers.get(event))
        if entries:
            hooks[event] = entries
        elif had:
            del hooks[event]
    if hooks:
        changed["hooks"] = hooks
    elif had_any:
        del changed["hooks"]
    return changed


def _replace_own(in_list: list[Json], handler: Handler | None, is_own: IsOwn) -> bool:
    """Replace our first handler by the given one and remove our others. Returns whether it was placed."""
    kept: list[Json] = []
    placed = False
    for each in in_list:
        if not is_own(each):
            kept.append(each)
        elif handler is not None and not placed:
            kept.append(deepcopy(handler))
            placed = True
    in_list[:] = kept
    return placed


def _lists(settings: object) -> list[tuple[str, list[Json]]]:
    hooks = settings.get("hooks") if isinstance(settings, dict) else None
    pairs = hooks.items() if isinstance(hooks, dict) else ()
    return [(event, value) for event, value in pairs if isinstance(value, list)]
