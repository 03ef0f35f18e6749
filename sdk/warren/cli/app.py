"""The command tree, by name only: a command's module is imported when the command runs.

Invariant: building the tree and printing its help loads neither pydantic, aiohttp nor torch. Help
texts are read from the sources (`helptext`), never by importing them.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import cast

from cyclopts import App, Group, Parameter

from warren.cli.helptext import docstring
from warren.cli.plugins import plugins
from warren.errors import ConfigurationError

_RUNS = Group("Runs", sort_key=1)
_SYSTEM = Group("System", sort_key=2)
_PROGRAMS = Group("Programs", sort_key=3)

_OPTIONS = Group("Options", sort_key=4)

_INTRODUCTION = """Reinforcement learning of language-model agents, as a service.

For example:
    warren demo                        watch a tiny model learn a game
    warren up                          start everything on this machine
    warren train examples/guess.yaml   submit a run and follow it

Environment: WARREN_URL and WARREN_API_KEY choose the gateway, WARREN_HOME the folder for files.
"""
_RUNS_HELP = """List, follow, cancel and delete runs.

For example:
    warren runs ls
    warren runs show last --follow
"""
_CHECKPOINTS_HELP = """List and download the checkpoints of a run.

For example:
    warren checkpoints ls last
    warren checkpoints download last --to my-policy
"""
_DEAD_LETTERS_HELP = """List dead letters, republish them or drop them.

For example:
    warren dead-letters ls
    warren dead-letters republish LETTER
"""

_DATA_HELP = """Convert data to the layout that environments read.

For example:
    warren data prepare gsm8k-train.parquet --out data/gsm8k --holdout 0.05
"""

_ENVIRONMENTS_HELP = """Check your own environments.

For example:
    warren env check my_module:MyEnv
"""


def build() -> App:
    """The whole tree. Commands return their exit code."""
    app = App(
        name="warren",
        help=_INTRODUCTION,
        help_format="plaintext",
        version=_version,
        group_commands=_OPTIONS,
        version_flags=["--version", "-V"],
        default_parameter=Parameter(negative=(), show_default=_default),
        result_action="return_value",
        print_error=False,
        exit_on_error=False,
    )
    _add(app, "train", "warren.cli.commands.train:train", _RUNS)
    app.command(_runs())
    app.command(_checkpoints())
    _add(app, "export", "warren_up.export:export", _RUNS)
    _add(app, "metrics", "warren.metrics.command:metrics", _RUNS)
    _add(app, "tensorboard", "warren.metrics.tensorboard:tensorboard", _RUNS)
    _add(app, "trajectories", "warren.cli.commands.replay:trajectories", _RUNS)
    _add(app, "replay", "warren.cli.commands.replay:replay", _RUNS)
    _add(app, "workers", "warren.cli.commands.cluster:workers", _SYSTEM)
    _add(app, "queues", "warren.cli.commands.cluster:queues", _SYSTEM)
    app.command(_dead_letters())
    _add(app, "schema", "warren.cli.commands.schema:schema", _SYSTEM)
    _add(app, "doctor", "warren.cli.commands.doctor:doctor", _SYSTEM)
    app.command(_environments())
    app.command(_data())
    for name, plugin in plugins().items():
        _add(app, name, plugin.value, _PROGRAMS)
    app.register_install_completion_command(group=_OPTIONS)  # pyright: ignore[reportUnknownMemberType]
    return app


def run(tokens: Sequence[str]) -> object:
    """Run the command that these words name; what it returns.

    Raises `ConfigurationError` for a command that is not there, `CycloptsError` for its arguments.
    """
    app = build()
    command = tokens[0] if tokens else ""
    if command and command not in app:
        near = get_close_matches(command, list(app), n=1)
        raise ConfigurationError(
            f"There is no command {command!r}",
            hint=f"Did you mean `warren {near[0]}`?" if near else "`warren --help` lists them all.",
        )
    return app(tokens)


def _runs() -> App:
    runs = App(name="runs", help=_RUNS_HELP, help_format="plaintext", group=_RUNS)
    for name in ("ls", "show", "cancel", "delete"):
        _add(runs, name, f"warren.cli.commands.runs:{name}", _RUNS)
    return runs


def _checkpoints() -> App:
    checkpoints = App(
        name="checkpoints", help=_CHECKPOINTS_HELP, help_format="plaintext", group=_RUNS
    )
    for name in ("ls", "download"):
        _add(checkpoints, name, f"warren.cli.commands.checkpoints:{name}", _RUNS)
    return checkpoints


def _dead_letters() -> App:
    letters = App(
        name="dead-letters", help=_DEAD_LETTERS_HELP, help_format="plaintext", group=_SYSTEM
    )
    for name in ("ls", "show", "republish", "drop"):
        _add(letters, name, f"warren.cli.commands.dead_letters:{name}", _SYSTEM)
    return letters


def _environments() -> App:
    """Run by the package of the env worker, which a laptop may lack."""
    environments = App(
        name="env", help=_ENVIRONMENTS_HELP, help_format="plaintext", group=_PROGRAMS
    )
    _add(environments, "check", "warren_env_worker.check.command:check", _PROGRAMS)
    return environments


def _data() -> App:
    data = App(name="data", help=_DATA_HELP, help_format="plaintext", group=_PROGRAMS)
    _add(data, "prepare", "warren_env_worker.data.command:prepare", _PROGRAMS)
    return data


def _add(app: App, name: str, target: str, group: Group) -> None:
    app.command(target, name=name, help=docstring(target), group=group)


def _default(default: object) -> str | None:
    """How a default is shown; None where it says nothing."""
    if default is None or default is False or default == ():
        return None
    values = cast("tuple[object, ...]", default if isinstance(default, tuple) else (default,))
    return ", ".join(map(str, values))


def _version() -> str:
    from warren.version import __version__

    return f"warren {__version__}"
