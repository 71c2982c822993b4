"""The book: receipts, and whether they verify."""
