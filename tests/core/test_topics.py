"""Topics: requests of clients, what brokers take from whom, and what becomes of subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from gapless.core.broker import Broker
from gapless.core.effects import (
    Answered,
    Effect,
    LinkAdded,
    Persist,
    Record,
    Send,
    TopicDeclared,
    TopicDeleted,
    TopicsChanged,
)
from gapless.core.events import (
    CreateTopicRequested,
    DeleteTopicRequested,
    Input,
    MessageReceived,
    PublishRequested,
    SessionDown,
    SessionUp,
    SubscribeRequested,
    UnsubscribeRequested,
)
from gapless.core.leaf import Leaf
from gapless.core.messages import (
    CreateTopic,
    DeleteTopic,
    Message,
    Neighbourhood,
    TopicAnswer,
    TopicMessage,
    TopicsTold,
    TopicsWanted,
)
from gapless.core.messages.overlay import NodeState
from gapless.core.model import BeyondDelta, Declaration, Identity, NodeId, OrderName, Topic
from gapless.core.node import NodeConfig
from gapless.core.topics import broker as broker_topics
from gapless.core.topics import table
from gapless.core.topics.rules import VERSION_MAX
from gapless.core.topics.table import Table, pieces

T = Topic("t")
BEST = OrderName.BEST_EFFORT


class Alone:
    """A broker ``b`` with its neighbour ``n`` and a client ``c``, message by message."""

    def __init__(self, records: list[Record] | None = None) -> None:
        self.records: list[Record] = [LinkAdded(("b", "n")), *(records or [])]
        self.node = Broker(NodeConfig(node="b", delta=1), self.records, rng=Random(0))
        self.now = 100
        self.node.start(self.now)
        self.opened = self.sent([SessionUp(Identity("n", 1), dialed=True)])
        self.step([SessionUp(Identity("c", 1, home="b"), dialed=False)])

    def step(self, inputs: list[Input]) -> list[Effect]:
        effects = self.node.step(inputs, self.now)
        self.records += [each.record for each in effects if isinstance(each, Persist)]
        return effects

    def sent(self, inputs: list[Input]) -> list[tuple[NodeId, TopicMessage]]:
        """What is said about topics."""
        return [
            (each.peer, each.message)
            for each in self.step(inputs)
            if isinstance(each, Send) and isinstance(each.message, TopicMessage)
        ]

    def hear(self, peer: NodeId, message: Message) -> list[tuple[NodeId, TopicMessage]]:
        return self.sent([MessageReceived(peer, message)])

    def error(self, message: CreateTopic | DeleteTopic) -> str:
        """What the client is answered."""
        ((_, answer),) = [each for each in self.hear("c", message) if each[0] == "c"]
        assert isinstance(answer, TopicAnswer)
        assert answer.request == message.request
        return answer.error

    @property
    def known(self) -> dict[str, Declaration]:
        return {each.topic.name: each for each in self.node.topics.table}


# -- a broker and its clients ------------------------------------------------------------------------------


def test_a_topic_is_durable_and_told_before_it_is_answered() -> None:
    alone = Alone()
    effects = alone.step([MessageReceived("c", CreateTopic(7, T))])
    declared = Declaration(T, version=100)
    assert effects == [
        Persist(TopicDeclared(declared)),
        Send("n", TopicsTold((declared,))),
        Send("c", TopicAnswer(7)),
    ]


def test_a_restarted_broker_has_its_topics() -> None:
    alone = Alone()
    alone.error(CreateTopic(1, T))
    alone.error(CreateTopic(2, Topic("u", BEST)))
    alone.error(DeleteTopic(3, "t"))
    again = Alone(alone.records)
    assert (
        again.known
        == alone.known
        == {
            "t": Declaration(T, 101, deleted=True),
            "u": Declaration(Topic("u", BEST), 100),
        }
    )
    assert again.opened == [("n", TopicsTold(tuple(again.known.values())))]


def test_to_create_what_is_there_is_fine_if_it_is_the_same() -> None:
    alone = Alone()
    topic = Topic("t", schema="a INT, b STRING")
    assert alone.error(CreateTopic(1, topic)) == ""
    same = Topic("t", schema="a  integer,\nb string")
    assert alone.error(CreateTopic(2, same)) == ""
    assert alone.known["t"] == Declaration(topic, 101), "later than a deletion that was not heard of"
    other = Topic("t", BEST, BeyondDelta.MARK, schema="a INT")
    assert alone.error(CreateTopic(3, other)) == (
        "there is a topic 't' already, and it is another one: order is publisher, not best-effort;"
        " beyond_delta is hold, not mark; schema is a INT, b STRING, not a INT"
    )


def test_to_delete_what_is_not_there_is_an_error_unless_it_was_asked_before() -> None:
    alone = Alone()
    assert alone.error(DeleteTopic(1, "t")) == "there is no topic 't'"
    assert alone.error(DeleteTopic(2, "t", again=True)) == "there is no topic 't'"
    alone.error(CreateTopic(3, T))
    assert alone.error(DeleteTopic(4, "t")) == ""
    assert alone.error(DeleteTopic(5, "t")) == "there is no topic 't'"
    assert alone.error(DeleteTopic(6, "t", again=True)) == ""


def test_every_change_is_a_later_version_whatever_the_clock_says() -> None:
    alone = Alone()
    alone.error(CreateTopic(1, T))
    alone.now = 50
    alone.error(DeleteTopic(2, "t"))
    alone.error(CreateTopic(3, Topic("t", BEST)))
    assert alone.known["t"] == Declaration(Topic("t", BEST), 102)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (Topic(""), "a topic needs a name"),
        (Topic("x" * 256), "at most 255 characters, not 256"),
        (Topic("a\nb"), r"only printable characters: 'a\nb'"),
        (Topic("a\ud800"), "only printable characters"),
        (Topic("t", OrderName.TOTAL), "order 'total' is not built yet; there are best-effort, publisher"),
        (Topic("t", repositories=2), "repositories must be 0, not 2"),
        (Topic("t", schema="a DECIMAL"), "the schema cannot be read: DECIMAL cannot be"),
        (Topic("t", schema="a STRUCT<" * 300), "the schema cannot be read: structs are nested"),
    ],
)
def test_what_cannot_be_declared_is_refused_by_client_and_broker(topic: Topic, error: str) -> None:
    alone = Alone()
    assert error in alone.error(CreateTopic(1, topic))
    assert alone.known == {}
    assert error in (leaf().check(CreateTopicRequested(1, topic)) or "")


def test_the_number_of_topics_and_of_deleted_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "TOPICS_MAX", 2)
    monkeypatch.setattr(table, "DELETED_MAX", 1)
    alone = Alone()
    errors = [alone.error(CreateTopic(1, Topic(name))) for name in "abc"]
    assert ["no more; delete some" in error for error in errors] == [False, False, True]
    assert alone.error(DeleteTopic(2, "a")) == ""
    assert "there can be no more" in alone.error(DeleteTopic(3, "b"))
    assert alone.error(CreateTopic(4, Topic("a"))) == ""
    assert alone.error(DeleteTopic(5, "b")) == "", "a name that is used again makes room"


def test_a_client_that_asks_is_told_all_and_the_news() -> None:
    alone = Alone()
    alone.error(CreateTopic(1, T))
    told = Declaration(T, 100)
    assert alone.hear("c", TopicsWanted()) == [("c", TopicsTold((told,)))]
    news = Declaration(Topic("u"), 5)
    assert alone.hear("n", TopicsTold((told, news))) == [("c", TopicsTold((news,)))]
    assert alone.hear("n", TopicsTold((told, news))) == []


def test_a_client_of_an_empty_network_is_told_that_there_is_nothing() -> None:
    assert Alone().hear("c", TopicsWanted()) == [("c", TopicsTold(()))]


def test_who_asks_a_broker_that_has_not_joined_waits() -> None:
    node = Broker(NodeConfig(node="b", delta=1, join_points=("n",)), [], rng=Random(0))
    node.start(0)
    leaf_of_b = Identity("c", 1, home="b")
    node.step([SessionUp(leaf_of_b, dialed=False)], 0)
    flood = [MessageReceived("c", CreateTopic(k, T)) for k in range(broker_topics.WAITING_MAX + 1)]
    (refused,) = [each.message for each in node.step(flood, 0) if isinstance(each, Send)]
    assert isinstance(refused, TopicAnswer)
    assert refused.request == broker_topics.WAITING_MAX
    node.step([SessionDown("c")], 0)
    assert node.topics._waiting == []


# -- tables ------------------------------------------------------------------------------------------------


def declarations(rng: Random) -> list[Declaration]:
    return [
        Declaration(
            Topic(rng.choice("abc"), rng.choice([*OrderName]), schema=rng.choice(["", "a INT"])),
            rng.randrange(1, 4),
            rng.random() < 0.3,
        )
        for _ in range(12)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_table_is_the_same_in_whatever_order_it_was_heard(seed: int) -> None:
    rng = Random(seed)
    heard = declarations(rng)
    tables = [Table() for _ in range(5)]
    for each in tables:
        for declaration in rng.sample(heard, len(heard)):
            each.learn(declaration)
    first = {each.topic.name: each for each in tables[0]}
    assert all({each.topic.name: each for each in other} == first for other in tables)
    assert tables[0].topics() == {
        name: each.topic for name, each in sorted(first.items()) if not each.deleted
    }


def test_a_table_is_told_in_pieces() -> None:
    short = [Declaration(Topic(f"t{k}"), 1) for k in range(600)]
    assert [(len(each.declarations), each.more) for each in pieces(short)] == [
        (256, True),
        (256, True),
        (88, False),
    ]
    long = [Declaration(Topic(f"t{k}", schema="x" * 8_000), 1) for k in range(20)]
    assert [(len(each.declarations), each.more) for each in pieces(long)] == [
        (8, True),
        (8, True),
        (4, False),
    ]


# -- hostile peers -----------------------------------------------------------------------------------------


def test_a_client_declares_nothing_by_itself() -> None:
    alone = Alone()
    assert alone.hear("c", TopicsTold((Declaration(T, 1),))) == []
    assert alone.hear("c", TopicAnswer(1)) == []
    assert alone.known == {}


@pytest.mark.parametrize(
    "bad",
    [
        Declaration(Topic(""), 1),
        Declaration(Topic("x" * 256), 1),
        Declaration(Topic("\ud800"), 1),
        Declaration(T, 0),
        Declaration(T, VERSION_MAX + 1),
        Declaration(Topic("t", repositories=-1), 1),
        Declaration(Topic("t", repositories=1 << 40), 1),
        Declaration(Topic("t", schema="x" * 8_193), 1),
    ],
    ids=range(8),
)
def test_what_no_broker_would_tell_is_left_out(bad: Declaration) -> None:
    alone = Alone()
    good = Declaration(Topic("good"), 3)
    alone.hear("n", TopicsTold((bad, good)))
    assert alone.known == {"good": good}


def test_a_peer_cannot_fill_a_table_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "NAMES_MAX", 10)
    alone = Alone()
    for k in range(30):
        alone.hear("n", TopicsTold((Declaration(Topic(f"t{k}"), 1, deleted=k % 2 == 0),)))
    assert len(alone.known) == 10
    assert sum(isinstance(each, TopicDeclared) for each in alone.records) == 10


def test_a_peer_cannot_use_up_the_versions_unnoticed() -> None:
    alone = Alone()
    alone.hear("n", TopicsTold((Declaration(T, VERSION_MAX),)))
    assert "use another" in alone.error(DeleteTopic(1, "t"))
    assert alone.known == {"t": Declaration(T, VERSION_MAX)}


def test_brokers_do_not_ask_like_clients() -> None:
    alone = Alone()
    assert alone.hear("n", CreateTopic(1, T)) == []
    assert alone.hear("n", TopicsWanted()) == []


def test_a_schema_that_cannot_be_read_is_an_error_of_the_publisher_only() -> None:
    node = leaf()
    node.step([told(Declaration(Topic("t", schema="oops"), 1))], 0)
    found = node.check(PublishRequested("t", "p", [({}, b"")]))
    assert found is not None
    assert "the schema of topic 't' cannot be read" in found


# -- a client ----------------------------------------------------------------------------------------------


def leaf(home: NodeId = "b", **topics: Topic) -> Leaf:
    node = Leaf(NodeConfig(node="c", delta=1, home=home), [], topics=topics, rng=Random(0))
    node.start(0)
    node.step([SessionUp(Identity(home, 1), dialed=True)], 0)
    return node


def told(*news: Declaration, more: bool = False) -> Input:
    return MessageReceived("b", TopicsTold(news, more))


def about_topics(effects: list[Effect]) -> Iterator[Effect]:
    for each in effects:
        if isinstance(each, Answered | TopicsChanged | TopicDeleted) or (
            isinstance(each, Send) and isinstance(each.message, TopicMessage)
        ):
            yield each


def test_a_client_asks_for_the_topics_and_knows_when_it_knows() -> None:
    node = Leaf(NodeConfig(node="c", delta=1, home="b"), [], rng=Random(0))
    node.start(0)
    up = node.step([SessionUp(Identity("b", 1), dialed=True)], 0)
    assert [*about_topics(up)] == [Send("b", TopicsWanted())]
    known = [node.knows_topics]
    changes = [[*about_topics(node.step([told(Declaration(T, 1), more=True)], 0))]]
    known.append(node.knows_topics)
    changes.append([*about_topics(node.step([told()], 0))])
    known.append(node.knows_topics)
    changes.append([*about_topics(node.step([told(Declaration(T, 1))], 0))])
    assert known == [False, False, True]
    assert changes == [[TopicsChanged()], [TopicsChanged()], []]
    assert node.topics == {"t": T}


def test_a_client_that_was_given_topics_does_not_ask() -> None:
    node = Leaf(NodeConfig(node="c", delta=1, home="b"), [], topics={"t": T}, rng=Random(0))
    node.start(0)
    assert [*about_topics(node.step([SessionUp(Identity("b", 1), dialed=True)], 0))] == []
    assert node.knows_topics
    assert node.topics == {"t": T}


def test_a_request_is_repeated_at_the_next_home_until_it_is_answered() -> None:
    node = leaf()
    node.step([MessageReceived("b", Neighbourhood((("a", "b"),), (), NodeState.OPERATIONAL))], 0)
    asked = node.step([CreateTopicRequested(1, T), DeleteTopicRequested(2, "u")], 1)
    assert [*about_topics(asked)] == [Send("b", CreateTopic(1, T)), Send("b", DeleteTopic(2, "u"))]
    node.step([SessionDown("b")], 2)
    again = node.step([SessionUp(Identity("a", 1), dialed=True)], 3)
    assert [*about_topics(again)] == [
        Send("a", TopicsWanted()),
        Send("a", CreateTopic(1, T)),
        Send("a", DeleteTopic(2, "u", again=True)),
    ]
    answers = [MessageReceived("a", TopicAnswer(1)), MessageReceived("a", TopicAnswer(2, "no"))]
    assert [*about_topics(node.step([*answers, *answers], 4))] == [Answered(1), Answered(2, "no")]


def test_a_request_waits_for_a_home() -> None:
    node = Leaf(NodeConfig(node="c", delta=1, home="b"), [], rng=Random(0))
    node.start(0)
    assert [*about_topics(node.step([CreateTopicRequested(1, T)], 0))] == []
    up = node.step([SessionUp(Identity("b", 1), dialed=True)], 1)
    assert Send("b", CreateTopic(1, T)) in up


@pytest.mark.parametrize("order", [OrderName.PUBLISHER, OrderName.BEST_EFFORT])
@pytest.mark.parametrize(
    ("news", "now"),
    [
        (Declaration(Topic("t"), 9, deleted=True), None),
        (Declaration(Topic("t", schema="a INT"), 9), Topic("t", schema="a INT")),
    ],
    ids=["deleted", "replaced"],
)
def test_the_end_of_a_topic_ends_its_subscriptions_and_says_so(
    order: OrderName, news: Declaration, now: Topic | None
) -> None:
    node = leaf()
    node.step([told(Declaration(Topic("t", order), 1), Declaration(Topic("u", order), 1))], 0)
    subscribe = [
        SubscribeRequested(name, topic, "") for name, topic in (("s1", "t"), ("s2", "u"), ("s3", "t"))
    ]
    node.step([*subscribe], 1)
    effects = node.step([told(news)], 2)
    assert [each for each in about_topics(effects) if not isinstance(each, Send)] == [
        TopicDeleted("t", ("s1", "s3"), now),
        TopicsChanged(),
    ]
    assert sum(isinstance(each, Send) for each in effects) == 2, "the network is told that they end"
    assert node.check(UnsubscribeRequested("s1")) == "there is no subscription 's1'"
    assert node.check(UnsubscribeRequested("s2")) is None


def test_what_was_asked_for_while_its_topic_was_deleted_does_no_harm() -> None:
    node = leaf()
    node.step([told(Declaration(T, 1)), SubscribeRequested("s", "t", "")], 0)
    publish = PublishRequested("t", "p", [({"x": 1}, b"")])
    subscribe = SubscribeRequested("late", "t", "")
    effects = node.step(
        [told(Declaration(T, 2, deleted=True)), publish, subscribe, UnsubscribeRequested("s")], 1
    )
    deleted = [each for each in effects if isinstance(each, TopicDeleted)]
    assert deleted == [TopicDeleted("t", ("s",)), TopicDeleted("t", ("late",))]
    assert node.check(publish) == "topic 't' was deleted"
    assert node.check(subscribe) == "topic 't' was deleted"


def test_what_is_retained_for_a_deleted_topic_is_still_repeated() -> None:
    node = leaf()
    node.step([told(Declaration(Topic("t", beyond_delta=BeyondDelta.MARK), 1))], 0)
    node.step([PublishRequested("t", "p", [({}, b"")])], 1)
    node.step([told(Declaration(T, 2, deleted=True))], 2)
    node.step([SessionDown("b")], 3)
    up = node.step([SessionUp(Identity("b", 2), dialed=True)], 4)
    assert [type(each.message).__name__ for each in up if isinstance(each, Send)][-1] == "Publications"


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (PublishRequested("u", "p", [({}, b"")]), "there is no topic 'u'"),
        (PublishRequested("t", "", [({"a": 1}, b"")]), "a publisher needs a name"),
        (PublishRequested("t", "p", [({"a": "x"}, b"")]), "attribute 'a' must be INT, not 'x' of type str"),
        (PublishRequested("free", "p", [({"a": [1]}, b"")]), "attribute 'a' is of type list"),
        (PublishRequested("later", "p", [({}, b"")]), "order 'total', which this client does not know"),
        (SubscribeRequested("s", "t", ""), "there is a subscription 's' already"),
        (SubscribeRequested("", "t", ""), "a subscription needs a name"),
        (SubscribeRequested("x", "u", ""), "there is no topic 'u'"),
        (SubscribeRequested("x", "t", "a >"), "line 1, column 4"),
        (UnsubscribeRequested("x"), "there is no subscription 'x'"),
        (CreateTopicRequested(1, T), "request 1 is not answered yet"),
        (DeleteTopicRequested(2, ""), "a topic needs a name"),
    ],
    ids=range(12),
)
def test_a_client_says_what_is_wrong_before_it_is_done(request_: Input, error: str) -> None:
    node = leaf(t=Topic("t", schema="a INT"), free=Topic("free"), later=Topic("later", OrderName.TOTAL))
    node.step([SubscribeRequested("s", "t", ""), CreateTopicRequested(1, T)], 0)
    found = node.check(request_)
    assert found is not None
    assert error in found


@pytest.mark.parametrize(
    "request_",
    [
        PublishRequested("t", "p", [({"a": 1}, b"")]),
        SubscribeRequested("x", "t", "a > 1"),
        UnsubscribeRequested("s"),
        CreateTopicRequested(2, Topic("new")),
        DeleteTopicRequested(2, "t"),
    ],
)
def test_a_client_finds_nothing_wrong_where_nothing_is(request_: Input) -> None:
    node = leaf(t=Topic("t", schema="a INT"))
    node.step([SubscribeRequested("s", "t", "")], 0)
    assert node.check(request_) is None
    node.step([request_], 1)
