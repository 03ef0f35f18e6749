"""The edge of the command: errors as sentences and exit codes."""

import pytest

from warren.cli import codes
from warren.cli.guard import guarded
from warren.cli.plugins import install_command
from warren.errors import (
    AuthenticationError,
    ConfigurationError,
    GatewayBusy,
    GatewayError,
    GatewayUnreachable,
    NotFound,
    RunFailed,
    WarrenError,
)


def failing(error: BaseException) -> int:
    def command() -> int:
        raise error

    return guarded(command, ["gateway"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), codes.USAGE),
        (NotFound("x"), codes.USAGE),
        (GatewayUnreachable("x"), codes.UNREACHABLE),
        (AuthenticationError("x"), codes.UNREACHABLE),
        (GatewayBusy("x"), codes.UNREACHABLE),
        (GatewayError("x"), codes.FAILED),
        (RunFailed("x"), codes.FAILED),
        (ExceptionGroup("parts", [ExceptionGroup("p", [NotFound("x")])]), codes.USAGE),
        (PermissionError(13, "Permission denied", "/x"), codes.FAILED),
        (ZeroDivisionError("x"), codes.FAILED),
        (KeyboardInterrupt(), codes.INTERRUPTED),
        (SystemExit(7), 7),
    ],
)
def test_exit_codes(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(error) == code
    assert "Traceback" not in capsys.readouterr().err


def test_message_details_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    failing(WarrenError("It is wrong", details=["here", "there"], hint="Do this."))
    assert capsys.readouterr().err == "error: It is wrong\n  here\n  there\nDo this.\n"


def test_a_mistake_of_our_own_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    failing(ZeroDivisionError("division by zero"))
    assert "This is a bug" in capsys.readouterr().err


def test_debugging_shows_the_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_DEBUG", "1")
    failing(NotFound("x"))
    assert "Traceback" in capsys.readouterr().err


def test_a_missing_package_names_the_extra(capsys: pytest.CaptureFixture[str]) -> None:
    missing = ModuleNotFoundError("No module named 'no_such'", name="no_such.part")
    assert failing(missing) == codes.USAGE
    err = capsys.readouterr().err
    assert "no_such" in err
    assert "pip install '.[gateway]' in your clone" in err


@pytest.mark.parametrize(
    ("command", "extra"),
    [("gateway", "gateway"), ("gpu-worker", "gpu"), ("env-worker", "env"), ("up", "all")],
)
def test_extras_of_the_programs(command: str, extra: str) -> None:
    assert install_command(command) == f"pip install '.[{extra}]' in your clone of Warren"


def test_the_sdks_own_commands_need_no_extra() -> None:
    assert install_command("train") is None
