"""The web page: rendered on the server from the typed answers, with a little JavaScript for live updates."""
