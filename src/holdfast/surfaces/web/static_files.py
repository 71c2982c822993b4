"""The files that the page loads, each under an address that changes with its content."""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from holdfast.domain.errors import NotFound

KINDS = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "keyboard.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "icon-trouble.svg": "image/svg+xml",
}
COMPRESSED_MIN = 1000
_IMPORTED = re.compile(rb'from "(\./\w+\.js)"')
YEAR_S, SHORT_S = 365 * 86400, 300


class StaticFile(NamedTuple):
    """`compressed` is empty for a file that is too small to gain from it."""

    content: bytes
    compressed: bytes
    digest: str


@lru_cache(maxsize=1)
def version() -> str:
    """One for all files, so that none of them is ever used with one of another release."""
    return _digest(b"".join(_read(name) for name in sorted(KINDS)))


@lru_cache(maxsize=len(KINDS))
def load(name: str) -> StaticFile:
    content = _read(name)
    if name.endswith(".js"):  # modules import each other under the same version
        content = _IMPORTED.sub(rb'from "\1?v=' + version().encode() + b'"', content)
    compressed = gzip.compress(content, 9, mtime=0) if len(content) >= COMPRESSED_MIN else b""
    return StaticFile(content, compressed, _digest(content))


def _read(name: str) -> bytes:
    return (files("holdfast.surfaces.web") / "static" / name).read_bytes()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def static_file(name: str, request: Request) -> Response:
    if name not in KINDS:
        raise NotFound("There is no such file.")
    file = load(name)
    age_s = YEAR_S if request.query_params.get("v") == version() else SHORT_S
    headers = {
        "Cache-Control": f"max-age={age_s}" + (", immutable" if age_s == YEAR_S else ""),
        "ETag": f'"{file.digest}"',
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    if file.compressed and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, media_type=KINDS[name], headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.content, media_type=KINDS[name], headers=headers)
