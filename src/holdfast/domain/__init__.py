"""Values and rules. Pure, standard library only: time, randomness and I/O come in as arguments."""
