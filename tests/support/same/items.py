"""All jobs of the regression test, group by group."""

import itertools
import json
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.support.paths import ROOT
from tests.support.same import product
from tests.support.same.job import Call, Job, p4reduce
from tests.support.same.refusals import refusal_jobs

PLANS: Final = ("steiner", "mst", "spt", "ring", "ps")
SMALL: Final = "leaf-spine:leaves=2,spines=2,hosts=2,servers=1"


def all_jobs() -> list[Job]:
    """Return the jobs in starting order: long ones first, so that none runs alone at the end."""
    makers = (_studies, _orchestrator, _labs, _runs, _tdm, _plans, _priorities, refusal_jobs, _help, _p4)
    return [job for make in makers for job in make()]


# --- P4


def _p4() -> Iterator[Job]:
    made = tuple(
        Call(
            f"make p4, {pattern}",
            (lambda: product.make_p4(_copied_program())) if not at else (lambda: None),
            (f"{product.P4_PROGRAM}/compiled/{pattern}",),
        )
        for at, pattern in enumerate(("*-64.json", "*-64.p4info.txt", "*-256.json", "*-256.p4info.txt"))
    )
    yield Job("p4", "make p4", made, cheap=True)
    yield Job("p4", "as committed", (Call("committed", _committed),), cheap=True)
    for folder in product.P4_FOLDERS:
        yield Job("p4", folder, partial(_compiled, folder))


def _copied_program() -> Path:
    """Copy the sources of the P4 program into the job's folder; return that folder."""
    there = Path(product.P4_PROGRAM)
    there.mkdir()
    for source in sorted((ROOT / product.P4_PROGRAM).glob("*.p4")):
        (there / source.name).write_bytes(source.read_bytes())
    return Path.cwd()


def _committed() -> dict[str, str]:
    from tests.support.same.outcome import digest

    folder = ROOT / product.P4_PROGRAM / "compiled"
    return {path.name: digest(path.read_text()) for path in sorted(folder.iterdir()) if path.name != "manifest.json"}


def _compiled(folder: str) -> tuple[Call, ...]:
    """Return calls that compile each program in the job's folder, so that messages name no other folder."""
    calls = []
    for source in sorted((ROOT / folder).rglob("*.p4"), key=_program_name):
        name = _program_name(source)
        copy = Path(f"{name.replace('/', '-')}")
        copy.write_bytes(source.read_bytes())
        out = f"{copy.stem}.json"
        info = f"{copy.stem}.p4info.txt"
        compile_it = p4reduce(name, "p4", "compile", copy, "-o", out, "--p4info", info, files=(out, info))
        calls.append(compile_it)
    return tuple(calls)


def _program_name(path: Path) -> str:
    """Return the name without folders; names in labs are prefixed by the lab's number, as they are all alike."""
    number = next((part[:2] for part in path.parts if part[:2].isdigit()), "")
    kind = "skeleton" if "skeleton" in path.parts else "solution" if number else ""
    return "-".join(part for part in (number, kind, path.name) if part)


# --- plans

TOPOLOGIES: Final = (
    "star:hosts=3",
    "star:hosts=5,servers=1",
    "leaf-spine-8",
    "leaf-spine-8-partial",
    "leaf-spine-16",
    "leaf-spine:leaves=3,spines=2,hosts=3,servers=1,oversubscription=3",
    "fat-tree-4",
    "fat-tree:k=6",
    "two-racks",
    "two-generations",
    "nobel-us",
    "germany50",
    "wan:graph=geant,servers=1",
    "wan:graph=abilene,hosts=2,servers=1",
    "wan:graph=polska,hosts=1,servers=2",
    "star8",
    "leaf-spine:leaves=4,spines=3,hosts=2",
    "oxc:pods=4,hosts=2,ports=2,rate=25G",
    "wan:graph=nobel-germany,hosts=1,servers=1",
    "star:hosts=1",
)


def _plans() -> Iterator[Job]:
    for number, topology in enumerate(TOPOLOGIES):
        calls = tuple(
            p4reduce(f"{topology}, {plan}", "plan", "show", "-t", topology, "-p", plan, "--entries", "--json")
            for plan in PLANS
        )
        more = (
            p4reduce(f"{topology}, 3 workers", "plan", "show", "-t", topology, "-n", 3, "-l", 64, "--json"),
            p4reduce(f"{topology}, as text", "plan", "show", "-t", topology, "--entries"),
            p4reduce(f"{topology}, topo show", "topo", "show", topology, "--json"),
        )
        yield Job("plans", topology, calls + more, cheap=number in {2, 8})


