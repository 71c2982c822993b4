"""Verbs on files of messages: store one, so that a message can name it."""

from __future__ import annotations

import hashlib

from holdfast.agents.messages.message_files import BLOB_MAX
from holdfast.domain.errors import BadInput, TooLarge
from holdfast.operations.answers.messages import StoredBlob
from holdfast.operations.context import OperationsContext


class BlobVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._blobs = context.store.blobs

    async def put(self, data: bytes) -> StoredBlob:
        """Store the bytes of a file. A message of type voice or file names them by the digest in the answer."""
        if not data:
            raise BadInput("the file is empty")
        if len(data) > BLOB_MAX:
            raise TooLarge(f"the file is {len(data):,} bytes; the limit is {BLOB_MAX:,}")
        sha256 = hashlib.sha256(data).hexdigest()
        await self._blobs.put(sha256, data)
        return StoredBlob(sha256, len(data))
