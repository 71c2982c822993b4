"""Where things live, and what is shown of where."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.domain.errors import BadConfig
from holdfast.home import Home, find_home, masked_url, read_secret, write_secret


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////var/app.db", "sqlite:////var/app.db"),
        ("postgresql://app@db/shop", "postgresql://app@db/shop"),
        ("postgresql://app:canary@db/shop", "postgresql://app:***@db/shop"),
        ("postgresql://app:can@ary@db/shop", "postgresql://app:***@db/shop"),
        ("postgresql:///shop?user=app&password=canary&host=db", "postgresql:///shop?user=app&password=***&host=db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert masked_url(url) == shown


def test_the_home_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "h"))
    assert find_home().root == tmp_path / "h"
    monkeypatch.delenv("HOLDFAST_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert find_home().database.name == "holdfast.db"


def test_a_home_others_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(BadConfig, match="chmod 700"):
        Home(tmp_path).make()


def test_a_secret_others_may_read_is_refused(tmp_path: Path) -> None:
    write_secret(tmp_path / "token", "canary")
    assert read_secret(tmp_path / "token") == "canary"
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(BadConfig, match="chmod 600"):
        read_secret(tmp_path / "token")
