"""Named SQL statements from files: `-- name: this` begins a statement, and `sql.this` is its text."""

from __future__ import annotations

from importlib.resources import files


class Statements:
    """The named statements of one dialect. Each is an attribute, which makes access cheap."""

    def __init__(self, package: str) -> None:
        for file in sorted(files(package).joinpath("sql").iterdir(), key=lambda entry: entry.name):
            if file.name.endswith(".sql"):
                self._read(file.name, file.read_text(encoding="utf-8"))

    def __getattr__(self, name: str) -> str:
        raise AttributeError(f"there is no SQL statement named {name!r}")

    @property
    def _texts(self) -> dict[str, str]:
        return vars(self)

    def names(self) -> list[str]:
        return sorted(self._texts)

    def _read(self, file: str, text: str) -> None:
        for part in text.split("-- name: ")[1:]:
            name, _, body = part.partition("\n")
            if name.strip() in self._texts:
                raise ValueError(f"{file}: the SQL statement {name.strip()!r} is defined twice")
            self._texts[name.strip()] = body.strip().rstrip(";")
