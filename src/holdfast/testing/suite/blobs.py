"""Blobs: files of messages by the digest of their bytes."""

from __future__ import annotations

import hashlib

from holdfast.testing.suite.harness import Harness, StoreSuite

DATA = bytes(range(256)) * 100
DIGEST = hashlib.sha256(DATA).hexdigest()


class BlobsSuite(StoreSuite):
    async def test_a_file_is_kept_by_its_digest(self, harness: Harness) -> None:
        blobs = harness.store.blobs
        assert (await blobs.get(DIGEST), await blobs.has(DIGEST)) == (None, False)
        assert await blobs.put(DIGEST, DATA)
        assert not await blobs.put(DIGEST, DATA)
        assert (await blobs.get(DIGEST), await blobs.has(DIGEST)) == (DATA, True)

    async def test_a_file_goes_when_it_was_not_stored_again_for_long(self, harness: Harness) -> None:
        await harness.store.blobs.put(DIGEST, DATA)
        harness.clock.advance(50)
        await harness.store.blobs.put(DIGEST, DATA)
        harness.clock.advance(60)
        assert (await harness.prune(dead_s=100))["blobs"] == 0
        harness.clock.advance(50)
        assert (await harness.prune(dead_s=100))["blobs"] == 1
        assert not await harness.store.blobs.has(DIGEST)
