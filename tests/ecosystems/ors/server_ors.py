"""A server of `ors-sdk`: `python server_ors.py PORT`, in the environment of `ors.txt`."""

import sys

from ors import Server
from vaults import Clock, Trouble, Vault

if __name__ == "__main__":
    Server([Vault, Clock, Trouble]).run(host="127.0.0.1", port=int(sys.argv[1]))
