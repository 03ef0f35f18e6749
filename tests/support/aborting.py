"""An environment whose process would abort while its interpreter ends, as threads of some libraries do."""

import atexit
import os

from tests.support.environments import Letters

atexit.register(os.abort)


class Aborting(Letters):
    name = "aborting"
