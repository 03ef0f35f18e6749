"""`client.adapters` without `await`; see `warren.adapters`."""

from os import PathLike

from warren.adapters import handle as asynchronous
from warren.connection.loop_thread import LoopThread
from warren.records import RECONNECT_S
from warren_schemas.files import FolderView
from warren_schemas.http import AdapterView


class Adapters:
    def __init__(self, thread: LoopThread, adapters: asynchronous.Adapters) -> None:
        self._thread = thread
        self._adapters = adapters

    def upload(
        self,
        folder: str | PathLike[str],
        name: str,
        *,
        base_model: str | None = None,
        reconnect_s: float = RECONNECT_S,
    ) -> AdapterView:
        """Upload a LoRA as PEFT saves it; both files are checked here first."""
        asked = self._adapters.upload(folder, name, base_model=base_model, reconnect_s=reconnect_s)
        return self._thread.call(asked)

    def all(self) -> tuple[AdapterView, ...]:
        """Every version that you may use, newest first."""
        return self._thread.call(self._adapters.all())

    def get(self, reference: str) -> AdapterView:
        """`NAME`, `OWNER/NAME` or either with `@DIGEST`; without a digest the newest version."""
        return self._thread.call(self._adapters.get(reference))

    def download(
        self, reference: str, to: str | PathLike[str], *, reconnect_s: float = RECONNECT_S
    ) -> FolderView:
        """Fetch it into a new folder, as PEFT loads it; an interrupted download is resumed."""
        asked = self._adapters.download(reference, to, reconnect_s=reconnect_s)
        return self._thread.call(asked)

    def share(self, reference: str, user: str | None = None) -> AdapterView:
        """Let a user, or everybody (None), use it with all its versions."""
        return self._thread.call(self._adapters.share(reference, user))

    def unshare(self, reference: str, user: str | None = None) -> AdapterView:
        """Stop sharing it with a user, or with everybody (None)."""
        return self._thread.call(self._adapters.unshare(reference, user))

    def delete(self, reference: str) -> tuple[str, ...]:
        """Delete a version, or all of a name; their references."""
        return self._thread.call(self._adapters.delete(reference))
