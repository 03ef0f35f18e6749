"""Files and folders that a page names exist, and so do the pages that it links to."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/*.md", "*/README.md", "tests/*/README.md")
    for page in ROOT.glob(pattern)
    if page.name != "CHANGELOG.md"
)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"`((?:[\w.*-]+/)*[\w.*-]*(?:\.py|/))`")
_LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([^)]+))?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
SURFACE = Path(__file__).with_name("cli_surface.txt").read_text().splitlines()
COMMANDS = {line.removeprefix("warren ").partition("  ")[0] for line in SURFACE}
_COMMAND = re.compile(r"(?:`|^ *)warren ([a-z][a-z-]*)(?: ([a-z-]+))?", re.MULTILINE)
_TAGS = {"sft/", "evaluation/"}
"""Beginnings of metrics, not folders."""
_READERS_OWN = re.compile(r"[Pp]ut this into `([^`]+)`")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def is_there(path: str, page: Path) -> bool:
    """From the root, from the page's folder, or from the package in that folder."""
    packages = page.parent.glob("warren*/")
    return any(any(folder.glob(path)) for folder in (ROOT, page.parent, *packages))


@pages
def test_the_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    own = set(_READERS_OWN.findall(text))
    named = set(_PATH.findall(_FENCED.sub("", text))) - own - _TAGS
    assert [path for path in sorted(named) if not is_there(path, page)] == []


@pages
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = _LINK.findall(_FENCED.sub("", page.read_text()))
    assert [link for link in links if not leads_somewhere(page, *link)] == []


@pages
def test_the_commands_that_a_page_names_exist(page: Path) -> None:
    named = set(_COMMAND.findall(page.read_text()))
    assert [words for words in sorted(named) if not is_command(*words)] == []


def is_command(name: str, follows: str) -> bool:
    """A group that takes nothing itself must be followed by one of its commands."""
    is_group = any(command.startswith(f"{name} ") for command in COMMANDS)
    takes_any = not is_group or any(line.startswith(f"warren {name}  ") for line in SURFACE)
    return name in COMMANDS and (takes_any or not follows or f"{name} {follows}" in COMMANDS)


def leads_somewhere(page: Path, path: str, anchor: str) -> bool:
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not anchor or anchor in map(anchor_of, _HEADING.findall(target.read_text()))


def anchor_of(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
