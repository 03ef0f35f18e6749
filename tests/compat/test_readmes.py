"""The READMEs of the gateway and of the SDK name every route, client method and command, and no other."""

import re
from pathlib import Path

import pytest
from tests.compat.test_cli_surface import GOLDEN as COMMAND_LINE

import warren
from warren.access import Access
from warren.adapters.handle import Adapters
from warren.base_models.handle import BaseModels
from warren.datasets.handle import Datasets
from warren_gateway.api.table import ROUTES

ROOT = Path(__file__).parents[2]
GATEWAY = (ROOT / "gateway" / "README.md").read_text()
SDK = (ROOT / "sdk" / "README.md").read_text()
ROUTE_ROW = re.compile(
    r"^\| `((?:GET|POST|PUT|DELETE) [^`]+)` \|[^|]*\|([^|]*)\|([^|]*)\|$", re.MULTILINE
)
ROWS = {
    route: (method.strip(" `"), command.strip(" `"))
    for route, method, command in ROUTE_ROW.findall(GATEWAY)
}
HANDLES = {
    "client": warren.Client,
    "run": warren.Run,
    "dataset": warren.Dataset,
    "model": warren.TrainableModel,
    "future": warren.Future,
    "client.access": Access,
    "client.datasets": Datasets,
    "client.adapters": Adapters,
    "client.base_models": BaseModels,
}
NOT_REQUESTS = {
    "client.access",
    "client.adapters",
    "client.base_models",
    "client.datasets",
    "client.settings",
    "run.id",
    "run.state",
}
"""Attributes that speak for themselves."""
COMMANDS = {
    line.removeprefix("warren ")
    for line in COMMAND_LINE.read_text().splitlines()
    if "  " not in line
}


def test_every_route_has_a_row_with_its_method_and_its_command() -> None:
    assert set(ROWS) == {f"{route.method} {route.path}" for route in ROUTES}


@pytest.mark.parametrize("route", ROWS)
def test_the_method_and_the_command_of_a_route_exist(route: str) -> None:
    method, command = ROWS[route]
    if "." in method:
        handle, _, name = method.rpartition(".")
        assert hasattr(HANDLES[handle], name)
    if command:
        assert command.removeprefix("warren ") in COMMANDS
    assert method or command, "nothing reaches this route"


@pytest.mark.parametrize("handle", HANDLES)
def test_every_client_method_has_a_row(handle: str) -> None:
    named = {f"{handle}.{name}" for name in vars(HANDLES[handle]) if not name.startswith("_")}
    missing = {name for name in named - NOT_REQUESTS if f"`{name}" not in SDK}
    assert not missing, "add them to the table of sdk/README.md"


def test_every_command_is_listed() -> None:
    block = SDK.partition("## The command\n")[2].partition("```\n")[2].partition("```")[0]
    parents = {command.rpartition(" ")[0] for command in COMMANDS}
    missing = {command for command in COMMANDS - parents if not _is_listed(command, block)}
    assert not missing, "add them to the block of sdk/README.md"


def _is_listed(command: str, block: str) -> bool:
    """`runs show` stands there as such or as one of `warren runs ls|show|cancel`."""
    group, _, name = command.rpartition(" ")
    if not group:
        return re.search(rf"\b{re.escape(name)}\b", block) is not None
    listed = re.search(rf"^warren {re.escape(group)} (\S+)", block, re.MULTILINE)
    return listed is not None and name in listed[1].split("|")
