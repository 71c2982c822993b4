"""The checks of `holdfast doctor`. They need no daemon and change nothing."""

from __future__ import annotations
