"""The Django application: it brings the command `holdfast_migrate` and nothing that runs by itself."""

from __future__ import annotations

from django.apps import AppConfig


class HoldfastConfig(AppConfig):  # type: ignore[misc]
    name = "holdfast.django"
    label = "holdfast"
    verbose_name = "Holdfast"
