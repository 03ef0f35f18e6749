"""Check your own environments.

For example:
    warren env check my_module:MyEnv
"""
# `warren env --help` prints this docstring. Importing this module loads nothing heavy.

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from warren.display.output import Output
    from warren_env_worker.check.printed import Printed


def check(
    environment: str,
    /,
    *,
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

    Parameters
    ----------
    environment
        The class, as `module:Class`.
    config
        Arguments of its constructor, as JSON.
    split
        Split of its tasks to play.
    show_output
        Show its output, episode by episode.
    """
    import asyncio

    from warren.display.output import make_output
    from warren.errors import ConfigurationError
    from warren.settings import warren_home
    from warren_env_worker.check.checks import WIDTH
    from warren_env_worker.check.finding import Mark, line, verdict
    from warren_env_worker.check.watching import CannotImport, watched
    from warren_env_worker.output.log import OutputLog, log_path

    output, read = make_output(), _read(config)
    log = OutputLog(log_path(warren_home() / "logs", environment))
    output.line(f"Checking {environment}")
    job = watched(
        environment, read, split, log,
        tell=lambda finding: output.line(line(finding, WIDTH)),
        say=lambda words: output.line(f"    … {words}", "dim"),
    )  # fmt: skip
    try:
        findings, printed = asyncio.run(job)
    except CannotImport as error:
        raise ConfigurationError(str(error), hint="Write module:Class.") from error
    output.line(verdict(environment, findings))
    _tell_output(output, printed, shows=show_output)
    return 1 if any(finding.mark is Mark.BAD for finding in findings) else 0


def _tell_output(output: "Output", printed: "Printed", *, shows: bool) -> None:
    if printed.n_lines == 0:
        if shows:
            output.line("It printed nothing.")
        return
    hint = ":" if shows else "; --show-output shows them"
    output.line(f"It printed {printed.n_lines} lines, kept in {printed.log.path}{hint}")
    if shows:
        output.line(printed.shown)


def _read(config: str) -> dict[str, object]:
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
