"""Power cuts: record what SQLite does to the disk, and build the images that a power cut could leave.

`python -m holdfast.proof.power_cuts --images 20000` builds that many images, opens each with the real store, and checks
that no acknowledged commit is missing. The recorder can also fail writes and syncs on request.
"""
