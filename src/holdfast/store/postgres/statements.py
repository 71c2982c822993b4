"""The named statements of this dialect: the same names as on SQLite, wherever a statement exists on both."""

from holdfast.store.statements import Statements

sql = Statements("holdfast.store.postgres")
