"""The files of what users bring in sealed folders: adapters and base models."""

from warren_gateway.datasets.problems import FilesUnavailable
from warren_gateway.folders import UnreadableFolder, read_folder
from warren_schemas.files import FolderView, NamedFolder


async def sealed_folder(digest: str, url: str, what: str) -> FolderView:
    """What the seal of a version says; `what` the folder is of, for messages. Raises `FilesUnavailable`."""
    try:
        return await read_folder(NamedFolder(digest, url))
    except UnreadableFolder as error:
        raise FilesUnavailable(str(error), what) from error
