"""Receipts, and their verification."""
