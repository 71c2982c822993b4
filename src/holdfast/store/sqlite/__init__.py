"""The store on SQLite: one file, one keeper, no other server."""
