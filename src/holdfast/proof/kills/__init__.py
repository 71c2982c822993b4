"""The proof: kill the real daemon with SIGKILL under load, many times, and account for every event.

    python -m holdfast.proof.kills --kills 200

Three processes that are never killed write record files: `load` records what was accepted, `sink` what arrived, and the
campaign when each daemon process started and ended. `checker` compares those records with the store.

A *life* is one run of a daemon process, from its start to its kill or stop. Lives are numbered from 0.
"""
