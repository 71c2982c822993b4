"""The command line: a REST client."""
