"""Hooks of agent CLIs: how they are received, and what their events mean."""
