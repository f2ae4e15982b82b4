"""Lab 08: how long an all-reduce takes. Seconds, bits a second.

README.md, steps 1 to 5.
"""


def frame_bytes(lanes):
    """Bytes of one full frame on the wire, gap included."""
    raise NotImplementedError


def tree_seconds(workers, elements, lanes, rate):
    """With a switch that adds up: the busiest direction of the busiest link."""
    raise NotImplementedError


def ring_seconds(workers, elements, lanes, rate):
    """With a ring of workers."""
    raise NotImplementedError


def server_seconds(workers, elements, lanes, rate):
    """With a parameter server on a link like all others."""
    raise NotImplementedError


def least_window(lanes, rate, delay):
    """Chunks on their way, so that a worker's link is never idle.

    delay: of one link, in seconds.
    """
    raise NotImplementedError


def window_seconds(elements, lanes, rate, delay, window):
    """With a tree, for any window."""
    raise NotImplementedError
