"""Users and keys over one store, and the shapes of callers."""

from dataclasses import dataclass, field

from sqlmodel import Session

from warren_gateway.access.caller import Caller, NotIdentified
from warren_gateway.access.callers import Callers
from warren_gateway.access.key import Key
from warren_gateway.access.keys import ApiKeys
from warren_gateway.access.users import Users
from warren_gateway.store.store import Store
from warren_gateway.store.tables import ApiKey
from warren_schemas.users.access import USER_SCOPES, CreateKey, KeyScope


@dataclass
class Access:
    store: Store
    callers: Callers = field(init=False)
    keys: ApiKeys = field(init=False)
    users: Users = field(init=False)

    def __post_init__(self) -> None:
        self.callers = Callers(self.store)
        self.keys = ApiKeys(self.store, self.callers)
        self.users = Users(self.store, self.callers)

    async def new_key(self, user: str) -> Key:
        """One that may do all that this user may; the user is made where there is none."""
        key = Key.new()
        await self.keys.add(key, user)
        return key

    async def expired_key(self, user: str) -> str:
        """One whose time is over."""
        made = await self.keys.create(ADMIN, CreateKey(user=user, lifetime_s=3600.0))
        await self.store.transact(lambda session: _expire(session, made.view.id))
        return made.key

    async def user_of(self, key: Key | str) -> str | None:
        """Whose key it is; None for one that is refused."""
        try:
            return (await self.callers.identify(str(key))).user
        except NotIdentified:
            return None

    async def refusal_of(self, key: Key | str) -> str:
        """Why it is refused."""
        try:
            await self.callers.identify(str(key))
        except NotIdentified as error:
            return str(error)
        raise AssertionError("it was taken")


def _expire(session: Session, key: str) -> None:
    row = session.get_one(ApiKey, key)
    row.expires_s = 1.0


ADMIN = Caller("local", "adminkey", frozenset(KeyScope))


def user(name: str, *scopes: KeyScope) -> Caller:
    return Caller(name, f"key-of-{name}", frozenset(scopes or USER_SCOPES))
