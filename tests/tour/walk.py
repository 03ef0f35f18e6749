"""A reader who follows one page, block by block, in a fresh home and a folder of their own.

The blocks are run as they stand. What differs from a reader's machine, and nothing else:

- `HOME` is a fresh folder, and the gateway and TensorBoard listen on free ports (`terminal`);
- servers' addresses are those of private servers: of `amqp://…`, `postgresql://…` and
  `http://127.0.0.1:8642`;
- `RUN` is the id of the newest run, and `my_module:MyEnv` is `stand_ins.py`;
- `make install` is done already; `make demo` gets `ARGS="--steps 2"`; the other targets of `make` are
  long runs of their own, of which those of the CI are in `.ci/run`: they must exist;
- a training of `examples/guess.yaml` with no limit set is cancelled once it has begun, and finished where the reader
  follows it: to its end it is trained by `tests/system/test_examples.py`.

Commands that serve run in the background until the end of the page, or until one takes their place;
none of them may have ended by itself. A command of ours that is silent for longer than
`MAX_SILENCE_S` fails the tour.
"""

import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processes import free_port
from tests.tour import promises
from tests.tour.pages import ROOT, Block
from tests.tour.rules import Deed, Task, lines_of, task_of
from tests.tour.snippets import check_classes, check_config, check_entry_point
from tests.tour.terminal import MAX_SILENCE_S, Terminal, is_overloaded

SERVING = re.compile(r"(?:warren (up|gateway|gpu-worker|env-worker)|(tensorboard))\b")
READY = {
    "up": r"Ready\.",
    "env-worker": r"serves ",
    "gpu-worker": r"sampling from ",
    "tensorboard": r"http://",
}
FIRST = {"up": ("up", "gateway", "gpu-worker", "env-worker"), "gateway": ("up", "gateway")}
"""What can't go on beside a new one."""
OURS = ("warren", "make demo", "python")
RUN_ID = re.compile(r"\brun_[0-9a-f]{12,}\b")
LONG_RUN = "examples/guess.yaml"
TRAINING = r"reward \(sampled\)"
PROGRESS = r"\b[1-9]\d*/\d+\b"
"""Steps done of steps to do, beside a bar or in a line."""


