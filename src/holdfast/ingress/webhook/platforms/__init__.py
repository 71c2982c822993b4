"""The platforms: each module here that defines `PLATFORM` is one, found by being in this folder.

A normalizer is a pure function `(payload, headers) -> HookEvent | list`. It gets the content of the request (a JSON
value, or the fields of a form) and the stored headers. It runs after the request was accepted, on the stored bytes: if
it fails, the request becomes a dead letter, which can be reprocessed.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from functools import partial

from holdfast.domain.errors import BadConfig
from holdfast.ingress.webhook.platforms.platform import Normalizer, Platform
from holdfast.ingress.webhook.verifiers import VERIFIERS
from holdfast.ingress.webhook.verifiers.check import Verifier

FALLBACK = "json"
"""The platform of a source that names none."""


def _find_platforms() -> dict[str, Platform]:
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    platforms = [module.PLATFORM for module in modules if isinstance(getattr(module, "PLATFORM", None), Platform)]
    return {platform.name: platform for platform in platforms}


PLATFORMS: Mapping[str, Platform] = _find_platforms()
NAMED_VERIFIERS: Mapping[str, Verifier] = {
    **VERIFIERS,
    **{platform.verifier.name: platform.verifier for platform in PLATFORMS.values()},
}
"""The verifiers that `verifier:` can name: the general ones, and the one of each platform."""
KEPT_HEADERS = ("content-type", *dict.fromkeys(name for each in PLATFORMS.values() for name in each.headers))
"""Stored for every source: a normalizer of the user's own may serve any platform under any name."""


def platform_of(key: str | None, name: str) -> Platform:
    """The platform named by `platform` or `normalizer`; for a normalizer of the user's own, by the source's name."""
    return PLATFORMS.get(key or name) or PLATFORMS.get(name) or PLATFORMS[FALLBACK]


def find_normalizer(
    key: str | None,
    name: str,
    own: Mapping[str, Normalizer],
    type_header: str | None = None,
    type_field: str | None = None,
) -> Normalizer:
    """The function that a source's `normalizer` names: the application's own, a built-in one, or `module:function`.

    The default is the one with the name of the source, else `json`. `type_header` and `type_field` are for `json`.
    """
    chosen = key or (name if name in own or name in PLATFORMS else FALLBACK)
    if chosen in own:
        return _with_headers(own[chosen])
    if chosen in PLATFORMS:
        platform = PLATFORMS[chosen]
        if chosen == FALLBACK:
            return partial(platform.normalize, name, type_header=type_header, type_field=type_field)
        return partial(platform.normalize, name) if platform.takes_source_name else platform.normalize
    if ":" in chosen:
        return _with_headers(_imported(chosen))
    known = ", ".join(sorted({*PLATFORMS, *own}))
    raise BadConfig(
        f"hooks.inbound.{name}: there is no normalizer {chosen!r}; known are {known}, or name a function as "
        f"module:function"
    )


def _imported(path: str) -> Normalizer:
    module, _, name = path.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:  # importing runs the user's code, which may raise anything
        raise BadConfig(f"the normalizer {path!r} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(function):
        raise BadConfig(f"the normalizer {path!r} is a {type(function).__name__}, not a function")
    return function  # type: ignore[no-any-return]


def _with_headers(function: Normalizer) -> Normalizer:
    """The function as one of (payload, headers): a normalizer of the user's own may leave out the headers."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return function
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(positional) == 1:
        return lambda payload, headers: function(payload)
    return function
