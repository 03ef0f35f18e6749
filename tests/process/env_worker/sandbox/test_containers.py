"""Sandboxes in containers, up to the engine's program: a program of ours stands for it."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.serviced_environments import MARK, a_name, become, pids_called

from warren.environment import ConfigError
from warren.host_services import SandboxFailed, SandboxLimits, SandboxSettings
from warren_env_worker.permissions.granting import granted
from warren_env_worker.permissions.permissions import TRUSTED, Permissions
from warren_env_worker.sandbox import containers
from warren_env_worker.sandbox.container_session import ContainerSandbox
from warren_env_worker.sandbox.opening import Sandboxes
from warren_env_worker.sandbox.plan import limits_as_text
from warren_schemas.operator_policy import OperatorPolicy

pytestmark = several_waits

SETTINGS = SandboxSettings.model_validate(
    {"image": "python:3.12", "tier": "docker", "limits": {"memory_mib": 100, "processes": 5}}
)
ENGINE = """#!{python}
import os, sys
if sys.argv[1] == "kill":
    sys.exit("no such container")
at = sys.argv.index("python:3.12")
with open({log!r}, "w") as file:
    file.write("\\n".join(sys.argv[1:at + 1]))
if {pulled!r}:
    os.execv("{python}", ["python3", *sys.argv[at + 1:]])
sys.exit("Unable to find image 'python:3.12' locally")
"""

DAEMON = """#!{python}
import os, signal, subprocess, sys
verb, *rest = sys.argv[1:]
def pid_of(name):
    return os.path.join({folder!r}, name)
if verb == "kill":
    with open(pid_of(rest[-1])) as file:
        os.killpg(int(file.read()), signal.SIGKILL)
    sys.exit()
walls = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--as-pid-1", "--uid", "65534", "--gid", "65534"]
places = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--"]
program = ["/usr/bin/python3", *rest[rest.index("python:3.12") + 1:]]
container = subprocess.Popen([*walls, *places, *program], start_new_session=True)
with open(pid_of(rest[rest.index("--name") + 1]), "w") as file:
    file.write(str(container.pid))
sys.exit(container.wait())
"""
"""Its containers live in sessions of their own, as those of a daemon: the end of `docker run` ends none."""


def engine(folder: Path, monkeypatch: pytest.MonkeyPatch, *, pulled: bool) -> Path:
    """A `docker` that writes down its arguments, and runs what is to be run without any wall."""
    log, program = folder / "told", folder / "docker"
    program.write_text(ENGINE.format(python=sys.executable, log=str(log), pulled=pulled))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.defpath}")
    return log


async def test_the_engine_is_told_of_walls_and_limits_and_pulls_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = engine(tmp_path, monkeypatch, pulled=False)
    with pytest.raises(SandboxFailed, match=r"docker: .*Unable to find image"):
        await Sandboxes(SETTINGS, TRUSTED).open()
    told = log.read_text().splitlines()
    assert told[0] == "run"
    for option, value in [
        ("--network", "none"), ("--pull", "never"), ("--cap-drop", "ALL"), ("--memory", "100m"),
        ("--memory-swap", "100m"), ("--pids-limit", "13"), ("--user", "65534:65534"),
        ("--security-opt", "no-new-privileges"), ("--entrypoint", "python3"),
        ("--tmpfs", "/tmp:rw,nosuid,nodev,size=64m,mode=1777"),
    ]:  # fmt: skip
        assert told[told.index(option) + 1] == value
    assert {"--rm", "--read-only", "--interactive"} <= set(told)
    assert told[-1] == "python:3.12"
    assert not any(part.startswith("--volume") or part == "--privileged" for part in told)


async def test_an_engine_that_builds_no_walls_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(tmp_path, monkeypatch, pulled=True)
    with pytest.raises(SandboxFailed, match=r"docker: .*this is no container"):
        await Sandboxes(SETTINGS, TRUSTED).open()


async def test_a_cell_that_is_given_up_ends_with_its_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    program = engine(tmp_path, monkeypatch, pulled=True).with_name("docker")
    program.write_text(DAEMON.format(python=sys.executable, folder=str(tmp_path)))
    name, limits = a_name(), SandboxLimits(memory_mib=256)
    sandbox = ContainerSandbox("docker", SETTINGS.model_copy(update={"limits": limits}))
    cell = asyncio.create_task(sandbox.run(f"{MARK.format(name)}\nwhile True: pass", 3600.0))
    await become(lambda: bool(pids_called(name)))
    cell.cancel()
    await asyncio.wait([cell])
    await become(lambda: not pids_called(name))


async def test_without_an_engine_the_lack_of_both_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    settings = SandboxSettings(image="python:3.12")
    with pytest.raises(SandboxFailed, match="podman: podman is not installed; docker: docker is"):
        await Sandboxes(settings, TRUSTED).open()


def test_the_engine_gets_no_credential_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(tmp_path, monkeypatch, pulled=True)
    monkeypatch.setenv("WARREN_BROKER_URL", "amqp://user:password@host")
    monkeypatch.setenv("DOCKER_HOST", "unix:///somewhere")
    variables = containers.plan("docker", SETTINGS, "a").variables
    assert variables["DOCKER_HOST"] == "unix:///somewhere"
    assert not [name for name in variables if name.startswith("WARREN")]


def test_only_images_that_the_operator_lists_are_run() -> None:
    policy = OperatorPolicy.model_validate({"sandbox": {"images": ["python:3.12"]}})
    permissions = granted(policy, spec("cells")).permissions
    assert Sandboxes(SETTINGS, permissions).settings.image == "python:3.12"
    with pytest.raises(ConfigError, match=r"image: python:3\.12 is not allowed"):
        Sandboxes(SETTINGS, Permissions())
    own = SandboxSettings.model_validate(
        {"image": "python:3.12", "python": "/opt/python", "limits": {"memory_mib": 100}}
    )
    assert Sandboxes(own, permissions).settings.python == "/opt/python", "it is the image's own"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tier": "docker"}, "image: needed for the tier docker"),
        ({"tier": "monty", "image": "a"}, "image: has no effect with the tier monty"),
        ({"image": "a", "libraries": "/opt/lib"}, "libraries: has no effect with an image"),
        ({"image": "--privileged"}, "image"),
        ({"image": "a b"}, "image"),
        ({"image": ""}, "image"),
        ({"image": "a", "python": '["sh", "-c", "id"]'}, "python: with an image"),
        ({"image": "a", "python": "-c"}, "python: with an image"),
        ({"image": "a", "python": "$(id)"}, "python: with an image"),
        ({"image": "a", "python": "python3\n"}, "python: with an image"),
        ({"image": "a", "python": ""}, "python: with an image"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        SandboxSettings.model_validate(given)


@pytest.mark.parametrize(("name", "told"), [("podman", '["null"]'), ("docker", "null")])
def test_the_interpreter_is_one_program_however_the_engine_reads_it(
    name: containers.Engine, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(tmp_path, monkeypatch, pulled=True).with_name(name).touch(0o755)
    settings = SETTINGS.model_copy(update={"python": "null"})
    command = containers.plan(name, settings, "a").program(3)
    assert command[command.index("--entrypoint") + 1] == told


def test_the_limits_within_leave_the_number_of_processes_to_the_engine() -> None:
    told = limits_as_text(SETTINGS, disk="/tmp", n_processes=1 << 15)
    assert '"RLIMIT_NPROC": 32768' in told
    assert '"n_processes": 5' in told
