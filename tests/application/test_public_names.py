"""What an application may import: `holdfast` alone is enough to write everything the pages show."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast
from holdfast import Contract, Criterion, Outbox, parse_address
from holdfast.domain.contract import Criterion as InnerCriterion


@pytest.mark.parametrize("name", holdfast.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(holdfast, name) is not None


def test_a_private_name_is_not_an_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = holdfast.Nothing
    assert sorted(holdfast._MODULES) == sorted(set(holdfast.__all__) - {"__version__"})


def test_a_contract_of_the_applications_own_needs_public_names_only() -> None:
    outbox = Outbox("sqlite:///app.db")
    wanted = Contract(
        "big-orders",
        parse_address("handler:ship"),
        type_criterion=Criterion(pattern="order.*"),
        properties={"size": Criterion("big")},
    )
    outbox.contracts.register(wanted)
    assert [contract.id for contract in outbox.contracts.all()] == ["big-orders"]
    assert wanted.matches("app", "order.placed", {"size": "big"}, 0)
    assert not wanted.matches("app", "order.placed", {"size": "small"}, 0)
    assert Criterion is InnerCriterion


def test_importing_the_package_loads_none_of_its_rooms() -> None:
    program = "import sys, holdfast; print([name for name in sys.modules if name.startswith('holdfast.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['holdfast.version']"
