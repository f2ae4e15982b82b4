"""Why a BMv2 process ended: the likely cause, read from its exit code and its last lines."""

import re
import signal
from typing import Final

_CAUSES: Final = (
    (r"error while loading shared libraries: (\S+?):", "library {0} is missing: install BMv2 again, or run 'ldconfig'"),
    (r"cannot start .*No such file", "the program is not there"),
    (r"Exec format error", "the program was built for another processor"),
    (r"(?i)address already in use|could not bind|failed to bind|addr.* in use", "another process has one of its ports"),
    (r"(?i)permission|not permitted", "it may not open its interfaces: run inside namespaces of its own, or as root"),
    (r"(?i)no such device|add_port.*fail|error (?:opening|activating)", "one of its interfaces is not there"),
    (r"(?i)unrecogni[sz]ed option|unknown option", "it is too old for an option: 1.15 is known to work"),
    (r"(?i)bad_alloc|cannot allocate memory", "there is not enough memory: use fewer slots or switches"),
)
_SIGNALS: Final = {
    signal.SIGKILL: "something killed it, perhaps for want of memory ('dmesg' tells)",
    signal.SIGILL: "it was built for another processor",
    signal.SIGSEGV: "it crashed: a bug of BMv2",
    signal.SIGABRT: "it gave up, which is a bug of BMv2 or a program that it cannot run",
}


def likely_cause(exit_code: int | None, lines: str) -> str | None:
    """In a few words; None when nothing is known. ``exit_code`` is Popen's: -n for signal n, None while it runs."""
    for pattern, cause in _CAUSES:
        match = re.search(pattern, lines)
        if match:
            return cause.format(*match.groups())
    if exit_code is not None and exit_code < 0:
        return _SIGNALS.get(signal.Signals(-exit_code))
    return None
