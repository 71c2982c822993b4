"""The JSON form of Python values that JSON does not have: times, ids, decimals, enums, dataclasses, pydantic models.

The forms are those of pydantic's JSON mode, so that a value has the same form inside a model and outside.
"""

from __future__ import annotations

import dataclasses
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from uuid import UUID

_UTC = "+00:00"


def json_form(value: object) -> object:
    """The value as JSON has it; its parts may need their own form. Raises TypeError if it has none.

    >>> json_form(Decimal("9.90")), json_form(datetime.fromisoformat("2026-01-31T12:00:00+00:00"))
    ('9.90', '2026-01-31T12:00:00Z')
    """
    match value:
        case datetime() | time():
            text = value.isoformat()
            return text[: -len(_UTC)] + "Z" if text.endswith(_UTC) else text
        case date():
            return value.isoformat()
        case UUID() | Decimal():
            return str(value)
        case Enum():
            return value.value
    if isinstance(value, type):
        raise TypeError(f"{value.__name__} is a class")
    if (dump := getattr(value, "model_dump", None)) is not None:
        return dump(mode="json")
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"a {type(value).__name__} has no JSON form")
