"""What `warren doctor` looks at. A check never raises: whatever it finds is its answer."""

import asyncio
import importlib.util
import shutil
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import urlsplit

from warren.client import Client, connect
from warren.display.words import counted
from warren.errors import ConfigurationError, GatewayError, GatewayUnreachable, WarrenError
from warren.settings import warren_home
from warren.version import IN_CLONE, __version__, install_extra

MIN_PYTHON = (3, 11)
MIN_FREE_GIB = 5.0
CONNECT_S = 3.0
TORCH_S = 90.0
_EXTRAS = {"gateway": "aiohttp_sse", "env": "pyarrow", "gpu": "torch"}
"""An extra, and a module that only it brings."""
_ASK_TORCH = (
    "import torch; print(torch.__version__, '·',"
    " ', '.join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))"
    " or 'no GPU: fine for small models')"
)


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Not needed by everybody."""
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    level: Level
    found: str
    mend: str | None = None


async def run_checks(url: str | None, api_key: str | None, broker: str | None) -> list[Check]:
    """All checks, in the order in which people should read them."""
    torch = asyncio.create_task(_torch())
    checks = [_python(), *_extras(), _disk()]
    checks += await _gateway(url, api_key)
    if broker is not None:
        checks.append(await _broker(broker))
    checks.append(await torch)
    return checks


def _python() -> Check:
    found = f"{sys.version.split()[0]}, warren {__version__}"
    if sys.version_info >= MIN_PYTHON:
        return Check("python", Level.OK, found)
    return Check("python", Level.BAD, found, "Install Python 3.11 or newer.")


def _extras() -> list[Check]:
    return [_extra(extra, module) for extra, module in _EXTRAS.items()]


def _extra(extra: str, module: str) -> Check:
    if importlib.util.find_spec(module) is not None:
        return Check(f"[{extra}]", Level.OK, "installed")
    command = f"{install_extra(extra)}, if this machine should run that part"
    return Check(f"[{extra}]", Level.NOTE, "not installed", command)


def _disk() -> Check:
    home = warren_home()
    place = next(path for path in (home, *home.parents) if path.exists())
    free_gib = shutil.disk_usage(place).free / 2**30
    found = f"{free_gib:.0f} GiB free in {home}"
    if free_gib >= MIN_FREE_GIB:
        return Check("disk", Level.OK, found)
    return Check("disk", Level.BAD, found, "Free some space, or point WARREN_HOME elsewhere.")


async def _gateway(url: str | None, api_key: str | None) -> list[Check]:
    try:
        client = connect(url, api_key, timeout_s=5.0, retry_s=0.0)
    except ConfigurationError as error:
        return [Check("gateway", Level.BAD, error.message, error.hint)]
    async with client:
        reachable = await _reachable(client)
        if reachable.level is Level.BAD:
            return [reachable]
        key = await _key(client)
        return (
            [reachable, key] if key.level is Level.BAD else [reachable, key, await _workers(client)]
        )


async def _reachable(client: Client) -> Check:
    try:
        health = await client.health()
    except (GatewayUnreachable, GatewayError) as error:
        return Check(
            "gateway", Level.BAD, error.message, "Start one with `warren up`, or set WARREN_URL."
        )
    found = f"{client.settings.url}: {health.status}, broker {health.broker}, store {health.store}"
    if health.version == __version__:
        return Check("gateway", Level.OK, found)
    mend = f"The gateway is version {health.version}: check that out {IN_CLONE}, and pip install ."
    return Check("gateway", Level.NOTE, found, mend)


async def _key(client: Client) -> Check:
    try:
        n_runs = len(await client.runs())
    except WarrenError as error:
        return Check("api key", Level.BAD, error.message, error.hint)
    return Check(
        "api key",
        Level.OK,
        f"accepted (from {client.settings.key_source}); {counted(n_runs, 'run')}",
    )


async def _workers(client: Client) -> Check:
    try:
        roles = sorted(worker.role for worker in await client.workers())
    except WarrenError as error:
        return Check("workers", Level.BAD, error.message, error.hint)
    found = (
        ", ".join(f"{roles.count(role)} {role}" for role in dict.fromkeys(roles)) or "none online"
    )
    missing = sorted({"environment", "sampler", "trainer"} - set(roles))
    if not missing:
        return Check("workers", Level.OK, found)
    mend = f"No {' and no '.join(missing)}: start `warren gpu-worker` and `warren env-worker`."
    return Check("workers", Level.NOTE, found, mend)


async def _broker(url: str) -> Check:
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or (5671 if parts.scheme == "amqps" else 5672)
    except ValueError:
        host, port = None, 0
    if host is None or parts.scheme not in ("amqp", "amqps"):
        return Check(
            "broker", Level.BAD, "that is no AMQP URL", "Write it like amqp://user:password@host"
        )
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        reason = getattr(error, "strerror", None) or "no answer"
        return Check("broker", Level.BAD, f"{host}:{port}: {reason}", "Is RabbitMQ running there?")
    writer.close()
    return Check("broker", Level.OK, f"something listens at {host}:{port}")


async def _torch() -> Check:
    """Asked in a process of its own: importing torch takes seconds and a broken one may crash."""
    try:
        version("torch")
    except PackageNotFoundError:
        mend = f"Only GPU workers need it: {install_extra('gpu')}"
        return Check("torch", Level.NOTE, "not installed", mend)
    return await _within(TORCH_S, _ask_torch())


async def _ask_torch() -> Check:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _ASK_TORCH,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, error = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return Check("torch", Level.OK, out.decode().strip())
    reason = (error.decode(errors="replace").strip().splitlines() or ["it crashed"])[-1]
    return Check("torch", Level.BAD, reason, "Reinstall it: pip install --force-reinstall torch")


async def _within(limit_s: float, check: Coroutine[None, None, Check]) -> Check:
    try:
        async with asyncio.timeout(limit_s):
            return await check
    except TimeoutError:
        return Check(
            "torch", Level.BAD, f"not imported within {limit_s:.0f} s", "Is the disk slow?"
        )
