"""Where a server has the environment that was asked for without a name.

Servers of both packages answer a path without an environment's name by a redirect to that of their first environment.
Invariant: no server leads a request elsewhere. Of a redirect only the name is read, and asked is below the config's URL.
"""

import logging
import re
from collections.abc import Mapping

from yarl import URL

REDIRECTS = (307, 308)
"""Those that keep the method and the body: the request has not run."""
PLAIN = r"[A-Za-z0-9_][\w.-]{0,127}"
"""A part of a path, nothing that leads out of it."""

log = logging.getLogger(__name__)


def name_told(url: URL, path: str, headers: Mapping[str, str]) -> str | None:
    """The one in a redirect of `path` below `url` to NAME/path of the same server, which may know itself as the root
    behind a proxy; none in any other redirect."""
    try:
        there = url.join(URL(headers.get("Location", "")))
        is_here = there.origin() == url.origin()
    except ValueError:
        is_here, there = False, url
    below = there.raw_path.removeprefix(url.raw_path.rstrip("/"))
    found = re.fullmatch(rf"/({PLAIN})/{re.escape(path)}", below, re.ASCII)
    if found is None or not is_here:
        log.warning("%s leads %s elsewhere, which is not followed", url, path)
        return None
    return found[1]
