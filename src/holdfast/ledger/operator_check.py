"""Compares contracts, tokens and pauses with the receipts of the actions that made them.

No clock is involved. Changes of contracts are ordered by the number that each of them has, tokens are created and
revoked once, and the end of a pause names the pause that it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from holdfast.domain.address import without_tokens
from holdfast.domain.chain_check import ChainFault
from holdfast.domain.json_value import Json
from holdfast.store.roles.receipts import ContractState, OperatorState, PauseState, TokenState


class _Contract(NamedTuple):
    """What the last receipt about a contract says. None: it does not say."""

    version: int
    chain: str
    seq: int
    exists: bool
    digest: str | None
    active: bool | None


class _Token(NamedTuple):
    chain: str
    seq: int
    scope: str
    revoked: bool


class _Pause(NamedTuple):
    """The receipts of one pause: how many times it began, less how many times it ended, and the last of them."""

    open: int
    chain: str
    seq: int


class OperatorCheck:
    """Fold all actions first, then compare."""

    def __init__(self) -> None:
        self._contracts: dict[str, _Contract] = {}
        self._tokens: dict[str, _Token] = {}
        self._revoked: dict[str, tuple[str, int]] = {}
        self._pauses: dict[PauseState, _Pause] = {}

    def fold(self, chain: str, seq: int, leaf: Mapping[str, Json]) -> None:
        """Take note of one action. Raises ValueError, TypeError or KeyError if it cannot be read."""
        action = leaf["action"]
        if action in ("contracts.register", "contracts.configure"):
            self._fold_many(chain, seq, leaf, removes=action == "contracts.configure")
        elif isinstance(action, str) and action.startswith("contract."):
            self._fold_contract(chain, seq, leaf, action)
        elif action == "token.create":
            self._tokens[str(leaf["token"])] = _Token(chain, seq, str(leaf["scope"]), revoked=False)
        elif action == "token.revoke":
            self._revoked[str(leaf["token"])] = (chain, seq)
        elif action in ("pause", "resume"):
            since_ms = _number(leaf["at"] if action == "pause" else leaf["since"])
            pause = PauseState(str(leaf["scope"]), str(leaf["name"]), since_ms)
            known = self._pauses.get(pause)
            open = (0 if known is None else known.open) + (1 if action == "pause" else -1)
            self._pauses[pause] = _Pause(open, chain, seq)

    def compare(self, state: OperatorState) -> list[ChainFault]:
        faults = [*self._contract_faults(state.contracts), *self._token_faults(state.tokens)]
        return [*faults, *self._pause_faults(state.pauses)]

    def _fold_contract(self, chain: str, seq: int, leaf: Mapping[str, Json], action: str) -> None:
        id, version = str(leaf["contract"]), _number(leaf["version"])
        known = self._contracts.get(id)
        if known is not None and known.version > version:
            return
        exists, digest, active = (True, None, None) if known is None else (known.exists, known.digest, known.active)
        match action:
            case "contract.put":
                exists, digest, active = True, str(leaf["digest"]), leaf["active"] is True
            case "contract.remove":
                exists = False
            case "contract.enable":
                active = True
            case "contract.disable" | "contract.expire":
                active = False
        self._contracts[id] = _Contract(version, chain, seq, exists, digest, active)

    def _fold_many(self, chain: str, seq: int, leaf: Mapping[str, Json], removes: bool) -> None:
        version, contracts = _number(leaf["version"]), leaf["contracts"]
        if not isinstance(contracts, Mapping):
            raise TypeError("contracts")
        for id, digest in contracts.items():
            known = self._contracts.get(id)
            if known is None or known.version <= version:
                stays = digest is not None or not removes
                text = None if digest is None else str(digest)
                self._contracts[id] = _Contract(version, chain, seq, stays, text, None)

    def _contract_faults(self, rows: Iterable[ContractState]) -> Iterator[ChainFault]:
        unseen = dict(self._contracts)
        for row in rows:
            receipt = unseen.pop(row.id, None)
            if receipt is None:
                yield ChainFault("", 0, "row_without_receipt", f"contract {row.id} has no receipt")
            elif row.removed is receipt.exists:
                state, said = ("removed", "exists") if row.removed else ("there", "was removed")
                yield _differs(receipt.chain, receipt.seq, f"contract {row.id} is {state}; its receipt says it {said}")
            elif row.removed:
                continue
            elif receipt.digest not in (None, row.digest):
                yield _differs(receipt.chain, receipt.seq, f"contract {row.id} is not as its receipt says")
            elif receipt.active not in (None, row.active):
                state = "enabled" if row.active else "disabled"
                yield _differs(receipt.chain, receipt.seq, f"contract {row.id} is {state}; its receipt says it is not")
        for id, receipt in unseen.items():
            if receipt.exists:
                yield ChainFault(receipt.chain, receipt.seq, "row_missing", f"contract {id} is gone")

    def _token_faults(self, rows: Iterable[TokenState]) -> Iterator[ChainFault]:
        unseen = dict(self._tokens)
        for row in rows:
            receipt, revoked = unseen.pop(row.id, None), self._revoked.get(row.id)
            if receipt is None:
                yield ChainFault("", 0, "row_without_receipt", f"token {row.id} has no receipt")
            elif row.scope != receipt.scope:
                said = f"token {row.id} has scope {row.scope}; its receipt says {receipt.scope}"
                yield _differs(receipt.chain, receipt.seq, said)
            elif revoked is None and row.revoked:
                yield _differs(receipt.chain, receipt.seq, f"token {row.id} is revoked; it has no receipt of that")
            elif revoked is not None and not row.revoked:
                yield _differs(*revoked, f"token {row.id} is valid; its receipt says it was revoked")
        for id, receipt in unseen.items():
            yield ChainFault(receipt.chain, receipt.seq, "row_missing", f"token {id} is gone")

    def _pause_faults(self, rows: Iterable[PauseState]) -> Iterator[ChainFault]:
        present = {row._replace(name=without_tokens(row.name)) for row in rows}
        for row in sorted(present - self._pauses.keys()):
            yield ChainFault("", 0, "row_without_receipt", f"the pause of {row.scope} {row.name} has no receipt")
        for pause, receipt in self._pauses.items():
            if receipt.open > 0 and pause not in present:
                message = f"the pause of {pause.scope} {pause.name} is gone"
                yield ChainFault(receipt.chain, receipt.seq, "row_missing", message)
            elif receipt.open <= 0 and pause in present:
                message = f"{pause.scope} {pause.name} is paused; its receipt says it was resumed"
                yield _differs(receipt.chain, receipt.seq, message)


def _differs(chain: str, seq: int, message: str) -> ChainFault:
    return ChainFault(chain, seq, "row_differs", message)


def _number(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("not a number")
    return value
