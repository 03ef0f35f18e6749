"""A shell script that calls the model with curl."""

from pathlib import Path

from two_digits import TwoDigitsProgram


class WithCurl(TwoDigitsProgram):
    name = "with_curl"
    command = ("bash", str(Path(__file__).with_name("with_curl.sh")))
