"""The closed forms of chapter 6 hold exactly on real brokers; where chance has a part, the expectations hold nearly."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from sluice.broker.core.config import BrokerConfig
from sluice.client.session.commands import Advertise, Subscribe
from sluice.errors import LimitError, SluiceError
from sluice.lab.expected import expected
from sluice.lab.experiment import EXPERIMENTS, Experiment, Result, Setup, check, run
from sluice.lab.network import Network
from sluice.lab.topology import hierarchy
from sluice.lab.workload import FILTERS, STOCKS, Filters, quote
from sluice.model.filter import EVERYTHING
from sluice.model.subscription import Subscription

TREE = hierarchy()
#: The same tree with two router levels: 4 routers, 7 local brokers, 10 links.
SMALL = hierarchy(2)
#: As many clients at each local broker: one, or two.
ONE_EACH, TWO_EACH = 670, 1_340


def count(
    experiment: Experiment,
    routing: str,
    subscriptions: int,
    advertisements: bool = False,
    filters: Filters = "quote",
    rounds: int = 1,
    small: bool = False,
) -> Result:
    setup = Setup(
        experiment=experiment,
        routing=routing,
        subscriptions=subscriptions,
        advertisements=advertisements,
        filters=filters,
        rounds=rounds,
    )
    return run(setup, SMALL if small else TREE)


class TestSimple:
    """Everything everywhere: no chance has a part in it."""

    @pytest.mark.parametrize("filters", FILTERS)
    @pytest.mark.parametrize("subscriptions", [ONE_EACH, 1_000])
    def test_tables(self, subscriptions: int, filters: Filters) -> None:
        result = count("table-size", "simple", subscriptions, filters=filters)
        assert result.remote_entries == 106 * subscriptions
        assert result.admin_messages == 106
        assert result.active_subscriptions == subscriptions

    @pytest.mark.parametrize("filters", FILTERS)
    def test_tables_with_advertisements(self, filters: Filters) -> None:
        result = count("table-size", "simple", TWO_EACH, advertisements=True, filters=filters)
        assert result.remote_entries == Fraction(250, 67) * TWO_EACH
        assert result.admin_messages == 250 / 67

    def test_messages(self) -> None:
        result = count("admin-messages", "simple", 1_000)
        assert result.admin_messages == 106
        assert (result.active_subscriptions, result.remote_entries) == (500, 106 * 500)

    @pytest.mark.parametrize("subscriptions", [ONE_EACH, 1_000, TWO_EACH])
    def test_messages_with_advertisements(self, subscriptions: int) -> None:
        result = count("admin-messages", "simple", subscriptions, advertisements=True)
        assert result.admin_messages == 250 / 67
        assert result.changes == 670


def saturated(routing: str, advertisements: bool, stocks: int) -> Network:
    """All stocks are asked for at each local broker."""
    network = Network(TREE, BrokerConfig(routing=routing, advertisements="simple" if advertisements else None))
    producer = network.join("producer")
    if advertisements:
        network.command(producer, Advertise(producer.new_id(), Subscription([EVERYTHING])))
    network.connect(producer, TREE.root)
    quotes = [quote(stock) for stock in range(stocks)]
    for broker in TREE.locals:
        client = network.join(f"client-of-{broker}")
        for where in quotes:
            network.command(client, Subscribe(client.new_id(), where))
        network.connect(client, broker)
    network.link_all()
    return network


class TestLimits:
    """What the sums of remote entries approach with quote subscriptions."""

    @pytest.mark.parametrize(
        ("routing", "advertisements", "limit"),
        [
            ("identity", False, 212_000),
            ("identity", True, 106_000),
            ("merging", False, 212),
            ("merging", True, 106),
        ],
    )
    def test_reached_when_all_stocks_are_asked_for_everywhere(
        self, routing: str, advertisements: bool, limit: int
    ) -> None:
        # A filter for each stock, or one that holds any number of them: a few stocks show it sooner.
        stocks = 50
        share = 1 if routing == "merging" else stocks / STOCKS
        assert saturated(routing, advertisements, stocks).remote_entries() == limit * share
        setup = Setup(experiment="table-size", routing=routing, subscriptions=1_000_000, advertisements=advertisements)
        assert expected(setup, TREE).most_entries == limit

    def test_flooding_says_true_once_and_never_anything_else(self) -> None:
        result = count("table-size", "flooding", ONE_EACH)
        assert (result.remote_entries, result.admin_messages) == (212, 0)

    def test_merging_reaches_its_limit_with_one_client_each(self) -> None:
        assert count("table-size", "merging", ONE_EACH, advertisements=True).remote_entries == 106


class TestComparisons:
    """Which algorithm does better at what."""

    @pytest.mark.parametrize("advertisements", [False, True])
    def test_on_intervals_covering_beats_identity_and_merging_beats_covering(self, advertisements: bool) -> None:
        identity, covering, merging = (
            count("table-size", routing, 420, advertisements, "interval", small=True).remote_entries
            for routing in ("identity", "covering", "merging")
        )
        assert merging < covering < identity

    @pytest.mark.parametrize("advertisements", [False, True])
    def test_merging_intervals_is_as_identity_on_quotes(self, advertisements: bool) -> None:
        """All intervals of a stock make one, so the tables have the stocks of identity-based routing."""
        merging = count("table-size", "merging", 420, advertisements, "interval", small=True)
        identity = count("table-size", "identity", 420, advertisements, "quote", small=True)
        assert merging.remote_entries == identity.remote_entries

    @pytest.mark.parametrize("experiment", EXPERIMENTS)
    @pytest.mark.parametrize("advertisements", [False, True])
    def test_covering_is_identity_on_quotes(self, experiment: Experiment, advertisements: bool) -> None:
        covering = count(experiment, "covering", 700, advertisements, small=True)
        identity = count(experiment, "identity", 700, advertisements, small=True)
        assert replace(covering, routing="identity") == identity

    @pytest.mark.parametrize("advertisements", [False, True])
    def test_merging_quotes_costs_the_messages_of_identity(self, advertisements: bool) -> None:
        """One filter holds all stocks, and changes whenever the set of stocks does."""
        merging = count("admin-messages", "merging", 700, advertisements, small=True)
        identity = count("admin-messages", "identity", 700, advertisements, small=True)
        assert merging.admin_messages == identity.admin_messages


class TestExpectations:
    """What is counted is near what the workload lets one expect."""

    @pytest.mark.parametrize("advertisements", [False, True])
    @pytest.mark.parametrize(
        ("routing", "filters"),
        [("identity", "quote"), ("covering", "interval"), ("merging", "interval")],
    )
    def test_nearly(self, routing: str, filters: Filters, advertisements: bool) -> None:
        setup = Setup(
            experiment="admin-messages",
            routing=routing,
            subscriptions=2_100,
            advertisements=advertisements,
            filters=filters,
            rounds=6,
        )
        result, wanted = run(setup, SMALL), expected(setup, SMALL)
        assert wanted.remote_entries is not None and wanted.admin_messages is not None
        assert result.remote_entries == pytest.approx(wanted.remote_entries, rel=0.05)
        assert result.admin_messages == pytest.approx(wanted.admin_messages, rel=0.15)

    @pytest.mark.parametrize("experiment", EXPERIMENTS)
    @pytest.mark.parametrize("advertisements", [False, True])
    def test_exactly_for_simple(self, experiment: Experiment, advertisements: bool) -> None:
        setup = Setup(experiment=experiment, routing="simple", subscriptions=70, advertisements=advertisements)
        wanted, result = expected(setup, SMALL), run(replace(setup, rounds=1), SMALL)
        assert (wanted.remote_entries, wanted.admin_messages) == (result.remote_entries, result.admin_messages)

    @pytest.mark.parametrize(
        ("experiment", "advertisements", "entries", "messages"),
        [
            ("table-size", False, 106 * ONE_EACH, 106),
            ("table-size", True, 2_500, 250 / 67),
            ("admin-messages", False, 106 * 340, 106),
            ("admin-messages", True, 1_290, 250 / 67),
        ],
    )
    def test_the_closed_forms_for_simple(
        self, experiment: Experiment, advertisements: bool, entries: int, messages: float
    ) -> None:
        setup = Setup(experiment=experiment, routing="simple", subscriptions=ONE_EACH, advertisements=advertisements)
        wanted = expected(setup, TREE)
        assert (wanted.remote_entries, wanted.admin_messages) == (entries, messages)

    def test_none_where_there_is_no_formula(self) -> None:
        wanted = expected(Setup(experiment="table-size", routing="imperfect", subscriptions=10), TREE)
        assert (wanted.remote_entries, wanted.admin_messages, wanted.most_entries) == (None, None, None)

    def test_as_many_as_a_million(self) -> None:
        wanted = expected(Setup(experiment="table-size", routing="identity", subscriptions=1_000_000), TREE)
        assert wanted.remote_entries == pytest.approx(212_000, abs=0.1)


class TestRun:
    """A setup fixes everything."""

    @pytest.mark.parametrize("routing", ["identity", "covering", "merging", "imperfect"])
    def test_a_client_or_two_are_enough(self, routing: str) -> None:
        result = count("admin-messages", routing, 13, filters="interval", small=True)
        assert (result.active_subscriptions, result.changes) == (10, 13)
        assert result.remote_entries == 100

    def test_the_table_size_does_not_depend_on_the_changes(self) -> None:
        few, many = (count("table-size", "covering", 140, rounds=rounds, small=True) for rounds in (1, 3))
        assert few.remote_entries == many.remote_entries
        assert many.changes == 3 * few.changes

    def test_progress_ends_at_its_end(self) -> None:
        seen: list[tuple[int, int]] = []
        setup = Setup(experiment="table-size", routing="simple", subscriptions=150)
        run(setup, SMALL, lambda done, of: seen.append((done, of)))
        assert seen == sorted(seen)
        assert seen[-1][0] == seen[-1][1]

    def test_nothing_depends_on_hashing(self) -> None:
        script = (
            "from sluice.lab.experiment import *\n"
            "for routing in ('covering', 'merging'):\n"
            "    print(run(Setup(experiment='admin-messages', routing=routing, filters='interval',"
            " subscriptions=140), hierarchy(2)))\n"
        )
        found = set()
        for seed in ("1", "2"):
            source = str(Path(__file__).resolve().parents[2] / "src")
            environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": source}
            done = subprocess.run(
                [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
            )
            found.add(done.stdout)
        assert len(found) == 1

    def test_what_cannot_be_measured_is_refused(self) -> None:
        with pytest.raises(SluiceError, match="no routing algorithm is called 'magic'"):
            check(Setup(experiment="table-size", routing="magic", subscriptions=10))
        with pytest.raises(LimitError, match="106,000,000 entries"):
            check(Setup(experiment="table-size", routing="simple", subscriptions=1_000_000))
        check(Setup(experiment="table-size", routing="simple", subscriptions=1_000_000, advertisements=True))
