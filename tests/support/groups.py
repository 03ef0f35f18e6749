"""Groups of episodes that have ended."""

from warren_gateway.coordinator.state.group_parts import PlayedTask
from warren_gateway.coordinator.state.groups import Group
from warren_schemas.episode import EpisodeEnded, EpisodePurpose
from warren_schemas.ids import GroupId


def group_of(*episodes: EpisodeEnded) -> Group:
    group = Group(
        id=GroupId("g"),
        number=0,
        purpose=EpisodePurpose.TRAIN,
        environment=0,
        task=PlayedTask(0),
        min_version=0,
        deadline_s=9.0,
        attempts=[1] * len(episodes),
    )
    for item in episodes:
        group.ended[item.spec.member] = item
    return group
