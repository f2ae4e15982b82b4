"""Lab 08, solved."""

import math


def frame_bytes(lanes):
    return 24 + 62 + 4 * lanes


def frame_seconds(lanes, rate):
    return frame_bytes(lanes) * 8 / rate


def chunks(elements, lanes):
    return math.ceil(elements / lanes)


def tree_seconds(workers, elements, lanes, rate):
    return chunks(elements, lanes) * frame_seconds(lanes, rate)


def ring_seconds(workers, elements, lanes, rate):
    return 2 * (workers - 1) / workers * chunks(elements, lanes) * frame_seconds(lanes, rate)


def server_seconds(workers, elements, lanes, rate):
    return workers * chunks(elements, lanes) * frame_seconds(lanes, rate)


def round_trip(lanes, rate, delay):
    return 2 * (frame_seconds(lanes, rate) + delay)


def least_window(lanes, rate, delay):
    return math.ceil(round_trip(lanes, rate, delay) / frame_seconds(lanes, rate))


def window_seconds(elements, lanes, rate, delay, window):
    each = max(frame_seconds(lanes, rate), round_trip(lanes, rate, delay) / window)
    return chunks(elements, lanes) * each
