"""Inbound webhooks: a request is verified over its raw bytes, stored as one raw event, and normalized afterwards.

Accepting a request does not depend on parsing it. The raw event is stored before the response; `normalize` works on
the stored request, as an ordinary delivery to `handler:inbound.<name>`.
"""

from holdfast.ingress.webhook.normalize import normalize, normalizing
from holdfast.ingress.webhook.raw import conflict_event, key_of, raw_event
from holdfast.ingress.webhook.source import SOURCE, InboundSource

__all__ = ["SOURCE", "InboundSource", "conflict_event", "key_of", "normalize", "normalizing", "raw_event"]
