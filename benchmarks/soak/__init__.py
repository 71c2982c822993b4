"""A long run at half the sustained rate, on both stores at once: do memory, logs, descriptors and tables stay flat?"""
