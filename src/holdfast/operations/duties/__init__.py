"""Background duties on the store. Each is one object with a `tick` that the daemon's loop calls."""
