"""A database read from another process: with the `sqlite3` shell, or a Python process if there is none.

Always another process: two SQLite libraries in one process would break each other's locks on a file.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

_PYTHON = """
import json, sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.row_factory = sqlite3.Row
try:
    rows, text = [], ""
    for part in sys.stdin.read().split(";"):
        text += part + ";"
        if sqlite3.complete_statement(text):
            rows += [dict(row) for row in c.execute(text)]
            text = ""
    print(json.dumps(rows, default=repr))
except sqlite3.Error as error:
    sys.exit("Error: " + str(error))
"""


class Shell:
    def __init__(self, command: list[str]) -> None:
        self._command = command

    def run(self, path: Path, sql: str) -> subprocess.CompletedProcess[str]:
        """Run statements as typed by a user; stops at the first error."""
        command = [*self._command, str(path)]
        return subprocess.run(
            command,
            input=sql + "\n",
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            timeout=30,
            check=False,
        )

    def rows(self, path: Path, sql: str) -> list[dict[str, Any]]:
        done = self.run(path, sql)
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout) if done.stdout.strip() else []
        return found

    def columns(self, path: Path, table: str) -> list[str]:
        return [row["name"] for row in self.rows(path, f"SELECT name FROM pragma_table_info('{table}');")]


def the_shell() -> Shell:
    if shutil.which("sqlite3"):
        return Shell(["sqlite3", "-bail", "-json"])
    return Shell([sys.executable, "-c", _PYTHON])
