"""Checksums (behavioral-model, src/bm_sim/checksums.cpp)."""

from p4reduce.dataplane.interpreter.evaluate import Scope
from p4reduce.dataplane.interpreter.hashing import calculate
from p4reduce.dataplane.interpreter.phv import Phv
from p4reduce.dataplane.interpreter.trace import ChecksumUpdated, ChecksumVerified, Listener
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.model.externs import Checksum


def verify_checksums(program: Program, phv: Phv, listener: Listener | None) -> bool:
    """Whether every checksum that is to be verified, and whose header is there, is right."""
    right = True
    for checksum in program.checksums:
        if not checksum.verify or checksum.target.header not in phv.valid or not _applies(checksum, phv):
            continue
        computed = calculate(program, program.calculations[checksum.calculation], phv)
        found = phv.bits(checksum.target)
        right = right and computed == found
        if listener is not None:
            listener(ChecksumVerified(checksum.name, computed, found))
    return right


def update_checksums(program: Program, phv: Phv, listener: Listener | None) -> None:
    """Stores every checksum that is to be updated, also into an invalid header, as BMv2 does."""
    for checksum in program.checksums:
        if checksum.update and _applies(checksum, phv):
            value = calculate(program, program.calculations[checksum.calculation], phv)
            phv.store(checksum.target, value)
            if listener is not None:
                listener(ChecksumUpdated(checksum.name, value))


def _applies(checksum: Checksum, phv: Phv) -> bool:
    return checksum.condition is None or Scope(phv).truth(checksum.condition)
