"""Paper 000, section III: partitions, their identities, and who is told of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gapless.core.messages import Message
from gapless.core.messages.overlay import Neighbourhood, PartitionInfo, Status
from gapless.core.messages.publisher import (
    Acknowledged,
    Attached,
    Confirmation,
    Confirmed,
    Log,
    LogEntry,
    Publications,
    Synced,
    Taken,
)
from gapless.core.model import MILLISECOND, SECOND, Event, NodeId, Partition
from gapless.core.overlay.topology import Topology
from gapless.simulation.world import World
from publications import single
from support import (
    BYPASSED,
    RECOVERED,
    TOPIC,
    Messages,
    active,
    chain,
    delivered,
    lives,
    paths_from,
    publish_all,
    start_chain,
    start_network,
    start_tree,
    subscribe_all,
    tree_of,
)

FIGURE_2 = [
    *chain("b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"),
    *chain("b4", "b5'", "b6'", "b7'"),
    *chain("b3", "b4''", "b5''", "b6''"),
]
PIDS = [
    Partition("b2", 1, ("b3",)),
    Partition("b2", 2, ("b3", "b4")),
    Partition("b2", 3, ("b3", "b4", "b5'")),
]


def own(world: World, name: NodeId) -> list[Partition]:
    """The partitions that a broker detects."""
    return list(world.broker(name).overlay.partitions.own.values())


def table(world: World, name: NodeId) -> set[Partition]:
    """All partitions that a broker knows: its PT."""
    return set(world.broker(name).overlay.partitions.table())


def is_island(world: World, partition: Partition) -> bool:
    """Whether its detector goes round it."""
    overlay = world.broker(partition.detector).overlay
    return overlay.partitions.is_island(partition, overlay.frontier)


def round_trip(message: Message) -> Any:
    """The message, over the wire."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Message)


@pytest.mark.parametrize("delta", [1, 2, 3])
def test_p0_17_a_run_that_a_session_bypasses_is_an_island(delta: int) -> None:
    """Unreachable brokers that are bypassed by a newly activated session form a partition island.

    Reference: 000, section III (P0-17)
    """
    world = start_chain("a", "b", "c", "d", delta=delta)
    world.crash("b")
    world.run_for(BYPASSED)
    assert own(world, "a") == [Partition("a", 1, ("b",))]
    assert is_island(world, own(world, "a")[0])
    assert active(world, "a") == ["c"]
    assert world.broker("a").overlay.frontier.barriers == []


def test_p0_18_a_run_that_nothing_bypasses_is_a_barrier() -> None:
    """A partition is a barrier if no active session bypasses its nodes.

    Reference: 000, section III (P0-18)
    """
    world = start_chain("a", "b", "c", "d", delta=1)
    world.crash("b")
    world.crash("c")
    world.run_for(BYPASSED)
    assert own(world, "a")[-1] == Partition("a", 2, ("b", "c"))
    assert not any(is_island(world, each) for each in own(world, "a"))
    assert world.broker("a").overlay.frontier.barriers == ["c"]
    assert active(world, "a") == []


@pytest.mark.parametrize("victims", ["b", "bc"])
def test_p0_19_the_detector_is_the_broker_whose_session_failed(victims: str) -> None:
    """The partition detector is the broker whose active session failed; each side has its own.

    Reference: 000, section III (P0-19)
    """
    world = start_chain("a", "b", "c", "d", delta=1)
    for victim in victims:
        world.crash(victim)
    world.run_for(BYPASSED)
    assert {each.detector for each in own(world, "a")} == {"a"}
    other = "abcd"[1 + len(victims)]
    assert {(each.detector, each.nodes[0]) for each in own(world, other)} == {(other, victims[-1])}
    assert len(own(world, "a")) == len(own(world, other)) == len(victims)


def test_p0_20_pids_grow_step_by_step() -> None:
    """pid = (detector, i, pnodes): b2 loses b3, then b4, then b5', and the identities are (b2, 1, ⟨b3⟩),
    (b2, 2, ⟨b3, b4⟩) and (b2, 3, ⟨b3, b4, b5'⟩). The third is a barrier on P(b0, b7'), the second an island
    on P(b0, b7), the first one on P(b0, b6''). Read "S(B2,B5)" and "B2's sessions" in the text (X-P0-02).

    Reference: 000, section III, Fig. 2 (P0-20)
    """
    world = start_tree(FIGURE_2, delta=2)
    for k, victim in enumerate(("b3", "b4", "b5'")):
        world.crash(victim)
        world.run_for(BYPASSED)
        assert own(world, "b2") == PIDS[: k + 1]
    tree = tree_of(FIGURE_2)
    for pid in PIDS:
        assert ("b2", *pid.nodes) == paths_from(tree, "b2", 3)[pid.nodes[-1]], "a primary path"
    assert [is_island(world, pid) for pid in PIDS] == [True, True, False]
    assert active(world, "b2") == ["b1", "b5", "b4''"]
    assert world.broker("b2").overlay.frontier.barriers == ["b5'"]


