"""Archives: compressed, checksummed files of events that retention removes from the store."""
