"""Search: words that an event must contain, as people type them into one field."""

from __future__ import annotations

import json
from collections.abc import Sequence

WORDS_MAX = 10


def search_words(text: str) -> tuple[str, ...]:
    """The words of a search. Case does not matter.

    >>> search_words("Order plan=pro")
    ('order', 'plan=pro')
    """
    return tuple(text.casefold().split()[:WORDS_MAX])


def has_words(words: Sequence[str], names: Sequence[str | None], properties_json: str) -> bool:
    """Whether each word is in one of the names or in the properties; `name=value` is one property with that value.

    >>> has_words(["order", "plan=pro"], ["evt_1", "order.placed"], '{"plan": "pro"}')
    True
    >>> has_words(["plan=free"], ["evt_1", "order.placed"], '{"plan": "pro"}')
    False
    """
    inside = properties_json.casefold()
    known = [name.casefold() for name in names if name is not None]
    return all(
        any(word in name for name in known) or word in inside or ("=" in word and _has_property(word, inside))
        for word in words
    )


def _has_property(word: str, properties_json: str) -> bool:
    name, _, value = word.partition("=")
    if name not in properties_json or value not in properties_json:
        return False  # most events end here, without being parsed
    try:
        found = json.loads(properties_json).get(name)
    except (ValueError, AttributeError):
        return False
    return found is not None and (found if isinstance(found, str) else json.dumps(found)) == value