# --- runs


def _run(name: str, *arguments: object, **more: Any) -> Call:
    return p4reduce(name, "run", *arguments, "--json", **more)


def _runs() -> Iterator[Job]:
    faults = {
        "nothing": (),
        "loss": ("--loss", 0.02, "--seed", 3),
        "reorder, duplicate, corrupt": ("--reorder", 0.05, "--duplicate", 0.02, "--corrupt", 0.01, "--seed", 4),
        "deadline": ("--deadline", "40us", "--loss", 0.02, "--repeat", 3, "--quorum", 2),
        "speculate": ("--speculate", "--repeat", 2, "--loss", 0.01),
        "fixed point": ("--numbers", "fixed", "--scale", 65536, "--loss", 0.01),
    }
    for plan in PLANS:
        calls = tuple(
            _run(f"{plan}, {name}, {lanes} lanes", "-t", SMALL, "-p", plan, "-e", 5000, "-l", lanes, *flags)
            for name, flags in faults.items()
            for lanes in ((64, 256) if name in {"loss", "deadline"} else (64,))
        )
        yield Job("runs", plan, calls, cheap=plan == "steiner")
    collectives = tuple(
        _run(f"{what}, {plan}", "-t", SMALL, "-p", plan, "--collective", what, "-e", 3000, "--loss", 0.01)
        for what, plan in itertools.product(
            ("broadcast", "push", "pull", "push_pull", "all_to_all"), ("steiner", "ps", "ring")
        )
    )
    yield Job("runs", "collectives", collectives)
    networks = (
        _run("fat tree", "-t", "fat-tree-4", "-e", 4000, "--rate", "100G", "--delay", "2us"),
        _run("wide area", "-t", "nobel-us", "-e", 4000, "--loss", 0.001),
        _run("few slots", "-t", "leaf-spine-8-partial", "-e", 4000, "--window", 2, "--queue-frames", 4),
        _run("one worker", "-t", "star:hosts=3", "-n", 1, "-e", 100),
        _run("no element", "-t", "star:hosts=3", "-e", 0),
        _run("one element", "-t", "star:hosts=3", "-e", 1),
        _run("own program", "-t", "star:hosts=3", "-l", 64, "-e", 900, "--p4", "p4reduce.p4"),
    )
    sources = {source.name: source.read_text() for source in (ROOT / product.P4_PROGRAM).glob("*.p4")}
    yield Job("runs", "networks", networks, given=sources)  # the JSON has the source's path
    training = (
        _run("digits", "-m", "digits", "-t", SMALL, "--epochs", 1),
        _run("digits by a server", "-m", "digits", "-t", SMALL, "-p", "ps", "--collective", "push_pull", "--epochs", 1),
    )
    yield Job("runs", "training", training)
    left = ("seen/result.json", "seen/*.csv", "seen/report.html", "run.pcap")
    files = (
        _run("files", "-t", SMALL, "-e", 3000, "--loss", 0.02, "--out", "seen", "--pcap", "run.pcap", files=left),
        p4reduce("packets", "pcap", "run.pcap"),
        p4reduce("packets as JSON", "pcap", "run.pcap", "--json"),
        p4reduce("dissector", "pcap", "--dissector"),
        p4reduce(
            "live recording", "run", "-t", SMALL, "-e", 3000, "--live", "--full-speed", "--out", "live", "--loss", 0.02,
            files=("live/live.jsonl.gz",), until="the run has ended",
        ),
        p4reduce("report", "report", "seen/result.json", "--out", "page.html", files=("page.html",)),
    )  # fmt: skip
    yield Job("runs", "files", files)
    several = (
        p4reduce("compare", "compare", "-t", SMALL, "-e", 3000, "--json"),
        p4reduce("compare, as text", "compare", "-t", SMALL, "-e", 3000),
        p4reduce("sweep", "sweep", "-t", SMALL, "--plans", "steiner,ring", "--elements", "1k,2k", "--losses", "0,0.01"),
        p4reduce("perf", "perf", "-t", SMALL, "-b", "1k", "--json"),
    )
    yield Job("runs", "several", several)
    for first in range(0, 40, 10):
        yield Job("runs", f"incidents {first}", partial(_incidents, range(first, first + 10)))


