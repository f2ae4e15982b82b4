"""Lab 05, solved."""


class Worker:
    """Sends chunks 0 .. chunks - 1, and again those without an answer."""

    def __init__(self, chunks, slots, timeout):
        self.slots, self.timeout = slots, timeout
        self.missing = list(range(chunks))
        self.due = {}

    def step(self, now, results):
        self.missing = [chunk for chunk in self.missing if chunk not in results]
        if not self.missing:
            return []
        window = [chunk for chunk in self.missing if chunk < self.missing[0] + self.slots]
        sending = [chunk for chunk in window if self.due.get(chunk, 0) <= now]
        self.due.update({chunk: now + self.timeout for chunk in sending})
        return sending



# How the grader calls it: leave this as it is.
WORKERS = {}


def create(rank, chunks, slots, timeout):
    WORKERS[rank] = Worker(chunks, slots, timeout)


def step(rank, now, results):
    return WORKERS[rank].step(now, results)
