"""The named statements of this dialect."""

from holdfast.store.statements import Statements

sql = Statements("holdfast.store.sqlite")
