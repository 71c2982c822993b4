"""Answers of the operator verbs: one frozen dataclass for each.

REST bodies, their schemas and `--json` are made from these types by `encode` and `schema`.
"""
