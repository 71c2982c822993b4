"""Loading an application for `--app module:name`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from holdfast.domain.errors import BadConfig, BadInput
from holdfast.ports import Application


def import_from_here() -> None:
    """Make the current folder importable, as `python -m` does."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def load_app(spec: str) -> Application:
    """Import the outbox at `module:name`."""
    module_name, colon, name = spec.partition(":")
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise BadInput(f"--app takes module:name, such as shop:outbox, not {spec!r}")
    import_from_here()
    try:
        outbox = getattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError as error:
        raise BadConfig(f"--app {spec}: {error}") from None
    except AttributeError:
        raise BadConfig(f"--app {spec}: the module {module_name} has no {name}") from None
    if not isinstance(outbox, Application):
        raise BadConfig(f"--app {spec} is a {type(outbox).__name__}, not an Outbox")
    return outbox
