"""The real resource servers of `nemo-gym`, and the data sets that come with them."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.real_server import ROOT, RealServer, real_server
from tests.support.patience import PATIENCE_S

import warren.testing
from warren.testing import Policy
from warren_env_worker.environments.nemo_gym.environment import NemoGym

PROGRAM = Path(__file__).with_name("server.py")
CLASS = "warren_env_worker.environments.nemo_gym.environment:NemoGym"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealServer]:
    with real_server("nemo_gym", PROGRAM, tmp_path_factory.mktemp("nemo_gym")) as started:
        yield started


def path(of: str) -> str:
    """Of a data set in the package's wheel."""
    (packages,) = (ROOT / ".venv-nemo_gym" / "lib").glob("python*/site-packages")
    return str(packages / "resources_servers" / of / "data" / "example.jsonl")


def rows(of: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path(of)).read_text().splitlines() if line]


def play(
    server: RealServer,
    name: str,
    of: str,
    policy: Policy,
    index: int = 0,
    *,
    kind: type[NemoGym] = NemoGym,
    **config: Any,
) -> warren.testing.Episode:
    """A row of a data set of the package, or of the file at this path, at the server of this name."""
    at = of if of.endswith(".jsonl") else path(of)
    environment = kind(f"{server.url}{name}/", path=at, patience_s=PATIENCE_S, **config)
    return warren.testing.play(environment, policy, index=index)


def call(name: str, **arguments: object) -> str:
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


def told(episode: warren.testing.Episode) -> list[str]:
    return [message.content for message in episode.messages if message.role == "tool"]
