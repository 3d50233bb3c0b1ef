"""The pods of a topology spread constraint are spread less evenly than it allows."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from itertools import chain, islice
from math import inf, log
from typing import Final, NamedTuple

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import FieldError, fix_to, raise_field_errors
from reactive_desched.api.balance_plugin import BalancePlugin, Plan
from reactive_desched.api.plugin import View
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.draining.obstacles import protected_by
from reactive_desched.model.changes import Change, PodEvictabilityChanged, Resynced
from reactive_desched.model.findings import Finding, RequeueAfter, YieldPoint
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.spread_moves import (
    Admitted,
    Companion,
    Companions,
    NearDomains,
    Pick,
    SourcePods,
    Standing,
    moves_between,
)
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.primitives.hints import nearest_name, quote, sole_near_name
from reactive_desched.state.indexes.emptied_nodes import EmptiedNodes, EmptiedNodesChanged
from reactive_desched.state.indexes.namespace_pods import NamespacePods
from reactive_desched.state.indexes.spread_counts import SpreadCounts
from reactive_desched.state.indexes.spread_groups import SpreadChanged, SpreadGroup, SpreadGroups

REPLACEMENT_TIMEOUT_S: Final = 120.0
"""How long a plan may rest on a replacement that is expected and not bound yet."""


class UnsatisfiableConstraintAction(StrEnum):
    """The scheduler's action when a constraint of a pod cannot be met."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class TopologySpreadArgs(ScopedArgs):
    """Arguments: the constraints to restore, and whether a pod must fit a smaller domain."""

    constraints: tuple[str, ...] = Field(
        default=(UnsatisfiableConstraintAction.DO_NOT_SCHEDULE,),
        description="Which constraints to restore: DoNotSchedule and/or ScheduleAnyway; an empty "
        "list means the default.",
        json_schema_extra={
            "items": {"type": "string", "enum": list(UnsatisfiableConstraintAction)}
        },
    )
    topology_balance_node_fit: bool = Field(
        default=True, description="Evict only pods that fit on a node of a smaller domain."
    )

    @field_validator("constraints")
    @classmethod
    def _validate_constraints(
        cls, written: tuple[str, ...], info: ValidationInfo
    ) -> tuple[str, ...]:
        raise_field_errors(_unknown_constraints(written), info.context)
        return written or (UnsatisfiableConstraintAction.DO_NOT_SCHEDULE,)


