"""Operations on a caller's arrays, and the checks that each passes before anything is sent."""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p4reduce.workers import wire
from p4reduce.workers.kernels.chunks import SPAN, UNKNOWN, all_chunk_exponents, chunk_exponents, chunk_poison
from p4reduce.workers.numbers import EXCESS, MAX_BIASED, NonFiniteError, NumberMode, Partial
from p4reduce.workers.records import Collective, EndpointKind
from p4switch.native.memory import address_of

Floats = NDArray[np.float32]

# Which arrays an operation needs: (source, target); None: it may have one.
_NEEDED: Final[dict[tuple[EndpointKind, Collective], tuple[bool | None, bool]]] = {
    (EndpointKind.WORKER, Collective.ALL_REDUCE): (True, True),
    (EndpointKind.WORKER, Collective.PUSH): (True, False),
    (EndpointKind.WORKER, Collective.PULL): (False, True),
    (EndpointKind.WORKER, Collective.PUSH_PULL): (True, True),
    (EndpointKind.WORKER, Collective.BARRIER): (False, False),
    (EndpointKind.SERVER, Collective.ALL_REDUCE): (False, True),
    (EndpointKind.SERVER, Collective.PUSH): (None, True),
    (EndpointKind.SERVER, Collective.PULL): (True, False),
    (EndpointKind.SERVER, Collective.PUSH_PULL): (False, True),
    (EndpointKind.SERVER, Collective.BARRIER): (False, False),
    (EndpointKind.RELAY, Collective.ALL_REDUCE): (True, True),
    (EndpointKind.RELAY, Collective.BARRIER): (False, False),
    (EndpointKind.RING, Collective.ALL_REDUCE): (True, True),
    (EndpointKind.ALL_TO_ALL, Collective.ALL_TO_ALL): (True, True),
}


