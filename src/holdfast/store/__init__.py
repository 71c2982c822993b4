"""Stores: the only package with SQL. `roles/` defines what a store does; `open` finds the one for a URL."""
