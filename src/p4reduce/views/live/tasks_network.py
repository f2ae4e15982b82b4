"""The process of a network whose tasks can be viewed: ``python -m p4reduce.views.live.tasks_network``.

It works like ``python -m p4reduce.play.tasks``, with a page for users who ask for one; the page is imported then.
"""

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from p4reduce.play.tasks.__main__ import main

if TYPE_CHECKING:
    from p4reduce.play.tasks.world import World
    from p4reduce.views.live.tasks import TaskPages


class _Pages:
    """Factory of the page, which is imported at the first request for it; ``open: false`` asks only an open page."""

    def __init__(self, parts: ExitStack) -> None:
        self._parts = parts
        self._pages: TaskPages | None = None

    def __call__(self, world: "World", request: dict[str, Any]) -> dict[str, str]:
        if self._pages is None:
            if not request.get("open", True):
                return {"url": ""}
            from p4reduce.views.live.tasks import TaskPages  # noqa: PLC0415  (slow to import)

            self._pages = self._parts.enter_context(TaskPages())
        return self._pages(world, request)


if __name__ == "__main__":
    with ExitStack() as ending:
        code = main(_Pages(ending))
    sys.exit(code)
