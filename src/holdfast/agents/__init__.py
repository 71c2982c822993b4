"""Everything about agent command-line programs: their hooks, transcripts, sessions and installation."""
