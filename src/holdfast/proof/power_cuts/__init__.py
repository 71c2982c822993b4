"""A disk that tests own: it records what SQLite does to it, fails on request, and loses power at any moment.

`python -m holdfast.proof.power_cuts --images 20000` builds that many disks as a power cut could leave them, opens each
with the real store, and checks that nothing acknowledged is missing.
"""
