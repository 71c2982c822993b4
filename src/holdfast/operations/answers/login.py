"""The answer that contains a login link for the web page."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.operations.answers.fields import Time


@dataclass(frozen=True, slots=True)
class LoginLink:
    """A link to the web page. `path` begins with a slash and contains a code, which works once until `expires_at`."""

    path: str
    expires_at: Time