def _incidents(seeds: range) -> tuple[Call, ...]:
    """Return calls with failures, joins and restarts in virtual time, for which there are no flags."""
    from tests.support.kills.virtual import run

    return tuple(Call(f"incidents, seed {seed:02}", partial(_told, run, seed)) for seed in seeds)


def _told(run: Callable[[int], Any], seed: int) -> dict[str, Any]:
    seen = run(seed)
    return {
        "incidents": [vars(one) if hasattr(one, "__dict__") else repr(one) for one in seen.incidents],
        "outcome": seen.outcome,
        "outcomes": dict(sorted(seen.outcomes.items())),
        "noticed_ms": seen.noticed_ms,
        "resumed_ms": seen.resumed_ms,
        "deaths": seen.deaths,
        "joins": seen.joins,
    }


# --- turns

SCHEDULERS: Final = (
    "tdm", "seed", "pairs", "no-tdm", "free", "exclusive", "cassini", "static", "random", "eps-ideal", "eps-ecmp",
    "exact", "exact-one-tree", "striped", "layers", "best",
)  # fmt: skip
JOBS: Final = """\
jobs:
  - {name: vision, kind: rar, bytes: 102M, compute: 40ms, workers: 4}
  - {name: language, kind: rar, bytes: 160M, compute: 52ms, workers: 3}
  - {name: ranking, kind: ps, bytes: 80M, compute: 30ms, workers: 4}
  - {name: experts, kind: a2a, bytes: 10M, compute: 20ms, workers: 3}
  - {name: speech, model: resnet50, compute: 45ms, workers: 2}
"""
PODS: Final = "oxc:pods=4,hosts=4,ports=2,rate=25G,delta=200us"


def _tdm() -> Iterator[Job]:
    jobs = {"jobs.yaml": JOBS}
    for scheduler in SCHEDULERS:
        calls = tuple(
            p4reduce(
                f"{scheduler}, seed {seed:02}", "tdm", "plan", "-t", PODS, "jobs.yaml", "--policy", scheduler,
                "--seed", seed, "--json",
            )
            for seed in range(1, 11)
        )  # fmt: skip
        yield Job("tdm", scheduler, calls, jobs, cheap=scheduler in {"tdm", "pairs"})
    readings = tuple(
        p4reduce(
            f"reading {reading}, clock {clock}", "tdm", "plan", "-t", PODS, "jobs.yaml", "--reading", reading,
            "--clock", clock, "--json",
        )
        for reading in ("overlap", "serial", "literal")
        for clock in ("completion", "slots")
    )  # fmt: skip
    yield Job("tdm", "readings", (*readings, p4reduce("as text", "tdm", "plan", "-t", PODS, "jobs.yaml")), jobs)
    short = ("-t", PODS, "jobs.yaml", "--scale", 400, "--rounds", 2)
    played = tuple(
        p4reduce(f"played, {keep}, {clock}", "tdm", "run", *short, "--keep", keep, "--clock", clock, "--json")
        for keep in ("starts", "pause", "gates")
        for clock in ("completion", "slots")
    )
    others = (
        p4reduce("played, loss", "tdm", "run", *short, "--loss", 0.001, "--json"),
        p4reduce("compared", "tdm", "compare", *short, "--policies", "tdm,no-tdm,static", "--json"),
        p4reduce("arrivals", "tdm", "trace", "--jobs", 40, "--loads", 0.8, "--json"),
    )
    yield Job("tdm", "played", (*played, *others), jobs)


# --- priorities


def _priorities() -> Iterator[Job]:
    example = p4reduce("example", "example", "priorities", files=())
    policies = "fifo,random,sjf,intensity,aalo"
    calls = (
        p4reduce("policies", "priorities", "policies"),
        p4reduce("compare", "priorities", "compare", "jobs.yaml", "-p", policies, "--json"),
        p4reduce("predicted", "priorities", "compare", "jobs.yaml", "-p", "fifo,sjf", "--told", "predicted", "--json"),
        p4reduce("rotated", "priorities", "compare", "jobs.yaml", "-p", "random", "--rotate", 2, "--json"),
    )
    yield Job("priorities", "compare", (example, *calls), {"jobs.yaml": PRIORITY_JOBS})


PRIORITY_JOBS: Final = """\
topology: leaf-spine:leaves=2,spines=1,hosts=6,rate=40G,uplink=10G,delay=1us
rounds: 6
jitter: 0.02
control_latency: 100us
read_every: 40us
jobs:
  - {name: small, workers: [h1, h2, h7], server: h8, elements: 4096, phi: 0.4}
  - {name: medium, workers: [h9, h10, h3], server: h4, elements: 8192, phi: 0.4}
  - {name: large, workers: [h5, h6, h11], server: h12, elements: 16384, phi: 0.4, start: 100us}
"""


