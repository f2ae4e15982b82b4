# Two commands on a fresh machine: make demo, make test. `make help` lists the rest.

.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
# The first Python that is new enough; another one: make demo PYTHON=/path/to/python3.12
ifndef PYTHON
PYTHON := $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
endif
JOBS ?= 2
TREES ?= 10000
MUTANTS ?= 100000
SEED ?= 1
CASES ?= 50
STUDENTS ?= 100
HISTORIES ?= 10000
KILLS ?= 1000
RUNS ?= 1000
COUNT ?= 100
P4MUTANTS ?= 4
PROGRAMS ?= tests/conformance/programs
PROGRAMS_LATE ?= 10000
# Wheels of PyTorch without CUDA: those of PyPI bring gigabytes.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# Bytecode is kept, whatever the environment says: without it each process that a test starts compiles all it imports.
export PYTHONDONTWRITEBYTECODE :=
LINKS := control_plane p4src topologies workers
comma := ,
DEMO := $(VENV)/.demo
INSTALLED := $(VENV)/.installed
WARM := $(VENV)/.warm
# --no-compile: most of the modules are never imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
TORCH := $(VENV)/.torch
FRAMEWORKS := $(VENV)/.frameworks

.PHONY: $(shell grep -oE '^[a-z0-9-]+:' $(firstword $(MAKEFILE_LIST)) | tr -d :)

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(DEMO)  ## train a model through P4 switches, once for each plan; report in out/demo/report.html
	@$(BIN)/p4reduce demo --out out/demo

test: $(INSTALLED)  ## lint, types, and all tests that need no other program
	+@$(BIN)/python -m tests.support.counted $(MAKE) --no-print-directory checks

checks: $(INSTALLED)  ## like `make test`, without measuring processor time
	@$(MAKE) --no-print-directory -j2 lint $(WARM)
	$(BIN)/pytest -n $(JOBS) --dist worksteal

soak-tests: $(WARM)  ## before a release (hours): tests that `make test` leaves out, and those to which SOAK=1 adds examples; EVERY=4: one in four
	SOAK=1 EVERY=$(or $(EVERY),1) $(BIN)/pytest -n $(JOBS) --dist worksteal -m 'soak or effort or hypothesis' -o faulthandler_timeout=7200

lint: $(INSTALLED)  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: $(WARM)  ## create the virtual environment in .venv, nothing else

p4: $(INSTALLED)  ## compile p4src/ again, without p4c; with p4c: P4C=/path/to/p4c-bm2-ss or P4C=docker
	@P4C='$(P4C)' $(BIN)/python -m p4reduce.cli.p4_build

same: $(WARM)  ## compare all output and counters with the digests in tests/data/same: SAME='--only runs' or --write
	@$(BIN)/python -m tests.support.same --jobs $(JOBS) $(SAME)

soak: $(WARM)  ## compare TREES=10000 random trees with the golden model
	$(BIN)/python -m tests.support.golden.soak --trees $(TREES)

soak-model: $(WARM)  ## run MUTANTS=100000 mutated P4 programs on both executors, and ten networks of 250 hosts
	$(BIN)/python -m tests.support.mutants --count $(MUTANTS) --large 10

soak-best: $(WARM)  ## plan `best` against every other plan, and its predicted time against packets, on COUNT=100 random networks
	$(BIN)/python -m tests.support.soak_best --count $(COUNT) --seed $(SEED)

soak-flow: $(WARM)  ## error of the flow model (--time flow) against packets, in COUNT=100 random settings; orchestrated tasks: TASKS=--tasks
	$(BIN)/python -m tests.support.flow_error --count $(COUNT) --seed $(SEED) $(TASKS)

soak-partitions: $(WARM)  ## COUNT=1000 random networks with all features, run in windows and in one heap: identical to the last event
	$(BIN)/python -m tests.support.partitions --count $(COUNT) --seed $(SEED)

soak-hostile: $(WARM)  ## send a million forged frames and P4Runtime requests, and compare with models: HOSTILE='--frames N --requests N'
	$(BIN)/python -m tests.support.hostile $(HOSTILE)

bench: $(WARM)  ## time over the lower bound at 10 and 100 Gb/s, as a table, and as CSV in out/bench
	$(BIN)/p4reduce sweep --rates 10G,100G --elements 1M --lanes 64,256 --out out/bench

