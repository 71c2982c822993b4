"""The receiver: the program that an agent CLI starts for each hook, and the daemon's side of it.

`receiver.py`, `intake.py` and `receiver.pl` run in the agent's time and import nothing else of Holdfast.
"""
