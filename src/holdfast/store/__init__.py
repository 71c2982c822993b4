"""The floor: the only room that knows SQL. `base` says what a store does, `open` finds the one for a URL."""
