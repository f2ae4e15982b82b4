"""Lab 05, solved."""


class Worker:
    """Sends chunks 0 .. chunks - 1, and again those without an answer."""

    def __init__(self, chunks, slots, timeout):
        """slots: of the switch, SLOTS; timeout: ticks after which a frame or its RESULT counts as lost."""
        self.chunks = chunks
        self.slots = slots
        self.timeout = timeout
        self.there = set()
        self.sent = {}  # chunk -> tick in which it was sent last
        self.next = 0

    def step(self, now, results):
        """Called once in every tick.

        now: the number of the tick.
        results: chunks whose RESULT came in this tick, perhaps again.
        Returns the list of chunks to send now.
        """
        self.there.update(results)
        for chunk in results:
            self.sent.pop(chunk, None)
        lost = [chunk for chunk, at in self.sent.items() if now - at >= self.timeout]
        oldest = next((chunk for chunk in range(self.chunks) if chunk not in self.there), self.chunks)
        fresh = list(range(self.next, min(self.chunks, oldest + self.slots)))
        self.next += len(fresh)
        for chunk in lost + fresh:
            self.sent[chunk] = now
        return lost + fresh


# How the grader calls it: leave this as it is.
WORKERS = {}


def create(rank, chunks, slots, timeout):
    WORKERS[rank] = Worker(chunks, slots, timeout)


def step(rank, now, results):
    return WORKERS[rank].step(now, results)
