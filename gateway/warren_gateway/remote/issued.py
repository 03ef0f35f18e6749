"""What was shown to an owner's remote workers, and so what they may answer.

A worker may publish only what follows from an episode that came to it: the same run, episode, attempt
and spec. The spec names the policy, its weights and its limits, so nobody can change what a sampler
loads or whose model it uses. The newest are remembered. An answer to a forgotten one is refused; its
message was not acked, comes again, and is shown again.

What nobody can read may be given up, as it came and by nobody else, so it is remembered by its bytes.
"""

import hashlib
from collections import OrderedDict

from warren_schemas.envelope import Item
from warren_schemas.episode import EpisodeEnded, EpisodeSpec, Generate, StartEpisode, Step
from warren_schemas.group_scoring import GroupScored, ScoreGroup

MAX_ISSUED = 65_536

OfEpisode = StartEpisode | Step | Generate | EpisodeEnded | ScoreGroup | GroupScored
"""A group that is compared counts as an episode of its own."""

_Key = tuple[str, str | None, str | None, int]


def of_episode(item: Item) -> OfEpisode | None:
    return item if isinstance(item, OfEpisode) else None


class Issued:
    """Shared by all sessions of a gateway."""

    def __init__(self, *, max_issued: int = MAX_ISSUED) -> None:
        self._max_issued = max_issued
        self._specs: OrderedDict[_Key, bytes] = OrderedDict()
        self._unreadable: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def note(self, owner: str, item: OfEpisode) -> None:
        key = _key(owner, item)
        self._specs[key] = _digest(item.spec)
        self._specs.move_to_end(key)
        if len(self._specs) > self._max_issued:
            self._specs.popitem(last=False)

    def covers(self, owner: str, item: OfEpisode) -> bool:
        return self._specs.get(_key(owner, item)) == _digest(item.spec)

    def note_unreadable(self, owner: str, body: bytes) -> None:
        """A message, or an item alone, that is not valid."""
        key = owner, _digest_of(body)
        self._unreadable[key] = None
        self._unreadable.move_to_end(key)
        if len(self._unreadable) > self._max_issued:
            self._unreadable.popitem(last=False)

    def covers_unreadable(self, owner: str, body: bytes) -> bool:
        return (owner, _digest_of(body)) in self._unreadable


def _key(owner: str, item: OfEpisode) -> _Key:
    envelope = item.envelope
    return owner, envelope.run, envelope.episode, envelope.attempt


def _digest(spec: EpisodeSpec) -> bytes:
    """Without what changes from one worker to the next."""
    constant = spec.model_copy(update={"n_recoveries_left": 0})
    return _digest_of(constant.model_dump_json().encode())


def _digest_of(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()
