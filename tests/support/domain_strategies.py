"""Hypothesis strategies for the tests of the domain: JSON values and names, with common limits."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# No deadline and no health check for slow generation: a busy machine is not a fault.
examples = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
texts = st.text(characters, max_size=20)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)

# Printable, without outer spaces: what `check_name` accepts.
names = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=30).filter(str.isprintable)
event_types = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,20}", fullmatch=True)
properties = st.dictionaries(names, scalars | st.lists(texts, max_size=3), max_size=5)
moments_ms = st.integers(0, 2**48 - 1)
