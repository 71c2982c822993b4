"""Agent sessions: how hook events change a session, and which domain events follow from them."""
