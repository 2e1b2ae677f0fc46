"""Order by a root: who it is, what goes up and comes down, and what becomes of it when it is gone."""

from __future__ import annotations

import pytest

from sluice.broker import BrokerConfig
from sluice.client.session.commands import Withheld
from sluice.errors import ConfigurationError
from sluice.protocol.arrival import Arrival
from sluice.protocol.batch import MARKED, Peer, Records, Stamp
from sluice.protocol.messages import Await, Floor, Kind
from sluice.protocol.order.rooted import FOLLOW_SECONDS, Rooted
from sluice.protocol.route.directions import Directions
from sluice.protocol.route.ways import Ways
from tests.protocol.drive import Network, advertise
from tests.protocol.order.line import got, line, publish, stamps, subscribe

ROOTED = BrokerConfig(order_algorithm="rooted", order_root="y")


def rooted(name: Peer, preferred: Peer | None = None, **ways: Peer) -> tuple[Rooted, Ways]:
    """What a broker knows that has heard of others by these ways."""
    known = Ways()
    for broker, peer in ways.items():
        known.add(broker, peer)
    made = Rooted(Directions(name), known, preferred)
    made.survey()
    return made, known


def arrival(source: Peer, number: int = 1, publisher: Peer = "P") -> Arrival:
    return Arrival(source, Records.of(publisher, number, [{"n": number}]))


def roots(net: Network) -> dict[Peer, Peer | None]:
    return {name: broker.order.algorithm.root for name, broker in net.brokers.items()}


def test_the_root_is_the_preferred_broker_or_the_first_by_name() -> None:
    assert rooted("b")[0].root == "b"
    assert rooted("b", a="x", c="x")[0].root == "a"
    assert rooted("b", "c", a="x", c="x")[0].root == "c"
    assert rooted("b", "b", a="x")[0].root == "b"
    assert rooted("b", "d", a="x")[0].root == "a", "nobody knows d"
    with pytest.raises(ConfigurationError, match="no order algorithm is called 'guessing': take floors or rooted"):
        line(BrokerConfig(order_algorithm="guessing"))


def test_all_brokers_that_are_linked_have_one_root() -> None:
    net = line(ROOTED)
    assert roots(net) == dict.fromkeys("xyz", "y")
    net.cut("x", "y")
    net.run()
    assert roots(net) == {"x": "x", "y": "y", "z": "y"}
    net.crash("y")
    net.run()
    assert roots(net) == {"x": "x", "z": "z"}
    net.link("x", "z")
    net.run()
    assert roots(net) == {"x": "x", "z": "x"}


def test_the_root_stamps_and_the_others_send_up() -> None:
    root, _ = rooted("a", b="x")
    root.arrived("x", 6, None)
    placed = root.place(arrival("x"), False, 0.0)
    assert placed is not None and placed.batch.stamp == Stamp(7, "a", is_marked=True)
    assert (placed.source, placed.upward) == ("a", None), "so that it goes back to x as well"
    other, _ = rooted("b", a="y")
    placed = other.place(arrival("x"), False, 0.0)
    assert placed is not None and (placed.batch.stamp, placed.upward) == (MARKED, "y")


def test_what_would_have_to_turn_round_is_lost() -> None:
    broker, ways = rooted("b", a="y", c="x")
    assert broker.place(arrival("x"), True, 0.0) is not None
    ways.remove("a", "y")
    broker.survey()
    assert broker.root == "b", "it is the first by name now"
    broker, ways = rooted("d", a="y", c="x")
    ways.remove("a", "y")
    broker.survey()
    assert (broker.root, broker.place(arrival("x"), True, 0.0), broker.lost) == ("c", None, 1)
    assert broker.place(arrival("y"), True, 0.0) is not None


def test_the_way_up_hears_of_times_that_did_not_come_down() -> None:
    broker, ways = rooted("c", a="y", b="x")
    broker.arrived("y", 5, None)
    assert [*broker.settle(0)] == []
    broker.hear("x", Await(9))
    broker.hear("x", Floor(12))
    assert [*broker.settle(0)] == [("y", Await(9))]
    assert [*broker.settle(0)] == []
    broker.reach(11)
    assert [*broker.settle(0)] == [("y", Await(11))]
    broker.renew()
    assert [*broker.settle(0)] == [("y", Await(11))]
    ways.remove("a", "y")
    broker.survey()
    assert [*broker.settle(0)] == [("x", Await(11))], "there is a new root"
    ways.remove("b", "x")
    broker.survey()
    assert broker.root == "c" and [*broker.settle(0)] == []


def test_a_publisher_follows_what_it_has_sent_up_for_a_while() -> None:
    broker, _ = rooted("b", a="y")
    broker.place(arrival("P"), True, 5.0)
    broker.place(arrival("x", publisher="Q"), True, 5.0)
    assert [*broker.followers] == ["P"], "Q is at another broker, which sees to that"
    assert broker.follows("P", 5.0) and not broker.follows("Q", 5.0)
    broker.place(arrival("P", 2), True, 6.0)
    assert broker.follows("P", 5.5 + FOLLOW_SECONDS)
    assert not broker.follows("P", 6.0 + FOLLOW_SECONDS) and not broker.followers


