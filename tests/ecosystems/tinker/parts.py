"""A gateway and a GPU worker as processes of their own on RabbitMQ, each of which can be killed and started again."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.deployment import Site
from tests.support.patience import PATIENCE_S
from tests.support.processes import wait_until
from tests.support.tinker import are_offered

GATEWAY, GPU = "gateway", "gpu"


@contextmanager
def parted(folder: Path, broker: str, base_model: str) -> Generator[Site]:
    """With this base model, as `--base-model` takes it."""
    site = Site(folder, broker, None)
    try:
        start(site, GATEWAY, "gateway", "--port", str(site.port))
        start(site, GPU, "gpu-worker", "--base-model", base_model, "--engine", "transformers")
        wait_until(
            lambda: are_offered(site.url, key_of(site)),
            site.processes[GPU],
            deadline_s=PATIENCE_S,
            log_path=site.log(GPU),
        )
        yield site
    finally:
        site.stop()


def key_of(site: Site) -> str:
    return f"tml-{(site.home / 'api-key').read_text().strip()}"


def start(site: Site, name: str, *arguments: str) -> None:
    site.start(name, *arguments)
    if name == GATEWAY:
        wait_until(
            site.is_listening,
            site.processes[name],
            deadline_s=PATIENCE_S,
            log_path=site.log(name),
        )


def restart(site: Site, name: str) -> None:
    site.processes[name].kill()
    site.processes[name].wait()
    start(site, name, *site.commands[name])