study: $(WARM)  ## run a study of docs/ into out/NAME: NAME=poster|placement|turns|priorities|optical|compare|bench STUDY='--quick' or other flags; without NAME: list them
	@$(BIN)/python -m studies $(if $(NAME),$(NAME) $(if $(filter bench,$(NAME)),,--jobs $(JOBS)),--help) $(STUDY)

figures: $(WARM)  ## measure the tables of docs/performance.md on this machine and rewrite them: FIGURES='--parts loss,row' or other flags (long)
	@$(BIN)/python -m studies bench --docs docs/performance.md --out out/figures $(FIGURES)

# Some parts of the study `bench` at a time; all flags: python -m studies bench --help
bench-dataplane: PARTS = packets,compilation,frontend,frontend-packets,memory,tables,writes,locks,bmv2,bmv2-push  ## the embedded switch: ns a packet, tables, memory; also BMv2 if it is installed: BENCH=--json
bench-fabric: PARTS = tree,large,racks,forwarding,ns3,threads,exchange  ## virtual time: passes a second, a 25.6 M-element all-reduce, threads, windows over MPI; also ns-3: NS3_PYTHON=...
bench-plans: PARTS = plan-job,plan-tasks,plan-install,plan-all  ## planning: ms a job on fat-trees up to k = 64, and networkx's Steiner trees for comparison
bench-loss: PARTS = bounds,loss,heavy,real-udp,real-veth,row,guesses,wrong-guesses,guesses-loss,zeros,distance  ## cost of losses and its limits, in virtual and real time: BENCH='--parts zeros' or --json
bench-strangers: PARTS = strangers  ## uncoordinated senders on one uplink: frames resent needlessly, 20 seeds of 8 and of 32 senders
bench-start: PARTS = start,scale,from-nothing  ## waiting times: --help, first run and demo with nothing compiled, a warm run; fat-trees of 1,024 and 3,456 hosts, large tensors
bench-real: PARTS = veth-forwarding,veth-aggregation,udp-forwarding,udp-aggregation  ## the embedded switch on veth ports (needs namespaces) and UDP sockets: packets a second, CPU time a frame
bench-live: PARTS = live,live-commands  ## cost of the live page for a run, with the page closed and open: BENCH='--pairs 20' or --json
bench-machines: PARTS = carrying  ## cost of TLS for a collective of ranks on several machines, compared with a Unix socket
bench-dataplane bench-fabric bench-plans bench-loss bench-strangers bench-start bench-real bench-live bench-machines: $(WARM)
	@$(BIN)/python -m studies bench --parts $(PARTS) --out out/$@ $(BENCH)

bench-wrong: $(INSTALLED)  ## processor time of invalid commands, each below half a second, and of --help
	@$(BIN)/python -m tests.support.imports $(BENCH)

slurm-demo: $(WARM)  ## run 50 jobs of a real Slurm, on hosts chosen by p4reduce and by Slurm (needs Slurm): SLURM='--jobs 10' or other flags
	@$(BIN)/p4reduce slurm demo $(SLURM)

ray-demo: $(WARM)  ## run jobs of a real Ray on hosts that p4reduce chooses (needs Ray, p4reduce[ray])
	@$(BIN)/python -m p4reduce.adapters.ray $(RAY)

# Real time: what to run, by flags of make.
TOPO ?= star:hosts=4,servers=1
PLAN ?= steiner,ring,ps
WORKERS ?=
LANES ?= 256
LOSS ?= 0
MODEL ?=
COLLECTIVE ?=
REAL = -t '$(TOPO)' --plans '$(PLAN)' --lanes $(LANES) --loss $(LOSS) $(if $(WORKERS),--workers $(WORKERS)) \
  $(if $(MODEL),--model $(MODEL)) $(if $(COLLECTIVE),--collective $(COLLECTIVE))

bmv2-demo: $(WARM)  ## compare sums on real BMv2 with virtual time: TOPO= PLAN= WORKERS= LANES= LOSS= MODEL=digits COLLECTIVE=
	@$(BIN)/p4reduce confirm --targets bmv2 $(REAL)

netns-demo: $(WARM)  ## compare sums of the embedded switch between network namespaces with virtual time: flags as for bmv2-demo
	@$(BIN)/p4reduce confirm --targets embedded $(REAL)

bmv2-test: $(WARM)  ## every plan on BMv2, the embedded switch and in virtual time, with and without loss; or one combination: PLAN= TOPO= …
ifneq ($(filter command% environment%,$(origin TOPO) $(origin PLAN) $(origin WORKERS) $(origin LANES) $(origin LOSS) $(origin MODEL) $(origin COLLECTIVE)),)
	@$(BIN)/p4reduce confirm --targets bmv2,embedded $(REAL)
