"""The command line. Most commands call the daemon's REST API."""
