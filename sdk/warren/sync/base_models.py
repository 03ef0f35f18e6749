"""`client.base_models` without `await`; see `warren.base_models`."""

from os import PathLike

from warren.base_models import handle as asynchronous
from warren.connection.loop_thread import LoopThread
from warren.records import RECONNECT_S
from warren_schemas.files import FolderView
from warren_schemas.http import BaseModelView


class BaseModels:
    def __init__(self, thread: LoopThread, base_models: asynchronous.BaseModels) -> None:
        self._thread = thread
        self._base_models = base_models

    def upload(
        self, folder: str | PathLike[str], name: str, *, reconnect_s: float = RECONNECT_S
    ) -> BaseModelView:
        """Upload a base model as transformers saves it; its files are checked here first."""
        asked = self._base_models.upload(folder, name, reconnect_s=reconnect_s)
        return self._thread.call(asked)

    def all(self) -> tuple[BaseModelView, ...]:
        """Every version that you may use, newest first."""
        return self._thread.call(self._base_models.all())

    def get(self, reference: str) -> BaseModelView:
        """`NAME`, `OWNER/NAME` or either with `@DIGEST`; without a digest the newest version."""
        return self._thread.call(self._base_models.get(reference))

    def download(
        self, reference: str, to: str | PathLike[str], *, reconnect_s: float = RECONNECT_S
    ) -> FolderView:
        """Fetch it into a new folder, as transformers loads it; an interrupted download is resumed."""
        asked = self._base_models.download(reference, to, reconnect_s=reconnect_s)
        return self._thread.call(asked)

    def share(self, reference: str, user: str | None = None) -> BaseModelView:
        """Let a user, or everybody (None), use it with all its versions."""
        return self._thread.call(self._base_models.share(reference, user))

    def unshare(self, reference: str, user: str | None = None) -> BaseModelView:
        """Stop sharing it with a user, or with everybody (None)."""
        return self._thread.call(self._base_models.unshare(reference, user))

    def delete(self, reference: str) -> tuple[str, ...]:
        """Delete a version, or all of a name; their references."""
        return self._thread.call(self._base_models.delete(reference))