def test_p0_20_a_number_is_never_used_again() -> None:
    """i is a unique incremental value that the detector assigns: a partition that returns is another one.

    Reference: 000, section III (P0-20)
    """
    world = start_chain("a", "b", "c", delta=1)
    seen = []
    for _ in range(3):
        world.crash("b")
        world.run_for(BYPASSED)
        seen += own(world, "a")
        world.restart("b")
        world.run_for(RECOVERED)
    assert seen == [Partition("a", number, ("b",)) for number in (1, 2, 3)]


def test_p0_21_beyond_is_what_lies_behind_the_last_broker() -> None:
    """The brokers in the subtrees of the last broker of pnodes are beyond the partition.

    Reference: 000, section III, Fig. 2 (P0-21)
    """
    whole = Topology("b2", 9)
    whole.add(FIGURE_2)
    beyond = [set(whole.behind(pid.nodes[-1])) for pid in PIDS]
    assert beyond[2] == {"b6'", "b7'"}
    assert beyond[1] == {"b5", "b6", "b7", "b5'", "b6'", "b7'"}
    assert beyond[0] == beyond[1] | {"b4", "b4''", "b5''", "b6''"}
    assert not any(set(pid.nodes) & behind for pid, behind in zip(PIDS, beyond, strict=True))


def test_p0_21_what_lies_beyond_a_barrier_is_not_promised_and_beyond_an_island_is() -> None:
    """A subscription at b0 is not safe for what lies on the three partitions or beyond the barrier.

    Reference: 000, sections III and IV-C, Fig. 2 (P0-21)
    """
    homes = {"s": "b0", "p5": "b5", "p7": "b7", "p6''": "b6''", "p7'": "b7'"}
    world = start_network(FIGURE_2, homes, delta=2)
    for victim in ("b3", "b4", "b5'"):
        world.crash(victim)
    world.run_for(BYPASSED)
    subscribe_all(world, {"s": ""})
    assert lives(world, "s")[-1].unreachable == ("b3", "b4", "b5'", "b6'", "b7'")
    for client in homes:
        if client != "s":
            publish_all(world, client, 1)
    world.run_for(2 * SECOND)
    assert {client: delivered(world, "s", client) for client in homes if client != "s"} == {
        "p5": [1],
        "p7": [1],
        "p6''": [1],
        "p7'": [],
    }


@pytest.mark.parametrize("delta", [0, 1, 2])
def test_p0_22_tables_are_empty_after_recovery(delta: int) -> None:
    """A pid is added to PT when it is detected and removed when it recovers.

    Reference: 000, section III (P0-22)
    """
    names = [f"b{k}" for k in range(7)]
    world = start_chain(*names, delta=delta)
    world.crash("b3")
    world.cut("b4", "b5")
    world.run_for(BYPASSED)
    assert own(world, "b2")
    assert any(table(world, name) - set(own(world, name)) for name in names if name != "b3") == (delta > 0)
    world.restart("b3")
    world.heal("b4", "b5")
    world.run_for(RECOVERED)
    assert {name: table(world, name) for name in names} == {name: set() for name in names}


@pytest.mark.parametrize("delta", [0, 1, 2, 3])
@pytest.mark.parametrize("barrier", [True, False])
def test_p0_23_a_partition_is_known_within_two_delta_of_its_detector(delta: int, barrier: bool) -> None:
    """Changes of PT are told over all established sessions, to brokers within DPT = 2δ of the detector, on
    its side of the partition.

    Reference: 000, sections III and VIII, table I (P0-23)
    """
    count = max(9, 6 * delta + 3)
    names = [f"b{k:02}" for k in range(count)]
    first = count // 2
    victims = names[first : first + (delta + 1 if barrier else max(1, delta))]
    world = start_chain(*names, delta=delta)
    for victim in victims:
        world.crash(victim)
    world.run_for(BYPASSED)
    detector = first - 1
    pids = set(own(world, names[detector]))
    assert {pid.nodes for pid in pids} == {tuple(victims[:k]) for k in range(1, len(victims) + 1)}
    holders = {name for name in names if name not in victims and pids & table(world, name)}
    assert holders == set(names[detector - 2 * delta : detector + 1])
    assert all(pids <= table(world, name) for name in holders)
    assert len(holders) == 2 * delta + 1


