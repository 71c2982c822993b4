"""The Django application: it adds migrations and the command `holdfast_migrate`, and starts nothing."""

from __future__ import annotations

from django.apps import AppConfig


class HoldfastConfig(AppConfig):  # type: ignore[misc]
    name = "holdfast.django"
    label = "holdfast"
    verbose_name = "Holdfast"
