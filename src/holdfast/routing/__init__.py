"""Routing: which contracts match an event, and the deliveries created for it."""
