"""Transcripts: the files in which agent CLIs record their sessions, read while they grow."""
