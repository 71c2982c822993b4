"""From a platform's request to events: a registry of pure functions `(payload, headers) -> HookEvent | list`.

A normaliser sees what the request held (an object from JSON, or a form's fields) and the headers that were kept.
It runs after the request was accepted, over the stored bytes: if it fails, they wait as a dead letter.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from holdfast.domain.errors import BadConfig
from holdfast.domain.hook_event import HookEvent
from holdfast.ingress.normalizers import discord, generic, github, slack, stripe, telegram, whatsapp

Normalizer = Callable[..., HookEvent | Sequence[HookEvent]]


def _accepted(payload: Any) -> Any:
    return {"status": "accepted"}


class Platform(NamedTuple):
    """What Holdfast knows about one kind of sender.

    `delivery_id`: the platform's own name for a delivery, which comes again when it sends again. `answer`: the JSON it
    wants to hear, or None for an empty answer, whose status is `empty`. `verifier`: how it signs.
    """

    normalise: Normalizer
    delivery_id: Callable[[Any, Mapping[str, str]], str | None] = generic.delivery_id
    answer: Callable[[Any], Any] = _accepted
    verifier: str = "hook"
    named: bool = False
    empty: int = 200


PLATFORMS: Mapping[str, Platform] = {
    "github": Platform(github.normalise, github.delivery_id, verifier="hub"),
    "whatsapp": Platform(whatsapp.normalise, whatsapp.delivery_id, verifier="hub"),
    "slack": Platform(slack.normalise, slack.delivery_id, slack.answer, "slack"),
    "stripe": Platform(stripe.normalise, stripe.delivery_id, verifier="stripe"),
    "telegram": Platform(telegram.normalise, telegram.delivery_id, verifier="telegram"),
    "discord": Platform(discord.normalise, discord.delivery_id, discord.answer, "discord", empty=204),
    "standard": Platform(generic.standard, verifier="standard", named=True),
    "json": Platform(generic.received, named=True),
}


def platform_of(normalizer: str | None, name: str) -> Platform:
    """The platform by its normaliser; with one of the user's own, by the name of the source."""
    return PLATFORMS.get(normalizer or name) or PLATFORMS.get(name) or PLATFORMS["json"]


def find_normalizer(key: str | None, name: str, own: Mapping[str, Normalizer]) -> Normalizer:
    """The function a source's `normalizer` means: the application's own, a built-in one, or `module:function`.

    Not given, it is the one by the name of the source, and `json` where there is none.
    """
    wanted = key or (name if name in own or name in PLATFORMS else "json")
    if wanted in own:
        return _called(own[wanted])
    if wanted in PLATFORMS:
        platform = PLATFORMS[wanted]
        return partial(platform.normalise, name) if platform.named else platform.normalise
    if ":" in wanted:
        return _called(_imported(wanted))
    known = ", ".join(sorted({*PLATFORMS, *own}))
    raise BadConfig(
        f"hooks.inbound.{name}: there is no normalizer {wanted!r}; known are {known}, or name a function as "
        f"module:function"
    )


def _imported(path: str) -> Normalizer:
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # importing runs code of the user's, which may raise anything
        raise BadConfig(f"the normalizer {path!r} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise BadConfig(f"the normalizer {path!r} is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def _called(function: Normalizer) -> Normalizer:
    """A normaliser may leave out the headers."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return function
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(places) == 1:
        return lambda payload, headers: function(payload)
    return function
