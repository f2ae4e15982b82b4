#!/bin/sh
# Gradescope runs this once, as root, in its image: Ubuntu 22.04 with Python 3.10. uv brings a Python 3.11.
set -eu
python3 -m pip --version > /dev/null 2>&1 || { apt-get update && apt-get install -y python3-pip; }
python3 -m pip install uv
python3 -m uv venv --python "${P4REDUCE_PYTHON:-3.11}" /autograder/venv
python3 -m uv pip install --python /autograder/venv/bin/python "${P4REDUCE_SOURCE:-p4reduce-course}"
/autograder/venv/bin/p4reduce lab list > /dev/null
