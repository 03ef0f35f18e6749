"""One server of each package for all tests here."""

from collections.abc import Generator

import pytest
from tests.ecosystems.ors.serving import IN_THE_CI, serving
from tests.ecosystems.real_server import RealServer


@pytest.fixture(scope="session", params=IN_THE_CI)
def package(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def server(package: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[RealServer]:
    with serving(package, tmp_path_factory.mktemp(package)) as started:
        yield started
