"""Both real servers of the Open Reward Standard, and what is said to them."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.real_server import RealServer, real_server
from tests.support.patience import PATIENCE_S

import warren.testing
from warren.testing import Policy
from warren_env_worker.environments.ors.environment import Ors

PACKAGES = ("ors", "openreward")
IN_THE_CI = [
    pytest.param("ors", marks=pytest.mark.ecosystem),
    pytest.param("openreward", marks=pytest.mark.ecosystem_all),
]
"""Of these, the CI installs the first; to be marked by nothing else."""


@contextmanager
def serving(package: str, folder: Path, program: str = "") -> Generator[RealServer]:
    path = Path(__file__).with_name(f"server_{program or package}.py")
    with real_server(package, path, folder) as server:
        yield server


def call(name: str, /, **arguments: object) -> str:
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


LOOK = call("look", place=0)


def play(
    server: RealServer, policy: Policy, environment: str = "vault", **config: Any
) -> warren.testing.Episode:
    of = Ors(server.url, environment, patience_s=PATIENCE_S, **config)
    return warren.testing.play(of, policy, index=3)


def told(episode: warren.testing.Episode) -> list[str]:
    return [message.content for message in episode.messages if message.role == "tool"]
