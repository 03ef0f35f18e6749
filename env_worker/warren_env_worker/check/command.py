"""Make, check, test and serve your own environments, and install packages of others'.

For example:
    warren env new my_env
    warren env check my_module:MyEnv
    warren env test
    warren env serve my_module:MyEnv
    warren env install gymnasium
"""
# `warren env --help` prints this docstring. Importing this module loads nothing heavy.

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from warren.display.output import Output
    from warren_env_worker.check.finding import Finding
    from warren_env_worker.check.printed import Printed
    from warren_env_worker.host.protocol import Config
    from warren_env_worker.output.log import OutputLog

HTTP = "warren_env_worker.environments.http.environment:Http"


def check(
    environment: str | None = None,
    /,
    *,
    url: str | None = None,
    config: Annotated[str, Parameter()] = "{}",
    split: str = "train",
    show_output: bool = False,
) -> int:
    """Play an environment and check that it follows the rules of environments.

    It runs in a separate process, so it may hang, crash or print: the check reports where it hangs and
    how it crashed, and its output goes to a file.

    For example:
        warren env check my_package.my_module:MyEnv
        warren env check my_module:MyEnv --config '{"size": 9}' --split test
        warren env check openenv --config '{"url": "http://127.0.0.1:8000/"}'
        warren env check --url http://127.0.0.1:9000/

    Parameters
    ----------
    environment
        The class, as `module:Class`, or the name of an installed environment.
    url
        An HTTP environment instead of a class (docs/environments-http.md): also checks that it keeps to the protocol.
    config
        Arguments of its constructor (of an HTTP environment, the `config` that it is sent), as JSON.
    split
        Split of its tasks to play.
    show_output
        Show its output, episode by episode.
    """
    from warren.display.output import make_output
    from warren.settings import warren_home
    from warren_env_worker.check.finding import Mark, verdict
    from warren_env_worker.output.log import OutputLog, log_path

    output, arguments = make_output(), read_arguments(config)
    name, environment = _chosen(environment, url)
    log = OutputLog(log_path(warren_home() / "logs", environment))
    output.line(f"Checking {name}")
    findings = [] if url is None else _conforms(output, url, arguments, split)
    if any(finding.mark is Mark.BAD for finding in findings[:1]):  # nothing can be asked of it
        output.line(verdict(name, findings))
        return 1
    played_with: Config = arguments if url is None else {"url": url, "config": arguments}
    played, printed = _play(output, environment, played_with, split, log)
    findings += played
    output.line(verdict(name, findings))
    _tell_output(output, printed, shows=show_output)
    return 1 if any(finding.mark is Mark.BAD for finding in findings) else 0


def _play(
    output: "Output", environment: str, arguments: "Config", split: str, log: "OutputLog"
) -> "tuple[list[Finding], Printed]":
    import asyncio

    from warren.errors import ConfigurationError
    from warren_env_worker.check.checks import WIDTH
    from warren_env_worker.check.finding import line
    from warren_env_worker.check.watching import CannotImport, watched

    job = watched(
        environment, arguments, split, log,
        tell=lambda finding: output.line(line(finding, WIDTH)),
        say=lambda words: output.line(f"    … {words}", "dim"),
    )  # fmt: skip
    try:
        return asyncio.run(job)
    except CannotImport as error:
        raise ConfigurationError(str(error), hint="Write module:Class.") from error


def _conforms(output: "Output", url: str, config: dict[str, object], split: str) -> "list[Finding]":
    """What is found of the server, told as it is found."""
    import asyncio

    from warren_env_worker.check.checks import WIDTH
    from warren_env_worker.check.finding import line

    async def look() -> "list[Finding]":
        found: list[Finding] = []
        async for finding in _looks(url, config, split):
            output.line(line(finding, WIDTH))
            found.append(finding)
        return found

    return asyncio.run(look())


def _chosen(environment: str | None, url: str | None) -> tuple[str, str]:
    """How the environment is called, and its class."""
    from warren.errors import ConfigurationError
    from warren_env_worker.host.environment_class.naming import named

    if environment is not None and url is None:
        return environment, named(environment)[1]
    if url is not None and environment is None:
        return url, HTTP
    raise ConfigurationError(
        "give the class of an environment, or the URL of one",
        hint="Write module:Class, or --url http://127.0.0.1:9000/.",
    )


async def _looks(url: str, config: dict[str, object], split: str) -> "AsyncGenerator[Finding]":
    from warren.environment import ConfigError
    from warren.errors import ConfigurationError
    from warren_env_worker.check.conformance import Looks
    from warren_env_worker.environments.http.server import EnvServer
    from warren_env_worker.permissions.permissions import TRUSTED

    try:
        service = TRUSTED.service(url, None)
    except ConfigError as error:
        raise ConfigurationError(f"--url: {error}") from error
    server = EnvServer(service, patience_s=5.0, answer_s=60.0)
    try:
        async for finding in Looks(server, config, split).findings():
            yield finding
    finally:
        await server.close()


def _tell_output(output: "Output", printed: "Printed", *, shows: bool) -> None:
    if printed.n_lines == 0:
        if shows:
            output.line("It printed nothing.")
        return
    hint = ":" if shows else "; --show-output shows them"
    output.line(f"It printed {printed.n_lines} lines, kept in {printed.log.path}{hint}")
    if shows:
        output.line(printed.shown)


def read_arguments(config: str) -> dict[str, object]:
    """What `--config` says, in JSON. Raises `ConfigurationError`."""
    import json
    from typing import cast

    from warren.errors import ConfigurationError

    try:
        value = json.loads(config)
    except ValueError as error:
        raise ConfigurationError(f"--config is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError("--config must be a JSON object, as in '{\"size\": 9}'")
    return cast("dict[str, object]", value)
