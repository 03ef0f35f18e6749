"""An environment for Harbor's trials that is a box on this machine, in the Python where Harbor is installed.

The machine's `/usr` stands for the image that the task names; the steps of the task's Dockerfile after its `FROM` are taken in
the box.
"""

import importlib
import io
import os
import shlex
import sys
import tarfile
from pathlib import Path
from typing import Any

base: Any = importlib.import_module("harbor.environments.base")
capabilities: Any = importlib.import_module("harbor.environments.capabilities")
replay: Any = importlib.import_module("harbor.environments.snowflake.dockerfile_replay")

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
boxes: Any = importlib.import_module("box")

ROOT = (None, "root", 0, "0")
SETTINGS: dict[str, Any] = {}
"""Of this process's episode: `isolation`, `has_network`, `skip_run_lines`."""


class BoxEnvironment(base.BaseEnvironment):
    _box: Any = None
    _folder = "/"
    _persistent_env: Any

    @staticmethod
    def type() -> str:
        return "warren-box"

    @property
    def capabilities(self) -> Any:
        return capabilities.EnvironmentCapabilities(disable_internet=not SETTINGS["has_network"])

    def _validate_definition(self) -> None:
        if (self.environment_dir / "docker-compose.yaml").exists():
            raise ValueError("it is made of several containers; a box is one: it needs docker")

    async def start(self, force_build: bool) -> None:
        self._box = await boxes.Box.begun(SETTINGS["isolation"])
        dockerfile = self.environment_dir / "Dockerfile"
        if dockerfile.exists():
            await self._replay(replay.plan_from_dockerfile(dockerfile))
        self._folder = self.task_env_config.workdir or self._folder
        await self.exec(f"mkdir -p {shlex.quote(self._folder)}", cwd="/")
        await self.ensure_dirs(self._mount_targets())
        await self._upload_environment_dir_after_start()

    async def _replay(self, plan: Any) -> None:
        for step in plan.steps:
            if isinstance(step, replay.CopyStep):
                await self._copy(step)
            elif is_of_a_workdir(step) or not SETTINGS["skip_run_lines"]:
                await self._run_line(step)
        self._folder = plan.workdir
        self._persistent_env = {**plan.env, **self._persistent_env}

    async def _run_line(self, step: Any) -> None:
        done = await self.exec(step.command, cwd=step.workdir, env=step.env, user=step.user)
        if done.return_code != 0:
            said = last_line(done.stderr or done.stdout or "")
            raise base.SandboxBuildFailedError(f"{said} (RUN {step.command})")

    async def _copy(self, step: Any) -> None:
        for source in step.sources:
            for path in self._found(source):
                into = step.dest_is_dir or (await self.is_dir(step.dest))
                target = os.path.join(step.dest, path.name) if into else step.dest
                await self._upload(path, step.dest if is_a_folder(path) else target)
                if step.chmod:
                    await self.exec(f"chmod -R {step.chmod} {shlex.quote(target)}", cwd="/")

    def _found(self, source: str) -> list[Path]:
        """Of the build's context, and nothing above it."""
        found = sorted(self.environment_dir.glob(source.removeprefix("./").lstrip("/") or "."))
        top = self.environment_dir.resolve()
        if not found or not all(path.resolve().is_relative_to(top) for path in found):
            raise base.SandboxBuildFailedError(f"COPY {source}: it is not in environment/")
        return found

    async def stop(self, delete: bool) -> None:
        if self._box is not None:
            await self._box.close()

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await self._upload(Path(source_path), target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._upload(Path(source_dir), target_dir)

    async def _upload(self, source: Path, target: str) -> None:
        if is_a_folder(source):
            await self._begun.put(boxes.packed_as(".", source), target)
        else:
            folder, name = os.path.split(target)
            await self._begun.put(boxes.packed_as(name, source), folder or "/")

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        write(Path(target_path), await self._begun.content(source_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        unpack(await self._begun.packed(source_dir), Path(target_dir))

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> Any:
        if self._resolve_user(user) not in ROOT:
            raise RuntimeError(f"a box has no user {self._resolve_user(user)}: it needs docker")
        line = ["/bin/bash", "-c", command]
        variables, folder = self._merge_env(env), cwd or self._folder
        ended = await self._begun.run(line, folder, variables, timeout_sec)
        if ended.is_late:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        output, errors = (printed.decode(errors="replace") for printed in ended[1:3])
        return base.ExecResult(stdout=output, stderr=errors, return_code=ended.status)

    @property
    def _begun(self) -> Any:
        if self._box is None:
            raise boxes.BoxLost("the box was not begun")
        return self._box


def is_of_a_workdir(step: Any) -> bool:
    return step.workdir == "/" and step.command.startswith("mkdir -p ")


def last_line(printed: str) -> str:
    """Whole, so that a secret in it can be taken out."""
    return next((line for line in reversed(printed.splitlines()) if line.strip()), "it failed")


def is_a_folder(path: Path) -> bool:
    return path.is_dir()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def unpack(packed: bytes, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(folder, filter=base.transfer_tar_filter)
