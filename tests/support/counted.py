"""Run a command, and print the processor time that it and its child processes took: ``make test``."""

import argparse
import os
import subprocess
import sys


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    done = subprocess.run(parser.parse_args().command, check=False)
    used = os.times()
    minutes = (used.children_user + used.children_system) / 60
    print(f"{minutes:.1f} minutes of processor time", flush=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
