"""Sinks: where a publisher sends the events of streams. One file per kind of sink."""