class TopologySpreadPlugin(BalancePlugin[SpreadGroup, TopologySpreadArgs]):
    """Evicts pods from the larger domains of a constraint until its skew is within its maxSkew.

    Only pods in the scope of the arguments that the evictor may evict are counted, and only they
    declare constraints. A pod counts where the constraint's selector matches it, whether it
    declares the constraint or not. `minDomains` is ignored.

    The largest domain gives pods to the smallest one, then the next, as long as two differ by more
    than maxSkew and the average lies between them. Of the pods of a domain, those that fit a node
    of a domain below the average go first; then those without node affinity, and of these the ones
    with the highest priority. With `topologyBalanceNodeFit` a pod that fits no such node stays;
    the plan takes it for moved all the same, so the spread may stay uneven.

    In a sweep every domain below the average takes pods, as upstream. The controller looks again
    after each move, so there every move makes the spread more even: a domain takes pods of a source
    only if it has fewer than the source has left. For the controller a pod whose eviction is under
    way counts no longer, and its replacement counts on the node that is reserved for it. A
    constraint with an empty `labelSelector` moves no pod: the kube-scheduler counts no pods for it.
    Where a node is not Ready any more, or has lost its topology label, its pods count in its domain
    for 5 min (`guards.standingTimes.absentNodes`), as long as Kubernetes itself waits for it: a
    domain that only looks emptier would take pods that have to go back.

    Pods often declare several constraints, such as one over zones and one over nodes. The
    controller moves them so that each move serves all of them: of the pods of the fullest domain
    those leave first whose other domains are the fullest, too, for nodes on which no other
    constraint is worse off. Where no such node fits, the constraints are weighed as the
    kube-scheduler weighs them: a move must gain twice what the others lose. A hard one is restored
    on every node that the scheduler allows.
    """

    name = "RemovePodsViolatingTopologySpreadConstraint"
    indexes = (SpreadGroups, NamespacePods, EmptiedNodes)
    reacts_to = (Resynced, SpreadChanged, EmptiedNodesChanged, PodEvictabilityChanged)

    def subjects(self, change: Change, view: View) -> Iterable[SpreadGroup]:
        """Name the constraints whose skew passed maxSkew, or exceeds it and can be planned now."""
        match change:
            case SpreadChanged(groups=groups):
                return groups
            case PodEvictabilityChanged(pod=pod):
                return self._counts(view).recount(pod)
            case _:
                return view.index(SpreadGroups).groups()

    def balance(self, subject: SpreadGroup, view: View) -> Plan:
        """Plan the moves of one constraint, then propose them; what fits nowhere is refused."""
        if subject.selector.is_empty:
            return  # the kube-scheduler counts no pods for it
        moves: Iterable[_Move | YieldPoint]
        if companions := self._companions(subject, view):
            moves = self._plan_with_companions(subject, view, companions)
        else:
            moves = self._plan(subject, view, _only_fewer_pods, _emptied_domains)
        for _ in view.expected_replacements(subject.namespace):
            yield RequeueAfter(REPLACEMENT_TIMEOUT_S)
            break
        if absent := [wait_s for _, wait_s, _ in self._on_absent_nodes(subject, view)]:
            yield RequeueAfter(min(absent))
        yield from _propose(moves)

    def describe(self, pod: Pod, view: View) -> str:
        """Say for each constraint in which the pod counts how even its domains are."""
        index = view.index(SpreadGroups)
        if not (groups := index.matching(pod)):
            return "no topology spread constraint selects the pod"
        return "; ".join(self._describe_group(group, index, view) for group in groups)

    def _describe_group(self, group: SpreadGroup, index: SpreadGroups, view: View) -> str:
        occupied = self._occupied_domains(group, view)
        sizes = dict.fromkeys(index.domains(group), 0)
        sizes |= {name: domain.size for name, domain in occupied.items()}
        key, allowed = group.topology_key, group.max_skew
        if not sizes:
            return f"{key}: no domain"
        smallest, largest = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
        kinds = sorted(group.declared)
        restored = any(kind in self.args.constraints for kind in kinds)
        note = "" if restored else f", and {', '.join(kinds)} is not restored"
        if group.selector.is_empty:
            note = ", and the kube-scheduler counts no pods, as its labelSelector is empty"
        return (
            f"{key}: between {sizes[smallest]} ({smallest}) and {sizes[largest]} ({largest})"
            f" matching pods that may be evicted in {len(sizes)} domains, and a difference of"
            f" {allowed} is allowed{note}"
        )

    def obstacles(self, view: View) -> Callable[[Pod], str]:
        """Return what says why a protected pod stays in a domain with too many, all counted."""
        sizes = cache(lambda group: _all_pods_by_domain(group, view))

        def ask(pod: Pod) -> str:
            groups = view.index(SpreadGroups).matching(pod)
            if not groups or view.is_leaving(pod) or (kept := protected_by(pod, view)) is None:
                return ""
            for group in groups:
                domain, counts = _domain_of(pod, group, view), sizes(group)
                is_restored = any(kind in self.args.constraints for kind in group.declared)
                if not is_restored or domain is None or domain not in counts:
                    continue
                smallest = min(counts, key=counts.__getitem__)
                if counts[domain] - counts[smallest] > group.max_skew:
                    return (
                        f"{group.topology_key}={domain} has {counts[domain]} matching pods and"
                        f" {smallest} has {counts[smallest]}, and {kept.sentence}"
                    )
            return ""

        return ask

    def sweep(self, view: View) -> Plan:
        """Plan for every constraint before the first eviction, as upstream does."""
        groups = view.index(SpreadGroups).groups()
        moves = [
            move
            for group in groups
            for move in self._plan(group, view, _any_number_of_pods, _no_domains)
        ]
        yield from _propose(move for move in moves if move.is_possible)

    def _plan(
        self,
        group: SpreadGroup,
        view: View,
        size_limit: "_SizeLimit",
        closed_domains: "_ClosedDomains",
    ) -> list["_Move"]:
        """Choose the pods of a constraint that should leave, and the domains that may take them."""
        if (spread := self._spread(group, view, closed_domains)) is None:
            return []
        sizes = [domain.size for domain in spread.domains]
        moves: list[_Move] = []
        for source, count in moves_between(sizes, spread.average, group.max_skew):
            targets = spread.destinations.smaller_than(size_limit(sizes[source]))
            taken = spread.domains[source].take(count, targets.fits)
            moves += (
                self._move(p, spread, spread.domains[source], targets, fits=targets.fits(p))
                for p in taken
            )
        return moves

    def _plan_with_companions(
        self, group: SpreadGroup, view: View, companions: Companions
    ) -> Iterator["_Move | YieldPoint"]:
        """Choose pods and nodes so that the moves serve the pods' other constraints as well.

        As many leave as without them; what makes the spread most even is proposed first, and what
        fits nowhere last.
        """
        if (spread := self._spread(group, view, _emptied_domains)) is None:
            return
        domains = {domain.value: domain for domain in spread.domains}
        sizes = {value: domain.size for value, domain in domains.items()}
        between = moves_between(list(sizes.values()), spread.average, group.max_skew)
        count = sum(number for _, number in between)
        above = {
            value: sorted(domain.pods, key=_order, reverse=True)
            for value, domain in domains.items()
            if domain.size > spread.average
        }
        is_hard = UnsatisfiableConstraintAction.DO_NOT_SCHEDULE in group.declared
        choice = _Choice(spread, companions, is_hard=is_hard)
        picks = SourcePods(sizes, above, spread.average, companions).pick()
        misfits: list[_Move] = []
        pick = next(picks, None)
        while pick is not None and count > 0:
            targets, fits = choice.targets_for(pick)
            move = self._move(pick.pod, spread, domains[pick.domain], targets, fits=fits)
            if fits:
                count -= 1
                yield move
            else:
                misfits.append(move)
                yield YieldPoint()
            pick = _send(picks, leaves=fits)
        yield from misfits[:count]

    def _spread(
        self, group: SpreadGroup, view: View, closed_domains: "_ClosedDomains"
    ) -> "_Spread | None":
        """Return how the pods of a constraint are spread; None where nothing is to be restored."""
        if not any(kind in group.declared for kind in self.args.constraints):
            return None
        occupied = self._occupied_domains(group, view)
        if all(domain.size <= group.max_skew for domain in occupied.values()):
            return None
        for name in view.index(SpreadGroups).domains(group):
            if name not in occupied:
                occupied[name] = _Domain(name, [])
        if _skew(occupied.values()) <= group.max_skew:
            return None
        self._add_absent(occupied, group, view)
        domains = sorted(occupied.values(), key=lambda each: (each.size, each.value))
        if closed := closed_domains(group, view):
            domains = [domain for domain in domains if domain.value not in closed]
        if not domains or domains[-1].size - domains[0].size <= group.max_skew:
            return None
        if not self._is_declared(group, domains, view):
            return None
        return _Spread(group, domains, view)

    def _companions(self, group: SpreadGroup, view: View) -> Companions:
        """Return the constraints that pods declare together with this one, as they are."""
        related = [other for other in group.related if not other.selector.is_empty]
        related.sort(key=lambda other: repr(other.key))
        return Companions([self._companion(other, view) for other in related])

    def _companion(self, group: SpreadGroup, view: View) -> Companion:
        sizes = dict.fromkeys(view.index(SpreadGroups).domains(group), 0)
        domains = self._occupied_domains(group, view).values()
        sizes |= {domain.value: domain.size for domain in domains}
        for value, _, number in self._on_absent_nodes(group, view):
            sizes[value] = sizes.get(value, 0) + number

        def domain_of(pod: Pod) -> str | None:
            if not group.selector.matches(pod.labels):
                return None
            found = view.active_pod(pod.uid)
            return None if found is None else found[1].labels.get(group.topology_key)

        is_restored = any(kind in group.declared for kind in self.args.constraints)
        return Companion(
            sizes, group.max_skew, domain_of, group.nodes.domain_of, is_restored=is_restored
        )

    def _move(
        self, pod: Pod, spread: "_Spread", source: "_Domain", targets: "_Targets", *, fits: bool
    ) -> "_Move":
        group, smallest = spread.group, spread.domains[0]
        key, needs_fit = group.topology_key, self.args.topology_balance_node_fit
        message = (
            f"{key}={source.value} has {source.size} matching pods and {key}={smallest.value} has "
            f"{smallest.size}; its constraint allows a difference of {group.max_skew}"
        )
        details: dict[str, int | str] = {
            "topologyKey": key,
            "topologyValue": source.value,
            "domainPods": source.size,
            "smallestDomainPods": smallest.size,
            "maxSkewPods": group.max_skew,
        }
        finding = Finding(
            pod,
            self.name,
            message,
            needs_fit=needs_fit,
            targets=targets.names if needs_fit else None,
            details=details,
        )
        return _Move(finding, fits or not needs_fit)

    # --- what is counted ---

    def _counts(self, view: View) -> SpreadCounts:
        return view.index(SpreadCounts, _CountedPods(self, view))

    def _occupied_domains(self, group: SpreadGroup, view: View) -> dict[str, "_Domain"]:
        """Return the domains of a constraint that have pods, or will have some soon."""
        domains = {
            value: _Domain(value, [pod for pod in pods if not view.is_leaving(pod)])
            for value, pods in self._counts(view).pods_by_domain(group).items()
        }
        for pod, node in view.expected_replacements(group.namespace):
            if group.selector.matches(pod.labels) and self.args.covers(pod):
                node_and_pods = view.pods_of(NodeSubject(node))
                value = node_and_pods and node_and_pods[0].labels.get(group.topology_key)
                if value is not None:
                    domains.setdefault(value, _Domain(value, [])).size += 1
        return domains

    def _add_absent(self, domains: dict[str, "_Domain"], group: SpreadGroup, view: View) -> None:
        """Count the pods on nodes that may be back in their domains: they make none a source."""
        for value, _, number in self._on_absent_nodes(group, view):
            domains.setdefault(value, _Domain(value, [])).size += number

    def _on_absent_nodes(self, group: SpreadGroup, view: View) -> Iterator[tuple[str, float, int]]:
        """Yield how many pods of a constraint nodes have that may be back, and when that is over.

        They count in the domain of their node, as they did before and will again.
        """
        counts = _CountedPods(self, view)
        for value, wait_s, pods in view.absent_nodes(group.topology_key):
            number = sum(
                pod.namespace == group.namespace
                and group.selector.matches(pod.labels)
                and counts(pod)
                and not view.is_leaving(pod)
                for pod in pods
            )
            if number:
                yield value, wait_s, number

    def _is_declared(self, group: SpreadGroup, domains: Iterable["_Domain"], view: View) -> bool:
        """Say whether a pod of the scope that the evictor may evict declares the constraint.

        As a rule one of those that it counts does.
        """
        declared_by = view.index(SpreadGroups).declared_by

        def declares(pod: Pod) -> bool:
            return any(
                found is group and kind in self.args.constraints for kind, found in declared_by(pod)
            )

        return any(declares(pod) for domain in domains for pod in domain.pods) or any(
            declares(pod)
            and view.active_pod(pod.uid) is not None
            and self.args.covers(pod)
            and view.evictable(pod)
            for pod in view.index(NamespacePods).pods_of(group.namespace)
            if pod.is_active
        )


