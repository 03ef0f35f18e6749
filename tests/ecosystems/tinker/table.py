"""The table of `docs/tinker.md`: what each public method of the SDK does, for each version that is tried.

    python -m tests.ecosystems.tinker.table PYTHON...

Each PYTHON has another version of the SDK; `make tinker-compat` makes them and runs this.
"""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.base_models import build_tiny
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.processes import end, free_port, spawn, wait_until

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "tinker.md"
BEGIN, END = "<!-- methods: made by `make tinker-compat` -->\n", "<!-- end of methods -->\n"
PROGRAM = Path(__file__).with_name("surface.py")
BASE = "warren/tiny"

Methods = Mapping[str, str]


@dataclass
class Up:
    """A deployment of one command, with the tiny model."""

    home: Path
    model: str
    port: int
    options: Sequence[str] = ()
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> str:
        return f"tml-{(self.home / 'api-key').read_text().strip()}"

    def start(self) -> None:
        log = self.home / "up.log"
        log.write_text("")
        command = [sys.executable, "-m", "warren", "up", "--port", str(self.port), "--home"]
        offered = ["--base-model", f"{BASE}={self.model}", "--engine", "transformers"]
        self.process = spawn([*command, str(self.home), *offered, *self.options], log_path=log)
        wait_until(
            lambda: "Ready" in log.read_text(),
            self.process,
            deadline_s=PATIENCE_S,
            log_path=log,
        )

    def stop(self) -> None:
        if self.process is not None:
            end(self.process, signal.SIGINT, grace_s=STOP_S)


@contextmanager
def deployed(folder: Path, model: str, *options: str) -> Generator[Up]:
    up = Up(folder, model, free_port(), options)
    try:
        up.start()
        yield up
    finally:
        up.stop()


def tried(up: Up, python: str) -> tuple[str, Methods]:
    """The version of this Python's SDK, and what its methods do."""
    names = up.home / "names" / "warren"
    names.mkdir(parents=True, exist_ok=True)
    if not (names / "tiny").exists():  # where the SDK looks for the tokenizer of this name
        (names / "tiny").symlink_to(up.model)
    told = subprocess.run(
        [str(Path(python).absolute()), str(PROGRAM), up.url, up.key, BASE],
        cwd=names.parent,
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE_S,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    found = json.loads(told.stdout.splitlines()[-1])
    return found["version"], found["methods"]


def written(by_version: Mapping[str, Methods]) -> str:
    """The table as text."""
    versions = list(by_version)
    names = sorted({name for methods in by_version.values() for name in methods})
    lines = [
        f"| method | {' | '.join(versions)} |",
        f"|---|{'---|' * len(versions)}",
        *(
            f"| `{n}` | {' | '.join(_cell(by_version[v].get(n)) for v in versions)} |"
            for n in names
        ),
    ]
    works = [sum(t == "works" for t in by_version[v].values()) for v in versions]
    sums = [f"{n} of {len(by_version[v])}" for n, v in zip(works, versions, strict=True)]
    return "\n".join([*lines, f"| works | {' | '.join(sums)} |", ""])


def _cell(told: str | None) -> str:
    if told is None:
        return "-"
    return "works" if told == "works" else "refused"


def cells(version: str) -> dict[str, str]:
    """What the page says of a version."""
    rows = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].splitlines()
    table = [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in rows]
    column = table[0].index(version)
    return {row[0]: row[column] for row in table[2:-1] if row[column] != "-"}


def main(pythons: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = str(build_tiny(BASE, Path(folder) / "models"))
        with deployed(Path(folder), model) as up:
            by_version = dict(tried(up, python) for python in pythons)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}{written(by_version)}{END}{after}")
    for version, methods in by_version.items():
        for name, told in methods.items():
            if told != "works":
                sys.stdout.write(f"{version} {name}: {told[:200]}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
