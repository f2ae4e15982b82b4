"""Why a switch refuses a packet. The numbers are those of the P4 counter ``refused``."""

from enum import IntEnum


class Reason(IntEnum):
    """Index of the counter cell, and the byte that a packet-in carries."""

    NOT_IPV4 = 1
    CHECKSUM = 2
    OPTIONS = 3
    TTL = 4
    NO_ROUTE = 5
    MALFORMED = 6
    JOB = 7
    PEER = 8
    TYPE = 9
    GENERATION = 10
    SEQ = 11
    KIND = 12
    DUPLICATE = 13
    RESULT = 14
    SOURCE = 16
    LATE = 17
    TOKEN = 18


class Refused(Exception):
    """Raised inside the model to drop a packet for ``reason``."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.name)
        self.reason = reason
