"""Migrations of the Django application: one for each version of the schema."""
