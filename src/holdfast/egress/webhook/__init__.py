"""Deliveries to `https:` addresses: signed POST requests."""
