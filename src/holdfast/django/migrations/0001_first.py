"""Create the tables in the database that the setting HOLDFAST names."""

from __future__ import annotations

from django.db import migrations

from holdfast.django import schema


class Migration(migrations.Migration):  # type: ignore[misc]
    initial = True
    operations = (schema(),)
