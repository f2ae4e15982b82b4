"""Members count as dead if they ended, or if they are silent while others wait for them."""

from p4reduce.group.membership import Lease, Leases

LEASE = Lease(beat=1, term=10)


def test_silence_alone_excludes_nobody():
    leases = Leases(LEASE, range(3), 0)
    assert leases.expired(1000) == (0, 1, 2)
    assert leases.accuse((), 1000) == ()
    assert leases.alive == (0, 1, 2)


def test_a_straggler_with_a_live_lease_is_never_excluded():
    leases = Leases(LEASE, range(2), 0)
    leases.heard(0, 5)
    assert leases.accuse({0, 1}, 14) == (1,)
    assert leases.accuse({0}, 14) == ()
    assert leases.accuse({0}, 15) == (0,)


def test_who_ended_is_dead_at_once_and_once():
    leases = Leases(LEASE, range(2), 0)
    assert leases.ended(1, "was killed")
    assert not leases.ended(1, "again")
    assert not leases.heard(1, 1)
    assert leases.dead == {1: "was killed"}
    assert not leases.heard(7, 1)


def test_a_lease_begins_once_and_the_dead_have_none():
    leases = Leases(LEASE, range(2), 0)
    leases.join(2, 5)
    leases.join(2, 9)
    leases.join(0, 9)
    assert (leases.runs_out(2), leases.runs_out(0)) == (15, 10)
    assert leases.ended(7, "was killed before it came")
    assert leases.knows(7)
    assert leases.alive == (0, 1, 2)


def test_time_in_which_nobody_listened_counts_against_nobody():
    leases = Leases(LEASE, range(2), 0)
    leases.heard(0, 5)
    leases.postpone(100)
    assert leases.expired(109) == ()
    assert leases.expired(110) == (1,)
    assert leases.expired(115) == (0, 1)
