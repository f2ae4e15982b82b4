"""Entry point of the ``p4reduce`` command: handles signals from the first moment of its imports."""

import gc
import signal
import sys
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Run the command; exits with its code, 130 at Ctrl-C, 143 at SIGTERM and 129 at SIGHUP, after cleaning up."""
    # A command creates some 100,000 permanent objects, most of them by imports; repeated garbage collection over them
    # took a fifteenth of a short run.
    gc.set_threshold(50_000, 20, 20)
    try:
        from p4reduce.base.signals import handling, raise_exit, raise_interrupt  # noqa: PLC0415

        # Signals that the process was started to ignore stay ignored: Ctrl-C in a shell's background, SIGHUP under
        # nohup.
        interrupts = [signal.SIGINT] if signal.getsignal(signal.SIGINT) is signal.default_int_handler else []
        ends = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
        with handling(raise_interrupt, *interrupts), handling(raise_exit, *ends):
            from p4reduce.cli.main import app  # noqa: PLC0415  (slow, and Ctrl-C may come while it is)

            app()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    finally:
        # The process ends now. Python would go through all objects again while it unloads the modules, which takes a
        # tenth of a short run. Reference counts still free objects one by one, and exit handlers still run.
        gc.freeze()


if __name__ == "__main__":
    main()
