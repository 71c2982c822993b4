"""Holdfast in a Django project: events in the transaction of `transaction.atomic`.

    INSTALLED_APPS = [..., "holdfast.django"]
    HOLDFAST = {"DATABASE": "default"}              # optional

    with transaction.atomic():
        order.save()
        holdfast.django.publish("order.placed", {"id": order.pk}, stream=f"order:{order.pk}")

`manage.py migrate` creates the tables, with the migrations of this application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack
from urllib.parse import quote

from holdfast.domain.errors import BadConfig
from holdfast.outbox import EventFields, Outbox
from holdfast.store.door import PUBLISH, run_on, tables_of

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor
    from django.db.migrations import RunPython
    from starlette.requests import Request

    from holdfast.ingress.publish import Published

KEYS = {"DATABASE": "default", "SCHEMA": "holdfast"}
SHARED = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile", "service")
"""Database OPTIONS that have the same names in the daemon's driver."""


class DjangoOutbox(Outbox):
    """The outbox of the project's database, whose tables come with the project's migrations."""

    def _how_to_create(self) -> str:
        alias = _settings()["DATABASE"]
        option = "" if alias == KEYS["DATABASE"] else f" --database {alias}"
        return f'add "holdfast.django" to INSTALLED_APPS and run: python manage.py migrate{option}'


def outbox() -> Outbox:
    """The outbox of the project's database, for handlers and for `holdfast up --app module:outbox`.

    outbox = holdfast.django.outbox()

    @outbox.on("order.*")
    def ship(event): ...
    """
    return DjangoOutbox(_url())


def publish(type: str, payload: object = None, **fields: Unpack[EventFields]) -> Published:
    """Append an event in the current transaction of the project's database: one statement, never a commit."""
    from django.db import connections

    return outbox().publish(connections[_settings()["DATABASE"]], type, payload, **fields)


async def staff(request: Request) -> set[str] | None:
    """Who may see the page that is mounted in a project: its staff, and superusers may change everything.

    outbox().asgi(auth=holdfast.django.staff)

    The visitor is the one of the project's own session, as `django.contrib.auth` knows it.
    """
    from asgiref.sync import sync_to_async

    user = await sync_to_async(_user_of)(request.cookies)
    if not (user.is_active and user.is_staff):
        return None
    return {"admin"} if user.is_superuser else {"operate"}


def _user_of(cookies: dict[str, str]) -> AbstractBaseUser | AnonymousUser:
    from django.contrib.auth import get_user
    from django.contrib.sessions.middleware import SessionMiddleware
    from django.http import HttpRequest, HttpResponse

    asked = HttpRequest()
    asked.COOKIES = cookies
    SessionMiddleware(lambda request: HttpResponse()).process_request(asked)
    return get_user(asked)


def migrate(using: str | None = None) -> tuple[int, int]:
    """Create or update the tables in one transaction. Returns the schema version before and after."""
    from django.db import connections, transaction

    from holdfast.store.schema import upgrade

    alias = using or _settings()["DATABASE"]
    with transaction.atomic(using=alias):
        return run_on(connections[alias], tables_of(_url()), PUBLISH, upgrade)


def schema() -> RunPython:
    """An operation for one of your migrations: forwards creates the tables, backwards removes them.

    class Migration(migrations.Migration):
        operations = [holdfast.django.schema()]
    """
    from django.db.migrations import RunPython

    from holdfast.store.schema import downgrade, upgrade

    def forwards(apps: object, editor: BaseDatabaseSchemaEditor) -> None:
        if editor.connection.alias == _settings()["DATABASE"]:  # Django runs a migration on every database
            run_on(editor.connection, tables_of(_url()), PUBLISH, upgrade)

    def backwards(apps: object, editor: BaseDatabaseSchemaEditor) -> None:
        if editor.connection.alias == _settings()["DATABASE"]:
            run_on(editor.connection, tables_of(_url()), PUBLISH, downgrade)

    return RunPython(forwards, backwards)


def _settings() -> dict[str, str]:
    from django.conf import settings

    configured = getattr(settings, "HOLDFAST", {})
    unknown = sorted(set(configured) - set(KEYS))
    if unknown:
        raise BadConfig(f"the setting HOLDFAST has an unknown key {unknown[0]!r}: use {', '.join(KEYS)}")
    return {**KEYS, **configured}


def _url() -> str:
    """The project's database as the URL of a store."""
    from django.db import connections

    options = _settings()
    connection = connections[options["DATABASE"]]
    db = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{db['NAME']}"
    if connection.vendor != "postgresql":
        raise BadConfig(
            f"Holdfast stores events in SQLite or PostgreSQL; {options['DATABASE']!r} is {connection.vendor}"
        )
    user = quote(db["USER"], safe="") + (":" + quote(db["PASSWORD"], safe="") if db["PASSWORD"] else "")
    query = [f"schema={options['SCHEMA']}"]
    host = db["HOST"]
    if host.startswith("/"):  # the folder of a Unix socket cannot be the host part of a URL
        query.append(f"host={quote(host, safe='/')}")
        host = ""
    query += [f"{name}={quote(str(db['OPTIONS'][name]), safe='/')}" for name in SHARED if name in db["OPTIONS"]]
    port = f":{db['PORT']}" if db["PORT"] else ""
    return f"postgresql://{user + '@' if user else ''}{host}{port}/{quote(db['NAME'])}?{'&'.join(query)}"
