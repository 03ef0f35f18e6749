"""What is said of the environment: its splits, their tasks, and whether it demonstrates.

All of it is told by the beginning of an episode of each split. A split that nobody named and that can't be begun is not
listed: an environment with files has those splits for which there are files.
"""

from dataclasses import dataclass

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed
from warren_env_worker.http_server.bodies import Begin
from warren_env_worker.http_server.settings import HttpServerSettings
from warren_env_worker.served_episode import Episode, EpisodeFailed
from warren_schemas.config import Sampling
from warren_schemas.episode import EpisodePurpose, EpisodeSpec, PolicyRef, TaskRef
from warren_schemas.ids import GroupId, ModelId, new_id

PROTOCOL = "warren-env/1"
_USUAL_SPLITS = ("train", "test")
_THEIRS = PolicyRef(model=ModelId("theirs"), base_model="theirs", min_version=0)
"""Whoever asks has the policy."""


@dataclass(frozen=True, slots=True)
class Described:
    name: str
    version: str
    splits: dict[str, int | None]
    """Number of tasks; None where it makes its own."""
    can_demonstrate: bool

    def told(self) -> dict[str, object]:
        return {
            "protocol": PROTOCOL,
            "name": self.name,
            "version": self.version,
            "splits": self.splits,
        }


def spec_of(
    name: str, begin: Begin, settings: HttpServerSettings, *, demonstrates: bool
) -> EpisodeSpec:
    level = begin.level
    return EpisodeSpec(
        group=GroupId(new_id("served")),
        member=begin.member,
        purpose=EpisodePurpose.DEMONSTRATE if demonstrates else EpisodePurpose.TRAIN,
        environment=name,
        environment_config={**settings.config, **begin.config},
        task=TaskRef(split=begin.split, index=begin.task, shuffle=False, level=level),
        seed=begin.seed,
        policy=_THEIRS,
        sampling=Sampling(),
        max_turns=settings.max_turns,
    )


async def describe(name: str, host: Host, settings: HttpServerSettings) -> Described:
    """Raises `EpisodeFailed` where no split can be begun, or one that was named."""
    described = await host.start()
    if described.sees_tokens:
        raise EpisodeFailed(f"{name} reads tokens, and clients of this protocol send words alone")
    if described.compares_groups:
        raise EpisodeFailed(
            f"{name} compares the episodes of a group (score_group), and over this protocol each is rewarded by itself"
        )
    found: dict[str, int | None] = {}
    failed: EpisodeFailed | None = None
    for split in settings.splits or described.splits or _USUAL_SPLITS:
        try:
            found[split] = (await _begun(name, host, settings, split)).n_tasks
        except EpisodeFailed as error:
            failed = failed or error
            if settings.splits or described.splits:
                raise
    if failed is not None and not found:
        raise failed
    can_demonstrate = await _demonstrates(name, host, settings, next(iter(found)))
    return Described(name, described.version, found, can_demonstrate)


async def _demonstrates(name: str, host: Host, settings: HttpServerSettings, split: str) -> bool:
    try:
        begun = await _begun(name, host, settings, split, demonstrates=True)
    except EpisodeFailed:
        return False
    return begun.demonstration is not None


async def _begun(
    name: str, host: Host, settings: HttpServerSettings, split: str, *, demonstrates: bool = False
) -> Observed:
    spec = spec_of(name, Begin(split=split, seed=0), settings, demonstrates=demonstrates)
    episode = Episode(host, spec)
    try:
        return await episode.begin()
    finally:
        episode.close()
