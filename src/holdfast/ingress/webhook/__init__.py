"""A platform's request: verified over its raw bytes, kept as one raw event, and made into events afterwards.

Accepting does not depend on understanding. The raw event is stored before the request is answered; `normalize` works
on what was stored, as an ordinary delivery to `handler:inbound.<name>`.
"""

from holdfast.ingress.webhook.normalize import normalize, normalizing
from holdfast.ingress.webhook.raw import conflict_event, key_of, raw_event
from holdfast.ingress.webhook.source import SOURCE, InboundSource

__all__ = ["SOURCE", "InboundSource", "conflict_event", "key_of", "normalize", "normalizing", "raw_event"]
