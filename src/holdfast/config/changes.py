"""What a changed configuration file changes: some settings apply at once, the others after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.domain.json_value import KnownJson

RELOADED = ("hooks.subscriptions", "hooks.inbound", "egress.allow")
"""Settings that a running daemon applies when the file changes."""


class Difference(NamedTuple):
    """The names of what was added, changed and removed."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def text(self, noun: str) -> list[str]:
        """
        >>> Difference(("a", "b"), (), ("c",)).text("contract")
        ['contracts added: a, b', 'contract removed: c']
        """
        return [
            f"{noun if len(names) == 1 else noun + 's'} {word}: {', '.join(names)}"
            for word, names in zip(self._fields, self, strict=True)
            if names
        ]


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """`restart`: names of settings that have changed and apply only after a restart."""

    contracts: Difference
    sources: Difference
    allow: bool
    restart: tuple[str, ...]

    @property
    def applied(self) -> list[str]:
        """What applies at once, in words; empty: nothing. Values are not shown, since they may be secret."""
        allowed = ["egress.allow changed"] if self.allow else []
        return self.contracts.text("contract") + self.sources.text("inbound source") + allowed


def compare(before: KnownJson, after: KnownJson) -> ConfigChanges:
    """Compare two trees of settings, as `read_settings` returns them."""
    old, new = _flat(before), _flat(after)
    return ConfigChanges(
        difference(_by_id(old["hooks.subscriptions"]), _by_id(new["hooks.subscriptions"])),
        difference(old["hooks.inbound"], new["hooks.inbound"]),
        old["egress.allow"] != new["egress.allow"],
        tuple(name for name in new if name not in RELOADED and old.get(name) != new[name]),
    )


def in_force(before: KnownJson, after: KnownJson) -> KnownJson:
    """The settings after a reload: those that are reloaded are new, the others as they were."""
    settings: KnownJson = deepcopy(before)
    for name in RELOADED:
        section, _, key = name.partition(".")
        settings[section][key] = after[section][key]
    return settings


def _flat(settings: KnownJson, prefix: str = "") -> dict[str, KnownJson]:
    flat: dict[str, KnownJson] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name not in (*RELOADED, "policies"):
            flat |= _flat(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def _by_id(subscriptions: KnownJson) -> dict[str, KnownJson]:
    return {str(each.get("id", number)): each for number, each in enumerate(subscriptions, 1)}


def difference(before: Mapping[str, KnownJson], after: Mapping[str, KnownJson]) -> Difference:
    """What differs between two sets of named values."""
    return Difference(
        tuple(name for name in after if name not in before),
        tuple(name for name in after if name in before and before[name] != after[name]),
        tuple(name for name in before if name not in after),
    )
