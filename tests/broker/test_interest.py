"""Who hears who wants what, and how a replay finds the one subscription it is for."""

from __future__ import annotations

from sluice import parse
from sluice.broker import BrokerConfig
from sluice.client.session.commands import Completed, Inquire, InterestChanged, Told, Unsubscribe, Unwatch, Watch
from sluice.client.session.seam import Replayed
from sluice.protocol.batch import Records
from sluice.protocol.messages import Kind, Replay, Request
from sluice.protocol.questions import Failed, ReplayEvent, Replaying
from tests.protocol.drive import entry, line, star, subscribe


def test_a_watcher_hears_who_wants_what_it_watches() -> None:
    network = line(BrokerConfig(), 3)
    for name, home in (("alice", "b0"), ("carol", "b2"), ("bob", "b2")):
        network.client(name, home)
    subscribe(network, "alice/1", "x > 1", Replay(last=3))
    subscribe(network, "alice/2", "y > 1")
    subscribe(network, "carol/1", "x = 5 AND y = 0")
    subscribe(network, "bob/1", "x > 1")
    network.run()
    network.news.clear()
    network.do("bob", Watch("bob/2", parse("x > 0 AND y < 1")))
    network.run()
    kinds = [type(each) for name, each in network.news if name == "bob"]
    assert kinds[-1] is Completed, "complete is a watch when all interest has come"
    added = [each for _, one in network.take_news(InterestChanged) for each in one.added]
    assert sorted(added, key=repr) == sorted(
        [entry("x > 1", "alice/1", Replay(last=3)), entry("x = 5 AND y = 0", "carol/1")], key=repr
    ), "nobody hears of its own subscriptions"
    subscribe(network, "carol/2", "x = 7")
    network.do("alice", Unsubscribe("alice/1"))
    network.run()
    changed = [each for name, each in network.take_news(InterestChanged) if name == "bob"]
    assert sorted(changed, key=repr) == sorted(
        [
            InterestChanged((entry("x = 7", "carol/2"),), ()),
            InterestChanged((), (entry("x > 1", "alice/1", Replay(3)),)),
        ],
        key=repr,
    )
    network.do("bob", Unwatch("bob/2"))
    network.run()
    assert len([each for _, one in network.take_news(InterestChanged) for each in one.removed]) == 2
    assert all(network.told(a, b, Kind.INTEREST) == [] for a, b in (("b0", "b1"), ("b1", "b2")))


def test_interest_does_not_travel_where_nobody_watches() -> None:
    network = star(BrokerConfig(), 3)
    network.client("alice", "a0")
    network.client("bob", "a1")
    network.do("bob", Watch("bob/1", parse("x > 1")))
    network.run()
    subscribe(network, "alice/1", "x > 5")
    network.run()
    assert network.told("hub", "a1", Kind.INTEREST) == ["x > 5"]
    assert network.told("hub", "a2", Kind.INTEREST) == []


def test_watches_are_told_by_covering() -> None:
    network = line(BrokerConfig(routing="simple"), 2)
    network.client("bob", "b0")
    for number, text in enumerate(("x > 1", "x > 2", "x > 1")):
        network.do("bob", Watch(f"bob/{number}", parse(text)))
    network.run()
    assert network.told("b0", "b1", Kind.WATCHES) == ["x > 1"]


def test_a_replay_goes_to_one_subscription_alone() -> None:
    network = star(BrokerConfig(), 3)
    for name, home in (("alice", "a0"), ("carol", "a0"), ("dave", "a2"), ("history", "a1")):
        network.client(name, home)
    network.do("history", Watch("history/1", parse("true")))
    for id in ("alice/1", "alice/2", "carol/1", "dave/1"):
        subscribe(network, id, "x > 1", Replay(last=1))
    network.run()
    network.news.clear()
    network.log.clear()
    past = Records.of("old", 1, [{"x": 2}])
    network.do("history", Inquire("history/2", "alice/2", ReplayEvent((past,), through={})))
    network.do("history", Inquire("history/3", "nobody/2", ReplayEvent((past,), through={})))
    network.run()
    told = {news.id: news.answer for _, news in network.news if isinstance(news, Told)}
    assert network.take_news(Replayed) == [("alice", Replayed("alice/2", past))]
    assert told["history/2"] == Replaying(None, is_over=True)
    assert told["history/3"] == Failed("a1 knows no way to 'nobody/2'")
    replays = [(sender, to) for sender, to, said in network.log if isinstance(said, Request) and said.id == "history/2"]
    assert replays == [("history", "a1"), ("a1", "hub"), ("hub", "a0"), ("a0", "alice")]
    network.do("alice", Unsubscribe("alice/2"))
    network.run()
    network.log.clear()
    network.do("history", Inquire("history/4", "alice/2", ReplayEvent((past,), through={})))
    network.run()
    assert [(sender, to) for sender, to, _ in network.log] == [("history", "a1"), ("a1", "history")]
