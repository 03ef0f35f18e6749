"""What an environment tells of itself, for who waits for it and for who asks later."""

import asyncio

from warren_env_worker.host.protocol import Description


class Greeting:
    def __init__(self) -> None:
        self.description: Description | None = None
        self._awaited: asyncio.Future[Description] | None = None

    async def heard(self) -> Description:
        """Raises what it failed with."""
        if self._awaited is None:
            self._awaited = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._awaited)

    def tell(self, description: Description) -> None:
        self.description = description
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(description)

    def fail(self, error: Exception) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(error)
