"""REST and the web page of Holdfast inside a Django project, for its staff.

    uvicorn mounted_django:application

One file stands for a whole project: `settings.configure` for settings.py, the last lines for asgi.py. Then open
http://127.0.0.1:8000/admin/ to log in, and http://127.0.0.1:8000/holdfast/.
"""

import os
from pathlib import Path

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.management import call_command
from django.urls import path

DATABASE = Path(os.environ.get("SHOP_DB", "shop.db")).absolute()

settings.configure(
    SECRET_KEY=os.environ.get("SECRET_KEY", "only for this example"),
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    ROOT_URLCONF=__name__,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}},
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "django.contrib.sessions",
        "holdfast.django",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    STATIC_URL="/static/",
    USE_TZ=True,
)
django.setup()
call_command("migrate", verbosity=0)

from django.contrib import admin  # noqa: E402 (a project has these imports in files of their own)
from starlette.applications import Starlette  # noqa: E402
from starlette.routing import Mount  # noqa: E402

import holdfast.django  # noqa: E402

urlpatterns = [path("admin/", admin.site.urls)]

# asgi.py: what begins with /holdfast is Holdfast's, everything else Django's.
outbox = holdfast.django.outbox()
application = Starlette(
    routes=[
        Mount("/holdfast", outbox.asgi(auth=holdfast.django.staff)),
        Mount("/", get_asgi_application()),
    ]
)
