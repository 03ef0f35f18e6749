"""What an episode knows of itself, and what it may ask for."""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from warren.host_services.cells import CellResult, SandboxFailed
from warren.host_services.protocol import HostServices, SandboxSession
from warren.host_services.reply import Reply
from warren.host_services.settings import SandboxSettings
from warren.host_services.verdict import AnswerForm, Verdict, VerificationFailed
from warren_schemas.isolation.agent_box import Box

DEFAULT_SANDBOX = SandboxSettings()


@dataclass(frozen=True)
class Context:
    """Where chance and data of one episode come from; equal again when the episode is rebuilt."""

    seed: int
    """Own to the task, same for all members of a group: between 0 and 2^63 - 1."""
    split: str = "train"
    index: int = 0
    """Number of the task in the run, counted from 0 without end."""
    member: int = 0
    """Which episode of its group this is."""
    level: int | None = None
    """How hard the task is to be, counted from 0; None where the run has no curriculum of levels."""
    tool_format: str | None = None
    """How the run wants calls of tools written; None: as the environment says."""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, compare=False)
    """Values of the secrets that the run names, from the env worker's environment variables."""
    max_box: Box | None = field(default=None, compare=False)
    """The most that the program of an agent gets here, by the operator's policy; None: its class decides."""
    host_services: HostServices | None = field(default=None, repr=False, compare=False)
    """What sandboxes and the verifier are asked of; None where nobody offers them."""

    @classmethod
    def derive(cls, seed: int, split: str = "train", index: int = 0, member: int = 0) -> "Context":
        """The context of the `index`-th task of a run, or a group, with this seed."""
        return cls(_mix(seed, split, index), split, index, member)

    @cached_property
    def rng(self) -> random.Random:
        """Same numbers for every member of the group: for the task and the start state."""
        return random.Random(self.seed)

    @cached_property
    def member_rng(self) -> random.Random:
        """Other numbers for each member: for noise that should differ within a group."""
        return random.Random(_mix(self.seed, "member", self.member))

    def demonstration_rng(self, turn: int) -> random.Random:
        """What `demonstrate` gets at this turn: other numbers for each member and turn."""
        return random.Random(_mix(self.seed, "demonstrate", self.member, turn))

    def python(
        self,
        code: str,
        *,
        sandbox: SandboxSettings = DEFAULT_SANDBOX,
        limit_s: float | None = None,
    ) -> Reply[CellResult]:
        """Run Python that a policy wrote, in the session that this episode has with these settings: `await` it in an
        `async` method, `.wait()` for it in one that blocks.

        Variables are kept from call to call, unless the tier is `http`. A cell may run for `limit_s`, and never longer
        than the settings say. Its result is a status and what it printed, which is text for the policy and decides no
        reward. Raises `SandboxFailed` where no sandbox works, with what each kind lacks.
        """
        return self._offered(SandboxFailed).python(code, sandbox, limit_s)

    def sandbox(
        self, settings: SandboxSettings = DEFAULT_SANDBOX, *, image: str | None = None
    ) -> SandboxSession:
        """A session of one's own, which begins to start now and ends with the episode, or when it is closed.

        With an image, in a container of that, and otherwise as the settings say. Raises `ValueError` where they say
        what has no effect with one.
        """
        offered = self._offered(SandboxFailed)
        return offered.sandbox(settings if image is None else settings.in_image(image))

    def verify(self, answer: str, gold: str, form: AnswerForm | None = None) -> Reply[Verdict]:
        """Hold a mathematical answer against the right one, as the environment `math` does; `await` it, or `.wait()`.

        With a form, `answer` may be all of a policy's words: what is marked as the answer counts. Raises `TaskError`
        for a right answer that nothing can be compared with, `VerificationFailed` where the verifier could not tell.
        """
        return self._offered(VerificationFailed).verify(answer, gold, form)

    def _offered(self, error: type[Exception]) -> HostServices:
        if self.host_services is None:
            from warren.version import install_extra

            raise error(
                "this episode has no sandbox or verifier: env workers provide them, and so does"
                f" warren.testing.play where it is installed ({install_extra('env')})"
            )
        return self.host_services


def _mix(*parts: int | str) -> int:
    """A number from 0 to 2^63 - 1 that depends on every part."""
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1
