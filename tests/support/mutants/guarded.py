"""Executor whose buffers end at inaccessible pages: an access beyond a buffer ends the process."""

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p4switch import abi
from p4switch.compiler import CompiledExecutor
from p4switch.device import Device

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_PAGE = mmap.PAGESIZE


class Guarded:
    """A buffer of ``size`` bytes that ends where an inaccessible page begins."""

    def __init__(self, size: int) -> None:
        whole = -(-max(size, 1) // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, whole + _PAGE)
        self._all: NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        if _libc.mprotect(self._all.ctypes.data + whole, _PAGE, 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
        self.bytes = self._all[whole - size : whole]

    @property
    def address(self) -> int:
        """Address of the first byte."""
        return int(self.bytes.ctypes.data)


class GuardedExecutor(CompiledExecutor):
    """CompiledExecutor with guarded buffers. Frames may end just before the guard: LLVM's memcpy stays within."""

    def __init__(self, device: Device) -> None:
        super().__init__(device.code, device.state)
        self._device = device
        self._guarded_out = Guarded(device.out_bytes)
        self._out = self._guarded_out.bytes
        self._guarded_kept = Guarded(self._kept.size)
        self._kept = self._guarded_kept.bytes
        self._guarded_clone = Guarded(self._cloned.size)
        self._cloned = self._guarded_clone.bytes

    def ingress(self, frame: bytes, io: NDArray[np.int64], kept: object = None) -> Any:
        if isinstance(kept, np.ndarray):
            self._kept[:] = kept
        io[abi.KEPT_ADDRESS] = self._kept.ctypes.data
        came, phv = Guarded(len(frame)), Guarded(self._phv_bytes)
        came.bytes[:] = np.frombuffer(frame, dtype=np.uint8)
        self._latest = phv
        address = ctypes.c_char_p(came.address)
        used = self._ingress(self._state.address, address, len(frame), io.ctypes.data, phv.address)
        assert -1 <= used <= self._phv_bytes, f"ingress says it used {used} of {self._phv_bytes} bytes"
        copy = phv.bytes.copy()
        if used < 0:
            raise ValueError(f"a frame of {len(frame)} bytes is too long")
        return copy

    def egress(self, phv: object, io: NDArray[np.int64]) -> bytes | None:
        assert isinstance(phv, np.ndarray)
        guarded = Guarded(phv.size)
        guarded.bytes[:] = phv
        io[abi.KEPT_ADDRESS], io[abi.CLONE_ADDRESS] = self._kept.ctypes.data, self._cloned.ctypes.data
        length = self._egress(self._state.address, guarded.address, io.ctypes.data, self._out.ctypes.data)
        assert length <= self._out.size, f"egress says it wrote {length} of {self._out.size} bytes"
        return None if length < 0 else self._out[:length].tobytes()
