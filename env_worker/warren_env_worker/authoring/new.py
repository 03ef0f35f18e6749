"""`warren env new`: a folder with an environment that can be checked, tested and trained on as it is.

Invariants: importing this module loads nothing heavy; nothing that exists is written over.
"""

from pathlib import Path

TEMPLATE = Path(__file__).with_name("template")
_FILES = {
    "environment.py.txt": "{name}.py",
    "test.py.txt": "test_{name}.py",
    "run.yaml.txt": "{name}.yaml",
    "README.md.txt": "README.md",
}


def new(name: str, /, *, folder: Path | None = None) -> None:
    """Make a folder with a new environment: the class, its test, a run's config and a README.

    It is a whole small one, to be replaced piece by piece.

    For example:
        warren env new my_env
        warren env new my_env --folder ~/environments/my_env

    Parameters
    ----------
    name
        What configs call it, which is the name of its module: lower-case letters, digits and _.
    folder
        Folder to make (default: NAME, in the current folder).
    """
    from warren.display.output import make_output

    made = (folder or Path(name)).expanduser()
    _require_usable(name, made)
    words = {"name": name, "class_name": _class_name(name)}
    made.mkdir(parents=True, exist_ok=True)
    for template, target in _FILES.items():
        _write(made / target.format(name=name), TEMPLATE / template, words)
    output = make_output()
    output.line(f"{made} holds a new environment. Next:")
    for command in (
        f"cd {made}",
        f"warren env check {name}:{words['class_name']}",
        "warren env test",
        f"warren up --env {name}:{words['class_name']}     # and in a second terminal:",
        f"warren train {name}.yaml",
    ):
        output.line(f"  {command}")


def _require_usable(name: str, folder: Path) -> None:
    import keyword
    import re
    from importlib.util import find_spec

    from warren.errors import ConfigurationError

    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name) or keyword.iskeyword(name):
        raise ConfigurationError(
            f"{name} can't be the name of a module",
            hint="Begin with a lower-case letter, and go on with letters, digits and _: warren env new my_env",
        )
    if find_spec(name) is not None and not (folder / f"{name}.py").exists():
        raise ConfigurationError(
            f"there is a module called {name} already", hint="Choose another name: my_env, say."
        )
    there = [each for each in _FILES.values() if (folder / each.format(name=name)).exists()]
    if there:
        raise ConfigurationError(
            f"{folder / there[0].format(name=name)} exists already",
            hint="Choose another name, or another --folder.",
        )


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _write(target: Path, template: Path, words: dict[str, str]) -> None:
    from string import Template

    text = Template(template.read_text(encoding="utf-8")).substitute(words)
    target.write_text(text, encoding="utf-8")
