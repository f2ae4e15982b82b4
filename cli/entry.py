"""Where the ``p4reduce`` command begins: Ctrl-C is answered from the first moment, while the rest is imported."""

import sys
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Run the command; exits with its code, 130 at Ctrl-C."""
    try:
        from p4reduce.cli.main import app  # noqa: PLC0415  (slow to import, and Ctrl-C may come while it is)

        app()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
