"""The same job with each library that a user could pick: an order is published in its transaction, and a signed webhook
with it arrives at a receiver."""

LIBRARIES = ("holdfast", "pgqueuer", "faststream-outbox", "oban", "procrastinate")
