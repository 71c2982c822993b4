"""Deliveries to `handler:` addresses: Python functions in this process."""
