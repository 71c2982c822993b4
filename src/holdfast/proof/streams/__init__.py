"""Crash proof of publishing: real Redis and NATS servers that are killed while events are published to them."""
