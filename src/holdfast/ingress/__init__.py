"""Ingress: events come in and are appended. Nothing here acts on an event."""
