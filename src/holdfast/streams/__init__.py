"""Ordered streams out: the publisher that advances every cursor, sinks, live tails, replay and the archive."""
