"""Commands that other packages add by the entry-point group `warren.commands`.

A command X (or X-worker) of ours needs the extra X; a command without an extra of its own, such as
`up`, puts several parts together and needs `all`.
"""

from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, metadata

GROUP = "warren.commands"
DISTRIBUTION = "warren-rl"
EXTRAS = {"env": "env", "data": "env", "export": "gpu", "tensorboard": "tensorboard"}
"""Commands of ours that another part runs, and its extra."""


def plugins() -> dict[str, EntryPoint]:
    """By the name of the command; the first one wins, as on `sys.path`."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, point)
    return dict(sorted(found.items()))


def install_command(command: str) -> str | None:
    """What installs the packages that a command needs; None where it is not from a plugin."""
    if command in EXTRAS:
        return f"pip install '{DISTRIBUTION}[{EXTRAS[command]}]'"
    point = plugins().get(command)
    if point is None:
        return None
    distribution = point.dist.name if point.dist else DISTRIBUTION
    if distribution != DISTRIBUTION:
        return f"pip install {distribution}"
    extra = command.removesuffix("-worker")
    return f"pip install '{DISTRIBUTION}[{extra if extra in _extras() else 'all'}]'"


def _extras() -> list[str]:
    try:
        return metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return []