def _all_pods_by_domain(group: SpreadGroup, view: View) -> Mapping[str, int]:
    """Count the pods of each domain, those too that the evictor protects."""
    index = view.index(SpreadGroups)
    counts = dict.fromkeys(index.domains(group), 0)
    for pod in index.pods(group):
        domain = None if view.is_leaving(pod) else _domain_of(pod, group, view)
        if domain in counts:
            counts[domain] += 1
    return counts


def _domain_of(pod: Pod, group: SpreadGroup, view: View) -> str | None:
    found = view.active_pod(pod.uid)
    return None if found is None else group.nodes.domain_of(found[1])


_ClosedDomains = Callable[[SpreadGroup, View], Collection[str]]
"""Says which domains of a constraint neither give pods nor take them."""


def _no_domains(_group: SpreadGroup, _view: View) -> Collection[str]:
    return ()


def _emptied_domains(group: SpreadGroup, view: View) -> Collection[str]:
    """Return the domains all of whose nodes are being deleted or emptied: they will be gone."""
    emptied = view.index(EmptiedNodes).names
    if not emptied:
        return ()
    closed: set[str] = set()
    stay: set[str] = set()
    for node in view.nodes():
        if (domain := group.nodes.domain_of(node)) is not None:
            (closed if node.name in emptied else stay).add(domain)
    return closed - stay


