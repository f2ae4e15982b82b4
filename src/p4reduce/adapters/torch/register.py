"""Registration of the back end "p4reduce", called by ``import torch`` through the entry points ``torch.backends``.

Only this file of the package is imported before a process group is made.
"""

from typing import Any, Final

NAME: Final = "p4reduce"


def register() -> None:
    """Make ``torch.distributed.init_process_group("p4reduce")`` possible; a second time does nothing."""
    import torch.distributed as dist  # noqa: PLC0415  (torch is being imported just now)

    if dist.is_available() and NAME.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])


def _create(options: Any, backend_options: Any) -> Any:
    from p4reduce.adapters.torch.create import create  # noqa: PLC0415  (only who uses it pays for it)

    return create(options, backend_options)
