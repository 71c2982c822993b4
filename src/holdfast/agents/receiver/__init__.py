"""The receiver: the program that an agent CLI starts for each hook. It imports nothing else of Holdfast."""
