"""Deterministic simulation: the real store, router, engine and spool, with time, order and failure drawn from a seed.

`python -m holdfast.proof.simulation --seeds 1000` runs many schedules; `--seed N --trace` shows one of them again.
From Python, `campaign` runs many schedules and counts faults and violations, and `kill_mutants` tries every known bug.
"""

from holdfast.proof.simulation.campaign import Counts, campaign, kill_mutants

__all__ = ["Counts", "campaign", "kill_mutants"]
