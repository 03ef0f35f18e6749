"""A secret of a run that an environment's foreign package finds in a variable, as a judge's key."""

from collections.abc import Mapping, Sequence

from tests.support.hosting import Player
from tests.support.interacting import spec

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Observed, Refused
from warren_schemas.episode import FailureKind

VARIABLE, NAME, KEY = "JUDGE_KEY", "JUDGE", "key-0123456789"
SECRET = f"WARREN_SECRET_{NAME}"
"""Of the env worker."""
GIVEN = {VARIABLE: NAME}


async def begun(
    host: Host, of: Mapping[str, object], secrets: Sequence[str] = (), **config: object
) -> Answer:
    return await Player(
        host, spec(environment_config={**of, **config}, secrets=tuple(secrets))
    ).reset()


def asked(answer: Answer) -> str:
    assert isinstance(answer, Observed), answer
    return answer.messages[-1][1]


async def require_refused(host: Host, of: Mapping[str, object], own: str) -> None:
    """`own` is a variable that the package's program sets itself."""
    for secrets, variables, reason in (
        ((), GIVEN, f"variables: {NAME} is none of the environment's `secrets`; list it there"),
        ((NAME,), {own: NAME}, f"variables: {own} is set for each episode"),
    ):
        answer = await begun(host, of, secrets, variables=variables)
        assert isinstance(answer, Refused), answer
        assert answer.kind is FailureKind.ENVIRONMENT_CONFIG
        assert reason in answer.reason