class _CountedPods(NamedTuple):
    """Says which pods a plugin counts, in the view of its profile."""

    plugin: TopologySpreadPlugin
    view: View

    def __call__(self, pod: Pod) -> bool:
        return not pod.is_terminating and self.plugin.args.covers(pod) and self.view.evictable(pod)


class _Domain:
    """A domain and its pods; `size` counts the replacements that are expected as well."""

    def __init__(self, value: str, pods: list[Pod]) -> None:
        self.value = value
        self.pods = pods
        self.size = len(pods)

    def take(self, count: int, fits: Callable[[Pod], bool]) -> list[Pod]:
        """Take so many from the end of the order, those that fit before any other.

        They are returned in the order.
        """
        fitting: list[Pod] = []
        others: list[Pod] = []
        for pod in sorted(self.pods, key=_order, reverse=True):
            if len(fitting) == count:
                break
            (fitting if fits(pod) else others).append(pod)
        taken = [*fitting, *others[: count - len(fitting)]][::-1]
        gone = {pod.uid for pod in taken}
        self.pods = [pod for pod in self.pods if pod.uid not in gone]
        return taken


def _skew(domains: Collection[_Domain]) -> int:
    sizes = [domain.size for domain in domains]
    return max(sizes) - min(sizes)


def _order(pod: Pod) -> tuple[bool, bool, int, str]:
    """Sort pods bound to nodes first, then by priority, those without one first."""
    spec = pod.spec
    is_bound = bool(spec.node_selector) or spec.node_affinity is not None
    return not is_bound, spec.priority is not None, spec.priority or 0, pod.name


