"""Holdfast: every message survives, arrives in order, and leaves proof."""

__version__ = "0.1.0"