# --- studies

STUDIES: Final = {
    "poster": (
        "--scenarios leaf-spine,nobel-us --reference nobel-us --sizes 3 --seeds 0 --tasks 2 --elements 4096 "
        "--policies spff,steiner,overlay-mst,exact,spt --exact-seeds 1 --ablation-seeds 0 --priority-seeds 0 "
        "--share-seeds 0 --sensitivity-tasks 1 --delays 1us --delay-elements 4096 --access-rates 10G "
        "--access-elements 4096 --flow-factor 2 --lambda-seeds 0 --overlap-seeds 0 --selection-seeds 1 "
        "--swap-networks leaf-spine --swap-seeds 1 --swap-rounds 3 --swap-detours 0.1 --swap-thresholds 1 "
        "--ring-networks leaf-spine --ring-tasks 1"
    ),
    "turns": (  # all parts except plan-times, which measures this machine
        "--quick --seeds 1 --parts gain,all-to-all,hops,sharing,uncoordinated,sigma,delta,scale,twins,windows,"
        "plan-gains,plan-mixed,plan-optima,plan-delta,plan-electrical,plan-pairs,plan-traces,sweep-ratio,sweep-ports,sweep-rate,"
        "sweep-sigma,sweep-delta,sweep-flows,sweep-gpus,sweep-trace"
    ),
    "priorities": (
        "--quick --seeds 0 --few-seeds 1 --rounds 4 --elements 4096 --phis 0.3 --policies fifo,random "
        "--within-policies none --within-phis 0.3 --learning-rounds 0 --queue-jobs 0"
    ),
    "placement": (
        "--quick --parts clusters,calibration,forecasts --cluster-jobs 40 --seeds 1 --scenarios uniform "
        "--loads 0.8 --points 4"
    ),
}


def _studies() -> Iterator[Job]:
    left = ("study/result.json", "study/*.csv", "study/report.html")
    for name, flags in STUDIES.items():
        run = partial(product.study, name, [*flags.split(), "--jobs", "1", "--out", "study"])
        yield Job("studies", name, (Call(name, run, left),))


# --- the orchestrator

TASKS: Final = {
    "tasks": [
        {"name": "task1", "server": "server1", "workers": ["h1", "h3", "h5"], "elements": 6000, "rounds": 3,
         "training": "100us", "demand": "1G", "on_failure": "shrink"},
        {"name": "task2", "server": "h6", "workers": ["h2", "h4"], "elements": 6000, "arrival": "2ms", "rounds": 2,
         "deadline": "40ms", "priority": 5},
        {"name": "task3", "server": "server1", "workers": ["h1", "h2", "h5", "h6"], "elements": 6000,
         "select": {"how": "cheapest", "budget": 0.6}},
        {"name": "task4", "workers": 3, "elements": 4000, "rounds": 2, "training": "50us", "max_restarts": 1},
    ]
}  # fmt: skip
TURNS: Final = {
    "tasks": [
        {"name": f"turn{number}", "workers": 3, "elements": 4000, "rounds": 4, "training": "100us"}
        for number in range(4)
    ]
}


def _orchestrator() -> Iterator[Job]:
    for kind in ("trees", "turns"):
        for seed in range(5):
            yield Job(
                "orchestrator", f"{kind} {seed}", partial(_histories, kind, seed), cheap=(kind, seed) == ("trees", 0)
            )
    played = {
        "steiner": ("-t", "leaf-spine-8"),
        "links cut": (
            "-t",
            "leaf-spine-8",
            "--cut",
            "leaf1,spine1@3ms",
            "--mend",
            "leaf1,spine1@9ms",
            "--order",
            "edf",
        ),
        "a host ends": ("-t", "leaf-spine-8", "--kill", "h3@1200us", "--kill", "task2/h2@5100us", "-p", "overlay-mst"),
        "background": ("-t", "leaf-spine-8", "--hosts", "leaf-spine-8", "--background", "gravity:load=0.3,seed=1"),
        "few slots": ("-t", "leaf-spine-8", "--slots", "value", "--switch-slots", 128, "-p", "spff-ina", "--move", 0.5),
    }
    for name, flags in played.items():
        yield Job("orchestrator", f"played, {name}", _played(name, flags), {"tasks.yaml": json.dumps(TASKS)})
    turns = ("-t", "oxc:pods=4,hosts=4,ports=2,rate=25G", "--schedule", "tdm", "--delta", "200us")
    yield Job("orchestrator", "played, turns", _played("turns", turns), {"tasks.yaml": json.dumps(TURNS)})


