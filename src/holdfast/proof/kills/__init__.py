"""The proof: the real daemon is killed -9 again and again under load, and every event is accounted for.

    python -m holdfast.proof.kills --kills 200

Three processes keep books that no kill can reach: `load` writes down what was accepted, `sink` what arrived, and the
campaign itself when each life of the daemon began and ended. `checker` compares those books with the store.
"""
