"""Errors about data sets; each says what and why."""

from warren_schemas.http import UploadProgress


class NoSuchDataset(LookupError):
    """There is none of this reference, or it is somebody else's."""


class WrongUpload(ValueError):
    """What was uploaded is not what it should be."""


class OutOfOrder(Exception):
    """A part of a file came that does not follow what is there."""

    def __init__(self, progress: UploadProgress) -> None:
        super().__init__(f"{progress.received_bytes} bytes of {progress.sha256} have come")
        self.progress = progress


class DatasetInUse(Exception):
    """It can't be deleted now."""


class FilesUnavailable(Exception):
    """The folder of data sets, or of adapters, can't be used, by whatever error of its file system."""

    def __init__(self, reason: str, what: str = "data sets") -> None:
        super().__init__(reason)
        self.folder = f"folder of {what}"


class FullFolder(FilesUnavailable):
    """There is no space for more."""


class UnusableDataset(Exception):
    """A config refers to no data set that its run could read; `path` is the key in the config."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
