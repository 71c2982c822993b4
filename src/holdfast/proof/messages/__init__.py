"""Messages into agent sessions, while the daemon, the agent or tmux is killed."""
