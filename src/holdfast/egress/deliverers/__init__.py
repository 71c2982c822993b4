"""How a delivery reaches its address: one file for each kind."""
