"""The settings as they are written: the file of defaults, overridden by the user's file. Errors name the setting."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path

import yaml

from holdfast.config.promote_at import PromoteAt
from holdfast.domain.errors import BadConfig
from holdfast.domain.json_value import KnownJson
from holdfast.domain.text import short_repr

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
FREE_SECTIONS = ("policies", "hooks.inbound")
FILE_BYTES_MAX = 1024 * 1024
NUMBER_MAX = 1e15
SECRET_WORDS = ("secret", "token", "password", "key", "authorization")
MASKED = "***"
ZEROES = ("disk.low_water_bytes", "disk.ballast_bytes", *(f"queue.promote_at.{name}" for name in PromoteAt._fields))
FRACTIONS = ("_days", "_minutes", "_seconds")
KINDS = {"str": "text", "list": "a list", "bool": "true or false"}


class _Expanded(str):
    """A text in which environment variables were replaced. They may be secret, so messages show the original text."""

    written: str

    def __new__(cls, text: str, written: str) -> _Expanded:
        made = super().__new__(cls, text)
        made.written = written
        return made


def default_text() -> str:
    return files("holdfast.config").joinpath("defaults.yml").read_text(encoding="utf-8")


def read_settings(path: Path | None) -> KnownJson:
    """The defaults, overridden by the user's file if it exists, with environment variables filled in."""
    settings: KnownJson = _expanded(_read(default_text(), "the defaults"), "the defaults")
    if path is not None and path.exists():
        _override(settings, _expanded(_read(_text(path), str(path)), str(path)), str(path), "")
    return settings


def written_settings(path: Path) -> Mapping[str, object]:
    """The user's file as it is written; empty if there is none."""
    return _read(_text(path), str(path)) if path.exists() else {}


def settings_in_force(path: Path) -> KnownJson:
    """The defaults overridden by the user's file, for display: variables are not filled in and secrets are masked."""
    settings: KnownJson = _read(default_text(), "the defaults")
    if path.exists():
        _override(settings, _read(_text(path), str(path)), str(path), "")
    return _masked(settings)


def _masked(value: KnownJson, name: str = "") -> KnownJson:
    if isinstance(value, dict):
        return {key: _masked(each, str(key)) for key, each in value.items()}
    if isinstance(value, list):
        return [_masked(each, name) for each in value]
    is_secret = any(word in name.lower() for word in SECRET_WORDS) and isinstance(value, str)
    is_secret = is_secret and not name.endswith("_env")  # the name of a variable
    return MASKED if is_secret and value and not VARIABLE.fullmatch(value) else value


def load_store(path: Path) -> str:
    """Only the setting `store`, for commands that need no other. Variables used elsewhere in the file may be unset."""
    given = _read(_text(path), str(path)) if path.exists() else {}
    only_store = {name: value for name, value in given.items() if name == "store"}
    settings: KnownJson = {"store": ""}
    _override(settings, _expanded(only_store, str(path)), str(path), "")
    return str(settings["store"])


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} cannot be read: {error}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise BadConfig(f"{path} is larger than {FILE_BYTES_MAX:,} bytes, the limit for a configuration file")
    return text


def _expanded(value: dict[str, object], where: str) -> dict[str, object]:
    return {key: _expand(item, where, str(key)) for key, item in value.items()}


def _read(text: str, where: str) -> dict[str, object]:
    try:
        value = yaml.load(text, _Strict)  # noqa: S506 - a safe loader that refuses more
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise BadConfig(f"{where} is not valid YAML: {problem}{_place(error)}") from None
    except (ValueError, OverflowError, RecursionError) as error:  # an impossible date, 5,000 digits, very deep nesting
        raise BadConfig(f"{where} has an invalid value ({type(error).__name__})") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadConfig(f"{where} must be a mapping of settings, not {show_value(value)}")
    return value


class _Strict(yaml.SafeLoader):
    """YAML without aliases, which can expand without limit, and without duplicate keys."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not supported", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                problem = f"duplicate key {short_repr(key.value)}"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)  # type: ignore[arg-type]  # another kind of node is refused there


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""


def _expand(value: object, where: str, key: str) -> object:
    """Replace environment variables in texts. An unset one without a default is an error."""
    if isinstance(value, dict):
        return {name: _expand(item, where, f"{key}.{name}") for name, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, where, key) for item in value]
    if not isinstance(value, str):
        return value

    def put(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None and match[2] is None:
            raise BadConfig(
                f"{where}: {key} uses ${{{match[1]}}}, but the environment variable {match[1]} is not set; "
                f"set it, or write ${{{match[1]}:-a default}}"
            )
        return found if found is not None else match[2]

    expanded = VARIABLE.sub(put, value)
    return value if expanded == value else _Expanded(expanded, value)


def _override(settings: KnownJson, given: Mapping[str, object], where: str, prefix: str) -> None:
    for key, value in given.items():
        name = f"{prefix}{key}"
        if key not in settings:
            near = get_close_matches(str(key), list(settings), n=1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else f"; known are {', '.join(settings)}"
            raise BadConfig(f"{where}: unknown setting {short_repr(name)}{hint}")
        default = settings[key]
        if isinstance(default, dict) and name not in FREE_SECTIONS:
            if not isinstance(value, dict):
                raise BadConfig(f"{where}: {name} must be a mapping, not {show_value(value)}")
            _override(default, value, where, f"{name}.")
        else:
            settings[key] = _check_kind(value, default, where, name)


def _check_kind(value: KnownJson, default: KnownJson, where: str, name: str) -> KnownJson:
    number = isinstance(default, int | float) and not isinstance(default, bool)
    if number and isinstance(value, str) and value.strip().isdigit():
        value = int(value)  # an environment variable is always text
    fits = (
        isinstance(value, int | float) and not isinstance(value, bool) if number else isinstance(value, type(default))
    )
    if not fits:
        kind = "a number" if number else KINDS.get(type(default).__name__, "a mapping")
        raise BadConfig(f"{where}: {name} must be {kind}, not {show_value(value)}")
    if number and not (0 <= value <= NUMBER_MAX and (value > 0 or name in ZEROES or name.endswith("_days"))):
        raise BadConfig(f"{where}: {name} must be a positive number of at most {NUMBER_MAX:g}, not {short_repr(value)}")
    if isinstance(default, int) and isinstance(value, float) and not name.endswith(FRACTIONS):
        raise BadConfig(f"{where}: {name} must be a whole number, not {short_repr(value)}")
    return str(value) if isinstance(value, str) else value


def show_value(value: object) -> str:
    """A value for a message: shortened, and never the value of an environment variable."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return short_repr(value.written if isinstance(value, _Expanded) else value)
