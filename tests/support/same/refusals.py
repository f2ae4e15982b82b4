"""Commands that are refused: a wrong value for every option of every command, and common mistakes."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from tests.support.same import product
from tests.support.same.job import Call, Job, p4reduce

_OPTION: Final = re.compile(r"│ \*?\s*(--[\w-]+)(?:\s+-\w)?\s+(\S.*?)\s{2,}")
"""A line of a help text: the option, and the type of its value."""
NO_END: Final = frozenset({("perf", "--stepfactor")})
"""Options whose wrong value is accepted, and makes the command run forever."""
REACHED: Final = frozenset(
    {"run", "plan show", "tdm plan", "tdm run", "tdm compare", "tdm trace", "compare", "sweep", "perf", "topo capable",
     "priorities compare"}
)  # fmt: skip
"""Commands that can be tested with arbitrary text: if they accept it, they do little and leave only files."""
SMALL: Final = ("--topology", "star:hosts=2", "--elements", "64")
SHORTENED: Final = {
    "run": SMALL,
    "plan show": ("--topology", "star:hosts=2"),
    "compare": SMALL,
    "sweep": ("--topology", "star:hosts=2", "--elements", "64"),
    "perf": ("--topology", "star:hosts=2", "-b", "1k", "-e", "1k"),
    "tdm plan": ("jobs.yaml",),
    "tdm run": ("jobs.yaml",),
    "tdm compare": ("jobs.yaml",),
    "tdm trace": ("--jobs", "5", "--gpus", "4", "--loads", "1"),
    "topo capable": ("star:hosts=2", "--count", "1"),
    "priorities compare": ("nothing.yaml",),
}
"""Arguments before the wrong value, so that a command that is not refused ends soon."""
NOT_CALLED: Final = frozenset({"clean", "demo", "launch", "net", "slurm", "switch", "watch", "doctor", "confirm"})
"""Commands that affect the machine or take long if a value is accepted: only invalid text is tried."""
BY_HAND: Final = """\
nope
--nope
run extra
run --plan
run --topology nowhere
run --topology star:hosts=0
run --topology star:hosts=x
run --topology star:nope=3
run --topology missing.yaml
run --topology broken.yaml
run --topology .
run --config missing.yaml
run --config broken.yaml
run --config unknown.yaml
run --config list.yaml
run --config empty.yaml --elements 0
run --workers 99
run --workers 0
run --plan ps --topology star:hosts=2
run --plan nope
run --plan ring --deadline 1ms
run --deadline soon
run --quorum 2
run --deadline 1ms --quorum 99
run --numbers fixed
run --numbers fixed --scale inf
run --scale 5
run --speculate --numbers fixed --scale 5
run --speculate --plan ring
run --collective broadcast --model digits
run --collective nope
run --loss 1.5
run --loss 1
run --rate 10X
run --rate 0
run --rate 1000000000000000000000000000000G
run --delay -1us
run --seed 18446744073709551616
run --window 0
run --window 1000000
run --queue-frames 0
run --elements 0
run --elements 1.5
run --elements 5Q
run --elements 1000000000000000000000000000000
run --lanes 65
run --p4 missing.p4
run --p4 broken.p4
run --p4-json missing.json
run --p4-json broken.yaml --p4-info broken.yaml
run --p4-info broken.yaml
run --out broken.yaml/folder
run --pcap missing/a.pcap
run --pcap .
run --hold
run --open
run --links veth --time virtual --unshaped
plan
plan shwo
plan show --plan nope
plan show --svg missing/tree.svg
plan show --workers 99
plan show --topology wan:graph=nowhere
plan show --topology fat-tree:k=3
plan show --topology leaf-spine:leaves=-1
topo show
topo show nowhere
topo show broken.yaml
topo capable star8
topo capable star8 --count 99
topo capable star8 --count 2 --tasks broken.yaml
p4 check
p4 check missing.p4
p4 check broken.p4
p4 check broken.yaml
p4 compile broken.p4
p4 compile fine.p4 -o missing/fine.json
p4 compile fine.p4 -D 1=2
p4 compile .
trace
trace missing.p4
trace broken.p4 --packet 00
trace fine.p4
trace fine.p4 --packet xyz
trace fine.p4 --packet missing.pcap
trace fine.p4 --packet 000 --port 1
trace fine.p4 --packet 00 --port 99999
trace fine.p4 --packet 00 --entries missing.yaml
trace fine.p4 --packet 00 --entries broken.yaml
trace fine.p4 --packet 00 --only 5
trace --program 65 --packet 00
trace fine.p4 --program 64 --packet 00
tasks submit
tasks submit missing.yaml
tasks submit broken.yaml
tasks submit empty.yaml
tasks submit list.yaml
tasks submit badtasks.yaml
tasks submit badtasks.csv
tasks list --database missing.sqlite
tasks list --database broken.yaml
tasks show nobody --database missing.sqlite
tasks cancel nobody --database missing.sqlite
tasks swaps --database missing.sqlite
orchestrate --database missing.sqlite
orchestrate --database broken.yaml --topology star8
orchestrate --policy nope --topology star8
orchestrate --topology nowhere
orchestrate --topology star8 --cut s1
orchestrate --topology star8 --cut s1,h1@soon
orchestrate --topology star8 --cut s1,nobody@5ms
orchestrate --topology star8 --kill h99@5ms
orchestrate --topology star8 --order nope
orchestrate --topology star8 --placement nope
orchestrate --topology star8 --slots nope
orchestrate --topology star8 --hosts missing.yaml
orchestrate --topology star8 --background nope
orchestrate --topology star8 --forecast nope
orchestrate --topology star8 --schedule tdm
orchestrate --topology star8 --schedule nope
orchestrate --topology star8 --control-latency soon
orchestrate --topology star8 --lanes 65
priorities compare missing.yaml
priorities compare broken.yaml
priorities compare empty.yaml
priorities compare jobs.yaml
tdm plan missing.yaml
tdm plan broken.yaml
tdm plan empty.yaml
tdm plan list.yaml
tdm plan jobs.yaml --policy nope
tdm plan jobs.yaml --topology star8
tdm plan jobs.yaml --topology oxc:pods=1
tdm plan jobs.yaml --reading nope
tdm plan jobs.yaml --clock nope
tdm run jobs.yaml --keep nope
tdm run jobs.yaml --guard soon
tdm run jobs.yaml --policy eps-ideal
tdm compare jobs.yaml --policies nope
tdm trace --trace nope
tdm trace --policies nope
tdm trace --loads x
lab copy
lab copy 99
lab copy 01 broken.yaml
lab grade
lab grade missing
lab grade .
lab grade broken.yaml
lab grade . --lab 99
lab grade . --format nope
lab grade-all missing
lab grade-all . --lab 99
lab new
lab new broken.yaml
example nope
report
report missing.json
report broken.yaml
report empty.yaml
watch missing
watch broken.yaml
pcap
pcap missing.pcap
pcap broken.yaml
compare --plans nope
compare --plans steiner,steiner
sweep --plans nope
sweep --elements x
sweep --losses 2
sweep --seeds 5..1
perf --plans nope
perf -b 2M -e 1M
launch
launch missing.py
launch -n 99 --topology star8 fine.py
launch --join soon fine.py
launch --on-failure nope fine.py
confirm --targets nope
confirm --plans nope
net exec h1
net down nobody
net exec --name nobody h1 true
net pcap nobody
switch --nope
slurm conf --nope
"""
"""Common mistakes, one command a line."""
GIVEN: Final = {
    "broken.yaml": "a: [1, 2\nb: {",
    "empty.yaml": "",
    "list.yaml": "[1, 2, 3]\n",
    "unknown.yaml": "nonsense: 5\n",
    "broken.p4": "#include <v1model.p4>\nheader h { bit<8> a }\n",
    "fine.p4": (
        "#include <core.p4>\n#include <v1model.p4>\nstruct M {} struct H {}\n"
        "parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s)"
        " { state start { transition accept; } }\n"
        "control V(inout H h, inout M m) { apply {} }\n"
        "control I(inout H h, inout M m, inout standard_metadata_t s) { apply { s.egress_spec = 2; } }\n"
        "control E(inout H h, inout M m, inout standard_metadata_t s) { apply {} }\n"
        "control C(inout H h, inout M m) { apply {} }\ncontrol D(packet_out p, in H h) { apply {} }\n"
        "V1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    ),
    "fine.py": "",
    "jobs.yaml": "jobs:\n  - {name: vision, kind: rar, bytes: 1M, compute: 40ms, workers: 4}\n",
    "badtasks.yaml": "tasks:\n  - {name: task1, server: s, workers: [], elements: -1}\n  - {name: task1}\n",
    "badtasks.csv": "name,server,workers,elements\ntask1,server1,h1 h2,many\n",
}
"""Contents of the files that the commands name."""


def refusal_jobs() -> Iterator[Job]:
    """Yield jobs with commands written by hand, and with commands generated from the help texts."""
    lines = BY_HAND.splitlines()
    for part in range(4):
        calls = tuple(p4reduce(line, *line.split()) for line in lines[part::4])
        yield Job("refusals", f"by hand {part + 1}", calls, GIVEN, cheap=part == 0)
    for part in range(4):
        yield Job("refusals", f"every option {part + 1}", partial(_generated, part), GIVEN, cheap=part == 0)


def _generated(part: int) -> tuple[Call, ...]:
    """Return one in four of the generated commands."""
    calls = []
    for words, shown in product.commands():
        command = " ".join(words)
        calls.append(p4reduce(f"{command} --no-such-option".lstrip(), *words, "--no-such-option"))
        for line in shown.splitlines():
            if (found := _OPTION.match(line)) and found[2] != "<bool>":
                calls += _wrong(command, found[1], found[2])
    return tuple(calls[part::4])


def _wrong(command: str, option: str, takes: str) -> Iterator[Call]:
    before = SHORTENED.get(command, ())
    number = takes.startswith(("<int", "<float"))
    if number or "|" in takes:
        safe = command.split(maxsplit=1)[0] not in NOT_CALLED
        values = ("x", *(("-1",) if number and safe else ()), *(("nan",) if "float" in takes and safe else ()))
    elif command in REACHED and takes not in {"<path>", "<list[Path]>"}:
        values = ("?!",)
    else:
        return
    for value in values:
        if value == "nan" and (command, option) in NO_END:
            continue
        words = (*command.split(), *before, option, value)
        yield p4reduce(" ".join((command, option, value[:12])), *words)
