"""From the parts of an upload to a file of a version: checked anew as a whole, whatever the parts were said to be."""

import hashlib
from collections.abc import Iterator, Mapping

from warren_gateway.datasets import folder
from warren_gateway.datasets.folder import Folder, StoredFile
from warren_gateway.datasets.problems import WrongUpload
from warren_schemas.datasets.conversations import BadRow
from warren_schemas.datasets.rows import Columns, DatasetKind, WrongLine, checked
from warren_schemas.http import DatasetSplit, UploadedFile

_READ_BYTES = 1024 * 1024


def check_part(data: bytes, kind: DatasetKind, first_line: int) -> None:
    """Raises `WrongUpload` unless these are whole lines of rows; lines are counted from `first_line`."""
    if not data.endswith(b"\n"):
        raise WrongUpload("a part of a file must hold whole lines, the last one with its line end")
    number = first_line
    try:
        for number, line in enumerate(data[:-1].split(b"\n"), first_line):
            checked(line, number, kind)
    except WrongLine as error:
        raise WrongUpload(str(error)) from error


def assemble(
    files: Folder, owner: str, dataset: str, file: UploadedFile, kind: DatasetKind
) -> DatasetSplit:
    """Write the split. Raises `WrongUpload`, `FilesUnavailable`, `FullFolder`."""
    digest, columns, n_bytes, n_rows = hashlib.sha256(), Columns(), 0, 0
    with files.writing(folder.split_file(dataset, file.split)) as written:
        for n_rows, line in enumerate(_lines(files, owner, file.sha256, kind), 1):
            try:
                columns.add(checked(line, n_rows, kind))
            except (WrongLine, BadRow) as error:
                told = str(error) if isinstance(error, WrongLine) else f"line {n_rows}: {error}"
                raise WrongUpload(f"{file.split}.jsonl, {told}") from error
            whole = line + b"\n"
            digest.update(whole)
            n_bytes += len(whole)
            written.write(whole)
    if (n_bytes, digest.hexdigest()) != (file.size_bytes, file.sha256):
        raise WrongUpload(
            f"{file.split}.jsonl has {n_bytes} bytes with the SHA-256 {digest.hexdigest()}, and should have"
            f" {file.size_bytes} with {file.sha256}; upload it again"
        )
    return DatasetSplit(
        name=file.split,
        sha256=file.sha256,
        size_bytes=n_bytes,
        n_rows=n_rows,
        columns=columns.described(),
    )


def _lines(files: Folder, owner: str, sha256: str, kind: DatasetKind) -> Iterator[bytes]:
    rest = b""
    for chunk in parts_of(files, owner, sha256):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        if len(rest) > kind.max_row_bytes:
            raise WrongUpload(f"a row has more than {kind.max_row_bytes} bytes")
    if rest:
        raise WrongUpload("the last line has no line end")


def parts_of(files: Folder, owner: str, sha256: str) -> Iterator[bytes]:
    """What was uploaded, piece by piece. Each part begins where the one before ends; others are left of an upload that was given up."""
    there, offset = set(files.names(folder.parts(owner, sha256))), 0
    while (part := folder.part(owner, sha256, offset)).rpartition("/")[2] in there:
        with files.reading(part) as file:
            before = offset
            while chunk := file.read(_READ_BYTES):
                offset += len(chunk)
                yield chunk
        if offset == before:
            return


def write_whole(
    uploads: Folder,
    owner: str,
    sha256: str,
    size_bytes: int,
    written: StoredFile,
    what: str,
    wrong: type[ValueError],
) -> None:
    """What was uploaded under this digest into a file that is called `what`. Raises `wrong` where it is something else,
    and what the folders raise."""
    digest, n_bytes = hashlib.sha256(), 0
    for chunk in parts_of(uploads, owner, sha256):
        digest.update(chunk)
        n_bytes += len(chunk)
        written.write(chunk)
    if (n_bytes, digest.hexdigest()) != (size_bytes, sha256):
        raise wrong(
            f"{what} has {n_bytes} bytes with the SHA-256 {digest.hexdigest()}, and should have"
            f" {size_bytes} with {sha256}; upload it again"
        )


def digest_of(sha256s: Mapping[str, str]) -> str:
    """Of a version, whose splits have these digests: SHA-256 of what `sha256sum` would say of its files."""
    lines = [f"{sha256s[split]}  {split}.jsonl\n" for split in sorted(sha256s)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
