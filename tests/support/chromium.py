"""A real Chromium for tests of pages, driven by playwright.

An installed Chromium is used. Otherwise the Debian package and the libraries that are missing here are downloaded once
into a cache folder; nothing is installed. If that fails, the tests fail with the reason. The font of the pictures comes
the same way, and without it another one is used.

    pytest_plugins = ("chromium",)

    def test_it(page: Page) -> None:
        page.goto("http://127.0.0.1:4653/")
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

INSTALLED = (Path("/usr/lib/chromium/chromium"), Path("/usr/lib64/chromium-browser/chromium-browser"))
FLAGS = ["--no-sandbox"]  # the sandbox needs rights that a container does not have
HELP = "these tests need Chromium; install it, such as: apt-get install -y chromium"
FONT = "fonts-inter"
FETCH_S = 600


class Program(NamedTuple):
    """The program, and the folder below which its libraries were unpacked, if they are not installed."""

    path: Path
    root: Path | None

    @property
    def env(self) -> dict[str, str]:
        return {**self._libraries, **_fonts()}

    @property
    def _libraries(self) -> dict[str, str]:
        if self.root is None:
            return dict(os.environ)
        folders = [*self.root.glob("usr/lib/*-linux-gnu"), *self.root.glob("lib/*-linux-gnu")]
        folders += [folder for base in folders for folder in (base / "nss", base / "pulseaudio") if folder.is_dir()]
        known = {"LD_LIBRARY_PATH": ":".join(map(str, folders)), "XDG_DATA_DIRS": f"{self.root}/usr/share:/usr/share"}
        fonts = self.root / "etc/fonts"
        return {**os.environ, **known, **({"FONTCONFIG_PATH": str(fonts)} if fonts.is_dir() else {})}


@lru_cache
def program() -> Program:
    for path in INSTALLED:
        if path.exists():
            return Program(path, None)
    cache = _cache("chromium")
    if not (cache / "complete").exists():
        fetch(cache)
    return Program(cache / "usr/lib/chromium/chromium", cache)


def _cache(name: str) -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast-tests" / name


@lru_cache
def _fonts() -> dict[str, str]:
    """A configuration of fontconfig that adds the font of the pictures to those of this machine."""
    cache = _cache("fonts")
    config = cache / "fonts.conf"
    if not config.exists():
        try:
            with tempfile.TemporaryDirectory(prefix="hf-deb-") as folder:
                _run(["apt-get", "download", FONT], folder)
                for package in Path(folder).glob("*.deb"):
                    _run(["dpkg", "-x", str(package), f"{folder}/root"], folder)
                shutil.copytree(f"{folder}/root", cache, dirs_exist_ok=True, symlinks=True)
        except (OSError, subprocess.SubprocessError):
            return {}
        folders = "".join(f"<dir>{one}</dir>" for one in ("/usr/share/fonts", "~/.fonts", cache / "usr/share/fonts"))
        config.write_text(f"<fontconfig>{folders}<cachedir>{cache}/cache</cachedir></fontconfig>", encoding="utf-8")
    return {"FONTCONFIG_FILE": str(config)}


def fetch(cache: Path, *options: str) -> None:
    """Download and unpack the packages that an installation would add. `options` are passed to apt-get."""
    with tempfile.TemporaryDirectory(prefix="hf-deb-") as folder:
        try:
            packages = _missing(options)
            _run(["apt-get", *options, "download", *packages], folder)
            for package in Path(folder).glob("*.deb"):
                _run(["dpkg", "-x", str(package), f"{folder}/root"], folder)
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or error
            pytest.fail(f"{HELP} ({str(said).strip()[-500:]})", pytrace=False)
        cache.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(f"{folder}/root", cache, dirs_exist_ok=True, symlinks=True)
        (cache / "complete").touch()


def _missing(options: tuple[str, ...]) -> list[str]:
    """The packages that are not on this machine. A new machine has no lists of packages yet."""
    plan = ["apt-get", *options, "-s", "install", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    try:
        said = _run(plan, "/")
    except subprocess.CalledProcessError:
        _run(["apt-get", *options, "update"], "/")
        said = _run(plan, "/")
    return [line.split()[1] for line in said.splitlines() if line.startswith("Inst ")]


def _run(command: list[str], folder: str) -> str:
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=FETCH_S)
    return done.stdout


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a module."""
    found = program()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(found.path), args=FLAGS, env=found.env)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page with a profile of its own."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture
def errors(page: Page) -> list[str]:
    """What the browser reports as an error, such as a violation of the content security policy."""
    found: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            found.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: found.append(str(error)))
    return found
