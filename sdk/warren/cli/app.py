"""The command tree, by name only: a command's module is imported when the command runs.

Invariant: building the tree and printing its help loads neither pydantic, aiohttp nor torch. Help
texts are read from the sources (`helptext`), never by importing them.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint
from typing import cast

from cyclopts import App, Group, Parameter

from warren.cli.commands.runs.serve import serve
from warren.cli.help_panels import Paragraphs
from warren.cli.helptext import docstring, exported, module_docstring
from warren.cli.plugins import GROUP, RUN_GROUP, plugins
from warren.errors import ConfigurationError

_RUNS = Group("Runs", sort_key=1)
_SYSTEM = Group("System", sort_key=2)
_ACCESS = Group("Access", sort_key=3)
_PROGRAMS = Group("Programs", sort_key=4)

_OPTIONS = Group("Options", sort_key=5)

_INTRODUCTION = """Reinforcement learning of language-model agents, as a service.

For example:
    warren demo                        watch a tiny model learn a game
    warren up                          start everything on this machine
    warren train examples/guess.yaml   submit a run and follow it

Environment: WARREN_URL and WARREN_API_KEY choose the gateway, WARREN_HOME the folder for files.
"""


def build() -> App:
    """The whole tree. Commands return their exit code."""
    app = App(
        name="warren",
        help=_INTRODUCTION,
        help_format="plaintext",
        help_formatter=Paragraphs(),
        version=_version,
        group_commands=_OPTIONS,
        version_flags=["--version", "-V"],
        default_parameter=Parameter(negative=(), show_default=_default),
        result_action="return_value",
        print_error=False,
        exit_on_error=False,
    )
    _add(app, "train", "warren.cli.commands.runs.train:train", _RUNS)
    _add(app, "sft", "warren.cli.commands.runs.sft:sft", _RUNS)
    _add(app, "infer", "warren.cli.commands.runs.infer:infer", _RUNS)
    app.command(_subcommands("runs", "warren.cli.commands.runs.runs", _RUNS))
    app.command(_subcommands("config", "warren.cli.commands.runs.config", _RUNS))
    app.command(_subcommands("checkpoints", "warren.cli.commands.runs.checkpoints", _RUNS))
    app.command(_subcommands("eval", "warren.cli.commands.runs.evaluations", _RUNS))
    app.command(_serve())
    app.command(_subcommands("data", "warren.cli.commands.runs.data", _RUNS))
    app.command(_subcommands("adapters", "warren.cli.commands.models.adapters", _RUNS))
    app.command(_subcommands("base-models", "warren.cli.commands.models.base_models", _RUNS))
    app.command(_subcommands("models", "warren.cli.commands.models.models", _RUNS))
    _add(app, "logs", "warren.cli.commands.runs.logs:logs", _RUNS)
    _add(app, "metrics", "warren.cli.commands.runs.metrics:metrics", _RUNS)
    _add(app, "tensorboard", "warren.cli.commands.runs.tensorboard:tensorboard", _RUNS)
    _add(app, "trajectories", "warren.cli.commands.runs.trajectories:trajectories", _RUNS)
    _add(app, "replay", "warren.cli.commands.runs.replay:replay", _RUNS)
    app.command(_subcommands("workers", "warren.cli.commands.system.workers", _SYSTEM))
    _add(app, "queues", "warren.cli.commands.system.queues:queues", _SYSTEM)
    app.command(_subcommands("dead-letters", "warren.cli.commands.system.dead_letters", _SYSTEM))
    app.command(_subcommands("users", "warren.cli.commands.access.users", _ACCESS))
    app.command(_subcommands("keys", "warren.cli.commands.access.keys", _ACCESS))
    for name in ("share", "unshare", "shares"):
        _add(app, name, f"warren.cli.commands.access.sharing:{name}", _ACCESS)
    _add(app, "usage", "warren.cli.commands.access.usage:usage", _ACCESS)
    _add(app, "whoami", "warren.cli.commands.access.audit:whoami", _ACCESS)
    _add(app, "audit", "warren.cli.commands.access.audit:audit", _ACCESS)
    _add(app, "schema", "warren.cli.commands.system.schema:schema", _SYSTEM)
    _add(app, "doctor", "warren.cli.commands.system.doctor:doctor", _SYSTEM)
    for group, panel in ((RUN_GROUP, _RUNS), (GROUP, _PROGRAMS)):
        for name, plugin in plugins(group).items():
            _add_plugin(app, name, plugin, panel)
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
    return app(_with_default(tokens))


def _with_default(tokens: Sequence[str]) -> list[str]:
    """`warren workers --json` is `warren workers ls --json`; its help stays that of all its commands."""
    if not tokens or tokens[0] != "workers":
        return list(tokens)
    command, *rest = tokens
    is_bare = not rest or (rest[0].startswith("-") and rest[0] not in ("-h", "--help"))
    return [command, "ls", *rest] if is_bare else [command, *rest]


def _subcommands(name: str, module: str, group: Group) -> App:
    """The functions of a module's `__all__`, `set_` as `set`; its docstring is the help of all together."""
    app = App(name=name, help=module_docstring(module), help_format="plaintext", group=group)
    for function in exported(module):
        _add(app, function.rstrip("_"), f"{module}:{function}", group)
    return app


def _serve() -> App:
    """`serve NAME` by itself, and `serve ls` and `serve rm` below it."""
    module = "warren.cli.commands.runs.serving"
    app = _subcommands("serve", module, _RUNS)
    app.default(serve)
    return app


def _add_plugin(app: App, name: str, plugin: EntryPoint, group: Group) -> None:
    """A command of another package; above `env check` stands `env`, with the module's docstring."""
    above, _, name = name.rpartition(" ")
    if above and above not in app:
        text = module_docstring(plugin.module)
        app.command(App(name=above, help=text, help_format="plaintext", group=group))
    _add(app[above] if above else app, name, plugin.value, group)


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
