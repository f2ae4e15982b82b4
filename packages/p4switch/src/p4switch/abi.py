"""The calling convention between a compiled P4 program and its driver.

A program consists of two C functions, which take a pointer to the state of a device:

``int64 ingress(void *state, const uint8 *frame, int64 length, int64 *io, uint8 *phv)``
    Parses ``frame``, verifies checksums and runs ingress. Reads the ``IN_*`` cells of ``io`` and writes the
    ``OUT_*`` cells. Leaves in ``phv`` all that egress needs (headers, metadata, payload, lengths). Returns the
    number of bytes used at the start of ``phv``: 0 if ``OUT_*`` say that nothing leaves, -1 for a frame longer than
    ``MAX_FRAME_BYTES``, which changes nothing. ``phv`` holds ``Device.phv_bytes``; it may lie anywhere and may be
    copied, but access is fastest if it is aligned to a cache line.

``int64 egress(void *state, const uint8 *phv, int64 *io, uint8 *out)``
    Runs egress, updates checksums and deparses one copy into ``out``. Reads the ``EG_*`` cells; everything else that it
    needs is in ``phv``. Never writes to ``phv`` (the copies of a multicast share it) nor to ``io``. ``out`` holds
    ``Device.out_bytes``. Returns the frame's length, or -1 if egress dropped it.

Between the two calls, the driver decides from ``OUT_*`` exactly as simple_switch does after ingress
(behavioral-model, targets/simple_switch/simple_switch.cpp): multicast if ``OUT_MCAST_GRP`` is not 0, else
drop if ``OUT_EGRESS_SPEC`` is ``DROP_PORT``, else unicast.

Programs that clone, resubmit, recirculate, truncate or send digests (``Program.leaves_path``) require more of their
driver. ``traffic.py`` does all of it, and so does the fabric:

- Before every call, ``KEPT_ADDRESS`` holds the address of a buffer of ``CompiledProgram.kept_bytes``. Ingress and
  egress leave the fields of field lists and digests there, and ingress finds those of ``IN_FIELD_LIST`` there. Before
  egress, ``CLONE_ADDRESS`` holds the address of a buffer of ``Device.phv_bytes`` for the packet that egress clones.
  Egress then writes the ``EG_OUT_*`` cells.
- After ingress, in this order: if ``OUT_CLONE`` is not 0, the frame is given to ingress again with ``IN_INSTANCE`` 1
  and ``IN_FIELD_LIST`` = ``OUT_CLONE_LIST``; only the parser runs, and the ``phv`` goes to the session's ports with
  ``EG_INSTANCE`` 1. If ``OUT_DIGEST`` is not 0, that learn list is sent. If ``OUT_RESUBMIT`` is not 0, nothing
  leaves, and the frame enters ingress again with ``IN_INSTANCE`` 6 and that field list. Then multicast, drop or
  unicast.
- After egress: if ``EG_OUT_CLONE`` is not 0, the buffer at ``CLONE_ADDRESS`` goes to the session's ports with
  ``EG_INSTANCE`` 2. If ``EG_OUT_RECIRCULATE`` is not 0 and the frame was not dropped, it enters ingress again with
  ``IN_INSTANCE`` 4 and that field list. (Egress truncates frames that leave; copies are never truncated, as in BMv2.)
"""

from typing import Final

DROP_PORT: Final = 511
CPU_PORT: Final = 510
"""the controller's port (p4src/sizes.p4; BMv2: --cpu-port)"""

IN_PORT: Final = 0
"""ingress port, 0..511"""
IN_TIME_US: Final = 1
"""ingress_global_timestamp, microseconds"""
IN_INSTANCE: Final = 2
"""instance_type at ingress (0 normal, 4 recirculated, 6 resubmitted)"""

OUT_EGRESS_SPEC: Final = 4
OUT_MCAST_GRP: Final = 5
OUT_PRIORITY: Final = 6

EG_PORT: Final = 8
"""egress_port of this copy"""
EG_RID: Final = 9
"""egress_rid: replication id of a multicast copy, 0 for unicast"""
EG_INSTANCE: Final = 10
"""instance_type at egress (0 unicast, 5 replication, 1 and 2 clones)"""
EG_ENQ_TIME_US: Final = 11
EG_ENQ_QDEPTH: Final = 12
"""frames in the queue when this one was enqueued"""
EG_DEQ_TIMEDELTA_US: Final = 13
EG_DEQ_QDEPTH: Final = 14
EG_TIME_US: Final = 15
"""egress_global_timestamp, microseconds"""
EG_LENGTH: Final = 16
"""written by ingress for the driver: packet_length as egress will see it, which egress takes from ``phv``. As in BMv2:
the frame's length, plus headers made valid by setValid(), minus those made invalid."""

OUT_CLONE: Final = 17
"""0, or CLONE_VALID + the number of a clone session; only programs that leave the path write this and the later OUT_*
and EG_OUT_* cells"""
OUT_CLONE_LIST: Final = 18
OUT_RESUBMIT: Final = 19
OUT_DIGEST: Final = 20
IN_FIELD_LIST: Final = 22
"""the field list whose fields the packet keeps; 0 for a packet that arrives from outside"""
KEPT_ADDRESS: Final = 24
CLONE_ADDRESS: Final = 25
EG_OUT_CLONE: Final = 26
EG_OUT_CLONE_LIST: Final = 27
EG_OUT_RECIRCULATE: Final = 28
EG_OUT_CLONE_PRIORITY: Final = 29
"""the priority that an egress clone keeps; 0 if its field list has none"""

INGRESS_DROPS: Final = {
    OUT_EGRESS_SPEC: DROP_PORT, OUT_MCAST_GRP: 0, OUT_PRIORITY: 0, OUT_CLONE: 0, OUT_CLONE_LIST: 0, OUT_RESUBMIT: 0,
    OUT_DIGEST: 0,
}  # fmt: skip
"""Cells after ingress of a packet that exceeded MAX_STEPS: all its requests are discarded."""

NOTHING_NOTED: Final = {EG_OUT_CLONE: 0, EG_OUT_CLONE_LIST: 0, EG_OUT_RECIRCULATE: 0}
"""Cells after egress of a packet that exceeded MAX_STEPS."""

IO_CELLS: Final = 32
"""length of the io array, int64"""

INGRESS_NAME: Final = "p4reduce_ingress"
EGRESS_NAME: Final = "p4reduce_egress"
MAX_FRAME_BYTES: Final = 9216
"""longest frame that a device takes, without FCS"""

MAX_PORT: Final = DROP_PORT
INSTANCE_NORMAL: Final = 0
INSTANCE_INGRESS_CLONE: Final = 1
INSTANCE_EGRESS_CLONE: Final = 2
INSTANCE_RECIRCULATED: Final = 4
INSTANCE_REPLICATION: Final = 5
INSTANCE_RESUBMITTED: Final = 6

CLONE_VALID: Final = 1 << 15
"""set in every clone request, so that a clone to session 0 differs from no clone (register_access.h)"""
NO_TRUNCATION: Final = (1 << 62) - 1
