import math


def frame_bytes(lanes):
    return 8 + 12 + 4 + 14 + 20 + 8 + 20 + lanes * 4


def tree_seconds(workers, elements, lanes, rate):
    return -(-elements // lanes) * 8 * frame_bytes(lanes) / rate


def ring_seconds(workers, elements, lanes, rate):
    block = elements / workers
    return 2 * (workers - 1) * block / lanes * 8 * frame_bytes(lanes) / rate


def server_seconds(workers, elements, lanes, rate):
    return sum(tree_seconds(workers, elements, lanes, rate) for _ in range(workers))


def least_window(lanes, rate, delay):
    frame = 8 * frame_bytes(lanes) / rate
    window = 1
    while window * frame < 2 * (frame + delay) - 1e-15:
        window += 1
    return window


def window_seconds(elements, lanes, rate, delay, window):
    frame = 8 * frame_bytes(lanes) / rate
    chunks = math.ceil(elements / lanes)
    if window >= least_window(lanes, rate, delay):
        return chunks * frame
    return chunks / window * 2 * (frame + delay)
