"""Wiring the agent CLIs: each one's file, changed so that its hooks reach the receiver, and changed back."""

from __future__ import annotations
