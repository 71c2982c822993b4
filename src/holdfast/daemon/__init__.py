"""One working process: the runtime built from all other packages, the background loop, and the HTTP server."""
