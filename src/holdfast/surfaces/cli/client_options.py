"""The options `--store` and `--app`, and the client that a command then gets."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

from holdfast.domain.errors import BadInput
from holdfast.surfaces.cli.client import ANSWER_S, LONG_S, Client, find_client
from holdfast.surfaces.cli.options import direct_options

F = TypeVar("F", bound=Callable[..., object])


def with_client(command: F) -> F:
    """Call the command with `client`: of the daemon, or of the store that `--store` or `--app` names."""
    return _with_client(command, ANSWER_S)


def with_long_timeout(command: F) -> F:
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


def find_client_of(store: str | None, app: str | None, answer_s: float = ANSWER_S) -> Client:
    """The client of a store or of an application's store if one is named, else of the daemon."""
    if store is None and app is None:
        return find_client(answer_s)
    if store is not None and app is not None:
        raise BadInput("--store and --app cannot be combined")
    from holdfast.surfaces.cli.local_client import open_client

    return open_client(store, app)


def _with_client(command: F, answer_s: float) -> F:
    @wraps(command)
    def run(*arguments: object, store: str | None, app: str | None, **options: object) -> object:
        return command(*arguments, client=find_client_of(store, app, answer_s), **options)

    return direct_options(cast(F, run))
