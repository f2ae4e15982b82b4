"""Runs a frame through a program in a process whose address space has only single free pages, gigabytes apart.

``python -m tests.support.executors.fragmented program.json 00ff`` runs as a child process, since LLVM ends a process in
which it cannot link.
"""

import ctypes
import sys
from typing import Final

from p4switch.device import Device
from p4switch.program import load_program

_PAGE: Final = 4096
_GAP: Final = 3 << 30
"""Distance in bytes between free pages; beyond the reach of 31-bit offsets."""
_GAPS: Final = 64
_FAILED: Final = ctypes.c_void_p(-1).value
_NO_ACCESS, _PRIVATE_ANONYMOUS_NORESERVE = 0, 0x4022

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _reserve(size: int) -> int:
    address: int | None = _libc.mmap(None, size, _NO_ACCESS, _PRIVATE_ANONYMOUS_NORESERVE, -1, 0)
    if address is None or address == _FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    return address


def fragment() -> None:
    """Leaves only single free pages far apart: the system searches from the top of the address space."""
    reserved = [_reserve(_GAP) for _ in range(_GAPS)]
    while _reserve(_PAGE) > min(reserved):
        pass  # fills the gaps between the libraries
    for address in reserved:
        _libc.munmap(address + _GAP // 2, _PAGE)


def main() -> None:
    """Loads the program before fragmenting, as in a switch that compiles at its first packet."""
    device = Device(load_program(sys.argv[1]))
    fragment()
    print(device.inject(1, bytes.fromhex(sys.argv[2])))


if __name__ == "__main__":
    main()
