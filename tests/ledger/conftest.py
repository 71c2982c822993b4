"""A store with receipts, for the tests that change it behind Holdfast's back."""

from __future__ import annotations

from tampered import case

__all__ = ["case"]
