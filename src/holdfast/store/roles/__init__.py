"""What a store does, one role per file. Every store implements them; the suite in `holdfast.testing` checks each."""
