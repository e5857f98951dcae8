"""What a command raises when it cannot do its work."""

OWN_FAILURE = 125
CANNOT_RUN = 126
NOT_FOUND = 127


class HakmemError(Exception):
    """A failure to tell the user in one line, perhaps with an exit status of its own."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class NoSamplesError(HakmemError):
    """A profile has nothing to show."""
