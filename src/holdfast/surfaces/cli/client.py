"""The REST client of the command line: the standard library, one connection, one answer."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from holdfast.domain.errors import BadConfig, BadInput, Conflict, Denied, HoldfastError, NotFound, TargetRefused
from holdfast.home import DEFAULT_HOST, DEFAULT_PORT, Home, find_home, read_address

CONNECT_S = 5.0
ANSWER_S = 30.0
ANSWER_MAX = 1 << 30
LONG_S = 3600.0  # verify and prune look at everything there is

_ERRORS: dict[int, type[HoldfastError]] = {
    400: BadInput,
    401: Denied,
    403: Denied,
    404: NotFound,
    409: Conflict,
    413: BadInput,
    422: BadInput,
}


class Unreachable(HoldfastError):
    """No daemon answers."""


class Client:
    """Speaks to one daemon.

    >>> Client("http://127.0.0.1:4653", None).url
    'http://127.0.0.1:4653'
    """

    def __init__(self, url: str, token: str | None, answer_s: float = ANSWER_S) -> None:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        except ValueError:
            usable = False
        if not usable:
            raise BadConfig("the daemon's address must look like http://127.0.0.1:4653; check HOLDFAST_URL")
        self.url, self._token, self._answer_s = url, token, answer_s
        self._parts, self._base = parts, parts.path.rstrip("/")
        self.next: str | None = None  # where the last answer goes on, if its header said that it does

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Ask; what was not given is not asked for."""
        given = {name: value for name, value in (query or {}).items() if value not in (None, False)}
        return self._call("GET", path + _query(given), None)

    def post(self, path: str, body: Any = None) -> Any:
        try:
            raw = json.dumps({} if body is None else body, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BadInput("an option's value is not text in UTF-8") from None
        return self._call("POST", path, raw)

    def delete(self, path: str) -> Any:
        return self._call("DELETE", path, None)

    def _call(self, method: str, path: str, body: bytes | None) -> Any:
        headers = {"Accept": "application/json", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connect()
        try:
            connection.request(method, self._base + path, body, headers)
            response = connection.getresponse()
            raw = response.read(ANSWER_MAX + 1)
            self.next = _next(response.getheader("Link", ""))
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(
                f"{self.url} took the request but did not answer it ({str(error) or type(error).__name__}); "
                f"whether it was done is not known"
            ) from None
        finally:
            connection.close()
        if len(raw) > ANSWER_MAX:
            raise Unreachable(f"{self.url} answers with more than {ANSWER_MAX:,} bytes; ask for less with --limit")
        return self._read(response.status, raw)

    def _connect(self) -> http.client.HTTPConnection:
        make = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        try:
            connection = make(self._parts.hostname or "", self._parts.port, timeout=CONNECT_S)
            connection.connect()
        except ValueError as error:
            raise BadConfig(f"the daemon's address {self.url} cannot be used: {error}") from None
        except OSError as error:
            raise Unreachable(
                f"no daemon answers at {self.url} ({error.strerror or error}); start one with: holdfast up"
            ) from None
        connection.sock.settimeout(self._answer_s)
        return connection

    def _read(self, status: int, raw: bytes) -> Any:
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError):
            answer = None
        if 200 <= status < 300 and isinstance(answer, dict | list):
            return answer
        if not isinstance(answer, dict) or not isinstance(answer.get("detail"), str):
            raise Unreachable(f"what answers at {self.url} is not holdfast (status {status}); start it: holdfast up")
        if answer.get("error") == TargetRefused.__name__:
            raise TargetRefused(answer["detail"])
        raise _ERRORS.get(status, HoldfastError)(answer["detail"])


class _Nobody(Client):
    """Stands in where no daemon lives: what is wrong with a request is said before that."""

    def __init__(self, why: str) -> None:
        super().__init__(f"http://{DEFAULT_HOST}:{DEFAULT_PORT}", None)
        self._why = why

    def _connect(self) -> http.client.HTTPConnection:
        raise Unreachable(self._why)


def find_client(answer_s: float = ANSWER_S) -> Client:
    """The daemon of `HOLDFAST_URL`, or of the home folder. Nobody else is sent a token."""
    home = find_home()
    token, address = find_token(home), find_address(home)
    if address is not None:
        return Client(address, token, answer_s)
    return _Nobody(f"no daemon runs in {home.root}; start one with: holdfast up, or say in HOLDFAST_URL where it is")


def find_address(home: Home) -> str | None:
    """Where a living daemon said it can be found; None: nobody said so."""
    given = os.environ.get("HOLDFAST_URL")
    return given.rstrip("/") if given else read_address(home.address_file)


def find_token(home: Home) -> str | None:
    token = os.environ.get("HOLDFAST_TOKEN") or home.read_token()
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise BadConfig("the token holds characters no token has; check HOLDFAST_TOKEN or HOLDFAST_HOME/token")
    return token


def part(value: object) -> str:
    """One part of a path, whatever characters it holds."""
    text = str(value)
    if not text:
        raise BadInput("an id is empty; say which one")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise BadInput("an id is not text in UTF-8") from None


def _next(link: str) -> str | None:
    """
    >>> _next('</hooks/contracts?limit=2&after=a%20b>; rel="next"')
    'a b'
    """
    url, _, more = link.partition(">")
    found = parse_qs(urlsplit(url.removeprefix("<")).query).get("after") if 'rel="next"' in more else None
    return found[0] if found else None


def _query(given: Mapping[str, Any]) -> str:
    values = {name: "true" if value is True else str(value) for name, value in given.items()}
    try:
        return f"?{urlencode(values)}" if values else ""
    except UnicodeEncodeError:
        raise BadInput("an option's value is not text in UTF-8") from None
