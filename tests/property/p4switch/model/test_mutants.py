"""Mutated programs on both executors, in child processes; ``make soak-model`` runs many more."""

import random
from collections import Counter

from tests.support.effort import examples
from tests.support.mutants import children
from tests.support.mutants.mutate import mutated
from tests.support.mutants.run import BASES, base

MUTANTS = examples(150, 300)


def test_mutants_are_refused_or_run_alike_on_both_executors() -> None:
    findings = list(children.play(0, MUTANTS))
    wrong = [f for f in findings if f.outcome not in ("refused", "beyond", "same")]
    assert not wrong, wrong[:3]
    counts = Counter(f.outcome for f in findings)
    assert counts["refused"] > MUTANTS // 4
    assert counts["same"] > MUTANTS // 8


def test_it_is_told_which_mutant_ended_its_child(monkeypatch) -> None:
    monkeypatch.setattr(children, "_CHILD", ["-c", "import os; print('same', flush=True); os.abort()"])
    assert [(f.seed, f.outcome) for f in children.play(5, 3)] == [(5, "same"), (6, "crash"), (7, "same")]


def test_mutants_repeat_and_leave_their_base_alone() -> None:
    for name in BASES:
        before = repr(base(name))
        one, again = (mutated(base(name), random.Random(n)) for n in (1, 1))
        assert one == again
        assert repr(base(name)) == before
