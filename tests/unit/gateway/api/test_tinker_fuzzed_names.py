"""Names that are made of another tenant's: a little of what `make fuzz` asks."""

import random
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.fuzz.tenants.attacking import AT_ONCE, attacked
from tests.fuzz.tenants.mutations import MUTATIONS, Mutation, mutant
from tests.support.gateway import Gateway
from tests.support.tinker_tenants import BASE
from yarl import URL

NAME = "session_0192ab34cd56ef780192ab34cd56:train:0"
ALIKE = "session_1203ab45cd67ef891203ab45cd67:train:0"
N_ATTACKS, N_TOKENS = 500, 200


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_what_is_made_of_two_names_of_one_shape_differs_in_digits_alone(mutation: Mutation) -> None:
    for seed in range(200):
        one, other = (mutation(random.Random(seed), name, [name]) for name in (NAME, ALIKE))
        differing = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
        assert all(a.isdecimal() and b.isdecimal() for a, b in differing)


def test_the_same_seed_makes_the_same() -> None:
    made = [mutant(seed, NAME, [BASE]) for seed in range(1000)]
    assert made == [mutant(seed, NAME, [BASE]) for seed in range(1000)]
    assert len(set(made)) > 600
    assert all(made)


@pytest.mark.parametrize("budgets", [AT_ONCE], ids=[""])
async def test_names_made_of_another_tenants_are_nobodys_names(
    gateway: Gateway, tmp_path: Path
) -> None:
    told = await attacked(gateway, tmp_path, n_attacks=N_ATTACKS, seed=1)
    assert not told.findings
    assert told.n_attacks > 0.8 * N_ATTACKS
    assert {404, 410, 422} <= told.statuses.keys()


async def test_a_token_that_is_nearly_right_downloads_nothing(gateway: Gateway) -> None:
    grant = await gateway.services.tinker.downloads.grant("ann", session_id="session_1")
    async with gateway.nobody.get(f"/api/v1/downloads/{grant.token}") as response:
        assert response.status == 200
    for seed in range(1, N_TOKENS):
        token = quote(mutant(seed, grant.token, [BASE])[:1000], safe="", errors="surrogatepass")
        url = URL(f"{gateway.url}/api/v1/downloads/{token}", encoded=True)
        async with gateway.nobody.get(url) as response:
            assert response.status in (404, 405) or token == grant.token, token
