"""How many files a process that hosts episodes may have open."""

import resource

MAX_FILES = 65_536


def raise_open_files_limit() -> None:
    """Each episode takes some descriptors (a process takes four), and the usual limit is 1,024."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MAX_FILES if most == resource.RLIM_INFINITY else min(most, MAX_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, allowed), most))
