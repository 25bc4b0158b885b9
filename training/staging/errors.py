"""What can go wrong while staging."""


class StagingError(Exception):
    """Staging cannot go on; the message says what happened and what to do. What was fetched is kept."""


class Interrupted(Exception):
    """The connection ended early or the service asked to come back later: worth another attempt."""