else
	$(BIN)/pytest -m bmv2 -rs
endif

bmv2-bench: $(WARM)  ## BMv2 against the embedded switch, and gloo: TOPO= PLAN=(one) WORKERS= LANES=64,256 LOSS= GLOO_PYTHON=
	@$(BIN)/python -m studies bench --parts targets,gloo --topology '$(TOPO)' --target-loss $(LOSS) \
	  --plan $(if $(filter command% environment%,$(origin PLAN)),'$(PLAN)',steiner) \
	  --lanes $(if $(filter command% environment%,$(origin LANES)),$(LANES),64$(comma)256) \
	  $(if $(WORKERS),--target-workers $(WORKERS)) $(if $(GLOO_PYTHON),--gloo-python $(GLOO_PYTHON)) $(BENCH)

real-soak: $(WARM)  ## check that 100 runs and 20 kills leave nothing behind: SOAK='--target bmv2 --links veth'
	$(BIN)/python -m tests.support.real.soak --runs 100 --kills 20 $(SOAK)

clients: $(INSTALLED)  ## install environments of the P4Runtime clients with which the server is tested (needs PyPI)
	$(BIN)/python -m tests.support.clients.install

bench-orchestrator: $(WARM)  ## cost of 50 to 5,000 waiting tasks: policy calls, rows, SQL statements and CPU time of each
	@$(BIN)/python -m tests.support.orchestrated.cost $(BENCH)

soak-orchestrator: $(WARM)  ## HISTORIES=10000 of tasks, with failures and kills between any two steps; 200 kills during a network's start
	$(BIN)/python -m tests.support.orchestrated.soak --histories $(HISTORIES)
	$(BIN)/python -m tests.support.orchestrated.starts --kills 200

soak-kills: $(WARM)  ## KILLS=1000 failures of hosts, processes, links and switches, joins and switch restarts, in virtual time
	$(BIN)/python -m tests.support.kills --kills $(KILLS)

soak-loss: $(WARM)  ## RUNS=1000 groups in virtual time that lose one frame of twenty: exact sums, and no rank is excluded
	$(BIN)/python -m tests.support.kills.lossy --runs $(RUNS)

labs-test: $(WARM)  ## check that each mistake of each lab gets its message (minutes)
	SOAK=1 $(BIN)/pytest -n $(JOBS) tests/unit/course tests/integration/course

live-test: $(WARM)  ## test the live page in a headless Chromium: widths, light and dark, keys (needs Debian's chromium, chromium-driver)
	@$(BIN)/python -c 'import selenium' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check selenium
	LIVE_TESTS=1 $(BIN)/pytest -rs tests/unit/views/live tests/integration/views/live

live-image: $(WARM)  ## draw docs/images/live.png and beside.png, pages of a paused run and of two runs, in a headless Chromium
	@$(BIN)/python -c 'import selenium' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check selenium
	@$(BIN)/python -m tests.support.live_picture

soak-labs: $(WARM)  ## grade random edits of correct solutions, beside judges that know only the READMEs, and other styles: SOAK='--labs 03 --edits 1000'
	$(BIN)/python -m tests.support.labs.soak $(SOAK)

labs-mistakes: $(WARM)  ## count the first messages that name the cause, for mistakes beyond the tables (minutes): SOAK='--batch second --labs 03'
	$(BIN)/python -m tests.support.labs.mistakes $(SOAK)

teach: $(WARM)  ## write slides, quizzes and answer keys of all labs to out/teach, for teachers: LABS='03 14'
	@$(BIN)/python packages/course/teaching/build.py out/teach $(LABS)

labs-likeness: $(WARM)  ## rates of disguised copies that likeness finds and of other pairs that it reports (95 %, 2 %): SOAK='--seed 3'
	$(BIN)/python -m tests.support.labs.likeness $(SOAK)

labs-class: $(WARM)  ## grade 100 submissions to all labs in parallel, twice: no false verdict, identical reports: STUDENTS=100
	$(BIN)/python -m tests.support.labs.classroom --students $(STUDENTS) --jobs $(JOBS)

soak-kills-real: $(WARM)  ## 100 failures of workers, switches, controllers and the coordinator in real time: SOAK='--target bmv2 --links veth'
	$(BIN)/python -m tests.support.kills.real --kills 100 $(SOAK)