def test_p0_23_the_information_reaches_side_branches_and_late_sessions() -> None:
    """It goes over all sessions, not only along one path, and to a broker that comes later.

    Reference: 000, section III (P0-23)
    """
    world = start_tree([*chain("a", "b", "c", "d"), *chain("b", "e", "f"), *chain("e", "g")])
    world.crash("g")
    world.crash("c")
    world.run_for(BYPASSED)
    pid = next(each for each in own(world, "b") if each.nodes == ("c",))
    assert {name for name in "abdef" if pid in table(world, name)} == {"a", "b", "e", "f"}
    world.restart("g")
    world.run_for(RECOVERED)
    assert pid in table(world, "g")


@pytest.mark.parametrize("delta", [1, 2])
@pytest.mark.parametrize("when", [0, 10, 20, 30, 45])
def test_p0_24_partition_information_precedes_confirmations(delta: int, when: int) -> None:
    """A pid is in the PT of all brokers within DPT upstream before they see a confirmation that is tagged
    with it: on each session the one is sent before the other.

    Reference: 000, Lemma 1, property 1 (P0-24)
    """
    names = [f"b{k}" for k in range(9)]
    world = start_network(chain(*names), {"s": "b0"}, delta=delta)
    sent = Messages(world)
    world.subscribe("s", "s", TOPIC)
    world.run_for(when * MILLISECOND)
    for victim in names[6:]:
        world.crash(victim, silently=True)
    world.run_for(BYPASSED)
    told: set[tuple[NodeId, NodeId, Partition]] = set()
    tagged = 0
    for source, target, message in sent.of(PartitionInfo, Confirmed):
        if isinstance(message, PartitionInfo):
            told.add((source, target, message.partition))
            continue
        for pid in {pid for each in message.confirmations for pid in each.pending}:
            if target in names and names.index(pid.detector) - names.index(target) <= 2 * delta:
                assert (source, target, pid) in told
                tagged += 1
    assert tagged >= 2 * delta


def test_p0_25_the_types_of_messages() -> None:
    """There are partition information, publications, subscriptions and confirmations (of both).

    Our implementation has in addition those that sessions and recovery need (X-P0-16).

    Reference: 000, section III (P0-25)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "q": "b", "s": "c"})
    sent = Messages(world)
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    failure_free = {type(each) for _, _, _, each in sent.sent}
    assert {Log, Confirmed, Publications, Acknowledged} <= failure_free
    assert PartitionInfo not in failure_free
    world.crash("b")
    world.run_for(BYPASSED)
    world.restart("b")
    world.run_for(RECOVERED)
    with_a_failure = {type(each) for _, _, _, each in sent.sent}
    assert {Neighbourhood, Status, Synced, Attached} <= with_a_failure
    chain_of_four = start_chain("a", "b", "c", "d")
    sent = Messages(chain_of_four)
    chain_of_four.crash("d")
    chain_of_four.run_for(BYPASSED)
    assert {target for _, target, _ in sent.of(PartitionInfo)} == {"a", "b"}


def test_p0_25_an_unknown_type_is_rejected() -> None:
    """What is none of the known types does not come through.

    Reference: 000, section III (P0-25)
    """
    unknown = msgspec.msgpack.encode(["gossip", 1, 2])
    with pytest.raises(msgspec.ValidationError, match="gossip"):
        msgspec.msgpack.decode(unknown, type=Message)


@pytest.mark.parametrize("tags", [(), tuple(PIDS[:1]), tuple(PIDS)], ids=["none", "one", "many"])
def test_p0_26_tags_travel_with_publications_and_confirmations(tags: tuple[Partition, ...]) -> None:
    """All but partition information may carry a set of pids.

    Our implementation tags publications and the confirmations of subscriptions. What a subscription itself
    crosses shows in its path, and a publication's confirmation needs no tag, for nobody looks at it.

    Reference: 000, section III (P0-26)
    """
    event = Event("t", "p", 1, {"x": 1})
    publications = Publications((single(event, 1, entry="b5", home="b5", tags=tags),))
    confirmed = Confirmed((Confirmation("s:1:1", tags, {"p": Taken(3)}, ("p",)),))
    assert round_trip(publications) == publications
    assert round_trip(confirmed) == confirmed
    assert round_trip(publications).runs[0].header.tags == tags
    assert round_trip(confirmed).confirmations[0].pending == tags


def test_p0_26_partition_information_has_one_pid_and_no_tags() -> None:
    """Partition information is about one partition and is not tagged.

    Reference: 000, section III (P0-26)
    """
    message = PartitionInfo(PIDS[2], 3, is_open=False)
    assert round_trip(message) == message
    assert PartitionInfo.__struct_fields__ == ("partition", "distance", "is_open")
    assert "tags" not in LogEntry.__struct_fields__
