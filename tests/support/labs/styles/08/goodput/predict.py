from math import ceil

HEADERS = 62
GAP = 24


def frame_bytes(lanes):
    return GAP + HEADERS + 4 * lanes


def seconds_of(chunks, lanes, rate):
    bits = chunks * frame_bytes(lanes) << 3
    return bits / rate


def tree_seconds(workers, elements, lanes, rate):
    del workers
    return seconds_of(ceil(elements / lanes), lanes, rate)


def ring_seconds(workers, elements, lanes, rate):
    return tree_seconds(1, elements, lanes, rate) * (2 - 2 / workers)


def server_seconds(workers, elements, lanes, rate):
    return seconds_of(workers * ceil(elements / lanes), lanes, rate)


def least_window(lanes, rate, delay):
    return int(ceil(2 + 2 * delay * rate / (8 * frame_bytes(lanes)) - 1e-9))


def window_seconds(elements, lanes, rate, delay, window):
    frame = seconds_of(1, lanes, rate)
    per_chunk = max(frame, (2 * frame + 2 * delay) / window)
    return ceil(elements / lanes) * per_chunk
