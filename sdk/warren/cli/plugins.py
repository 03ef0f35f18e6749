"""Commands that other packages add by entry points; one named `env check` stands below `env`.

A command X (or X-worker) of ours needs the extra X; a command without an extra of its own, such as
`up`, puts several parts together and needs `all`.
"""

from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, metadata

from warren.version import install_extra

GROUP = "warren.commands"
RUN_GROUP = "warren.run_commands"
"""Of commands that `warren --help` shows beside those for runs."""
DISTRIBUTION = "warren-rl"
EXTRAS = {
    "env": "env",
    "data": "env",
    "export": "gpu",
    "ors-server": "env",
    "tensorboard": "tensorboard",
}
"""Of commands that are not named as their extra."""


def plugins(group: str = GROUP) -> dict[str, EntryPoint]:
    """By the name of the command; the first one wins, as on `sys.path`."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, point)
    return dict(sorted(found.items()))


def install_command(command: str) -> str | None:
    """What installs the packages that a command needs; None where it is not from a plugin."""
    if command in EXTRAS:
        return install_extra(EXTRAS[command])
    points = {name.partition(" ")[0]: point for name, point in plugins().items()}
    if (point := points.get(command)) is None:
        return None
    distribution = point.dist.name if point.dist else DISTRIBUTION
    if distribution != DISTRIBUTION:
        return f"pip install {distribution}"
    extra = command.removesuffix("-worker")
    return install_extra(extra if extra in _extras() else "all")


def _extras() -> list[str]:
    try:
        return metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return []
