"""The store suite, one file per role. Import it from `holdfast.testing.store_suite`."""
