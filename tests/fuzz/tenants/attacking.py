"""One tenant asks with names that are made of another's, by every place that can hold a name.

Invariants: each is answered as the same made of a name of nobody is, and never with a failure of ours; nothing of the
tenant's is told, or moves.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.tenants.mutations import MOST_CHARS, mutant
from tests.support.gateway import Gateway
from tests.support.tinker_attacks import ATTACKED, Answer, Place, Requests, alike, places_of
from tests.support.tinker_tenants import FOLDER, SECRET, Tenant, everything, two_tenants

from warren_gateway.budgets.options import BudgetOptions

MEDIA_TYPES = ("application/json", "application/x-protobuf", "*/*", "text/html")
SAFE = ("/:", "", "/:?#&+;=@!$'()*, ")
"""What is left in a path as it is: names of several parts, of one, or what ends a path."""
MOST_IN_PATH = 1300
"""Characters; each may take six bytes, and a longer path is refused unread."""
AT_ONCE = BudgetOptions(requests_per_s_per_owner=1_000_000)
"""Who waits between requests would find no more."""


@dataclass
class Told:
    """What came of the attacks."""

    n_attacks: int = 0
    statuses: Counter[int] = field(default_factory=Counter[int])
    findings: list[str] = field(default_factory=list[str])


class Attacker:
    """Bob."""

    def __init__(self, gateway: Gateway, ann: Tenant, bob: Tenant) -> None:
        self._requests = Requests(gateway.bob, gateway.url, bob)
        self._ann, self._decoy = ann, ann.decoy()
        self.told = Told()

    async def attack(self, place: Place, kind: str, seed: int) -> None:
        """With what this seed makes of Ann's name of a kind, and of the same of nobody's."""
        stolen, nobodys = (_made(seed, kind, each) for each in (self._ann, self._decoy))
        if stolen == nobodys:
            return  # nothing of the name is left
        rng = random.Random(seed)
        safe, headers = rng.choice(SAFE), {"Accept": rng.choice(MEDIA_TYPES)}
        most = MOST_CHARS if place.in_body and place.route.has_body else MOST_IN_PATH
        answers = [
            await self._requests.send(
                place.route, *place.request(self._requests, name[:most], safe), headers
            )
            for name in (stolen, nobodys)
        ]
        await self._requests.undo(place)
        self._judge(f"{place} with {kind}, seed {seed}: {stolen[:200]!r}", *answers)

    def _judge(self, what: str, told: Answer, otherwise: Answer) -> None:
        self.told.n_attacks += 1
        self.told.statuses[told.status] += 1
        if alike(told) != alike(otherwise):
            self.told.findings.append(f"{what}: {told}, and to nobody's name {otherwise}")
        if told.status >= 500:
            self.told.findings.append(f"{what}: {told}")
        if SECRET in told.text or FOLDER in told.text:
            self.told.findings.append(f"{what} tells a secret: {told}")


def _made(seed: int, kind: str, of: Tenant) -> str:
    return mutant(seed, of.names[kind], list(of.names.values()))


async def attacked(gateway: Gateway, folder: Path, *, n_attacks: int, seed: int) -> Told:
    """With the names as they are, then with about so many made of them, as many in each place; the same seed asks the
    same of the same routes."""
    ann, bob = await two_tenants(gateway, folder)
    attacker, rng = Attacker(gateway, ann, bob), random.Random(seed)
    before = await gateway.store.transact(lambda s: everything(s, ann, bob))
    places = [place for route in ATTACKED for place in places_of(route, bob)]
    for place in places:
        for kind in place.kinds:
            await attacker.attack(place, kind, seed=0)
    for _ in range(n_attacks // len(places)):
        for place in places:
            kinds = rng.choice((place.kinds, place.kinds, tuple(ann.names)))
            await attacker.attack(place, rng.choice(kinds), rng.randrange(1, 2**32))
    after = await gateway.store.transact(lambda s: everything(s, ann, bob))
    told = attacker.told
    told.findings += [f"it was changed: {row}" for row in {*before} ^ {*after}]
    asked = await gateway.store.transact(lambda s: everything(s, bob, ann.decoy()))
    told.findings += [f"it came to Bob: {row}" for row in asked if SECRET in row or FOLDER in row]
    return told
