"""Runs compiled programs from Python, one packet at a time."""

import ctypes
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane import abi
from p4reduce.dataplane.compiler.jit import CompiledProgram
from p4reduce.dataplane.model.packet_path import LearnList
from p4reduce.dataplane.state import DeviceState

_INGRESS: Final = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)
_EGRESS: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class CompiledExecutor:
    """Machine code as an Executor; see device.py."""

    def __init__(self, code: CompiledProgram, state: DeviceState) -> None:
        self._state = state
        self._phv_bytes = code.phv_bytes
        self._ingress = _INGRESS(code.ingress_address)
        self._egress = _EGRESS(code.egress_address)
        self._code = code  # CFUNCTYPE has its addresses only
        self._layout = code.kept
        self._kept = np.zeros(max(code.kept_bytes, 1), dtype=np.uint8)
        self._cloned = np.zeros(code.phv_bytes if code.leaves_path else 1, dtype=np.uint8)
        self._out = np.zeros(code.out_bytes, dtype=np.uint8)

    def ingress(self, frame: bytes, io: NDArray[np.int64], kept: object = None) -> NDArray[np.uint8]:
        """See Executor."""
        if isinstance(kept, np.ndarray):
            self._kept[:] = kept
        io[abi.KEPT_ADDRESS] = self._kept.ctypes.data
        phv = np.empty(self._phv_bytes, dtype=np.uint8)
        used = self._ingress(self._state.address, frame, len(frame), io.ctypes.data, phv.ctypes.data)
        if used < 0:
            raise ValueError(f"a frame of {len(frame)} bytes is too long")
        return phv

    def egress(self, phv: object, io: NDArray[np.int64]) -> bytes | None:
        """See Executor."""
        if not isinstance(phv, np.ndarray):
            raise TypeError(f"{type(phv).__name__} is not what ingress of this executor gives")
        io[abi.KEPT_ADDRESS], io[abi.CLONE_ADDRESS] = self._kept.ctypes.data, self._cloned.ctypes.data
        length = self._egress(self._state.address, phv.ctypes.data, io.ctypes.data, self._out.ctypes.data)
        return None if length < 0 else self._out[:length].tobytes()

    def kept(self) -> NDArray[np.uint8]:
        """See Executor."""
        return self._kept.copy()

    def cloned(self) -> NDArray[np.uint8]:
        """See Executor."""
        return self._cloned.copy()

    def digest(self, learn_list: LearnList) -> tuple[int, ...]:
        """See Executor."""
        return self._layout.values(self._kept, learn_list)
