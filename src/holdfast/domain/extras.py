"""How to install an optional part. Holdfast is in no package index yet, so a command with only its name would fail."""

from __future__ import annotations


def install_command(extra: str) -> str:
    """The words for a message.

    >>> install_command("redis")
    "pip install '.[redis]' in a clone of Holdfast"
    """
    return f"pip install '.[{extra}]' in a clone of Holdfast"
