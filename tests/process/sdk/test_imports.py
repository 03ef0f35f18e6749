"""What is imported when: the SDK is for laptops, and `--help` is for the impatient."""

import json
import subprocess
import sys
from typing import get_args

import pytest

HEAVY = (
    "torch",
    "aio_pika",
    "aiohttp.web",
    "sqlmodel",
    "transformers",
    "rich",
    "cyclopts",
    "docstring_parser",
)


def modules_after(code: str) -> set[str]:
    """Modules that a fresh interpreter has loaded after running the code."""
    report = "import json, sys; print(); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_importing_the_sdk_loads_next_to_nothing() -> None:
    loaded = modules_after("import warren")
    assert not loaded & {*HEAVY, "pydantic", "aiohttp", "numpy"}


def test_every_exported_name_is_there_and_loads_no_server() -> None:
    loaded = modules_after("import warren\nfor name in warren.__all__: getattr(warren, name)")
    assert not loaded & {*HEAVY}


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    import warren

    with pytest.raises(AttributeError, match="nonsense"):
        _ = warren.nonsense  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    assert set(warren.__all__) <= set(dir(warren))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["runs", "--help"], ["trian"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import sys
from typing import get_args
sys.argv = ["warren", *{arguments!r}]
from warren.__main__ import main
try:
    main()
except SystemExit:
    pass
"""
    loaded = modules_after(code)
    assert not loaded & {"pydantic", "torch", "aiohttp", "aio_pika", "numpy", "sqlmodel", "yaml"}


def test_no_event_and_no_error_is_missing() -> None:
    import warren
    import warren.errors
    from warren_schemas.events import RunEventBody

    events = {event.__name__ for event in get_args(get_args(RunEventBody)[0])}
    assert events | set(warren.errors.__all__) <= set(warren.__all__)
