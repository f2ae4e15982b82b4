"""STF tests that BMv2 itself fails, each with its reason; test_stf.py checks these on an installed BMv2."""

from typing import Final

FAILED_BY_BMV2: Final = {
    "p4_14_samples/counter3": (
        "expects 12 bytes for a frame of 8: it counts 4 bytes more for each frame, as a target does that counts the "
        "frame check sequence; BMv2 counts 8. p4c's runner for BMv2 does not look at check_counter"
    ),
}
