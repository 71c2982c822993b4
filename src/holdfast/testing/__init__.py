"""Shipped for those who write a store, and for tests that want to own time and chance.

`holdfast.testing.clock` needs nothing but Holdfast; `holdfast.testing.store_suite` needs pytest, pytest-asyncio and
hypothesis, and is therefore never imported from here.
"""
