"""Benchmarks: ratios to a limit or a peer taken in the same run, several repetitions, on this machine."""
