"""Coming in: facts are appended, never acted upon."""
