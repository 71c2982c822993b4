"""The ground: values and rules. Pure, stdlib only; clocks, chance and I/O come in as arguments."""
