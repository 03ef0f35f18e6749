"""Stands in for a child process and lets the zygote fork it; see `zygote`."""

import os
import socket

ZYGOTE_VARIABLE = "WARREN_TEST_ZYGOTE"


def main() -> None:
    fd = int(os.environ["WARREN_CHILD_FD"])
    with socket.socket(socket.AF_UNIX) as zygote:
        zygote.connect(os.environ[ZYGOTE_VARIABLE])
        socket.send_fds(zygote, [b"."], [fd])
        os.close(fd)
        zygote.recv(1)  # ends with the child, however that ends


if __name__ == "__main__":
    main()
