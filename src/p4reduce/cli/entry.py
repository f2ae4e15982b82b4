"""Where the ``p4reduce`` command begins: Ctrl-C is answered from the first moment, while the rest is imported."""

import gc
import signal
import sys
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Run the command; exits with its code, 130 at Ctrl-C."""
    # A command makes some 100,000 objects that stay, most of them while it is imported: looking through them again and
    # again for garbage took a fifteenth of a short run.
    gc.set_threshold(50_000, 20, 20)
    try:
        from p4reduce.base.signals import handling, raise_interrupt, raising_again  # noqa: PLC0415

        # A process that was started with Ctrl-C ignored, as a shell starts those in the background, keeps ignoring it.
        held = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with handling(raise_interrupt, signal.SIGINT) if held else raising_again():
            from p4reduce.cli.main import app  # noqa: PLC0415  (slow, and Ctrl-C may come while it is)

            app()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    finally:
        # The process ends now. Python looks through all objects again while it takes down the modules: a tenth of a
        # short run. What references hold is still let go of one by one, and what is registered to run at the end runs.
        gc.freeze()


if __name__ == "__main__":
    main()
