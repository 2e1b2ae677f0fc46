"""Order at brokers: who asks for it, what is stamped and held back, and what flows past."""

from __future__ import annotations

import pytest

from sluice import parse
from sluice.broker import BrokerConfig
from sluice.client.session.commands import Advertise, Delivered, Publish, Unadvertise, Unsubscribe, Withheld
from sluice.protocol.batch import MARKED, Records, Stamp
from sluice.protocol.effects import Effects
from sluice.protocol.events import Received, Send
from sluice.protocol.messages import Await, Floor, Kind, Message, Notify
from tests.protocol.order.line import got, line, publish, stamps, subscribe


def test_without_a_wish_nothing_is_stamped_and_nothing_is_said() -> None:
    net = line()
    subscribe(net, "Z", ordered=False)
    net.run()
    publish(net, "X", {"n": 1})
    net.run()
    assert got(net, "Z") == [1]
    assert stamps(net) == [None, None]
    assert not any(isinstance(message, Floor | Await) for _, _, message in net.log)
    assert not any(net.brokers["x"].order.account(0.0).values())


def test_a_wish_reaches_every_broker_also_where_its_filter_need_not_go() -> None:
    net = line()
    subscribe(net, "Z", "n >= 0", ordered=False)
    net.run()
    assert net.completed() == ["Z/1"]
    net.hold("x", "y")
    subscribe(net, "Z", "n > 0")
    net.run()
    assert net.completed() == [], "x has not said that it knows"
    net.release("x", "y")
    net.run()
    assert net.completed() == ["Z/2"]
    publish(net, "X", {"n": 1})
    net.run()
    assert stamps(net) == [Stamp(1, "x"), Stamp(1, "x")]
    net.do("Z", Unsubscribe("Z/2"))
    net.run()
    publish(net, "X", {"n": 2})
    net.run()
    assert stamps(net)[2:] == [None, None] and got(net, "Z")[-2:] == [1, 2]


def test_a_link_that_goes_takes_the_wish_along() -> None:
    net = line(BrokerConfig(advertisements="covering"))
    net.do("X", Advertise("X/1", parse("n > 0")))
    subscribe(net, "Z", "m > 0")
    net.run()
    assert net.brokers["x"].tables[Kind.SUBSCRIPTIONS].is_ordered, "though nothing of it overlaps"
    net.cut("x", "y")
    assert not net.brokers["x"].tables[Kind.SUBSCRIPTIONS].is_ordered


def test_what_is_wanted_in_order_waits_for_every_link() -> None:
    net = line()
    subscribe(net, "Y")
    net.run()
    net.hold("y", "x")
    publish(net, "Z", {"n": 1})
    net.run()
    assert got(net, "Y") == []
    account = net.brokers["y"].order.account(2.5)
    assert (account["waiting"], account["waiting_clients"], account["waiting_seconds"]) == (1, 1, 2.5)
    publish(net, "Y", {"n": 2})
    publish(net, "X", {"n": 3})
    net.run()
    assert got(net, "Y") == [3, 1], (
        "both at the time 1 of their brokers, whose names decide; x promises that moment, and no more"
    )
    net.release("y", "x")
    net.run()
    assert got(net, "Y") == [3, 1, 2]


def test_nobody_waits_for_a_link_that_is_gone() -> None:
    net = line()
    subscribe(net, "Y")
    net.run()
    net.hold("y", "x")
    publish(net, "Z", {"n": 1})
    net.run()
    assert got(net, "Y") == []
    net.cut("x", "y")
    net.run()
    assert got(net, "Y") == [1]


def test_what_is_marked_is_in_order_for_all_and_the_rest_flows_past() -> None:
    net = line()
    subscribe(net, "Y", ordered=False)
    net.run()
    net.hold("y", "x")
    publish(net, "Z", {"n": 1}, ordered=True)
    publish(net, "X", {"n": 2})
    net.run()
    assert got(net, "Y") == [2]
    publish(net, "Z", {"n": 3})
    net.run()
    assert got(net, "Y") == [2], "it waits behind what its publisher has published before"
    net.release("y", "x")
    net.run()
    assert got(net, "Y") == [2, 1, 3]
    assert Stamp(1, "z", is_marked=True) in stamps(net)


def test_by_configuration_everything_is_in_order() -> None:
    net = line(BrokerConfig(orders_all=True))
    subscribe(net, "Z", ordered=False)
    net.run()
    publish(net, "X", {"n": 1})
    net.run()
    assert got(net, "Z") == [1] and stamps(net) == [Stamp(1, "x", is_marked=True)] * 2


def test_an_ordered_subscription_gets_nothing_that_was_on_its_way_before_it() -> None:
    net = line()
    subscribe(net, "Y", ordered=False)
    net.run()
    net.hold("x", "y")
    publish(net, "X", {"n": 1})
    net.run()
    subscribe(net, "Y")
    net.release("x", "y")
    net.run()
    delivered = [delivery.subscriptions for _, each in net.take_news(Delivered) for delivery in each.deliveries]
    assert delivered == [("Y/1",)]


