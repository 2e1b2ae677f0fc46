"""`sluice link` and `sluice broker leave`: reshape a network that runs, after saying what will be touched.

Importing this is cheap; the client is loaded when a verb runs.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from sluice.client.verbs.credentials import add_credentials, credentials_of
from sluice.errors import ConfigurationError
from sluice.net.address import DEFAULT_HELP
from sluice.verb import Verb

if TYPE_CHECKING:
    from sluice.client.bus import Bus
    from sluice.client.connect import Connector
    from sluice.client.tree import Tree

LINK_SUMMARY = "add, remove or replace a link between brokers that run"
LINK_DESCRIPTION = """\
Change the tree of a network while it runs. Brokers are called by their names, and one address of the network suffices. Each
first says what it will touch and asks whether to go on. What would cut the tree in two or close a cycle is refused."""
LINK_EXAMPLES = """\
  sluice link replace b2 b4 --by b3 b4
  sluice link add b1 127.0.0.1:7480
  sluice link remove b1 b5 --split --yes
"""

REPLACE_SUMMARY = "replace a link by another while traffic flows"
REPLACE_DESCRIPTION = """\
Replace the link between A and B by one between C and D. Nothing is lost or delivered twice meanwhile, and only the brokers on
the way from A over C and D to B are touched. C and D are on different sides of A - B; A or B may be one of them. C dials D:
where a neighbour of D dials it, or else where D listens, unless --address says where else C finds it."""
REPLACE_EXAMPLES = """\
  sluice link replace b2 b4 --by b3 b4
  sluice link replace b2 b4 --by b1 b7 --at 127.0.0.1:7473 --dry-run
  sluice link replace b2 b4 --by b3 b4 --address sluices://b4.example:7470
"""

ADD_SUMMARY = "link a broker to one of another network, which make one then"
ADD_DESCRIPTION = """\
Have broker A dial the broker at an address, and again whenever the link breaks, also after a restart. The two networks are one
then; brokers of the same network are linked already, and another link would close a cycle."""
ADD_EXAMPLES = """\
  sluice link add b1 127.0.0.1:7480
"""

REMOVE_SUMMARY = "take a link away, which makes two networks of one"
REMOVE_DESCRIPTION = """\
Take the link between A and B away, for good: neither of them dials it again. Every link holds a tree together, so this is
refused without --split. To move a part of the tree elsewhere, replace the link; to take a broker out, let it leave. A link that
is broken is just given up, if A is the one that dials it."""
REMOVE_EXAMPLES = """\
  sluice link remove b1 b5 --split
"""

LEAVE_SUMMARY = "have a broker leave its network for good"
LEAVE_DESCRIPTION = """\
Have a broker leave. Its neighbours are linked to one of them first, one after the other, while traffic flows; then it sends its
clients there and stops. Its log stays where it is: whoever has not read it to its end can go on when the broker is back."""
LEAVE_EXAMPLES = """\
  sluice broker leave b2
  sluice broker leave b2 --at 127.0.0.1:7473 --yes
"""


def add_link_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `sluice link` takes: what is to be done to a link."""
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in (
        Verb("replace", REPLACE_SUMMARY, REPLACE_DESCRIPTION, REPLACE_EXAMPLES, _add_replace_arguments),
        Verb("add", ADD_SUMMARY, ADD_DESCRIPTION, ADD_EXAMPLES, _add_add_arguments),
        Verb("remove", REMOVE_SUMMARY, REMOVE_DESCRIPTION, REMOVE_EXAMPLES, _add_remove_arguments),
    ):
        verb.add_to(verbs)


def _add_replace_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="one end of the link")
    parser.add_argument("b", metavar="B", help="the other end")
    parser.add_argument("--by", metavar=("C", "D"), nargs=2, required=True, help="the ends of the new link; C dials D")
    parser.add_argument("--address", metavar="ADDRESS", help="where C finds D (default: where D is known to be)")
    _add_common(parser, _replace)


def _add_add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="the broker that dials")
    parser.add_argument("address", metavar="ADDRESS", help="of the broker that it dials")
    _add_common(parser, _add)


def _add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="one end of the link")
    parser.add_argument("b", metavar="B", help="the other end")
    parser.add_argument("--split", action="store_true", help="make two networks of one")
    _add_common(parser, _remove)


