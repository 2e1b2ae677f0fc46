"""A client's half of the conversation: what it says at which moment, and what it tells its user."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sluice import parse
from sluice.broker import BrokerConfig
from sluice.client.session import seam as seam_module
from sluice.client.session import taken as taken_module
from sluice.client.session.commands import (
    Advertise,
    Completed,
    Delivered,
    Inquire,
    InterestChanged,
    Publish,
    PublishAccepted,
    Published,
    PublishRefused,
    PublishUnknown,
    Subscribe,
    Told,
    Unadvertise,
    Unsubscribe,
    Unwatch,
    Upcall,
    Watch,
)
from sluice.client.session.seam import Ended, Replayed
from sluice.client.session.session import Session
from sluice.errors import ProtocolError, SluiceError
from sluice.protocol.batch import Batch, NotificationId, Records
from sluice.protocol.events import LinkDown, LinkUp, Received, Send, Tick
from sluice.protocol.export import checksum
from sluice.protocol.lease import LeaseConfig
from sluice.protocol.messages import (
    Accepted,
    Ack,
    Change,
    Deliver,
    Digest,
    Entry,
    EntryId,
    Halted,
    Heard,
    Kind,
    Lost,
    Message,
    Notify,
    Refused,
    Replay,
    Reply,
    Request,
    Role,
    Snapshot,
    Version,
)
from sluice.protocol.questions import Describe, Done, ReplayEvent
from tests.protocol.drive import entry, line, publish

UP = LinkUp("b", Role.BROKER)
LEASE = LeaseConfig(renew_seconds=10, lease_seconds=25, max_delay_seconds=1, diameter=4)


def sent(effects: list[Send | Upcall]) -> list[Message]:
    assert all(each.peer == "b" for each in effects if isinstance(each, Send))
    return [each.message for each in effects if isinstance(each, Send)]


def news(effects: list[Send | Upcall]) -> list[Upcall]:
    return [each for each in effects if not isinstance(each, Send)]


def online(name: str = "alice", **options: Any) -> Session:
    session = Session(name, **options)
    session.step(UP, 0.0)
    return session


def receive(session: Session, message: Message, now: float = 0.0) -> list[Send | Upcall]:
    return session.step(Received("b", message), now)


def subscribe(id: EntryId, text: str = "x > 1", replay: Replay | None = None) -> Subscribe:
    return Subscribe(id, parse(text), replay)


def notes(*numbers: int) -> Records:
    return Records("bob", numbers, records=[{"x": number} for number in numbers])


def deliver(number: int, *ids: EntryId) -> Deliver:
    return Deliver(notes(number), (ids,))


def delivered(number: int, *ids: EntryId) -> Delivered:
    return Delivered(notes(number), (ids,))


def publication(session: Session, *records: Any) -> Publish:
    return Publish(session.batch(records))


def test_commands_become_changes() -> None:
    session = online()
    first, zero = Version(1, 1), Version(1, 0)
    one = entry("x > 1", "alice/1", Replay(last=3))
    assert sent(session.step(subscribe("alice/1", "x > 1", Replay(last=3)), 0.0)) == [
        Change(Kind.SUBSCRIPTIONS, zero, first, (one,), ())
    ]
    assert sent(session.step(Advertise("alice/2", parse("x > 2")), 0.0)) == [
        Change(Kind.ADVERTISEMENTS, zero, first, (entry("x > 2", "alice/2"),), ())
    ]
    assert sent(session.step(Watch("alice/3", parse("x > 3")), 0.0)) == [
        Change(Kind.WATCHES, zero, first, (entry("x > 3", "alice/3"),), ())
    ]
    assert {kind: list(held) for kind, held in session.entries.items()} == {
        Kind.SUBSCRIPTIONS: ["alice/1"],
        Kind.ADVERTISEMENTS: ["alice/2"],
        Kind.WATCHES: ["alice/3"],
    }
    for command, kind in (
        (Unsubscribe("alice/1"), Kind.SUBSCRIPTIONS),
        (Unadvertise("alice/2"), Kind.ADVERTISEMENTS),
        (Unwatch("alice/3"), Kind.WATCHES),
    ):
        ((message),) = sent(session.step(command, 0.0))
        assert isinstance(message, Change) and message.kind == kind and len(message.removed) == 1
        assert message.version == Version(1, 2) and not session.entries[kind]
        assert session.step(command, 0.0) == [], "what is not held cannot be taken back"


def test_to_ask_again_changes_nothing_and_another_filter_needs_another_id() -> None:
    session = online()
    session.step(subscribe("alice/1"), 0.0)
    assert session.step(subscribe("alice/1"), 0.0) == []
    with pytest.raises(ProtocolError, match="'alice/1' is taken by x > 1"):
        session.step(subscribe("alice/1", "x > 2"), 0.0)
    with pytest.raises(ProtocolError):
        session.step(subscribe("alice/1", "x > 1", Replay()), 0.0)
    assert session.entries[Kind.SUBSCRIPTIONS] == {"alice/1": entry("x > 1", "alice/1")}


def test_ids_and_numbers_are_never_used_again() -> None:
    seen = set()
    for life in (1, 2, 3):
        session = online(incarnation=life)
        seen |= {session.new_id(), session.new_id()}
        for _ in range(2):
            published = session.step(publication(session, {"x": 1}), 0.0)[0]
            assert isinstance(published, Published) and published.batch.publisher == "alice"
            seen.add(str(published.batch.numbers[0]))
    assert len(seen) == 12


def test_commands_given_offline_are_said_at_the_next_link() -> None:
    session = Session("alice")
    assert session.step(subscribe("alice/1"), 0.0) == []
    assert session.step(subscribe("alice/2"), 0.0) == []
    assert session.step(Unsubscribe("alice/1"), 0.0) == []
    assert session.step(Watch("alice/3", parse("true")), 0.0) == []
    snapshots = sent(session.step(UP, 0.0))
    assert snapshots == [
        Snapshot(Kind.SUBSCRIPTIONS, Version(1, 3), (entry("x > 1", "alice/2"),)),
        Snapshot(Kind.ADVERTISEMENTS, Version(1, 0), ()),
        Snapshot(Kind.WATCHES, Version(1, 1), (entry("true", "alice/3"),)),
    ]
    assert news(receive(session, Ack(Kind.SUBSCRIPTIONS, Version(1, 3)))) == [Completed(Kind.SUBSCRIPTIONS, "alice/2")]


def test_nothing_is_published_offline() -> None:
    session = Session("alice")
    (refused,) = session.step(publication(session, {"x": 1}), 0.0)
    assert isinstance(refused, PublishRefused) and "no link" in refused.reason
    session.step(UP, 0.0)
    published, send = session.step(publication(session, {"x": {"y": 1}}), 0.0)
    assert isinstance(published, Published) and published.batch.id(0) != refused.id
    assert [*published.batch.records] == [{"x": {"y": 1}}]
    assert send == Send("b", Notify(published.batch))
    session.step(LinkDown("b"), 0.0)
    assert isinstance(session.step(publication(session, {"x": 1}), 0.0)[0], PublishRefused)


def test_a_bad_record_uses_no_number() -> None:
    session = online()
    with pytest.raises(SluiceError):
        session.step(publication(session, {"x": object()}), 0.0)
    published = session.step(publication(session, {"x": 1}), 0.0)[0]
    assert isinstance(published, Published) and [*published.batch.numbers] == [1]


def test_completed_comes_with_the_version_that_carries_the_request() -> None:
    session = online()
    for number in (1, 2, 3):
        session.step(subscribe(f"alice/{number}"), 0.0)
    session.step(Advertise("alice/4", parse("true")), 0.0)
    assert receive(session, Ack(Kind.SUBSCRIPTIONS, Version(1, 0))) == []
    assert receive(session, Ack(Kind.SUBSCRIPTIONS, Version(1, 2))) == [
        Completed(Kind.SUBSCRIPTIONS, "alice/1"),
        Completed(Kind.SUBSCRIPTIONS, "alice/2"),
    ]
    assert receive(session, Ack(Kind.SUBSCRIPTIONS, Version(1, 2))) == []
    assert receive(session, Ack(Kind.SUBSCRIPTIONS, Version(2, 9))) == [], "of another life"
    assert receive(session, Ack(Kind.INTEREST, Version(1, 9))) == []
    session.step(Unsubscribe("alice/3"), 0.0)
    assert receive(session, Ack(Kind.SUBSCRIPTIONS, Version(1, 4))) == [], "nobody waits for it any more"
    assert receive(session, Ack(Kind.ADVERTISEMENTS, Version(1, 1))) == [Completed(Kind.ADVERTISEMENTS, "alice/4")]


def test_a_reconnect_says_completed_again() -> None:
    session = online()
    session.step(subscribe("alice/1"), 0.0)
    assert receive(session, Ack(Kind.SUBSCRIPTIONS, Version(1, 1))) == [Completed(Kind.SUBSCRIPTIONS, "alice/1")]
    assert session.step(LinkDown("b"), 0.0) == []
    session.step(subscribe("alice/2"), 0.0)
    effects = session.step(LinkUp("c", Role.BROKER), 0.0)
    assert {each.peer for each in effects if isinstance(each, Send)} == {"c"} and session.broker == "c"
    assert session.step(Received("b", Ack(Kind.SUBSCRIPTIONS, Version(1, 2))), 0.0) == [], "from the link before"
    assert session.step(Received("c", Ack(Kind.SUBSCRIPTIONS, Version(1, 1))), 0.0) == [], "of the link before"
    assert session.step(Received("c", Ack(Kind.SUBSCRIPTIONS, Version(1, 2))), 0.0) == [
        Completed(Kind.SUBSCRIPTIONS, "alice/1"),
        Completed(Kind.SUBSCRIPTIONS, "alice/2"),
    ]


def test_deliveries_for_what_was_taken_back_are_dropped() -> None:
    session = online()
    for number in (1, 2):
        session.step(subscribe(f"alice/{number}"), 0.0)
    assert receive(session, deliver(5, "alice/1", "alice/2")) == [delivered(5, "alice/1", "alice/2")]
    session.step(Unsubscribe("alice/1"), 0.0)
    assert receive(session, deliver(6, "alice/1", "alice/2")) == [delivered(6, "alice/2")]
    assert receive(session, deliver(7, "alice/1")) == []
    session.step(Unsubscribe("alice/2"), 0.0)
    assert receive(session, Deliver(notes(8, 9), (("alice/2",), ()), [0, 1])) == []


def replay(session: Session, id: str, *batches: Batch) -> list[Send | Upcall]:
    """A history replays what is in no log, all at once; returns what is new."""
    said = receive(session, Request("history/1", id, ReplayEvent(batches, through={})))
    return [each for each in said if not isinstance(each, Send | Ended)]


def test_what_comes_live_and_replayed_counts_once() -> None:
    session = online()
    session.step(subscribe("alice/1", replay=Replay(last=9)), 0.0)
    session.step(subscribe("alice/2"), 0.0)
    assert receive(session, deliver(2, "alice/1", "alice/2")) == [delivered(2, "alice/1", "alice/2")]
    assert replay(session, "alice/1", notes(1, 2, 3)) == [Replayed("alice/1", notes(1, 3))]
    assert receive(session, deliver(3, "alice/1", "alice/2")) == [delivered(3, "alice/2")]
    assert replay(session, "alice/1", notes(1)) == []
    assert replay(session, "nobody/1", notes(1)) == []
    session.step(Unsubscribe("alice/1"), 0.0)
    assert replay(session, "alice/1", notes(9)) == []
    session.step(subscribe("alice/1", replay=Replay(last=9)), 0.0)
    assert replay(session, "alice/1", notes(3)) == [Replayed("alice/1", notes(3))], "a new wish, a new memory"


def test_what_a_cache_sends_again_for_a_newer_subscription_is_delivered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken_module, "MAX_SEEN", 2)
    session = online()
    session.step(subscribe("alice/1"), 0.0)
    session.step(subscribe("alice/2"), 0.0)
    assert receive(session, deliver(1, "alice/1")) == [delivered(1, "alice/1")]
    assert receive(session, deliver(1, "alice/2")) == []
    session.step(Unsubscribe("alice/1"), 0.0)
    assert receive(session, deliver(2, "alice/1")) == [], "given up in the meantime"
    assert receive(session, deliver(2, "alice/2")) == [delivered(2, "alice/2")], "so it counts for the newer one"
    receive(session, deliver(3, "alice/2"))
    assert receive(session, deliver(2, "alice/2")) == []
    receive(session, deliver(4, "alice/2"))
    assert len(session._taken._lately) == 2, "it remembers so much and no more"


def test_the_memory_for_replays_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seam_module, "MAX_SEEN", 2)
    session = online()
    session.step(subscribe("alice/1", replay=Replay()), 0.0)
    for number in (1, 2, 3):
        receive(session, deliver(number, "alice/1"))
    assert replay(session, "alice/1", notes(2, 3), notes(1)) == [Replayed("alice/1", notes(1))]


def test_a_refusal_is_passed_on() -> None:
    session = online()
    session.step(publication(session, {"x": 1}, {"x": 2}, {"x": 3}), 0.0)
    assert receive(session, Refused((1, 3), "why")) == [
        PublishRefused(NotificationId("alice", 1), "why"),
        PublishRefused(NotificationId("alice", 3), "why"),
    ]


def test_a_history_sends_to_one_subscription() -> None:
    asks = Inquire("alice/9", "bob/1", ReplayEvent((notes(1),), through={}))
    assert sent(online().step(asks, 0.0)) == [Request("alice/9", "bob/1", asks.question)]
    assert Session("alice").step(asks, 0.0) == []


def test_what_a_broker_lost_is_said_again() -> None:
    session = online()
    session.step(subscribe("alice/1"), 0.0)
    assert sent(receive(session, Lost(Kind.SUBSCRIPTIONS))) == [
        Snapshot(Kind.SUBSCRIPTIONS, Version(1, 1), (entry("x > 1", "alice/1"),))
    ]
    assert receive(session, Lost(Kind.INTEREST)) == []
    assert receive(session, Notify(notes(1))) == [] == receive(session, Snapshot(Kind.WATCHES, Version(1, 0), ()))


def interest(*entries: Entry, sequence: int = 1) -> Snapshot:
    return Snapshot(Kind.INTEREST, Version(1, sequence), entries)


ONE, TWO = entry("x > 1", "bob/1"), entry("x > 2", "bob/2")


def test_interest_comes_and_goes() -> None:
    session = online()
    assert receive(session, interest()) == []
    assert receive(session, Change(Kind.INTEREST, Version(1, 1), Version(1, 2), (ONE,), ())) == [
        InterestChanged((ONE,), ())
    ]
    assert receive(session, interest(TWO, sequence=3)) == [InterestChanged((TWO,), (ONE,))]
    assert session.step(LinkDown("b"), 0.0) == [InterestChanged((), (TWO,))]
    assert session.step(LinkDown("b"), 0.0) == []


def test_interest_of_its_own_is_none() -> None:
    """The broker that it was at before is gone, and others still hold what that one told them."""
    session, own = online(), entry("x > 1", "alice/7")
    assert receive(session, interest(own)) == [] and session.interest == ()
    assert receive(session, interest(own, TWO, sequence=2)) == [InterestChanged((TWO,), ())]
    assert receive(session, interest(sequence=3)) == [InterestChanged((), (TWO,))]


def test_interest_that_does_not_fit_is_asked_for_again() -> None:
    session = online()
    receive(session, interest(ONE))
    change = Change(Kind.INTEREST, Version(1, 5), Version(1, 6), (TWO,), ())
    assert receive(session, change) == [Send("b", Lost(Kind.INTEREST))]
    assert sent(receive(session, Digest(Kind.INTEREST, Version(1, 6), 0)))[-1] == Lost(Kind.INTEREST)
    assert receive(session, interest(ONE, TWO, sequence=6)) == [InterestChanged((TWO,), ())]


def test_a_link_that_replaces_another_takes_its_interest_away() -> None:
    """No news may be lost: what was added is removed before it is added again."""
    session = online()
    receive(session, interest(ONE))
    assert news(session.step(LinkUp("c", Role.BROKER), 0.0)) == [InterestChanged((), (ONE,))]


def test_without_leases_nothing_waits_for_time() -> None:
    session = online()
    assert session.deadline == math.inf and session.step(Tick(), 99.0) == []
    assert Session("alice", lease=LEASE).deadline == math.inf, "offline there is nothing to renew"


def test_leases_are_renewed_as_a_whole() -> None:
    session = online(lease=LEASE)
    session.step(subscribe("alice/1"), 0.0)
    assert session.deadline <= 0.0
    digests = sent(session.step(Tick(), 0.0))
    assert [(each.kind, each.version) for each in digests if isinstance(each, Digest)] == [
        (Kind.SUBSCRIPTIONS, Version(1, 1)),
        (Kind.ADVERTISEMENTS, Version(1, 0)),
        (Kind.WATCHES, Version(1, 0)),
    ]
    assert session.deadline == 10.0 and session.step(Tick(), 9.0) == []
    assert len(sent(session.step(Tick(), 10.0))) == 3 and session.deadline == 20.0
    session.step(LinkDown("b"), 21.0)
    assert session.step(Tick(), 30.0) == []


def test_without_leases_of_its_own_a_client_renews_when_its_broker_does() -> None:
    session = online()
    receive(session, interest(ONE))
    answers = sent(receive(session, Digest(Kind.INTEREST, Version(1, 1), checksum([ONE]))))
    assert [each.kind for each in answers if isinstance(each, Digest)] == [0, 1, 2] and len(answers) == 3


def test_interest_expires_unless_it_is_renewed() -> None:
    session = online(lease=LEASE)
    receive(session, interest(ONE))
    renewal = Digest(Kind.INTEREST, Version(1, 1), checksum([ONE]))
    session.step(Tick(), 10.0)
    assert receive(session, renewal, 12.0) == []
    assert news(session.step(Tick(), 25.0)) == [] == news(session.step(Tick(), 36.0))
    assert session.deadline <= 37.0, "it asks to be woken when the lease ends"
    assert news(session.step(Tick(), 37.0)) == [InterestChanged((), (ONE,))]
    assert receive(session, renewal, 38.0) == [Send("b", Lost(Kind.INTEREST))]


@pytest.mark.parametrize("damage", [math.inf, 1e12, math.nan, -math.inf])
def test_a_renewal_that_damage_put_off_comes_all_the_same(damage: float) -> None:
    session = online(lease=LEASE)
    session.step(Tick(), 0.0)
    session._renewal = damage
    assert not session.deadline > 25.0
    assert len(sent(session.step(Tick(), 25.0))) == 3 and session.deadline == 35.0


@pytest.mark.parametrize("damage", [math.inf, 1e12, math.nan, -math.inf])
def test_interest_that_damage_made_eternal_is_given_up(damage: float) -> None:
    session = online(lease=LEASE)
    receive(session, interest(ONE))
    session.step(Tick(), 0.0)
    session._interest.renewed = damage
    assert news(session.step(Tick(), 10.0)) == [InterestChanged((), (ONE,))]


def test_a_client_follows_a_broker_that_restarts() -> None:
    network = line(BrokerConfig(), 1)
    network.client("alice", "b0")
    network.do("alice", subscribe("alice/1"))
    network.run()
    assert network.completed() == ["alice/1"]
    network.crash("b0")
    network.do("alice", subscribe("alice/2"))
    network.broker("b0", "alice", incarnation=2)
    network.run()
    assert network.completed() == ["alice/1", "alice/2"]
    network.assert_consistent()
    publish(network, "alice", {"x": 2})
    network.run()
    assert network.deliveries() == [("alice/1", {"x": 2}), ("alice/2", {"x": 2})]


# --- what a broker has taken in ---------------------------------------------------------------------------------------


def durable(session: Session, accepted: int, broker: str = "b") -> list[Send | Upcall]:
    """A link to a durable broker that has so much of this client on disk."""
    return session.step(LinkUp(broker, Role.BROKER, accepted), 0.0)


def numbers_sent(effects: list[Send | Upcall]) -> list[list[int]]:
    return [[*message.batch.numbers] for message in sent(effects) if isinstance(message, Notify)]


def test_what_a_durable_broker_has_not_accepted_is_sent_again() -> None:
    session = Session("alice")
    durable(session, 0)
    for x in range(1, 4):
        session.step(publication(session, {"x": x}, {"x": -x}), 0.0)
    assert receive(session, Accepted(2)) == [PublishAccepted(2)]
    assert session.step(LinkDown("b"), 0.0) == [], "nothing is lost"
    (published,) = session.step(publication(session, {"x": 9}), 0.0)
    assert isinstance(published, Published), "it goes out with the rest"
    effects = durable(session, 4)
    assert news(effects) == [PublishAccepted(4)], "nothing behind what it refused is accepted before we have heard that"
    assert numbers_sent(effects) == [[5, 6], [7]]
    assert isinstance(sent(effects)[0], Snapshot), "but first it hears what is advertised"
    receive(session, Accepted(7))
    session.step(LinkDown("b"), 0.0)
    assert numbers_sent(durable(session, 7)) == []


def test_a_new_session_goes_on_where_the_disk_of_its_broker_ends() -> None:
    session = Session("alice")
    durable(session, 41)
    assert [*session.batch([{}]).numbers] == [42]
    later = Session("alice", incarnation=2)
    durable(later, 41)
    assert later.batch([{}]).numbers[0] > 2**32


def test_what_was_refused_is_not_sent_again() -> None:
    session = Session("alice")
    durable(session, 0)
    session.step(publication(session, {"x": 1}, {"x": 2}, {"x": 3}), 0.0)
    session.step(publication(session, {"x": 4}), 0.0)
    receive(session, Refused((2, 4), "no room"))
    session.step(LinkDown("b"), 0.0)
    assert numbers_sent(durable(session, 0)) == [[1, 3]]


def test_from_what_could_not_be_stored_on_everything_is_refused() -> None:
    session = Session("alice")
    durable(session, 0)
    session.step(publication(session, {"x": 1}, {"x": 2}, {"x": 3}), 0.0)
    session.step(publication(session, {"x": 4}), 0.0)
    assert receive(session, Halted(2, "no room")) == [
        Send("b", Heard()),
        *(PublishRefused(NotificationId("alice", number), "no room") for number in (2, 3, 4)),
    ]
    session.step(LinkDown("b"), 0.0)
    assert numbers_sent(durable(session, 0)) == [[1]] and [*session.batch([{}]).numbers] == [5]
    assert receive(session, Heard()) == []


def test_what_could_not_be_stored_of_an_earlier_life_is_no_reason_to_refuse() -> None:
    session = Session("alice", incarnation=2)
    durable(session, 0)
    session.step(publication(session, {"x": 1}), 0.0)
    effects = receive(session, Halted(7, "no room"))
    assert sent(effects)[0] == Heard() and len(numbers_sent(effects)) == 1 and news(effects) == []


def test_what_another_broker_may_have_lost_is_said_to_be_unknown() -> None:
    session = online()
    first, second = session.batch([{"x": 1}]), Records.of("alice", 2, [{"x": 2}])
    session.step(Publish(first), 0.0)
    session.step(Publish(second), 0.0)
    receive(session, Accepted(1))
    assert session.step(LinkDown("b"), 0.0) == [PublishUnknown(second)]
    assert session.step(LinkDown("b"), 0.0) == [] and numbers_sent(session.step(UP, 0.0)) == []


def test_nothing_is_sent_again_to_a_broker_that_keeps_no_log() -> None:
    session = Session("alice")
    durable(session, 0)
    batch = session.batch([{"x": 1}])
    session.step(Publish(batch), 0.0)
    session.step(LinkDown("b"), 0.0)
    effects = session.step(UP, 0.0)
    assert numbers_sent(effects) == [] and news(effects) == [PublishUnknown(batch)]


def test_numbers_go_up_and_names_are_true() -> None:
    session = online()
    session.step(publication(session, {"x": 1}), 0.0)
    for batch in (Records.of("alice", 1, [{}]), Records.of("bob", 2, [{}])):
        with pytest.raises(ProtocolError, match="number what follows from there"):
            session.step(Publish(batch), 0.0)
    assert numbers_sent(session.step(Publish(Records.of("alice", 5, [{}])), 0.0)) == [[5]]


def test_an_inquiry_is_told_its_answer() -> None:
    session = online()
    assert sent(session.step(Inquire("alice/1", "far", Describe()), 0.0)) == [Request("alice/1", "far", Describe())]
    assert receive(session, Reply("alice/1", Done())) == [Told("alice/1", Done())]


def test_a_part_of_a_batch_may_be_old_news() -> None:
    session = online()
    for number in (1, 2):
        session.step(subscribe(f"alice/{number}"), 0.0)
    first, second = ("alice/1",), ("alice/1", "alice/2")
    assert receive(session, Deliver(notes(1, 3), (first,))) == [Delivered(notes(1, 3), (first,))]
    assert receive(session, Deliver(notes(1, 2, 3, 4), (first, second), [0, 1, 0, 1])) == [
        Delivered(notes(2, 4), (first, second), [1, 1])
    ]
    session.step(Unsubscribe("alice/1"), 0.0)
    (left,) = receive(session, Deliver(notes(5, 6), (first, second), [0, 1]))
    assert isinstance(left, Delivered)
    assert [(each.notification.id.number, each.subscriptions) for each in left.deliveries] == [(6, ("alice/2",))]


def test_what_a_replay_brought_already_may_still_come_for_a_newer_subscription() -> None:
    session = online()
    session.step(subscribe("alice/1", replay=Replay()), 0.0)
    replay(session, "alice/1", notes(1))
    assert receive(session, deliver(1, "alice/1")) == []
    session.step(subscribe("alice/2"), 0.0)
    assert receive(session, deliver(1, "alice/2")) == [delivered(1, "alice/2")]
