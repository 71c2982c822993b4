"""Care: every operator verb once, free of presentation."""