def add_leave_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what `sluice broker leave` takes."""
    parser.add_argument("broker", metavar="BROKER", help="the name of the broker")
    _add_common(parser, _leave)


LINK = Verb("link", LINK_SUMMARY, LINK_DESCRIPTION, LINK_EXAMPLES, add_link_arguments)
LEAVE = Verb("broker leave", LEAVE_SUMMARY, LEAVE_DESCRIPTION, LEAVE_EXAMPLES, add_leave_arguments)


#: What an order will do, in lines, and what does it.
Prepared = tuple[list[str], Callable[[], Awaitable[None]]]
Prepare = Callable[["Bus", "Tree", argparse.Namespace], Prepared]


def _add_common(parser: argparse.ArgumentParser, prepare: Prepare) -> None:
    parser.add_argument("--at", metavar="ADDRESS", help=f"of any broker {DEFAULT_HELP}")
    parser.add_argument("--yes", action="store_true", help="do not ask whether to go on")
    parser.add_argument("--dry-run", action="store_true", help="say what would be touched, and change nothing")
    add_credentials(parser)
    parser.set_defaults(run=lambda arguments: _run(prepare, arguments))


def _run(prepare: Prepare, arguments: argparse.Namespace) -> int:
    """Says what will be touched, asks, and does it; 0 when it is done or only said, 1 if it is not wanted."""
    plan = None
    if arguments.dry_run or not arguments.yes:
        plan = asyncio.run(_look(prepare, arguments))
        if arguments.dry_run:
            return 0
        if not _agrees():  # outside of the event loop, where Ctrl-C would have to wait for the answer
            return 1
    asyncio.run(_do(prepare, arguments, plan))
    print("done")
    return 0


async def _look(prepare: Prepare, arguments: argparse.Namespace) -> list[str]:
    """Says what would be touched."""
    async with _connector(arguments) as bus:
        plan, _ = prepare(bus, await _tree_of(bus), arguments)
    print("\n".join(plan), flush=True)
    return plan


async def _do(prepare: Prepare, arguments: argparse.Namespace, agreed: list[str] | None) -> None:
    """Does what somebody has agreed to; None: nobody was asked, and what is done is said first."""
    async with _connector(arguments) as bus:
        plan, work = prepare(bus, await _tree_of(bus), arguments)
        if agreed is None:
            print("\n".join(plan), flush=True)
        elif plan != agreed:
            raise ConfigurationError("the network has changed since you were asked: have a look, and say it again")
        try:
            await work()
        except asyncio.CancelledError:
            _tell(
                "not waiting any longer: the step under way goes on, no other is begun; sluice status shows the links"
            )
            raise


def _connector(arguments: argparse.Namespace) -> Connector:
    from sluice.client.connect import connect

    return connect(arguments.at, move_seconds=0.0, **credentials_of(arguments))


async def _tree_of(bus: Bus) -> Tree:
    from sluice.client.reshape import tree_of

    return await tree_of(bus)


def _agrees() -> bool:
    if not sys.stdin.isatty():
        raise ConfigurationError("nobody is there to ask whether to go on: say --yes, or --dry-run to change nothing")
    return input("Go on? [y/N] ").strip().lower() in ("y", "yes")


def _tell(news: str) -> None:
    print(news, file=sys.stderr, flush=True)


def _replace(bus: Bus, tree: Tree, arguments: argparse.Namespace) -> Prepared:
    from sluice.client.reshape import replace, words
    from sluice.net.address import Address

    address = None if arguments.address is None else str(Address.of(arguments.address))
    change = tree.replacement(arguments.a, arguments.b, *arguments.by)
    plan = [f"replaces the link {change}", f"touches {words(tree.touched(change))}"]
    return plan, lambda: replace(bus, tree, change, _tell, address)


def _add(bus: Bus, tree: Tree, arguments: argparse.Namespace) -> Prepared:
    from sluice.client.reshape import add
    from sluice.net.address import Address

    address = str(Address.of(arguments.address))
    tree.check(arguments.a)
    known = [name for name, each in tree.addresses.items() if each == address or name == arguments.address]
    if known:
        raise ConfigurationError(
            f"{known[0]} is in this network already: another link would close a cycle; replace one instead"
        )
    return [f"links {arguments.a} to {address}"], lambda: add(bus, arguments.a, address)


def _remove(bus: Bus, tree: Tree, arguments: argparse.Namespace) -> Prepared:
    from sluice.client.reshape import remove, words

    a, b = arguments.a, arguments.b
    if (a, b) in tree.missing:
        return [f"gives up the link {a} - {b}, which is broken"], lambda: remove(bus, a, b)
    tree.check_link(a, b)
    sides = [sorted(tree.side(a, b)), sorted(tree.side(b, a))]
    if not arguments.split:
        raise ConfigurationError(
            f"without {a} - {b} there are two networks, {words(sides[0])}, and {words(sides[1])}: say --split if you want "
            f"that, or another link in its place: sluice link replace {a} {b} --by C D"
        )
    plan = [f"removes the link {a} - {b}", f"leaves two networks: {words(sides[0])}, and {words(sides[1])}"]
    return plan, lambda: remove(bus, a, b)


def _leave(bus: Bus, tree: Tree, arguments: argparse.Namespace) -> Prepared:
    from sluice.client.reshape import leave, words

    name = arguments.broker
    if not tree.neighbours(name):
        raise ConfigurationError(f"{name} is all there is of its network: stop it where it runs")
    changes = tree.leaving(name)
    plan = [f"replaces the link {change}" for change in changes]
    plan.append(f"sends the clients of {name} to {tree.neighbours(name)[0]}, and stops it")
    touched = sorted({name, *tree.neighbours(name)})
    plan.append(f"touches {words(touched)}")
    return plan, lambda: leave(bus, tree, name, _tell)