soak-hosts: $(WARM)  ## 100 failures of launcher, agents, ranks, ssh and cables on 2 to 4 machines (namespaces; needs root, sshd): SOAK='--mode real'
	$(BIN)/python -m tests.support.kills.hosts --kills 100 $(SOAK)

soak-group: $(WARM)  ## HISTORIES=10000 of a group's agreement and of its coordinator: deaths, joins, forged messages, clock jumps
	$(BIN)/python -m tests.support.kills.agreed --histories $(HISTORIES)
	$(BIN)/python -m tests.support.kills.histories --histories $(HISTORIES)

soak-sandbox: $(WARM)  ## 300 attacks on the grader: as this user, as an unprivileged user, without namespaces; 10^6 random messages
	@$(BIN)/python -m tests.support.soak_sandbox $(SANDBOX)

soak-late: $(WARM)  ## PROGRAMS_LATE=10000 random scripts with stragglers: each late array is added once, to its own tensor, or reported
	@$(BIN)/python -m tests.support.late_tensors --programs $(PROGRAMS_LATE) --seed $(SEED)

soak-live: $(WARM)  ## a live page next to 10,000 idle connections, and 1,000 pauses: SOAK='--connections 1500 --pauses 50'
	$(BIN)/python -m tests.support.soak_live $(SOAK)

images: $(WARM)  ## draw the figures of docs/images/ that studies make
	@mkdir -p docs/images
	@$(BIN)/python -m studies bench --parts distance --seeds 3 --out out/distance
	@cp out/distance/figures/distance.svg docs/images/

conformance: $(WARM)  ## p4c's STF tests on both executors: P4C=/path/to/p4c-bm2-ss TESTDATA=/path/to/p4c/testdata
	P4C='$(P4C)' TESTDATA='$(TESTDATA)' $(BIN)/pytest -n $(JOBS) -m stf -rs tests/conformance/test_stf.py

conformance-p4: $(WARM)  ## compile p4c's corpus with the front end, and compare: P4C=/path/to/p4c-bm2-ss TESTDATA=/path/to/p4c/testdata
	P4C='$(P4C)' TESTDATA='$(TESTDATA)' $(BIN)/pytest -n $(JOBS) -m stf -rs tests/conformance/test_p4.py

conformance-p4-bmv2: $(WARM)  ## load the front end's output into real BMv2 and play it: SIMPLE_SWITCH_GRPC=... TESTDATA=...
	SIMPLE_SWITCH_GRPC='$(SIMPLE_SWITCH_GRPC)' TESTDATA='$(TESTDATA)' PROGRAMS='$(PROGRAMS)' \
	  $(BIN)/pytest -n $(JOBS) -m stf -rs tests/conformance/test_p4_bmv2.py

differential-p4: $(INSTALLED)  ## compare the front end with p4c on the same packets, and detect mutants: P4C=... PROGRAMS='folder ...' P4MUTANTS=4
	$(BIN)/python -m tests.support.frontend.differential $(if $(P4C),--p4c '$(P4C)') --mutants $(P4MUTANTS) $(PROGRAMS)

soak-p4: $(INSTALLED)  ## compile 100,000 mutated P4 sources; none may cause a traceback: SOAK='--sources 1000 --seed 2'
	$(BIN)/python -m tests.support.frontend.soak $(SOAK)

fuzz-bmv2: $(WARM)  ## compare with BMv2 on random cases: SIMPLE_SWITCH_GRPC=/path/to/simple_switch_grpc SEED= CASES=
	$(BIN)/python -m tests.support.conformance.fuzz --seed $(SEED) --cases $(CASES)

docs: $(INSTALLED)  ## build the documentation site in out/docs, with API pages and search, and check its links (needs PyPI)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open out/docs/index.html"

docs-test: $(WARM)  ## run all commands that README and docs/ print, including slow ones
	DOCS=long $(BIN)/pytest -n $(JOBS) tests/integration/docs

dist: $(INSTALLED)  ## build source distributions and wheels of p4reduce, p4switch and the course into dist/, as for a release
	rm -rf dist
	for package in . packages/p4switch packages/course; do $(BIN)/python -m build --outdir dist $$package || exit 1; done

switch-alone: $(WARM)  ## install p4switch in a fresh environment with NumPy and llvmlite only, and send a first packet; TESTDATA=...: p4c's corpus
	@P4C='$(P4C)' $(BIN)/python -m tests.support.switch_alone $(if $(TESTDATA),--testdata '$(TESTDATA)')