@dataclass
class Walk:
    folder: Path
    """Where the reader is."""
    home: Path
    servers: dict[str, str]
    """From `amqp` and `postgresql` to the address of a private one."""
    report: Callable[[str], None]
    port: int = field(default_factory=free_port)
    preamble: list[str] = field(default_factory=list[str])
    serving: list[tuple[str, Terminal]] = field(default_factory=list[tuple[str, Terminal]])
    done: list[Terminal] = field(default_factory=list[Terminal])
    sources: list[str] = field(default_factory=list[str])
    """The page's Python so far: later classes leave out imports."""

    def follow(self, blocks: list[Block]) -> None:
        tasks = [task_of(block) for block in blocks]
        try:
            for number, task in enumerate(tasks):
                self.report(f"{task.block}: {task.deed}")
                self._do(task, tasks[number + 1 :])
            self._stop(tuple(kind for kind, _ in self.serving))
        finally:
            for _, terminal in self.serving:
                terminal.kill()

    def _do(self, task: Task, later: list[Task]) -> None:
        block = task.block
        match task.deed:
            case Deed.FILE:
                (self.folder / task.file).write_text(block.text)
                for command in task.then:
                    self._run(command)
            case Deed.SHELL:
                if re.search(r"second terminal|another terminal|new terminal", block.before):
                    self.preamble = [line for line in self.preamble if line.startswith("source")]
                if "RabbitMQ" in block.before:
                    self.preamble.append(f"export WARREN_BROKER_URL={self.servers['amqp']}")
                self._type(lines_of(block))
            case Deed.SCRIPT:
                self._script(block)
            case Deed.CLASSES:
                check_classes(self.folder, block, self.sources, [t.block for t in later])
            case Deed.CONFIG:
                check_config(block)
            case Deed.ENTRY_POINT:
                check_entry_point(block)
            case Deed.OUTPUT:
                self._compare(block)
        if block.language == "python":
            self.sources.append(block.text)
        if task.then or task.deed in (Deed.SHELL, Deed.SCRIPT):
            for words in promises.printed(block.after):
                assert words in self.done[-1].shown, self.done[-1].shown

    def _type(self, lines: list[str]) -> None:
        for number, line in enumerate(lines):
            if line.startswith(("source ", "export ", "cd ")):
                self._run(line)
                self.preamble.append(self._here(line))
            elif found := SERVING.search(line):
                self._serve(found[1] or found[2], line)
            elif line.startswith("make "):
                self._make(line)
            elif line.startswith("warren train"):
                self._train(line, comes_back=any("--follow" in each for each in lines[number:]))
            elif "--follow" in line:
                self._watch(line)
            else:
                self._run(line)

    def _run(self, line: str, *, expects: tuple[int, ...] = (0,)) -> Terminal:
        terminal = self._start(line)
        code = terminal.end()
        assert code in expects, f"`{line}` ended with {code}:\n{terminal.shown[-3000:]}"
        self._finished(terminal)
        return terminal

    def _train(self, line: str, *, comes_back: bool) -> None:
        """To its end, unless the reader goes away and comes back, or it would take too long."""
        if comes_back:
            terminal = self._start(line)
            terminal.wait_for(RUN_ID.pattern)
            terminal.wait_for(PROGRESS)
            assert terminal.press_ctrl_c() in (0, 130)
            assert "goes on" in terminal.wait_for(r"Detached; run \S+ goes on")[0]
            self._finished(terminal)
        elif LONG_RUN in line and "limits." not in line:
            terminal = self._start(line)
            terminal.wait_for(PROGRESS)
            self._cancel(terminal)
        else:
            self._run(line)

    def _watch(self, line: str) -> None:
        """Until it samples and trains, whereupon somebody asks it to finish."""
        terminal = self._start(line)
        terminal.wait_for(TRAINING)
        self._run("warren runs finish last")
        assert terminal.end() == 0, terminal.shown[-3000:]
        assert "reward after" in terminal.shown, terminal.shown[-3000:]
        self._finished(terminal)

    def _cancel(self, terminal: Terminal) -> None:
        """The newest run, from another terminal; what follows it ends by that."""
        self._run("warren runs cancel last")
        terminal.end()
        assert "cancel" in terminal.shown.lower(), terminal.shown[-3000:]
        self._finished(terminal)

    def _script(self, block: Block) -> None:
        path = self.folder / f"line_{block.line}.py"
        path.write_text(self._here(block.text))
        terminal = self._start(f"python {path.name}")
        if LONG_RUN in block.text:
            terminal.wait_for(r"StepCompleted")
            self._cancel(terminal)
        else:
            assert terminal.end() == 0, terminal.shown[-3000:]
            self._finished(terminal)

    def _make(self, line: str) -> None:
        target = line.split()[1]
        if target == "demo":
            self._run(f"{line.partition('#')[0]} ARGS='--steps 2'")
        elif target != "install":
            self._run(f"make --dry-run {target}")

    def _serve(self, kind: str, line: str) -> None:
        self._stop(FIRST.get(kind, ()))
        terminal = self._start(line)
        self.serving.append((kind, terminal))
        if kind in READY:
            terminal.wait_for(READY[kind])
        if kind in ("up", "gateway"):
            self._until_listening(terminal)
            self._note_silence(terminal)

    def _until_listening(self, terminal: Terminal) -> None:
        while terminal.is_running:
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError(f"`{terminal.command}` has ended:\n{terminal.shown}")

    def _stop(self, kinds: tuple[str, ...]) -> None:
        """By Ctrl-C, what was started last first."""
        for kind, terminal in reversed(self.serving):
            if kind in kinds:
                assert terminal.is_running, f"`{terminal.command}` ended:\n{terminal.shown[-3000:]}"
                code = terminal.press_ctrl_c()
                told = f"`{terminal.command}` ended with {code}:\n{terminal.shown[-3000:]}"
                assert kind == "tensorboard" or code in (0, 130), told
        self.serving = [each for each in self.serving if each[0] not in kinds]

    def _compare(self, block: Block) -> None:
        shown = self.done[-1].shown
        promises.assert_shown(block.text, shown)
        promises.assert_rewards(block.before, shown)
        taken_s = time.monotonic() - self.done[-1].begun_s
        if told := promises.time_told(block.before, taken_s):
            self.report(f"{block}: {told}")

    def _start(self, line: str) -> Terminal:
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("WARREN_", "TOUR_"))}
        variables |= {
            "HOME": str(self.home),
            "TERM": "xterm",
            "WARREN_URL": f"http://127.0.0.1:{self.port}",
            "TOUR_PORT": str(self.port),
            "TOUR_TENSORBOARD_PORT": str(free_port()),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONUNBUFFERED": "1",
        }
        return Terminal("\n".join([*self.preamble, self._here(line)]), variables, self.folder)

    def _here(self, text: str) -> str:
        """The text with the addresses of this place."""
        text = re.sub(r"amqp://[^\s'\"]+", lambda _: self.servers["amqp"], text)
        text = re.sub(r"postgresql://[^\s'\"]+", lambda _: self.servers["postgresql"], text)
        text = text.replace("http://127.0.0.1:8642", f"http://127.0.0.1:{self.port}")
        return re.sub(r"\bRUN\b", lambda _: self._newest_run(), text)

    def _newest_run(self) -> str:
        runs = [run for terminal in self.done for run in RUN_ID.findall(terminal.shown)]
        assert runs, "no run was shown yet"
        return runs[-1]

    def _finished(self, terminal: Terminal) -> None:
        self.done.append(terminal)
        self._note_silence(terminal)

    def _note_silence(self, terminal: Terminal) -> None:
        last = terminal.command.splitlines()[-1]
        silent_s = terminal.longest_silence_s
        self.report(f"    {last}: silent for {silent_s:.1f} s at most")
        if last.startswith(OURS) and silent_s > MAX_SILENCE_S:
            told = f"`{last}` showed nothing for {silent_s:.1f} s"
            assert is_overloaded(), told
            self.report(f"    {told}, on a machine with too much to do")


def reader_of_the_readme(folder: Path) -> None:
    """A clone of the repository, as far as commands see it."""
    for entry in ROOT.iterdir():
        if entry.name not in (".git",):
            (folder / entry.name).symlink_to(entry)


def give_stand_ins(folder: Path) -> None:
    """The modules that a page calls `my_module` and `my_package.my_module`."""
    source = Path(__file__).with_name("stand_ins.py")
    (folder / "my_package").mkdir(exist_ok=True)
    for target in (folder / "my_module.py", folder / "my_package" / "my_module.py"):
        shutil.copy(source, target)
