"""Reasons for which a switch refuses a packet, with the indices of the P4 counter ``refused``."""

from enum import IntEnum


class Reason(IntEnum):
    """A reason to refuse a packet: the index of its counter cell, and the byte in a packet-in."""

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
    """The exception by which the model drops a packet for ``reason``."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.name)
        self.reason = reason