_SizeLimit = Callable[[int], float]
"""How many pods a domain must stay below to take some of a source that has this number left."""


def _any_number_of_pods(_: int) -> float:
    return inf


def _only_fewer_pods(left_in_source: int) -> float:
    return left_in_source


class _Destinations:
    """The domains below the average, the smallest first, and the nodes in them."""

    def __init__(self, group: SpreadGroup, below: list[_Domain], view: View) -> None:
        self._sizes = [domain.size for domain in below]
        self._size_of: dict[str | None, int] = {domain.value: domain.size for domain in below}
        self._nodes: dict[str | None, list[Node]] = {domain.value: [] for domain in below}
        for node in view.nodes():
            if (domain := group.nodes.domain_of(node)) in self._nodes:
                self._nodes[domain].append(node)
        self._targets: dict[int, _Targets] = {}
        self._group = group
        self.view = view

    def size_at(self, node: Node) -> int:
        """Return how many pods the domain of one of the nodes has."""
        return self._size_of[self._group.nodes.domain_of(node)]

    def smaller_than(self, size: float) -> "_Targets":
        """Return the nodes of those domains that have fewer pods."""
        count = bisect_left(self._sizes, size)
        if count not in self._targets:
            nodes = chain.from_iterable(islice(self._nodes.values(), count))
            self._targets[count] = _Targets(nodes, self.view)
        return self._targets[count]


class _Targets:
    """The nodes that may take a pod."""

    def __init__(self, nodes: Iterable[Node], view: View) -> None:
        self.nodes = tuple(nodes)
        self.names = frozenset(node.name for node in self.nodes)
        self.view = view
        self._fits: dict[PodKey, bool] = {}

    def fits(self, pod: Pod) -> bool:
        """Say whether a pod fits one of them; node fit is asked once for each pod."""
        if pod.uid not in self._fits:
            self._fits[pod.uid] = self.view.find_node_among(pod, self.names) is not None
        return self._fits[pod.uid]


class _Spread:
    """The pods of a constraint by domain, the smallest domain first."""

    def __init__(self, group: SpreadGroup, domains: list[_Domain], view: View) -> None:
        self.group = group
        self.domains = domains
        self.average = sum(domain.size for domain in domains) / len(domains)
        below = [domain for domain in domains if domain.size < self.average]
        self.destinations = _Destinations(group, below, view)


MAX_WEIGHED: Final = 100
"""So many times a plan weighs constraints that a move cannot serve at once; the rest of its pods
stays for now. It takes a millisecond for 500 nodes."""


MIN_GAIN: Final = 2.0
"""So many times as much as its other constraints lose must this one gain by a move, as the
kube-scheduler weighs them: else its other scores decide, and may well put the pod back."""


