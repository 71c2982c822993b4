"""The ready queue of a PostgreSQL store, kept in a queue of pgmq."""
