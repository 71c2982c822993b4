"""REST client of the command line. Standard library only; one connection per request."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from holdfast.domain.errors import (
    BadConfig,
    BadInput,
    Conflict,
    Denied,
    HoldfastError,
    NotFound,
    PositionPruned,
    TargetRefused,
    TooMany,
)
from holdfast.domain.json_value import KnownJson
from holdfast.home import DEFAULT_HOST, DEFAULT_PORT, Home, find_home, read_address

CONNECT_S = 5.0
ANSWER_S = 30.0
ANSWER_MAX = 1 << 30
LONG_S = 3600.0  # for verify and prune, which read the whole store

_ERRORS: dict[int, type[HoldfastError]] = {
    400: BadInput,
    401: Denied,
    403: Denied,
    404: NotFound,
    409: Conflict,
    410: PositionPruned,
    413: BadInput,
    422: BadInput,
    429: TooMany,
}


class Unreachable(HoldfastError):
    """No daemon can be reached."""


class Client:
    """Calls the REST API of one daemon.

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
            raise BadConfig("the daemon URL must look like http://127.0.0.1:4653; check HOLDFAST_URL")
        self.url, self._token, self.answer_s = url, token, answer_s
        self._parts, self._base = parts, parts.path.rstrip("/")
        self.next: str | None = None  # the cursor of the next page, from the last answer's Link header

    def renew(self) -> Client:
        """The client to go on with after a lost connection: a daemon that was restarted may have another address."""
        return find_client(self.answer_s)

    def get(self, path: str, query: Mapping[str, KnownJson] | None = None) -> KnownJson:
        """Query parameters that are None or False are left out."""
        given = {name: value for name, value in (query or {}).items() if value not in (None, False)}
        return self._call("GET", path + query_text(given), None)

    def post(self, path: str, body: KnownJson = None) -> KnownJson:
        return self._call("POST", path, encode_body(body))

    def put(self, path: str, data: bytes) -> KnownJson:
        """Send the bytes of a file."""
        return self._call("PUT", path, data, "application/octet-stream")

    def delete(self, path: str) -> KnownJson:
        return self._call("DELETE", path, None)

    @contextmanager
    def follow(
        self, path: str, query: Mapping[str, object], last_event_id: str | None = None
    ) -> Iterator[Iterator[str]]:
        """The lines of a response without an end. Raises Unreachable if the connection fails or falls silent."""
        given = {name: value for name, value in query.items() if value is not None}
        headers = {"Accept": "text/event-stream", **({} if last_event_id is None else {"Last-Event-ID": last_event_id})}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connect()
        try:
            connection.request("GET", self._base + path + query_text(given), headers=headers)
            response = connection.getresponse()
            if response.status != 200:
                self._read(response.status, response.read(ANSWER_MAX))
            yield (raw.decode("utf-8", "replace").rstrip("\r\n") for raw in response)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the connection to {self.url} was lost ({str(error) or type(error).__name__})") from None
        finally:
            connection.close()

    def _call(self, method: str, path: str, body: bytes | None, kind: str = "application/json") -> KnownJson:
        headers = {"Accept": "application/json", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = kind
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connect()
        try:
            connection.request(method, self._base + path, body, headers)
            response = connection.getresponse()
            raw = response.read(ANSWER_MAX + 1)
            self.next = next_cursor(response.getheader("Link", ""))
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(
                f"{self.url} accepted the request but did not answer ({str(error) or type(error).__name__}); "
                f"it may or may not have been carried out"
            ) from None
        finally:
            connection.close()
        if len(raw) > ANSWER_MAX:
            raise Unreachable(f"the answer of {self.url} is larger than {ANSWER_MAX:,} bytes; use a smaller --limit")
        return self._read(response.status, raw)

    def _connect(self) -> http.client.HTTPConnection:
        connection_class = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        try:
            connection = connection_class(self._parts.hostname or "", self._parts.port, timeout=CONNECT_S)
            connection.connect()
        except ValueError as error:
            raise BadConfig(f"the daemon URL {self.url} is not valid: {error}") from None
        except OSError as error:
            raise Unreachable(
                f"no daemon answers at {self.url} ({error.strerror or error}); start one with: holdfast up"
            ) from None
        connection.sock.settimeout(self.answer_s)
        return connection

    def _read(self, status: int, raw: bytes) -> KnownJson:
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError):
            answer = None
        if 200 <= status < 300 and isinstance(answer, dict | list):
            return answer
        if not isinstance(answer, dict) or not isinstance(answer.get("detail"), str):
            raise Unreachable(
                f"the server at {self.url} is not a Holdfast daemon (status {status}); start one with: holdfast up"
            )
        if answer.get("error") == TargetRefused.__name__:
            raise TargetRefused(answer["detail"])
        raise _ERRORS.get(status, HoldfastError)(answer["detail"])


class _NoDaemon(Client):
    """Used when no daemon runs. It fails on connecting, so that a faulty request is still reported first."""

    def __init__(self, why: str) -> None:
        super().__init__(f"http://{DEFAULT_HOST}:{DEFAULT_PORT}", None)
        self._why = why

    def _connect(self) -> http.client.HTTPConnection:
        raise Unreachable(self._why)


def find_client(answer_s: float = ANSWER_S) -> Client:
    """The daemon at `HOLDFAST_URL`, or the one of the home folder. The token is sent to no other server."""
    home = find_home()
    token, address = find_token(home), find_address(home)
    if address is not None:
        return Client(address, token, answer_s)
    return _NoDaemon(
        f"no daemon runs in {home.root}; start one with: holdfast up, or set HOLDFAST_URL. Without a daemon, name the "
        f"store: --store URL, or --app MODULE:NAME for an application that delivers itself"
    )


def encode_body(body: KnownJson) -> bytes:
    """The bytes of a request, or a usage error."""
    try:
        return json.dumps({} if body is None else body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadInput("the value of an option is not valid UTF-8") from None


def find_address(home: Home) -> str | None:
    """The address of a running daemon, or None if there is none."""
    given = os.environ.get("HOLDFAST_URL")
    return given.rstrip("/") if given else read_address(home.address_file)


def find_token(home: Home) -> str | None:
    token = os.environ.get("HOLDFAST_TOKEN") or home.read_token()
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise BadConfig("the token contains invalid characters; check HOLDFAST_TOKEN or HOLDFAST_HOME/token")
    return token


def part(value: object) -> str:
    """Quote one segment of a URL path."""
    text = str(value)
    if not text:
        raise BadInput("an id is empty")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise BadInput("an id is not valid UTF-8") from None


def next_cursor(link: str) -> str | None:
    """Read the cursor of the next page from a Link header.

    >>> next_cursor('</hooks/contracts?limit=2&after=a%20b>; rel="next"')
    'a b'
    """
    url, _, more = link.partition(">")
    after = parse_qs(urlsplit(url.removeprefix("<")).query).get("after") if 'rel="next"' in more else None
    return after[0] if after else None


def query_text(given: Mapping[str, object]) -> str:
    values = {name: "true" if value is True else str(value) for name, value in given.items()}
    try:
        return f"?{urlencode(values)}" if values else ""
    except UnicodeEncodeError:
        raise BadInput("the value of an option is not valid UTF-8") from None