def _played(name: str, flags: tuple[object, ...]) -> tuple[Call, ...]:
    """Return calls that play the tasks of a file on packets, and one that reads the database at the end."""
    return (
        p4reduce(f"{name}, submitted", "tasks", "submit", "tasks.yaml", "--json"),
        p4reduce(f"{name}, orchestrated", "orchestrate", *flags, "--json"),
        p4reduce(f"{name}, listed", "tasks", "list", "--json"),
        Call(f"{name}, rows", lambda: rows(Path("tasks.sqlite"))),
    )


def rows(database: Path) -> dict[str, Any]:
    """Return the contents of a database: rows by table, in insertion order."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        connection.row_factory = sqlite3.Row
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: [_row(name, row) for row in connection.execute(f"SELECT * FROM {name}")]  # noqa: S608
            for name in sorted(names)
            if not name.startswith("sqlite_")
        }


def _row(table: str, row: sqlite3.Row) -> dict[str, Any]:
    """Return a row without random and process-specific values."""
    found = dict(sorted(dict(row).items()))
    if table == "facts" and found["name"] in DRAWN:
        found["value"] = "<drawn>"
    if isinstance(found.get("plan"), str):
        found["plan"] = _without_tokens(found["plan"])
    return found


def _without_tokens(text: str) -> str:
    """Return a plan's JSON with its secret tokens masked; damaged JSON is unchanged."""
    try:
        plan = json.loads(text)
    except ValueError:
        return text
    if not isinstance(plan, dict) or "tokens" not in plan:
        return text
    plan["tokens"] = [[pair, "<secret>"] for pair, _ in plan["tokens"]]
    return json.dumps(plan, separators=(",", ":"))


DRAWN: Final = ("pid", "database", "instance")
"""Facts of a database that differ in each run."""


def _histories(kind: str, seed: int) -> tuple[Call, ...]:
    from tests.support.same.histories import play

    return (Call(f"histories, {kind}, seed {seed}", partial(play, kind, seed, 20)),)


# --- labs


def _labs() -> Iterator[Job]:
    from tests.support.same.labs import one_of_each, the_class

    yield Job("labs", "class", the_class)
    yield from (Job("labs", f"lab {number}", partial(one_of_each, number)) for number in LABS)


LABS: Final = tuple(f"{number:02}" for number in range(1, 11))


# --- helps and lists


def _help() -> Iterator[Job]:
    yield Job("help", "every command", _helps, cheap=True)
    lists = (
        *(p4reduce(f"example {kind}", "example", kind) for kind in EXAMPLES),
        p4reduce("list of examples", "example"),
        p4reduce("list of topologies", "topo", "list", "--json"),
        p4reduce("list of labs", "lab", "list", "--json"),
        p4reduce("list of priority policies", "priorities", "policies", "--json"),
        p4reduce(
            "capable switches", "topo", "capable", "leaf-spine-8", "--tasks", "tasks.yaml", "--count", 2, "--json"
        ),
        p4reduce(
            "switches to upgrade",
            "topo",
            "upgrade",
            "leaf-spine:leaves=3,spines=2,hosts=2,servers=1,capable=none",
            "-k",
            2,
            "-e",
            16_384,
            "--json",
        ),
        p4reduce("trace", "trace", "--program", 64, "--entries", "entries.yaml", "--packet", "ab" * 62, "--json"),
    )
    yield Job("help", "lists", lists, {"tasks.yaml": json.dumps(TASKS), "entries.yaml": "{}"}, cheap=True)


EXAMPLES: Final = (
    "settings", "topology", "tasks", "tasks-csv", "jobs", "jobs-csv", "hosts", "priorities", "entries",
)  # fmt: skip


def _helps() -> tuple[Call, ...]:
    return tuple(Call(" ".join(("p4reduce", *words)), partial(_unframed, shown)) for words, shown in product.commands())


def _unframed(shown: str) -> None:
    """Print a help text without Rich's frames and line breaks."""
    for line in shown.splitlines():
        if words := line.strip("─│╭╮╰╯ ").split():
            print(*words)
