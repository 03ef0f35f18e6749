"""The versions that a row of docs/ecosystems.md was shown on."""

from pathlib import Path

from tests.ecosystems.tried import versions


def install(root: Path, virtual: str, package: str, version: str) -> None:
    """As pip leaves it, which writes names with underscores."""
    place = root / virtual / "lib" / "python3.12" / "site-packages"
    told = place / f"{package.replace('-', '_')}-{version}.dist-info" / "METADATA"
    told.parent.mkdir(parents=True)
    told.write_text(f"Metadata-Version: 2.4\nName: {package}\nVersion: {version}\n")


def test_versions_are_those_of_the_packages_in_the_virtual_environments(tmp_path: Path) -> None:
    install(tmp_path, ".venv-ors", "ors-sdk", "0.1.0")
    install(tmp_path, ".venv-ors", "openreward", "0.0.1")  # what another package there needs
    install(tmp_path, ".venv-openreward", "openreward", "0.1.167")
    assert versions("ORS client", tmp_path) == "ors-sdk 0.1.0, openreward 0.1.167"
