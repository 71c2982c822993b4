"""The platforms, one file each, and how the normalizer of a source is found.

A normalizer is a pure function `(payload, headers) -> HookEvent | list`. It gets what the request held (a JSON value,
or a form's fields) and the headers that were kept. It runs after the request was accepted, over the stored bytes: if
it fails, they are a dead letter.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from functools import partial

from holdfast.domain.errors import BadConfig
from holdfast.ingress.webhook.platforms import (
    discord,
    generic,
    github,
    gitlab,
    hubspot,
    linear,
    paddle,
    sentry,
    shopify,
    slack,
    square,
    stripe,
    telegram,
    twilio,
    whatsapp,
    zendesk,
    zoom,
)
from holdfast.ingress.webhook.platforms.platform import Normalizer, Platform

PLATFORMS: Mapping[str, Platform] = {
    each.name: each
    for each in (
        github.PLATFORM,
        whatsapp.PLATFORM,
        slack.PLATFORM,
        stripe.PLATFORM,
        telegram.PLATFORM,
        discord.PLATFORM,
        gitlab.PLATFORM,
        shopify.PLATFORM,
        twilio.PLATFORM,
        zendesk.PLATFORM,
        paddle.PLATFORM,
        square.PLATFORM,
        hubspot.PLATFORM,
        zoom.PLATFORM,
        linear.PLATFORM,
        sentry.PLATFORM,
        generic.STANDARD,
        generic.JSON,
    )
}
KEPT_HEADERS = ("content-type", *dict.fromkeys(name for each in PLATFORMS.values() for name in each.headers))
"""Kept for every source: a normalizer of the user's own may serve any platform under any name."""


def platform_of(key: str | None, name: str) -> Platform:
    """The platform by `platform` or `normalizer`; where that is one of the user's own, by the name of the source."""
    return PLATFORMS.get(key or name) or PLATFORMS.get(name) or PLATFORMS["json"]


def find_normalizer(
    key: str | None,
    name: str,
    own: Mapping[str, Normalizer],
    type_header: str | None = None,
    type_field: str | None = None,
) -> Normalizer:
    """The function that a source's `normalizer` means: the application's own, a built-in one, or `module:function`.

    By default it is the one by the name of the source, and `json` where there is none.
    """
    wanted = key or (name if name in own or name in PLATFORMS else "json")
    if wanted in own:
        return _called(own[wanted])
    if wanted == "json":
        return partial(generic.received, name, type_header=type_header, type_field=type_field)
    if wanted in PLATFORMS:
        platform = PLATFORMS[wanted]
        return partial(platform.normalize, name) if platform.named else platform.normalize
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
    except Exception as error:  # importing runs the user's code, which may raise anything
        raise BadConfig(f"the normalizer {path!r} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise BadConfig(f"the normalizer {path!r} is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def _called(function: Normalizer) -> Normalizer:
    """A normalizer may leave out the headers."""
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
