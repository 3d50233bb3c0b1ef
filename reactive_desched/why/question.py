"""Finds the pod, or the pods of a node or workload, and explains each."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from msgspec import Struct

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.api.plugin import View
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.coverage import node_not_covered
from reactive_desched.controller.named_objects import is_pod, known_node, no_pods_of
from reactive_desched.controller.pending import PendingFinding
from reactive_desched.errors import ConfigError
from reactive_desched.ledger.eviction import owner_of
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.objects import Pod
from reactive_desched.model.plugin_faults import ask_plugin, describe_error
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.primitives.bounded_text import shown
from reactive_desched.primitives.hints import nearest_name, quote
from reactive_desched.primitives.long_answers import AnswerTakesLong
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.text.workloads import workload_key
from reactive_desched.why.explanation import Explainer, PodExplanation, PodState

MAX_LISTED: Final = 500
"""Pods of a node or workload in one answer; further ones are only counted."""

PODS_PER_SLICE: Final = 2000
"""So many pods are looked through before the event loop may have its turn: under a millisecond."""

MAX_ASKED: Final = 50
"""So many times an answer is asked for again that takes long: a pod has fewer terms."""

AnswerT = TypeVar("AnswerT")

MAX_NAMES: Final = 500
"""So many names of a namespace are compared with one that no pod has."""


class NodeExplanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """The pods of a node, why plugins look at it or not, and how it compares with thresholds."""

    time: datetime
    node: str
    covered: bool
    summary: str
    taints: tuple[str, ...]
    paused: str
    total: int
    states: Mapping[str, int]
    pods: tuple[PodState, ...]


class OwnerExplanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """The pods of a workload, how many it wants, and how many of its pods are moving."""

    time: datetime
    owner: str
    wanted: int | None
    moving: int
    paused: str
    total: int
    states: Mapping[str, int]
    pods: tuple[PodState, ...]


Answer = PodExplanation | NodeExplanation | OwnerExplanation


class Question(Struct, frozen=True):
    """One of a pod (NAMESPACE/NAME or uid), a node, and an owner (NAMESPACE/KIND/NAME or uid)."""

    pod: str = ""
    node: str = ""
    owner: str = ""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "Question":
        """Read the query of a request; raises ConfigError unless it names one pod, node, owner."""
        known = cls.__struct_fields__
        if unknown := sorted(set(query) - set(known)):
            raise ConfigError(f"{quote(unknown[0])} is not known; there are {', '.join(known)}")
        if sum(map(bool, query.values())) != 1:
            raise ConfigError(f"ask about exactly one of: {', '.join(known)}")
        return cls(**query)


def answer(
    controller: Controller,
    question: Question,
    findings: Sequence[PendingFinding],
    clocks: Callable[[], ClockPair],
) -> Generator[None, None, Answer]:
    """Return the answer, in steps, which decides nothing that is evaluated later.

    `findings` are all that wait, with their turns; `clocks` says when it is. Raises ConfigError for
    a pod, node or workload that there is not.
    """
    return controller.state.answered_apart(_answer(controller, question, findings, clocks))


def _answer(
    controller: Controller,
    question: Question,
    findings: Sequence[PendingFinding],
    clocks: Callable[[], ClockPair],
) -> Generator[None, None, Answer]:
    if question.node:
        explainer = yield from _explainer(controller, {question.node}, findings, clocks)
        pods = _pods_on(controller, question.node)
        return (yield from _explain_node(controller, question.node, pods, explainer))
    found: list[Pod] = []
    belongs_to = controller.view.index(OwnerIndex).belongs_to
    for number, uid in enumerate(controller.view.pods(), 1):
        pod = controller.view.pod(uid)
        if pod is not None and (
            is_pod(pod, question.pod) if question.pod else belongs_to(pod, question.owner)
        ):
            found.append(pod)
        if number % PODS_PER_SLICE == 0:
            yield
    nodes = {pod.node for pod in found}
    explainer = yield from _explainer(controller, nodes, findings, clocks)
    if question.owner:
        return (yield from _explain_owner(controller, question.owner, found, explainer))
    if found:
        return (yield from _in_steps(controller, partial(explainer.explain, found[-1])))
    if (gone := explainer.explain_gone(question.pod)) is not None:
        return gone
    raise ConfigError(_no_such_pod(controller, question.pod))


def _explainer(
    controller: Controller,
    nodes: AbstractSet[str],
    findings: Iterable[PendingFinding],
    clocks: Callable[[], ClockPair],
) -> Generator[None, None, Explainer]:
    """Return what explains pods of these nodes, in steps."""
    of_nodes: list[PendingFinding] = []
    for number, each in enumerate(findings, 1):
        if each.decision.finding.pod.node in nodes:
            of_nodes.append(each)
        if number % PODS_PER_SLICE == 0:
            yield
    return Explainer(controller, of_nodes, clocks())


def _in_steps(controller: Controller, ask: Callable[[], AnswerT]) -> Generator[None, None, AnswerT]:
    """Collect in steps the pods that an answer needs, where they are many; then return it."""
    for _ in range(MAX_ASKED):
        try:
            with controller.node_fit.long_answers:
                return ask()
        except AnswerTakesLong as asked:
            yield from asked.steps
    return ask()


def _states(
    controller: Controller, pods: Iterable[Pod], explainer: Explainer
) -> Generator[None, None, tuple[PodState, ...]]:
    states: list[PodState] = []
    for pod in islice(pods, MAX_LISTED):
        states.append((yield from _in_steps(controller, partial(explainer.brief, pod))))
        yield
    return tuple(states)


def _pods_on(controller: Controller, node: str) -> list[Pod]:
    info = known_node(controller.view, node)
    found = controller.view.all_pods_of(NodeSubject(node))
    pods = (*info.active.values(), *info.completed.values()) if found is None else found[1]
    return sorted(pods, key=lambda pod: (pod.namespace, pod.name))


def _explain_node(
    controller: Controller, name: str, pods: list[Pod], explainer: Explainer
) -> Generator[None, None, NodeExplanation]:
    info = controller.view.node_info(name)
    assert info is not None, "its pods were found"
    assert info.node is not None, "its pods were found"
    why = node_not_covered(name, controller.view)
    not_covered = "" if why is None else why.message
    texts = dict.fromkeys(_comparisons(controller, name))
    summary = not_covered or "; ".join(texts) or "plugins look at its pods"
    taints = tuple(map(str, info.node.taints))
    states = yield from _states(controller, pods, explainer)
    return NodeExplanation(
        time=explainer.time,
        node=name,
        covered=not not_covered,
        summary=summary,
        taints=taints,
        paused=controller.pauses.state().hold,
        total=len(pods),
        states=Counter(each.state for each in states),
        pods=states,
    )


def _comparisons(controller: Controller, node: str) -> Iterator[str]:
    """Yield how the node compares with the thresholds of each plugin that has some."""
    for instance in controller.evaluator.instances:
        if isinstance(plugin := instance.plugin, BalancePlugin):
            ask = partial(_compared, plugin, instance.view, node)
            for text in ask_plugin(ask, otherwise=_why_not_compared):
                if text:
                    yield f"{plugin.name}: {text}"


def _compared(
    plugin: BalancePlugin[Any, Any],  # of any subjects and arguments
    view: View,
    node: str,
) -> list[str]:
    return [shown(table.describe_with_obstacle(node)) for table in plugin.node_tables(view)]


def _why_not_compared(error: BaseException) -> list[str]:
    return [f"the plugin failed: {describe_error(error)}"]


def _explain_owner(
    controller: Controller, name: str, pods: list[Pod], explainer: Explainer
) -> Generator[None, None, OwnerExplanation]:
    if not pods:
        raise no_pods_of(name)
    chain = controller.view.index(OwnerIndex).chain(pods[0])
    owner = owner_of(pods[0], chain)
    workload = controller.view.workload(owner.uid)
    states = yield from _states(controller, pods, explainer)
    return OwnerExplanation(
        time=explainer.time,
        owner=str(owner),
        wanted=None if workload is None else workload.replicas,
        moving=sum(move.origin.owner.uid == owner.uid for move in controller.ledger),
        paused=controller.pauses.state().hold,
        total=len(pods),
        states=Counter(each.state for each in states),
        pods=states,
    )


def _no_such_pod(controller: Controller, name: str) -> str:
    """Say that there is no such pod, and which pod or workload of its namespace may be meant."""
    namespace, _, rest = name.partition("/")
    if not rest:
        return f"there is no pod {quote(name)}; write NAMESPACE/NAME or a uid"
    pods = [pod for pod in controller.state.store(Pod) if pod.namespace == namespace][:MAX_NAMES]
    owners = controller.view.index(OwnerIndex)
    for pod in pods:
        for owner in owners.chain(pod) or pod.owners:
            if owner.name == rest:
                named = workload_key(owner.kind, namespace, owner.name)
                return f"there is no pod {quote(name)}; `why --owner {named}` has its pods"
    near = nearest_name(name, [f"{namespace}/{pod.name}" for pod in pods])
    meant = f"did you mean {near}? " if near else ""
    gone = f"`audit show {name}` has the story of one that is gone"
    return f"there is no pod {quote(name)}; {meant}{gone}"
