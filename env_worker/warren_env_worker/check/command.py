"""`warren env check`.

Invariant: importing this module loads nothing heavy; `warren --help` reads it.
"""

from typing import Annotated

from cyclopts import Parameter


def check(
    environment: str,
    /,
    *,
    config: Annotated[str, Parameter()] = "{}",
    split: str = "train",
) -> int:
    """Play an environment, and say whether it keeps what is asked of one.

    For example:
        warren env check my_package.my_module:MyEnv
        warren env check my_module:MyEnv --config '{"size": 9}' --split test

    Parameters
    ----------
    environment
        The class, as `module:Class`.
    config
        What its constructor gets, as JSON.
    split
        Which of its tasks are played.
    """
    import os
    import sys

    from warren.errors import ConfigurationError
    from warren_env_worker.check.checks import run_checks
    from warren_env_worker.check.finding import Mark, report
    from warren_env_worker.check.probe import Probe
    from warren_env_worker.host.importing import ImportFailed, import_environment

    sys.path.insert(0, os.getcwd())
    try:
        found = import_environment(environment)
    except ImportFailed as error:
        raise ConfigurationError(str(error), hint="Write module:Class.") from error
    findings = list(run_checks(Probe(found, _read(config), split)))
    print(report(environment, findings))
    return 1 if any(finding.mark is Mark.BAD for finding in findings) else 0


def _read(config: str) -> dict[str, object]:
    import json
    from typing import cast

    from warren.errors import ConfigurationError

    try:
        value = json.loads(config)
    except ValueError as error:
        raise ConfigurationError(f"--config is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError("--config must be a JSON object, as in '{\"size\": 9}'")
    return cast("dict[str, object]", value)