dist-test: $(WARM)  ## install the distributions into fresh environments, and run demo and lab there (minutes)
	DISTRIBUTIONS=1 $(BIN)/pytest -rs -m distributions tests/integration/test_distributions.py

release-check: $(WARM)  ## run every step of a release on one state, report in out/release: RELEASE='--list', '--only test,docs' or '--fewer' (hours)
	@$(BIN)/python -m tests.support.release $(RELEASE)

torch-test: $(FRAMEWORKS)  ## install PyTorch, Accelerate, DeepSpeed, Lightning and Ray Train, and run all tests with them (minutes)
	TORCH_TESTS=1 $(BIN)/pytest -rs tests/unit/adapters/torch tests/integration/adapters/torch \
	  tests/integration/runs/real/test_perf_beside.py tests/integration/group/test_interoperation.py

soak-restarts: $(TORCH)  ## torchrun --max-restarts: 50 kills of a rank at random moments, exact weights: SOAK='--kills 9 --ranks 3'
	@$(BIN)/python -m tests.support.torch_scripts.soak $(or $(SOAK),--kills 50)

soak-torch: $(TORCH)  ## torchrun: 1,000 process groups created and left, 200 trainings of DDP, FSDP2, DTensor, logs in out/torch: SOAK='--closes 50 --at-once 4'
	@$(BIN)/python -m tests.support.torch_scripts.soak $(or $(SOAK),--networks 1000 --closes 1000 --trainings 200 --at-once 8)

torch-own: $(TORCH)  ## PyTorch's own process-group tests on this back end, one line each, and counts (an hour): OWN='--match all_reduce --out FOLDER'
	@$(BIN)/python -c 'import expecttest' 2>/dev/null || $(BIN)/python -m pip install --quiet expecttest
	@$(BIN)/python -m tests.support.torch_scripts.own_tests $(OWN) 2>/dev/null

clean:  ## remove the virtual environment, caches and out/
	rm -rf $(VENV) out dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What the demo needs, once; again when a pyproject.toml changes. Our packages first, built with what stands in the
# environment: pip would install hatchling anew for each of them. Then what they depend on.
$(DEMO): pyproject.toml packages/p4switch/pyproject.toml
	@$(CHECK_PYTHON)
	@$(MEND_LINKS)
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@echo "installing into $(VENV) (once, about half a minute) …"
	@$(PIP) 'hatchling>=1.26' editables
	@$(PIP) --no-build-isolation --no-deps --editable packages/p4switch --editable .
	@$(PIP) 'p4reduce[demo]'
	@touch $@

# The rest of the environment: the course, the studies, and what tests and lint need.
$(INSTALLED): $(DEMO) packages/course/pyproject.toml
	@echo "installing what tests need (once) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(PIP) --no-build-isolation --no-deps --editable packages/course
	@$(PIP) p4reduce-course --group dev
	@touch $@

# Machine code of the fabric and of the P4 programs, compiled once and kept on disk.
$(WARM): $(INSTALLED)
	@$(BIN)/python -m p4reduce.cli.warm
	@touch $@

# PyTorch without CUDA, where no PyTorch is installed.
$(TORCH): $(WARM)
	@$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --index-url $(TORCH_INDEX) 'torch>=2.13'
	@touch $@

# What trains with PyTorch's process groups.
$(FRAMEWORKS): $(TORCH)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group frameworks
	@touch $@

# Git with core.symlinks=false leaves small files with the target's name in place of symbolic links, a source
# distribution leaves nothing.
define MEND_LINKS
for folder in $(LINKS); do \
	if [ ! -d "src/p4reduce/$$folder" ]; then \
		ln -sfn "../../$$folder" "src/p4reduce/$$folder" && echo "src/p4reduce/$$folder: made a symbolic link again"; \
	fi; \
done
endef

define CHECK_PYTHON
if [ -z "$(PYTHON)" ]; then \
	echo "p4reduce needs Python 3.11 or later; found: $$(python3 --version 2>&1 || true)." >&2; \
	echo "Install one, or name it: make demo PYTHON=/path/to/python3.12" >&2; exit 1; \
fi; \
if ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	echo "p4reduce needs Python 3.11 or later, but $(PYTHON) is $$($(PYTHON) --version 2>&1)." >&2; exit 1; \
fi; \
if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
	echo "$(PYTHON) cannot make virtual environments: its module venv or ensurepip is missing." >&2; \
	echo "On Debian and Ubuntu: apt install python3-venv  (then make demo again)" >&2; exit 1; \
fi
endef
