"""Commands that are refused: a wrong value for every option of every command, and what people get wrong."""
from collections.abc import Iterator
from tests.support.same.job import Job
def refusal_jobs() -> Iterator[Job]:
    yield from ()
