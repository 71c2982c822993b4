"""Deterministic simulation: the real store, router, engine and spool, with time, order and failure drawn from a seed.

`python -m holdfast.testing.sim --seeds 1000` runs many schedules; `--seed N --trace` shows one of them again.
`campaign` runs many and counts, for those who call it from a program.
"""

from holdfast.testing.sim.campaign import Counts, campaign

__all__ = ["Counts", "campaign"]
