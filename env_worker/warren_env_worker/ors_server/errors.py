"""What a client is told: a status and one sentence."""

BUSY_S = 2
"""After so long a client may ask again."""


class OrsError(Exception):
    """With 429 and 503 the same request may go well a little later; `is_starting`: it surely will."""

    def __init__(self, status: int, detail: str, *, is_starting: bool = False) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.is_starting = is_starting

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Retry-After": str(BUSY_S)} if self.status in (429, 503) else {}
        return headers | ({"X-Backend-State": "starting"} if self.is_starting else {})
