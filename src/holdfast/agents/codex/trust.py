"""Trust of Codex in a hook: the hash that Codex stores in `config.toml` once the user trusts the hook.

The hash is computed here only to report the status. It is never written: trusting a hook is the user's decision.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from holdfast.agents.install.hook_entries import Handler, HookEntry
from holdfast.domain.json_value import Json, JsonObject

SESSION_END_MAX_S = 3
DEFAULT_TIMEOUT_S, DEFAULT_SESSION_END_S = 600, 1
_UNMATCHED = ("UserPromptSubmit", "Stop")
"""Events whose matcher Codex ignores, also in the hash."""


def trust_hash(event: str, matcher: str | None, handler: Handler) -> str:
    """The hash under which Codex stores that the user trusts a hook."""
    identity: JsonObject = {"event_name": _snake(event), "hooks": [_normalize(event, handler)]}
    if matcher is not None and event not in _UNMATCHED:
        identity["matcher"] = matcher
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def is_trusted(config: Mapping[str, Json], path: Path, entry: HookEntry) -> bool:
    """Whether Codex will run this hook: trusted in its current form and position, and not disabled there."""
    hooks = config.get("hooks")
    states = hooks.get("state") if isinstance(hooks, dict) else None
    if not isinstance(states, dict):
        return False
    position = f"{_snake(entry.event)}:{entry.group}:{entry.position}"
    stored = [states.get(f"{name}:{position}") for name in (path, path.resolve())]
    expected = trust_hash(entry.event, entry.matcher, entry.handler)
    return any(
        isinstance(state, dict) and state.get("enabled") is not False and state.get("trusted_hash") == expected
        for state in stored
    )


def _normalize(event: str, handler: Handler) -> JsonObject:
    """A handler in the form that Codex hashes."""
    given = handler.get("timeout")
    seconds = given if isinstance(given, int | float) else None
    if event == "SessionEnd":
        timeout = min(SESSION_END_MAX_S, max(1, DEFAULT_SESSION_END_S if seconds is None else seconds))
    else:
        timeout = max(1, DEFAULT_TIMEOUT_S if seconds is None else seconds)
    normalized = {
        "type": "command",
        "command": handler["command"],
        "timeout": timeout,
        "async": bool(handler.get("async")),
    }
    message = handler.get("statusMessage")
    return normalized if message is None else {**normalized, "statusMessage": message}


def _snake(event: str) -> str:
    """
    >>> _snake("UserPromptSubmit")
    'user_prompt_submit'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()