def test_a_publication_goes_up_unseen_and_comes_down_where_it_is_wanted() -> None:
    net = line(BrokerConfig(order_algorithm="rooted", order_root="z"))
    for client in "XY":
        subscribe(net, client)
    net.run()
    publish(net, "X", {"n": 1})
    net.hold("z", "y")
    net.run()
    assert got(net, "X") == got(net, "Y") == [], "also where it passes, and where it comes from"
    assert stamps(net) == [MARKED, MARKED, Stamp(1, "z", is_marked=True)]
    net.release("z", "y")
    net.run()
    assert got(net, "X") == got(net, "Y") == [1]
    assert not any(isinstance(message, Floor | Await) for _, _, message in net.log)
    accounts = {name: broker.order.account(0.0) for name, broker in net.brokers.items()}
    assert [account["stamped"] for account in accounts.values()] == [0, 0, 1]
    assert not any(account["held"] or account["lost"] for account in accounts.values())


def test_all_see_the_order_of_the_root_and_nobody_waits() -> None:
    net = line(ROOTED)
    for client in "XYZ":
        subscribe(net, client)
    net.run()
    net.hold("x", "y")
    publish(net, "X", {"n": 1})
    publish(net, "Z", {"n": 2})
    net.run()
    assert [got(net, client) for client in "XYZ"] == [[2]] * 3
    net.release("x", "y")
    net.run()
    assert [got(net, client) for client in "XYZ"] == [[2, 1]] * 3


def test_without_a_wish_nothing_goes_up() -> None:
    net = line(BrokerConfig(order_algorithm="rooted", order_root="z"))
    subscribe(net, "Y", ordered=False)
    net.run()
    publish(net, "X", {"n": 1})
    net.run()
    assert got(net, "Y") == [1] and stamps(net) == [None]


def test_what_is_not_ordered_does_not_overtake_what_is() -> None:
    net = line(BrokerConfig(order_algorithm="rooted", order_root="z"))
    subscribe(net, "Y", ordered=False)
    net.run()
    publish(net, "X", {"n": 1})
    publish(net, "X", {"n": 2}, ordered=True)
    net.hold("z", "y")
    publish(net, "X", {"n": 3})
    net.run()
    assert got(net, "Y") == [1]
    net.release("z", "y")
    net.run()
    assert got(net, "Y") == [1, 2, 3]
    net.now = FOLLOW_SECONDS
    publish(net, "X", {"n": 4})
    net.run()
    assert got(net, "Y")[-1] == 4 and stamps(net)[-1] is None, "that was long ago"


@pytest.mark.parametrize("gone", ["link", "broker"])
def test_a_new_root_goes_on_above_all_times_that_were_seen(gone: str) -> None:
    net = line(BrokerConfig(order_algorithm="rooted", order_root="z"))
    for client in "XY":
        subscribe(net, client)
    net.run()
    for n in range(1, 6):
        publish(net, "Z", {"n": n})
    net.run()
    if gone == "link":
        net.cut("y", "z")
    else:
        net.crash("z")
    publish(net, "Y", {"n": 6})
    net.run()
    assert roots(net)["y"] == "x" and got(net, "X") == got(net, "Y") == [*range(1, 7)]
    assert net.brokers["x"].order.algorithm.clock == 6 and not net.take_news(Withheld)


def test_what_is_on_its_way_to_a_root_that_is_gone_is_lost_and_counted() -> None:
    net = line(BrokerConfig(order_algorithm="rooted", order_root="z"))
    subscribe(net, "X")
    net.run()
    net.hold("x", "y")
    publish(net, "X", {"n": 1})
    net.run()
    net.cut("y", "z")
    net.release("x", "y")
    net.run()
    publish(net, "X", {"n": 2})
    net.run()
    assert got(net, "X") == [2] and net.brokers["y"].order.account(0.0)["lost"] == 1


def test_a_root_that_comes_back_has_heard_of_the_time() -> None:
    net = line(BrokerConfig(order_algorithm="rooted", order_root="z"))
    for client in "XYZ":
        subscribe(net, client)
    net.run()
    net.cut("y", "z")
    for n in range(1, 9):
        publish(net, "X", {"n": n})
    net.run()
    net.link("y", "z")
    net.run()
    publish(net, "Z", {"n": 9})
    net.run()
    assert got(net, "X") == got(net, "Y") == [*range(1, 10)] and got(net, "Z") == [9]
    assert not net.take_news(Withheld)


def test_subscriptions_find_the_root_also_where_advertisements_steer_them() -> None:
    net = line(BrokerConfig(advertisements="covering", order_algorithm="rooted", order_root="z"))
    advertise(net, "X/9", "n > 0")
    net.run()
    subscribe(net, "X")
    net.run()
    assert len(net.brokers["z"].tables[Kind.SUBSCRIPTIONS].replicas["y"].entries) == 1
    publish(net, "X", {"n": 1})
    net.run()
    assert got(net, "X") == [1]
    net.cut("y", "z")
    net.run()
    assert [entry.where.to_sql() for entry in net.brokers["y"].tables[Kind.ADVERTISEMENTS].replicas["x"].entries] == [
        "true"
    ]
    publish(net, "X", {"n": 2})
    net.run()
    assert got(net, "X") == [1, 2]
