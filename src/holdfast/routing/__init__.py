"""Sorting: which contracts want an event, and the deliveries that follow from it."""
