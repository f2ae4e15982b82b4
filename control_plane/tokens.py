"""Tokens: what a child and its parent show each other in every packet of a (job, epoch), so that strangers are known.

A token is the keyed BLAKE2 hash (RFC 7693) of job, epoch, generation and the two names, cut to the 24 bits that the
header has for it: whoever has the key gets the same tokens in any order, and who has not can tell none from others.
"""

import secrets
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from p4reduce.control_plane.plans.plan import Plan
from p4reduce.workers.settings import TOKEN_BITS

KEY_BYTES: Final = 32


def drawn_key() -> bytes:
    """A key that nobody can foresee, of the operating system's random numbers: where packets leave the process."""
    return secrets.token_bytes(KEY_BYTES)


def seeded_key(seed: int) -> bytes:
    """A key that is the same for a seed: for virtual time, where the same run is to give the same bytes."""
    return blake2b(f"p4reduce tokens of seed {seed}".encode(), digest_size=KEY_BYTES).digest()


def tokens_of(plan: Plan, key: bytes) -> Mapping[tuple[str, str], int]:
    """A token (1 .. 2**24 - 1) for each pair of neighbours of a plan, by the names in ``Plan.edges``.

    Two hosts that are each other's child and parent (of an all-to-all, or of a ring of two) have one.
    """
    tokens: dict[tuple[str, str], int] = {}
    for a, b in plan.edges:
        if (b, a) not in tokens:
            tokens[a, b] = _token(f"{plan.job}/{plan.epoch}/{plan.generation}/{a}/{b}", key)
    return tokens


def _token(what: str, key: bytes) -> int:
    digest = blake2b(what.encode(), key=key, digest_size=8).digest()
    return 1 + int.from_bytes(digest, "big") % ((1 << TOKEN_BITS) - 1)
