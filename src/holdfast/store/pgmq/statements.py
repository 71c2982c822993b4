"""The named statements about a queue of pgmq. Their slots are filled for one queue."""

from __future__ import annotations

from hashlib import sha256

from holdfast.store.postgres.place import SCHEMA_DEFAULT
from holdfast.store.statements import Statements

sql = Statements("holdfast.store.pgmq")

NAME_MAX = 47


def queue_name(schema: str) -> str:
    """The name of a schema's queue in pgmq, which all schemas of a database share.

    >>> queue_name("holdfast"), queue_name("jobs"), len(queue_name("j" * 48))
    ('holdfast', 'holdfast_jobs', 25)
    """
    if schema == SCHEMA_DEFAULT:
        return schema
    name = f"{SCHEMA_DEFAULT}_{schema}"
    return name if len(name) <= NAME_MAX else f"{SCHEMA_DEFAULT}_{sha256(schema.encode()).hexdigest()[:16]}"


def for_queue(text: str, schema: str) -> str:
    """Fill the slots of a statement that name the queue. The names are letters, digits and underscores."""
    name = queue_name(schema)
    return text.replace("{name}", name).replace("{table}", f"pgmq.q_{name}")
