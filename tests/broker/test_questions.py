"""Questions find a broker by its name, wherever it is, and the answers find the way back."""

from __future__ import annotations

from sluice.broker import Broker, BrokerConfig
from sluice.client.session.commands import Inquire, Told
from sluice.protocol.batch import Peer
from sluice.protocol.events import Answered, Ask, LinkUp, Received, Send
from sluice.protocol.messages import Ack, Kind, Reply, Request, Role, Snapshot, Version
from sluice.protocol.questions import Describe, Described, Done, Failed
from tests.protocol.drive import Network, entry, line, sends, star


def ask(network: Network, client: Peer, to: Peer) -> str:
    id = network.clients[client].new_id()
    network.do(client, Inquire(id, to, Describe()))
    return id


def answer(network: Network) -> None:
    """Every broker answers what it was asked with its name."""
    for name, effect in list(network.asked):
        assert isinstance(effect, Ask) and effect.request.to == name
        network.tell(name, Answered(Reply(effect.request.id, Described({"name": name}))))
    network.asked.clear()
    network.run()


def told(network: Network) -> list[tuple[Peer, str, object]]:
    """What clients were told: the answer, or the reason why there is none."""
    return [
        (client, each.id, each.answer.reason if isinstance(each.answer, Failed) else each.answer)
        for client, each in network.take_news(Told)
    ]


def test_every_broker_can_be_asked_from_everywhere() -> None:
    network = star(BrokerConfig(), 3)
    network.client("alice", "a0")
    network.client("bob", "hub")
    for client in ("alice", "bob"):
        ids = [(ask(network, client, to), to) for to in ("a0", "a1", "a2", "hub")]
        network.run()
        answer(network)
        assert sorted(told(network), key=str) == sorted(
            ((client, id, Described({"name": to})) for id, to in ids), key=str
        )
    assert all(len(broker.requests) == 0 for broker in network.brokers.values())


def test_an_answer_goes_nowhere_else() -> None:
    network = star(BrokerConfig(), 3)
    network.client("alice", "a0")
    network.client("bob", "a0")
    ask(network, "alice", "a1")
    network.run()
    network.log.clear()
    answer(network)
    assert [(sender, to) for sender, to, _ in network.log] == [("a1", "hub"), ("hub", "a0"), ("a0", "alice")]
    assert [client for client, _, _ in told(network)] == ["alice"]


def test_nobody_knows_a_broker_that_is_not_there() -> None:
    network = line(BrokerConfig(), 3)
    network.client("alice", "b0")
    id = ask(network, "alice", "b9")
    network.run()
    assert told(network) == [("alice", id, "b0 knows no way to 'b9'")] and network.asked == []
    network.crash("b2")
    network.run()
    id = ask(network, "alice", "b2")
    network.run()
    assert told(network) == [("alice", id, "b0 knows no way to 'b2'")]
    network.broker("b2", "b1", incarnation=2)
    network.run()
    id = ask(network, "alice", "b2")
    network.run()
    answer(network)
    assert told(network) == [("alice", id, Described({"name": "b2"}))]


def test_when_the_way_breaks_who_asked_is_told() -> None:
    network = line(BrokerConfig(), 3)
    network.client("alice", "b0")
    id = ask(network, "alice", "b2")
    network.run()
    network.cut("b1", "b2")
    network.run()
    assert told(network) == [("alice", id, "the way from b1 through b2 broke: ask again")]
    answer(network)
    assert told(network) == [], "b2 has nobody to answer to any more"
    network.link("b1", "b2")
    network.run()
    ask(network, "alice", "b2")
    network.run()
    network.cut("alice", "b0")
    answer(network)
    assert told(network) == [] and all(len(broker.requests) == 0 for broker in network.brokers.values())


def test_a_question_that_has_not_arrived_is_lost_with_the_link_and_told() -> None:
    network = line(BrokerConfig(), 3)
    network.client("alice", "b0")
    network.hold("b1", "b2")
    id = ask(network, "alice", "b2")
    network.run()
    network.crash("b2")
    network.run()
    assert [client_id for _, client_id, _ in told(network)] == [id] and network.asked == []


def test_a_client_asks_under_its_own_name_only() -> None:
    broker = Broker("b", BrokerConfig())
    broker.step(LinkUp("eve", Role.CLIENT), 0.0)
    assert broker.step(Received("eve", Request("alice/1", "b", Describe())), 0.0) == []
    mine = Request("eve/1", "b", Describe())
    assert broker.step(Received("eve", mine), 0.0) == [Ask(mine)]
    assert broker.step(Answered(Reply("eve/1", Done())), 0.0) == [Send("eve", Reply("eve/1", Done()))]
    assert broker.step(Answered(Reply("eve/1", Done())), 0.0) == []


def test_a_question_never_goes_back_where_it_came_from() -> None:
    """Damage may let two brokers believe that a third is behind the other; a question must not go to and fro for ever."""
    broker = Broker("b", BrokerConfig())
    broker.step(LinkUp("a", Role.BROKER), 0.0)
    sends(broker, Received("a", Snapshot(Kind.BROKERS, Version(1, 1), (entry("true", "z"),))))
    ((peer, reply),) = sends(broker, Received("a", Request("alice/1", "z", Describe())))
    assert peer == "a" and isinstance(reply, Reply) and isinstance(reply.answer, Failed)


def test_clients_do_not_say_who_is_a_broker_and_are_not_told() -> None:
    network = line(BrokerConfig(), 2)
    network.client("alice", "b0")
    network.run()
    told = [message for _, to, message in network.log if to == "alice" and not isinstance(message, Ack)]
    assert told == [Snapshot(Kind.INTEREST, Version(1, 0), ())]
    ways = network.brokers["b0"].ways[Kind.BROKERS]
    assert {name: ways.get(name) for name in ways} == {"b1": "b1"}
