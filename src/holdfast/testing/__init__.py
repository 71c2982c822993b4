"""For tests of applications and of stores: a manual clock, a recording outbox, and the store suite.

`holdfast.testing.clock` needs nothing but Holdfast; `holdfast.testing.store_suite` needs pytest, pytest-asyncio and
hypothesis, and is therefore never imported from here.
"""
