"""The ground as a whole: its examples run, its imports are light, its errors are the tree that is drawn."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
import re
import subprocess
import sys

import pytest

import holdfast.domain
from holdfast.domain import errors

MODULES = sorted(f"holdfast.domain.{found.name}" for found in pkgutil.iter_modules(holdfast.domain.__path__))
ERRORS = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
OURS = sorted((kind for kind in ERRORS if issubclass(kind, errors.HoldfastError)), key=lambda kind: kind.__name__)

LOADED = """
import sys
before = set(sys.modules)
import importlib, json
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(*names: str) -> set[str]:
    """The modules a fresh interpreter loads for these, beyond those it starts with."""
    done = subprocess.run([sys.executable, "-c", LOADED, *names], capture_output=True, check=True, text=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_are_true(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples_to_run():
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) >= 7


@pytest.mark.parametrize("names", [["holdfast"], MODULES], ids=["holdfast", "holdfast.domain"])
def test_importing_loads_no_asyncio_and_nothing_from_a_third_party(names):
    loaded = loaded_by(*names)
    assert set(names) <= loaded
    roots = {name.partition(".")[0] for name in loaded}
    assert roots - sys.stdlib_module_names == {"holdfast"}
    assert not roots & {"asyncio", "sqlite3", "socket", "threading", "subprocess"}


def drawn_tree() -> dict[str, str]:
    """Each error and the one above it, as the picture at the head of the file shows them."""
    above, parents = ["HoldfastError"], {}
    for bars, name in re.findall(r"^ {4}((?:[│ ] {3})*)[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE):
        depth = len(bars) // 4 + 1
        above[depth:] = [name]
        parents[name] = above[depth - 1]
    return parents


def test_the_drawn_tree_of_errors_is_the_tree():
    real = {kind.__name__: kind.__mro__[1].__name__ for kind in OURS if kind is not errors.HoldfastError}
    assert drawn_tree() == real


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_an_error_has_its_message_or_a_default_one(kind):
    assert kind("stream 's' is closed").message == "stream 's' is closed"
    assert kind().message == kind.__doc__


def test_reject_and_retry_after_are_not_holdfast_errors():
    assert {errors.Reject, errors.RetryAfter} == ERRORS - set(OURS)
    assert errors.RetryAfter(30).seconds == 30.0
    assert "30 s" in str(errors.RetryAfter(30))
    assert str(errors.RetryAfter(30, "rate limited")) == "rate limited"
