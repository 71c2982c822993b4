"""The options `--store` and `--app`, and the client that a command then gets."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

from holdfast.domain.errors import BadInput
from holdfast.surfaces.cli.client import ANSWER_S, LONG_S, find_client_of
from holdfast.surfaces.cli.options import direct_options

F = TypeVar("F", bound=Callable[..., object])


def with_client(command: F) -> F:
    """Call the command with `client`: of the daemon, or of the store that `--store` or `--app` names."""
    return _with_client(command, ANSWER_S)


def with_patient_client(command: F) -> F:
    """The same for a command that may read the whole store."""
    return _with_client(command, LONG_S)


def store_of(store: str | None, app: str | None) -> str | None:
    """The store that `--store` or `--app` names; None: neither was given."""
    if store is not None and app is not None:
        raise BadInput("--store and --app cannot be combined")
    if app is None:
        return store
    from holdfast.config.application import load_app

    return load_app(app).url


def _with_client(command: F, answer_s: float) -> F:
    @wraps(command)
    def run(*arguments: object, store: str | None, app: str | None, **options: object) -> object:
        return command(*arguments, client=find_client_of(store, app, answer_s), **options)

    return direct_options(cast(F, run))
