import math


class Link:
    def __init__(self, lanes, rate, delay=0.0):
        self.bytes = 86 + 4 * lanes
        self.lanes = lanes
        self.frame = self.bytes * 8 / rate
        self.trip = 2 * (self.frame + delay)

    def chunks(self, elements):
        return math.ceil(elements / self.lanes)


def frame_bytes(lanes):
    return Link(lanes, 1).bytes


def tree_seconds(workers, elements, lanes, rate):
    link = Link(lanes, rate)
    return link.chunks(elements) * link.frame


def ring_seconds(workers, elements, lanes, rate):
    link = Link(lanes, rate)
    block = math.ceil(link.chunks(elements) / workers)
    return 2 * (workers - 1) * block * link.frame


def server_seconds(workers, elements, lanes, rate):
    link = Link(lanes, rate)
    return workers * link.chunks(elements) * link.frame


def least_window(lanes, rate, delay):
    link = Link(lanes, rate, delay)
    return math.ceil(link.trip / link.frame - 1e-9)


def window_seconds(elements, lanes, rate, delay, window):
    link = Link(lanes, rate, delay)
    rounds = link.chunks(elements) / window
    return max(rounds * link.trip, link.chunks(elements) * link.frame)
