"""What a row of docs/ecosystems.md was shown on: the versions of the foreign packages, and the commit of ours."""

import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = "docs/ecosystems.md"
PACKAGES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "ALFWorld": {"alfworld": ["alfworld"]},
    "GEM": {"gem": ["gem-llm"]},
    "Gymnasium": {"gymnasium": ["gymnasium", "minigrid"]},
    "Harbor": {"harbor": ["harbor"]},
    "Inspect": {"inspect_ai": ["inspect-ai"]},
    "MCP": {"mcp": ["mcp"]},
    "NeMo Gym": {"nemo_gym": ["nemo-gym"]},
    "ORS client": {"ors": ["ors-sdk"], "openreward": ["openreward"]},
    "ORS server": {"ors": ["ors-sdk"], "openreward": ["openreward"]},
    "OpenEnv": {"openenv": ["openenv"]},
    "TextArena": {"textarena": ["textarena"]},
    "TextWorld": {"textworld": ["textworld"]},
    "verifiers v0": {"verifiers_v0": ["verifiers"]},
    "verifiers v1": {"verifiers": ["verifiers"]},
}
"""By ecosystem: its virtual environments, `.venv-NAME`, and which packages of each it is."""


def versions(ecosystem: str, root: Path = ROOT) -> str:
    """As they are installed, which need not be what a list of requirements asks for."""
    found = [
        f"{package} {_version(root / f'.venv-{name}', package)}"
        for name, packages in PACKAGES[ecosystem].items()
        for package in packages
    ]
    return ", ".join(found)


def _version(virtual: Path, package: str) -> str:
    places = [str(place) for place in virtual.glob("lib/python*/site-packages")]
    (found,) = distributions(name=package, path=places)
    return found.version


def commit(root: Path = ROOT) -> str:
    """Its date and its short hash, and whether files differ from it; the page that is written may."""
    told = _git(root, "log", "-1", "--abbrev=8", "--format=%cs %h")
    differs = _git(root, "status", "--porcelain", "--", ".", f":!{PAGE}")
    return f"{told}, changed" if differs else told


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()