def test_a_batch_has_one_moment() -> None:
    net = line()
    subscribe(net, "Z", "n > 1")
    net.run()
    publish(net, "X", {"n": 1}, {"n": 2}, {"n": 3})
    publish(net, "X", {"n": 4})
    net.run()
    assert got(net, "Z") == [2, 3, 4]
    assert {stamp.time for stamp in stamps(net) if stamp} == {1, 2}


@pytest.mark.parametrize("ordered", [True, False])
def test_the_first_publication_of_an_advertisement_waits_for_its_acknowledgement(ordered: bool) -> None:
    net = line(BrokerConfig(advertisements="covering"))
    net.do("Z", Advertise("Z/1", parse("n > 0")))
    subscribe(net, "Z", ordered=ordered)
    net.run()
    for n in range(1, 6):
        publish(net, "Z", {"n": n}, ordered=True)
    net.run()
    net.hold("z", "y")
    net.do("X", Advertise("X/1", parse("n > 0")))
    publish(net, "X", {"n": 7}, ordered=True)
    publish(net, "X", {"n": 8})
    net.do("X", Unadvertise("X/1"))
    net.run()
    assert net.brokers["x"].order.account(0.0)["unstamped"] == 3, "also what it advertises no more"
    assert net.brokers["x"].order.algorithm.clock == 0
    net.release("z", "y")
    net.run()
    assert got(net, "Z")[:7] == [1, 2, 3, 4, 5, 7, 8]
    assert net.brokers["x"].order.account(0.0)["unstamped"] == 0
    assert not net.take_news(Withheld)


def test_what_is_no_longer_advertised_in_the_same_moment_waits_too() -> None:
    net = line(BrokerConfig(advertisements="covering"))
    net.hold("y", "x")
    session, broker = net.clients["X"], net.brokers["x"]
    said: list[Message] = []
    for command in (
        Advertise("X/1", parse("n > 0")),
        Publish(session.batch([{"n": 1}], ordered=True)),
        Unadvertise("X/1"),
    ):
        said += [each.message for each in session.step(command, 0.0) if isinstance(each, Send)]
    broker.step_all([Received("X", message) for message in said], 0.0)
    assert broker.order.account(0.0)["unstamped"] == 2
    assert [entry.id for entry in broker.tables[Kind.ADVERTISEMENTS].replicas["X"].entries] == ["X/1"]


def test_who_comes_to_another_broker_is_behind_nobody() -> None:
    net = line()
    subscribe(net, "X")
    net.run()
    net.cut("x", "y")
    for n in range(1, 9):
        publish(net, "X", {"n": n})
    net.run()
    assert got(net, "X") == [*range(1, 9)]
    net.cut("X", "x")
    net.link("X", "z")
    net.run()
    publish(net, "Y", {"n": 9})
    net.run()
    assert got(net, "X")[-1] == 9 and not net.take_news(Withheld), "y has heard that X has seen the time 8"


def test_what_a_healed_partition_brings_too_late_is_withheld_and_told() -> None:
    net = line()
    for client in "XYZ":
        subscribe(net, client)
    net.run()
    net.cut("y", "z")
    for n in range(1, 9):
        publish(net, "Z", {"n": n})
    net.run()
    net.hold("y", "x")
    net.hold("x", "y")
    publish(net, "X", {"n": 10})
    net.link("y", "z")
    net.run()
    net.release("x", "y")
    net.release("y", "x")
    net.run()
    withheld = [
        (name, [dict(each.record) for each in late.batch]) for name, late in net.news if isinstance(late, Withheld)
    ]
    assert withheld == [("Z", [{"n": 10}])]
    assert (got(net, "X"), got(net, "Z")) == ([10], [*range(1, 9)])
    publish(net, "X", {"n": 11})
    net.run()
    assert got(net, "X")[-1] == got(net, "Y")[-1] == got(net, "Z")[-1] == 11


def test_a_promise_rides_on_the_last_publication() -> None:
    effects = Effects()
    batches = [Records.of("a", n, [{"n": n}]).stamped(Stamp(n, "b")) for n in (1, 2, 3)]
    for message in (Notify(batches[0], floor=0), Notify(batches[1], floor=0)):
        effects.note("x", message)
        effects.all.append(Send("x", message))
    effects.promise("x", Floor(2))
    assert effects.all == [Send("x", Notify(batches[0], floor=0)), Send("x", Notify(batches[1], floor=2))]
    effects.note("x", Notify(batches[2]))
    effects.all.append(Send("x", Notify(batches[2])))
    effects.promise("x", Floor(3))
    assert effects.all[2:] == [Send("x", Notify(batches[2])), Send("x", Floor(3))]


def test_a_client_says_no_more_than_that_it_wants_order() -> None:
    order = line().brokers["x"].order
    batch = Records.of("X", 1, [{"n": 1}])
    assert order.objection(Notify(batch), "no order here") is None
    assert order.objection(Notify(batch.stamped(MARKED)), None) is None
    assert order.objection(Notify(batch.stamped(MARKED)), "no order here") == "no order here"
    assert order.objection(Await(1 << 40), None) is None
    assert "no clock is as far ahead" in str(order.objection(Await((1 << 40) + 1), None))
