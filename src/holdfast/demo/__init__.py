"""`holdfast demo`: one event followed from an agent to a signed webhook, with real parts."""
