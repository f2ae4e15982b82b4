"""Arbitration: the primary, and the clients that are notified."""

import pytest
from finsy.proto import U128, p4r

from p4switch.p4runtime import P4RuntimeError, StatusCode
from p4switch.p4runtime.arbitration import MAX_CLIENTS, Arbitration

DEVICE = 7


def bid(election_id, role="", device_id=DEVICE):
    update = p4r.MasterArbitrationUpdate(device_id=device_id)
    if role:
        update.role.name = role
    if election_id is not None:
        update.election_id.CopyFrom(U128.encode(election_id))
    return update


def told(notifications):
    """Return (client, canonical code, election id) of each notification."""
    return [
        (client, StatusCode(m.status.code), U128.decode(m.election_id) if m.HasField("election_id") else None)
        for client, m in notifications
    ]


@pytest.fixture
def arbitration():
    return Arbitration(DEVICE)


def test_the_first_client_is_primary(arbitration):
    assert told(arbitration.update("a", bid(5))) == [("a", StatusCode.OK, 5)]
    assert arbitration.primary("") == "a"


def test_a_lower_election_id_is_backup_and_only_it_is_told(arbitration):
    arbitration.update("a", bid(5))
    assert told(arbitration.update("b", bid(4))) == [("b", StatusCode.ALREADY_EXISTS, 5)]


def test_a_higher_election_id_takes_over_and_backups_hear_first(arbitration):
    arbitration.update("a", bid(5))
    arbitration.update("b", bid(4))
    notifications = told(arbitration.update("c", bid(2**64 + 1)))
    assert sorted(notifications[:-1]) == [
        ("a", StatusCode.ALREADY_EXISTS, 2**64 + 1),
        ("b", StatusCode.ALREADY_EXISTS, 2**64 + 1),
    ]
    assert notifications[-1] == ("c", StatusCode.OK, 2**64 + 1)


def test_when_the_primary_leaves_the_next_one_follows(arbitration):
    arbitration.update("a", bid(5))
    arbitration.update("b", bid(4))
    assert told(arbitration.leave("a")) == [("b", StatusCode.OK, 4)]
    assert arbitration.primary("") == "b"


def test_when_a_backup_leaves_nobody_is_told(arbitration):
    arbitration.update("a", bid(5))
    arbitration.update("b", bid(4))
    assert arbitration.leave("b") == []
    assert arbitration.leave("b") == []


def test_a_primary_may_downgrade_itself(arbitration):
    arbitration.update("a", bid(5))
    arbitration.update("b", bid(4))
    assert told(arbitration.update("a", bid(3))) == [("a", StatusCode.ALREADY_EXISTS, 4), ("b", StatusCode.OK, 4)]


def test_a_primary_that_raises_its_id_stays_primary_and_all_are_told(arbitration):
    arbitration.update("a", bid(5))
    arbitration.update("b", bid(4))
    assert sorted(told(arbitration.update("a", bid(9)))) == [
        ("a", StatusCode.OK, 9),
        ("b", StatusCode.ALREADY_EXISTS, 9),
    ]


def test_repeating_a_bid_is_answered_to_the_sender_only(arbitration):
    arbitration.update("a", bid(5))
    arbitration.update("b", bid(4))
    assert told(arbitration.update("a", bid(5))) == [("a", StatusCode.OK, 5)]


def test_a_client_without_election_id_never_becomes_primary(arbitration):
    assert told(arbitration.update("a", bid(None))) == [("a", StatusCode.NOT_FOUND, None)]
    assert told(arbitration.update("b", bid(None))) == [("b", StatusCode.NOT_FOUND, None)]
    assert told(arbitration.update("c", bid(0)))[-1] == ("c", StatusCode.OK, 0)
    assert told(arbitration.leave("c")) == [("a", StatusCode.NOT_FOUND, 0), ("b", StatusCode.NOT_FOUND, 0)]


def test_an_election_id_belongs_to_one_client(arbitration):
    arbitration.update("a", bid(5))
    with pytest.raises(P4RuntimeError, match="Election id 5 already exists") as caught:
        arbitration.update("b", bid(5))
    assert caught.value.code is StatusCode.INVALID_ARGUMENT
    assert arbitration.leave("b") == []
    arbitration.update("b", bid(4))
    with pytest.raises(P4RuntimeError):
        arbitration.update("b", bid(5))
    assert arbitration.primary("") == "a"


def test_roles_have_primaries_of_their_own(arbitration):
    arbitration.update("a", bid(5))
    assert told(arbitration.update("b", bid(5, role="telemetry"))) == [("b", StatusCode.OK, 5)]
    assert sorted(arbitration.primaries()) == ["a", "b"]
    arbitration.check_primary("telemetry", U128.encode(5))
    with pytest.raises(P4RuntimeError) as caught:
        arbitration.check_primary("other", U128.encode(5))
    assert caught.value.code is StatusCode.NOT_FOUND


def test_a_stream_keeps_its_device_and_role(arbitration):
    arbitration.update("a", bid(5))
    for update in (bid(5, device_id=DEVICE + 1), bid(5, role="other")):
        with pytest.raises(P4RuntimeError) as caught:
            arbitration.update("a", update)
        assert caught.value.code is StatusCode.FAILED_PRECONDITION


def test_role_configurations_are_refused(arbitration):
    update = bid(5, role="r")
    update.role.config.Pack(p4r.Uint128(low=1))
    with pytest.raises(P4RuntimeError) as caught:
        arbitration.update("a", update)
    assert caught.value.code is StatusCode.INVALID_ARGUMENT


def test_the_number_of_clients_is_limited(arbitration):
    for number in range(MAX_CLIENTS):
        arbitration.update(number, bid(number))
    with pytest.raises(P4RuntimeError) as caught:
        arbitration.update("late", bid(1000))
    assert caught.value.code is StatusCode.RESOURCE_EXHAUSTED
    arbitration.leave(0)
    arbitration.update("late", bid(1000))
    assert arbitration.primary("") == "late"


@pytest.mark.parametrize("election_id", [None, 4, 6, 5 << 64])
def test_only_the_primary_may_write(arbitration, election_id):
    arbitration.update("a", bid(5))
    arbitration.update("b", bid(4))
    arbitration.check_primary("", U128.encode(5))
    with pytest.raises(P4RuntimeError) as caught:
        arbitration.check_primary("", None if election_id is None else U128.encode(election_id))
    assert caught.value.code is StatusCode.PERMISSION_DENIED


def test_without_clients_nobody_may_write(arbitration):
    with pytest.raises(P4RuntimeError) as caught:
        arbitration.check_primary("", U128.encode(1))
    assert caught.value.code is StatusCode.PERMISSION_DENIED