@dataclass(frozen=True, eq=False)
class Post:
    """One collective, as one endpoint takes part in it.

    source, target: float32, one-dimensional, C-contiguous, of one length, the same at all endpoints; they may be
    one and the same array. They are read and written in place while the operation runs.

    | collective | a worker's source, target | the server's source, target |
    |---|---|---|
    | ALL_REDUCE | its contribution, the sum | -, the sum (baseline server only) |
    | PUSH | its contribution, - | - or its own contribution (in the network), the sum |
    | PULL | -, the weights | the weights, - |
    | PUSH_PULL | its gradient, the new weights | -, the weights: w -= learning_rate * sum / members |
    | BARRIER | -, - | -, - |
    | ALL_TO_ALL | a block for each rank, a block of each rank (another array) | - |

    iteration: the training iteration, 0..2**32-1, in every frame: switches choose priorities by it. words: the
    arrays hold int32 (``array.view(np.float32)``), which are added as they are, or passed on (PULL). poison: NaN and
    infinity do not make the operation an error; the sum of a chunk in which any worker has one is NaN everywhere
    (block floating point; hosts that add float32 add them as float32). partial: for an ALL_REDUCE of floats in the
    network that may be closed without some contributions (a worker of a job with a deadline). bits: bits of a lane, 32,
    16 or 8; below 32 only for an ALL_REDUCE of floats that switches add up. lost: with such lanes, an array like
    ``source`` for the rounding errors.
    """

    collective: Collective
    source: Floats | None = None
    target: Floats | None = None
    iteration: int = 0
    learning_rate: float = 0.0
    words: bool = False
    poison: bool = False
    partial: Partial | None = None
    bits: int = wire.WORD_BITS
    lost: Floats | None = None

    @cached_property
    def length(self) -> int:
        """Number of elements."""
        for array in (self.source, self.target):
            if array is not None:
                return len(array)
        return 0

    def chunk_elements(self, lanes: int) -> int:
        """Elements of a chunk, in a packet of ``lanes`` words."""
        return lanes * (wire.WORD_BITS // self.bits)

    def chunks(self, lanes: int) -> int:
        """Chunks in packets of ``lanes`` words, the last one padded; 1 for a barrier."""
        return max(1, -(-self.length // self.chunk_elements(lanes)))

    @cached_property
    def addresses(self) -> tuple[int, int]:
        """Addresses of source and target; 0: there is none."""
        return tuple(0 if array is None else address_of(array) for array in (self.source, self.target))  # type: ignore[return-value]

    @cached_property
    def fits(self) -> set[EndpointKind]:
        """Kinds of endpoints for which :func:`check` has passed: the same operation may be posted again and again."""
        return set()

    def has_exponents(self, mode: NumberMode) -> bool:
        """Whether its chunks have exponents that all workers agree on."""
        without = (Collective.PULL, Collective.BARRIER)
        return mode == NumberMode.BLOCK and self.collective not in without and not self.words

    def depends_on(self, before: "Post") -> bool:
        """Whether the previous operation writes to this one's source, whose numbers are unknown until it is done."""
        if self.source is None or before.target is None:
            return False
        return bool(np.may_share_memory(self.source, before.target))


class Prepared(NamedTuple):
    """An operation with facts about its source: for each chunk, uint8, its exponent and whether it is not finite.

    exponents is empty if the operation needs none; poison is None if all numbers are finite.
    """

    operation: Post
    exponents: NDArray[np.uint8]
    poison: NDArray[np.uint8] | None = None
    place: int = 0
    """address of the exponents"""


def _check_array(name: str, array: Any) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        raise TypeError(f"{name}: must be a NumPy array of float32, is {getattr(array, 'dtype', type(array).__name__)}")
    if array.ndim != 1 or not array.flags.c_contiguous:
        raise ValueError(f"{name}: must be one-dimensional and C-contiguous; pass array.reshape(-1) or a copy")
    if len(array) == 0:
        raise ValueError(f"{name}: is empty; an operation needs at least one element")


def check(kind: EndpointKind, operation: Post) -> None:
    """Raises ValueError or TypeError, naming the argument, if an endpoint of this kind cannot do the operation."""
    if kind not in operation.fits:
        _check(kind, operation)
        operation.fits.add(kind)
    if operation.target is not None and not operation.target.flags.writeable:
        raise ValueError("target: is read-only, but the result is written to it")


def _check(kind: EndpointKind, operation: Post) -> None:
    needed = _NEEDED.get((kind, operation.collective))
    name = operation.collective.name
    if needed is None:
        raise ValueError(f"collective: a {kind.name.lower()} endpoint cannot do {name}")
    passes = (Collective.ALL_REDUCE, Collective.PULL, Collective.ALL_TO_ALL)
    if operation.words and operation.collective not in passes:
        raise ValueError(f"words: {name} takes float32; ALL_REDUCE adds words, PULL passes them on")
    if operation.partial is not None:
        if (
            (kind, operation.collective) != (EndpointKind.WORKER, Collective.ALL_REDUCE)
            or operation.words
            or operation.poison
        ):
            raise ValueError(
                f"partial: {name} waits for all; an ALL_REDUCE of finite floats may be closed without some"
            )
        if len(operation.partial.kept) != operation.length:
            raise ValueError(f"partial: is for {len(operation.partial.kept)} elements, not for {operation.length}")
    _check_bits(kind, operation)
    if not 0 <= operation.iteration < 1 << 32:
        raise ValueError(f"iteration: {operation.iteration}, must be 0..2**32-1")
    for what, array, needs in (
        ("source", operation.source, needed[0]),
        ("target", operation.target, needed[1]),
    ):
        if needs and array is None:
            raise ValueError(f"{what}: {name} at a {kind.name.lower()} endpoint needs one")
        if needs is False and array is not None:
            raise ValueError(f"{what}: {name} at a {kind.name.lower()} endpoint takes none")
        if array is not None:
            _check_array(what, array)
    if operation.source is None or operation.target is None:
        return
    if len(operation.source) != len(operation.target):
        raise ValueError(f"source has {len(operation.source)} elements, target {len(operation.target)}")
    same = operation.addresses[0] == operation.addresses[1]
    if same and operation.collective is Collective.ALL_TO_ALL:
        raise ValueError("target: ALL_TO_ALL needs an array of its own, blocks come while others still leave")
    if not same and np.may_share_memory(operation.source, operation.target):
        raise ValueError("source and target overlap: they must be one array, or lie apart")


def _check_bits(kind: EndpointKind, operation: Post) -> None:
    if operation.bits not in wire.WIDTHS:
        raise ValueError(f"bits: {operation.bits}, must be one of {', '.join(map(str, wire.WIDTHS))}")
    if operation.bits == wire.WORD_BITS:
        return
    if (kind, operation.collective) != (EndpointKind.WORKER, Collective.ALL_REDUCE) or operation.words:
        raise ValueError(
            f"bits: {operation.collective.name} at a {kind.name.lower()} endpoint has lanes of 32 bits; narrower "
            "ones are for an ALL_REDUCE of floats that switches add up"
        )
    if operation.lost is not None and len(operation.lost) != operation.length:
        raise ValueError(f"lost: is for {len(operation.lost)} elements, not for {operation.length}")


def exponents_of(source: Floats, lanes: int) -> NDArray[np.uint8]:
    """The biased exponent of each chunk, uint8 of shape (chunks,). NonFiniteError names the first NaN or Inf."""
    exponents = np.zeros(-(-len(source) // lanes), np.uint8)
    bad = chunk_exponents(source, len(source), lanes, exponents, len(exponents))
    if bad >= 0:
        raise NonFiniteError(bad, float(source[bad]))
    return exponents


_NO_EXPONENTS: Final = np.zeros(0, np.uint8)
_NOWHERE: Final = address_of(_NO_EXPONENTS)


def prepare(operation: Post, mode: NumberMode, lanes: int) -> Prepared:
    """Scans the source. Raises NonFiniteError, which names the element, for a NaN or Inf that a sum cannot carry."""
    [prepared] = prepare_all([operation], [mode], [lanes])
    return prepared


def prepare_all(operations: Sequence[Post], modes: Sequence[int], lanes: Sequence[int]) -> list[Prepared]:
    """As :func:`prepare`, for operations of endpoints with these modes and lanes."""
    prepared = [Prepared(operation, _NO_EXPONENTS, None, _NOWHERE) for operation in operations]
    rows: list[tuple[int, int, int, int]] = []
    places = []
    first = 0
    for place, operation in enumerate(operations):
        if operation.source is None or operation.words or operation.collective is Collective.ALL_TO_ALL:
            continue
        elements, length = operation.chunk_elements(lanes[place]), operation.length
        rows.append((operation.addresses[0], length, elements, first))
        places.append(place)
        first += -(-length // elements)
    exponents = np.zeros(first, np.uint8)
    begin = address_of(exponents)
    spans = np.array(rows, np.int64).reshape(-1).view(SPAN)
    finite = all_chunk_exponents(spans, len(spans), exponents)
    for place, (_, length, elements, at) in zip(places[:finite], rows, strict=False):
        own = exponents[at : at - (-length // elements)]
        prepared[place] = Prepared(operations[place], own, None, begin + at)
    for place, (_, _, elements, _) in zip(places[finite:], rows[finite:], strict=True):
        operation = operations[place]
        if operation.poison and modes[place] != NumberMode.FIXED:
            own, poison = poison_of(_source(operation), elements)
        else:
            own, poison = exponents_of(_source(operation), elements), None
        prepared[place] = Prepared(operation, own, poison, address_of(own))
    return prepared


def _source(operation: Post) -> Floats:
    assert operation.source is not None  # noqa: S101
    return operation.source


def poison_of(source: Floats, lanes: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None]:
    """As ``exponents_of``, and which chunks hold NaN or infinity (1), uint8 of shape (chunks,); None: no chunk does."""
    exponents = np.zeros(-(-len(source) // lanes), np.uint8)
    if chunk_exponents(source, len(source), lanes, exponents, len(exponents)) < 0:
        return exponents, None
    poison = np.zeros(len(exponents), np.uint8)
    chunk_poison(source, len(source), lanes, exponents, poison, len(exponents))
    return exponents, poison


# Guesses of exponents from previously agreed exponents; they are the same at all workers of a job.


DEPTH: Final = 8
"""operations of one length whose exponents are remembered"""
SLACK: Final = 1
"""bits added to the largest remembered exponent"""
LENGTHS: Final = 64
"""number of operation lengths that are remembered, the latest ones"""

Exponents = NDArray[np.uint8]


def guess(seen: Sequence[Exponents] | deque[Exponents], slack: int = SLACK) -> Exponents:
    """For each chunk the largest exponent seen plus ``slack``; 0 if the chunk was always all zeros."""
    largest = np.max(seen, axis=0).astype(np.int64)
    return np.where(largest == 0, 0, np.minimum(largest + slack, MAX_BIASED)).astype(np.uint8)


def missed(guesses: Exponents, truths: Exponents) -> NDArray[np.bool_]:
    """Mask of the chunks whose guess is wrong (as ``is_missed`` in ``kernels/chunks.py``)."""
    wide, true = guesses.astype(np.int64), truths.astype(np.int64)
    return np.asarray((true > wide) | ((true > 0) & (true < wide - EXCESS)))


class Guesses:
    """Guesses of one endpoint. They depend only on its operations and RESULTs, so that all workers guess alike.

    Operations are told apart by their length, which a model's gradients keep in each iteration. If the guesses would
    have been wrong for more than half of the first chunks of the last operation of a length, as when tensors alternate,
    the next one is not guessed. Nor is it if some worker has reported losses (``losing``): then exponents are agreed on
    as far ahead as possible, not only for the ``count`` chunks of a round trip.
    """

    def __init__(self, count: int, most: int, lanes: int) -> None:
        self._count, self._most, self._lanes = count, most, lanes
        self._seen: OrderedDict[int, deque[Exponents]] = OrderedDict()
        self._useless: set[int] = set()
        self._length: int | None = None
        self._truths = np.full(most, UNKNOWN, np.int16)
        self._guesses = np.zeros(count, np.uint8)
        self._doubtful = np.zeros(count, np.uint8)
        self._again = np.zeros(count, np.int64)
        self._inputs = np.zeros((count, lanes), np.float32)

    def learn(self) -> None:
        """Remember the exponents of the previous operation, which is done."""
        if self._length is None:
            return
        length, self._length = self._length, None
        told = self._truths[: min(self._count, -(-length // self._lanes))]
        if (told == UNKNOWN).any():
            return  # the operation was given up
        truths = told.astype(np.uint8)
        seen = self._seen.setdefault(length, deque(maxlen=DEPTH))
        self._useless.discard(length)
        if seen and 2 * np.count_nonzero(missed(guess(seen), truths)) > len(truths):
            self._useless.add(length)
        seen.append(truths)
        self._seen.move_to_end(length)
        while len(self._seen) > LENGTHS:
            self._useless.discard(self._seen.popitem(last=False)[0])

    def fresh(self) -> "Guesses":
        """Guesses of the same endpoint, with nothing remembered."""
        return Guesses(self._count, self._most, self._lanes)

    def begin(self, record: Any, operation: Post) -> None:
        """Begin an operation with exponents at a worker; its record holds ``known``, and ``lead`` without guesses."""
        if operation.collective is not Collective.ALL_REDUCE or operation.partial is not None:
            return
        if operation.bits != wire.WORD_BITS:  # a guess that is too large costs bits that narrow lanes do not have
            return
        known, length = int(record["known"]), operation.length
        self._length = length
        seen = self._seen.get(length)
        quick = seen and length not in self._useless and not record["losing"]
        if quick:
            record["lead"] = max(known, min(self._count, int(record["lead"])))
        lead = int(record["lead"])
        record["tail"] = lead - 1  # the first of these seqs reports losses
        self._truths[:lead] = UNKNOWN
        record["truths"], record["unknown"] = address_of(self._truths), lead - known
        if not quick or known == lead:
            return
        assert operation.source is not None  # noqa: S101
        self._guesses[:lead] = guess(seen or ())
        self._doubtful[:] = 0
        count = min(length, lead * self._lanes)
        self._inputs.reshape(-1)[:count] = operation.source[:count]  # a result may overwrite its own input
        record["guesses"], record["doubtful"] = address_of(self._guesses), address_of(self._doubtful)
        record["inputs"], record["again"] = address_of(self._inputs), address_of(self._again)


def begin_guessing(record: Any, guesses: Guesses | None, operation: Post) -> None:
    """Learn from the previous operation, and guess this one's exponents unless ``guesses`` is None."""
    for name in ("truths", "guesses", "redone"):
        record[name] = 0
    if guesses is not None:
        guesses.learn()
        if record["lead"]:
            guesses.begin(record, operation)
