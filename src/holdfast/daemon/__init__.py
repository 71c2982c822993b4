"""Opening the doors: the loop, the wiring, and the commands that run a process of their own."""
