"""Messages into agent sessions: enqueue, resolve, deliver by an adapter, and confirm by the agent's own hook."""
