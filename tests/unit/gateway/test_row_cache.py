"""Copies of data sets that lie elsewhere have a bound."""

import hashlib
from pathlib import Path

from warren_gateway.datasets.folder import Folder, split_file
from warren_gateway.datasets.row_files import RowFiles
from warren_schemas.http import DatasetSplit

LINES = {name: f'{{"a": "{name * 990}"}}\n'.encode() for name in "abcd"}
"""Of 1,000 bytes each."""


def split_of(name: str) -> DatasetSplit:
    sha256 = hashlib.sha256(LINES[name]).hexdigest()
    return DatasetSplit(name="train", sha256=sha256, size_bytes=1000, n_rows=1, columns={})


async def test_what_was_used_least_recently_goes_unless_it_is_in_use(tmp_path: Path) -> None:
    elsewhere = Folder("memory://row-cache")
    for name, line in LINES.items():
        elsewhere.write(split_file(name, "train"), line)
    files = RowFiles(elsewhere, tmp_path, most_bytes=2500)

    def there() -> set[str]:
        return {path.name for path in tmp_path.iterdir()}

    def kept() -> str:
        return "".join(name for name in LINES if f"{split_of(name).sha256}.jsonl" in there())

    (tmp_path / f".{split_of('d').sha256}.0123").write_bytes(bytes(3000))  # of a copy that died
    in_use = await files.opened("a", split_of("a"))
    assert (kept(), len(there())) == ("a", 1)
    await files.opened("b", split_of("b"))
    await files.opened("c", split_of("c"))
    assert kept() == "ac"
    await files.opened("d", split_of("d"))
    assert kept() == "ad"
    assert in_use.row(0) == {"a": "a" * 990}
    del in_use
    await files.opened("b", split_of("b"))
    assert kept() == "bd"
