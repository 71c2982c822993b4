"""Egress: the engine that claims, delivers and settles, and its deliverers."""
