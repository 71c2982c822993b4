"""The store suite, a file for each role. Import it from `holdfast.testing.store_suite`."""
