"""Lab 09, solved."""

import numpy as np

BUCKET = 25_000
"""Numbers in a bucket."""


class Mean:
    """Buckets as float32."""

    def __init__(self, network):
        self.network = network

    def start(self, number, gradient):
        return self.network.start(gradient)

    def finish(self, number, started):
        return self.network.wait(started) / self.network.workers


class Int8:
    """The same, as integers of 8 bits."""

    def __init__(self, network):
        self.network = network
        self.levels = 127 // network.workers
        self.left = {}

    def start(self, number, gradient):
        owed = gradient + self.left.get(number, 0)
        every = np.zeros(self.network.workers, np.float32)
        every[self.network.rank] = np.abs(owed).max()
        scale = self.network.wait(self.network.start(every)).max() / self.levels or 1.0
        small = np.rint(owed / scale).clip(-self.levels, self.levels)
        self.left[number] = (owed - small * scale).astype(np.float32)
        return self.network.start(pack(small)), scale, len(gradient)

    def finish(self, number, started):
        call, scale, count = started
        total = unpack(self.network.wait(call), count)
        return (total * scale / self.network.workers).astype(np.float32)


class Hook:
    """Gathers gradients into buckets."""

    def __init__(self, codec, sizes):
        """codec: a Mean or an Int8. sizes: of the tensors, by index."""
        self.codec = codec
        self.sizes = sizes
        self.buckets = [[]]
        for index in reversed(range(len(sizes))):
            if self.buckets[-1] and sum(sizes[one] for one in self.buckets[-1]) + sizes[index] > BUCKET:
                self.buckets.append([])
            self.buckets[-1].append(index)
        self.begin()

    def begin(self):
        self.gradients = {}
        self.started = []

    def ready(self, index, gradient):
        self.gradients[index] = gradient
        while len(self.started) < len(self.buckets):
            bucket = self.buckets[len(self.started)]
            if not all(one in self.gradients for one in bucket):
                break
            whole = np.hstack([np.asarray(self.gradients[one]).ravel() for one in sorted(bucket)])
            self.started.append(self.codec.start(len(self.started), whole))

    def finish(self):
        means = [None] * len(self.sizes)
        for number, (bucket, started) in enumerate(zip(self.buckets, self.started, strict=True)):
            whole, at = self.codec.finish(number, started), 0
            for index in sorted(bucket):
                means[index] = whole[at : at + self.sizes[index]]
                at += self.sizes[index]
        self.begin()
        return means


def pack(small):
    """Integers from -127 to 127, four in each word of 32 bits. Sums of words are words of the sums."""
    octets = np.zeros(-(-len(small) // 4) * 4, np.uint8)
    octets[: len(small)] = small.astype(np.int64) + 128
    octets[len(small) :] = 128
    return (octets.view(np.uint32).astype(np.int64) - 0x80808080).astype(np.int32)


def unpack(words, count):
    """The first `count` integers of what was packed, or of sums of it."""
    octets = (words.astype(np.int64) + 0x80808080).astype(np.uint32).view(np.uint8)
    return octets[:count].astype(np.int64) - 128


# How the grader calls it: leave this as it is.
HOOKS = {}


def create(kind, network, sizes):
    HOOKS[0] = Hook({"mean": Mean, "int8": Int8}[kind](network), sizes)


def ready(index, gradient):
    HOOKS[0].ready(index, gradient)


def finish():
    return HOOKS[0].finish()