class _Choice:
    """The nodes that may take a pod so that its other constraints gain as well.

    Where none of these fits, the constraints are weighed as the kube-scheduler weighs them: what
    this one gains must be worth what the others lose. A hard one is restored on any node below its
    average.
    """

    def __init__(self, spread: _Spread, companions: Companions, *, is_hard: bool) -> None:
        self._destinations = spread.destinations
        self._weight = log(len(spread.domains) + 2)
        self._companions = companions
        self._is_hard = is_hard
        self._near: dict[_Targets, NearDomains] = {}
        self._found: dict[tuple[_Targets, Admitted], _Targets] = {}
        self._weighed = 0

    def targets_for(self, pick: Pick) -> tuple[_Targets, bool]:
        """Return the nodes that may take a pod, and whether it fits one of them."""
        widest = self._destinations.smaller_than(pick.left)
        best = self._serving_all(widest, pick.standing)
        if best is widest or best.fits(pick.pod):
            return best, best.fits(pick.pod)
        if self._is_hard:
            return widest, widest.fits(pick.pod)
        if self._weighed >= MAX_WEIGHED:
            return best, False
        self._weighed += 1
        weighed = self._weighing(widest, pick)
        return weighed, weighed.fits(pick.pod)

    def _serving_all(self, widest: _Targets, standing: Standing) -> _Targets:
        if widest not in self._near:
            found = zip(*map(self._companions.domains_of, widest.nodes), strict=True)
            self._near[widest] = [set(filter(None, domains)) for domains in found]
        admitted = self._companions.admitted(standing, self._near[widest])
        if all(domains is None for domains in admitted):
            return widest
        key = widest, admitted
        if key not in self._found:
            nodes = (node for node in widest.nodes if self._is_within(node, admitted))
            self._found[key] = _Targets(nodes, self._destinations.view)
        return self._found[key]

    def _is_within(self, node: Node, admitted: Admitted) -> bool:
        return all(
            domains is None or at is None or at in domains
            for at, domains in zip(self._companions.domains_of(node), admitted, strict=True)
        )

    def _weighing(self, widest: _Targets, pick: Pick) -> _Targets:
        def is_worth_it(node: Node) -> bool:
            gain = self._weight * (pick.left - self._destinations.size_at(node))
            loss = self._companions.cost(pick.standing, self._companions.domains_of(node))
            return gain > MIN_GAIN * loss

        return _Targets(filter(is_worth_it, widest.nodes), self._destinations.view)


def _send(picks: Generator[Pick, bool, None], *, leaves: bool) -> Pick | None:
    """Say whether the last pod leaves, and return the next; None at the end."""
    try:
        return picks.send(leaves)
    except StopIteration:
        return None


class _Move(NamedTuple):
    """A pod that should leave; it is possible where the pod fits, or need not fit."""

    finding: Finding
    is_possible: bool


def _propose(moves: Iterable["_Move | YieldPoint"]) -> Plan:
    """Propose each pod once, but none of a node or namespace whose limit is exhausted."""
    exhausted: set[tuple[str, str]] = set()
    proposed: set[PodKey] = set()
    for move in moves:
        if isinstance(move, YieldPoint):
            yield move
            continue
        pod = move.finding.pod
        node, namespace = ("node", pod.node), ("namespace", pod.namespace)
        if pod.uid in proposed or not exhausted.isdisjoint((node, namespace)):
            continue
        proposed.add(pod.uid)
        match (yield move.finding).scope_exhausted:
            case "cluster":
                return
            case "node":
                exhausted.add(node)
            case "namespace":
                exhausted.add(namespace)


def _unknown_constraints(written: tuple[str, ...]) -> Iterator[FieldError]:
    """Refuse what is no kind of constraint."""
    kinds = tuple(UnsatisfiableConstraintAction)
    for index, name in enumerate(written):
        if name not in kinds:
            meant = nearest_name(name, kinds)
            hint = f"did you mean {meant}?" if meant else f"write {' or '.join(kinds)}"
            message = f"{quote(name)} is not a kind of constraint"
            yield FieldError(
                message,
                hint,
                (index,),
                rule=Rule.UNKNOWN_VALUE,
                fix=fix_to(sole_near_name(name, kinds)),
            )
