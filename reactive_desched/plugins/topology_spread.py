"""The pods of a topology spread constraint are spread less evenly than it allows."""

from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from enum import StrEnum
from functools import cache
from math import inf
from typing import Final, NamedTuple

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import FieldError, NodeBand, fix_to, raise_field_errors
from reactive_desched.api.balance_plugin import BalancePlugin, Plan
from reactive_desched.api.plugin import View
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.draining.obstacles import protected_by
from reactive_desched.draining.spread_domains import (
    DestinationChoice,
    Domain,
    NodesByDomain,
    Spread,
    Steps,
    Targets,
    by_size,
    nodes_by_domain,
    skew,
)
from reactive_desched.model.changes import Change, PodEvictabilityChanged, Resynced
from reactive_desched.model.findings import (
    DOMAIN_DETAIL,
    LOOKS_PER_SLICE,
    Finding,
    RequeueAfter,
    YieldPoint,
    pauses_between,
)
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.spread_moves import (
    Companion,
    Companions,
    Pick,
    SourcePods,
    moves_between,
)
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.primitives.hints import nearest_name, quote, sole_near_name
from reactive_desched.primitives.long_answers import (
    InPortions,
    at_once,
    portions,
)
from reactive_desched.state.indexes.emptied_nodes import EmptiedNodes
from reactive_desched.state.indexes.namespace_pods import NamespacePods
from reactive_desched.state.indexes.pod_attraction import PodAttraction
from reactive_desched.state.indexes.replica_places import ReplicaPlaces
from reactive_desched.state.indexes.spread_counts import SpreadCounts
from reactive_desched.state.indexes.spread_groups import (
    SpreadChanged,
    SpreadGroup,
    SpreadGroups,
    SpreadNodesChanged,
)

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

    def node_bands(self) -> Iterator[NodeBand]:
        """Yield that pods are spread which others may place unevenly."""
        if UnsatisfiableConstraintAction.SCHEDULE_ANYWAY in self.constraints:
            yield NodeBand(spreads="pods by constraints with ScheduleAnyway")


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
    domain that only looks emptier would take pods that have to go back. Pods of a constraint that
    none of them has as DoNotSchedule stay while the kube-scheduler would put their replacements
    back by its scores (the guard `ScoredElsewhere`).

    Pods often declare several constraints, such as one over zones and one over nodes. The
    controller moves them so that each move serves all of them: of the pods of the fullest domain
    those leave first whose other domains are the fullest, too, for nodes on which no other
    constraint is worse off. Where no such node fits, the constraints are weighed as the
    kube-scheduler weighs them: a move must gain twice what the others lose. A hard one is restored
    on every node that the scheduler allows.
    """

    name = "RemovePodsViolatingTopologySpreadConstraint"
    indexes = (
        SpreadGroups,
        NamespacePods,
        EmptiedNodes,
        ReplicaPlaces,
        PodAttraction,
    )
    reacts_to = (
        Resynced,
        SpreadChanged,
        SpreadNodesChanged,
        PodEvictabilityChanged,
    )

    def subjects(self, change: Change, view: View) -> Iterable[SpreadGroup]:
        """Name the constraints whose skew passed maxSkew, or exceeds it and can be planned now."""
        match change:
            case SpreadChanged(groups=groups):
                return groups
            case SpreadNodesChanged():
                return InPortions(self._counts(view).groups_on(change))
            case PodEvictabilityChanged(pod=pod):
                return self._counts(view).recount(pod)
            case _:
                return view.index(SpreadGroups).groups()

    def balance(self, subject: SpreadGroup, view: View) -> Plan:
        """Plan the moves of one constraint, then propose them; what fits nowhere is refused."""
        if subject.selector.is_empty:
            return  # the kube-scheduler counts no pods for it
        moves: Iterable[_Move | YieldPoint]
        if companions := (yield from self._companions(subject, view)):
            moves = self._plan_with_companions(subject, view, companions)
        else:
            closed = _emptied_domains(subject)
            moves = yield from self._plan(subject, view, _only_fewer_pods, closed)
        for _ in view.expected_replacements(subject.namespace):
            yield RequeueAfter(REPLACEMENT_TIMEOUT_S)
            break
        if absent := (yield from self._on_absent_nodes(subject, view)):
            yield RequeueAfter(min(wait_s for _, wait_s, _ in absent))
        yield from _propose(moves)

    def still_found(self, finding: Finding, subject: SpreadGroup, view: View) -> Finding | None:
        """Return the finding while the skew of the constraint exceeds its maxSkew.

        Pods that leave count until they are gone, and their replacements once they are there.
        """
        return finding if self._counts(view).is_skewed(subject) else None

    def describe(self, pod: Pod, view: View) -> str:
        """Say for each constraint in which the pod counts how even its domains are."""
        index = view.index(SpreadGroups)
        if not (groups := index.matching(pod)):
            return "no topology spread constraint selects the pod"
        return "; ".join(self._describe_group(group, index, view) for group in groups)

    def _describe_group(self, group: SpreadGroup, index: SpreadGroups, view: View) -> str:
        occupied = at_once(self._occupied_domains(group, view))
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
        moves: list[_Move] = []
        for group in groups:
            moves += yield from self._plan(group, view, _any_number_of_pods, _no_domains)
        yield from _propose(move for move in moves if move.is_possible)

    def _plan(
        self,
        group: SpreadGroup,
        view: View,
        size_limit: "_SizeLimit",
        closed_domains: "_ClosedDomains",
    ) -> "Steps[list[_Move]]":
        """Choose the pods of a constraint that should leave, and the domains that may take them."""
        if (spread := (yield from self._spread(group, view, closed_domains))) is None:
            return []
        sizes = [domain.size for domain in spread.domains]
        moves: list[_Move] = []
        for source, count in moves_between(sizes, spread.average, group.max_skew):
            yield YieldPoint()
            targets = spread.destinations.smaller_than(size_limit(sizes[source]))
            taken = yield from spread.domains[source].take(count, targets.fits)
            moves += (
                self._move(p, spread, spread.domains[source], targets, view, fits=targets.fits(p))
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
        if (spread := (yield from self._spread(group, view, _emptied_domains(group)))) is None:
            return
        domains = {domain.value: domain for domain in spread.domains}
        sizes = [domain.size for domain in spread.domains]
        yield YieldPoint()
        between = list(moves_between(sizes, spread.average, group.max_skew))
        count = sum(number for _, number in between)
        yield YieldPoint()
        sources = SourcePods(spread.average, companions)
        for domain in spread.domains:
            if domain.size > spread.average:
                leaving = yield from domain.in_order()
                yield from pauses_between(sources.add(domain.value, domain.size, leaving))
        is_hard = UnsatisfiableConstraintAction.DO_NOT_SCHEDULE in group.declared
        choice = DestinationChoice(spread, companions, is_hard=is_hard)
        picks = sources.pick()
        misfits: list[_Move] = []
        pick = next(picks, None)
        while pick is not None and count > 0:
            targets, fits = yield from choice.targets_for(pick)
            move = self._move(pick.pod, spread, domains[pick.domain], targets, view, fits=fits)
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
    ) -> Steps[Spread | None]:
        """Return how the pods of a constraint are spread; None where nothing is to be restored."""
        if not any(kind in group.declared for kind in self.args.constraints):
            return None
        occupied = yield from self._occupied_domains(group, view)
        if all(domain.size <= group.max_skew for domain in occupied.values()):
            return None
        yield from self._add_empty_domains(occupied, group, view)
        if skew(occupied.values()) <= group.max_skew:
            return None
        # They make no domain a source.
        for value, _, number in (yield from self._on_absent_nodes(group, view)):
            occupied.setdefault(value, Domain(value)).expect(number)
        nodes = yield from nodes_by_domain(group, view)
        closed = yield from closed_domains(nodes, view)
        domains = yield from by_size([of for of in occupied.values() if of.value not in closed])
        if not domains or domains[-1].size - domains[0].size <= group.max_skew:
            return None
        if not (yield from self._is_declared(group, domains, view)):
            return None
        yield YieldPoint()
        return Spread(group, domains, nodes, view)

    def _add_empty_domains(
        self, occupied: dict[str, Domain], group: SpreadGroup, view: View
    ) -> Iterator[YieldPoint]:
        """Add the domains of a constraint that have no pods, of which there may be thousands."""
        for names in portions(list(view.index(SpreadGroups).domains(group))):
            for name in names:
                if name not in occupied:
                    occupied[name] = Domain(name)
            yield YieldPoint()

    def _companions(self, group: SpreadGroup, view: View) -> Steps[Companions]:
        """Return the constraints that pods declare together with this one, as they are."""
        related = [other for other in group.related if not other.selector.is_empty]
        related.sort(key=lambda other: repr(other.key))
        companions: list[Companion] = []
        for other in related:
            companion = yield from self._companion(other, view)
            companions.append(companion)
        return Companions(companions)

    def _companion(self, group: SpreadGroup, view: View) -> Steps[Companion]:
        domains = yield from self._occupied_domains(group, view)
        sizes: dict[str, int] = {}
        for names in portions([*view.index(SpreadGroups).domains(group), *domains]):
            for name in names:
                sizes[name] = domains[name].size if name in domains else 0
            yield YieldPoint()
        for value, _, number in (yield from self._on_absent_nodes(group, view)):
            sizes[value] = sizes.get(value, 0) + number

        def domain_of(pod: Pod) -> str | None:
            if not group.selector.matches(pod.labels):
                return None
            found = view.active_pod(pod.uid)
            return None if found is None else found[1].labels.get(group.topology_key)

        is_restored = any(kind in group.declared for kind in self.args.constraints)
        companion = Companion(
            sizes, group.max_skew, domain_of, group.nodes.domain_of, is_restored=is_restored
        )
        yield YieldPoint()
        return companion

    def _move(
        self,
        pod: Pod,
        spread: Spread,
        source: Domain,
        targets: Targets,
        view: View,
        *,
        fits: bool,
    ) -> "_Move":
        group, smallest = spread.group, spread.domains[0]
        key, needs_fit = group.topology_key, self.args.topology_balance_node_fit
        message = (
            f"{key}={source.value} has {source.size} matching pods and {key}={smallest.value} has "
            f"{smallest.size}; its constraint allows a difference of {group.max_skew}"
        )
        details: dict[str, int | str] = {
            "topologyKey": key,
            DOMAIN_DETAIL: source.value,
            "domainPods": source.size,
            "smallestDomainPods": smallest.size,
            "maxSkewPods": group.max_skew,
        }
        own = view.index(SpreadGroups).declared_by(pod)
        by_score = (UnsatisfiableConstraintAction.DO_NOT_SCHEDULE, group) not in own
        finding = Finding(
            pod,
            self.name,
            message,
            needs_fit=needs_fit,
            targets=targets.names if needs_fit else None,
            details=details,
            by_score=by_score,
        )
        return _Move(finding, fits or not needs_fit)

    # --- what is counted ---

    def _counts(self, view: View) -> SpreadCounts:
        return view.index(SpreadCounts, _CountedPods(self, view))

    def _occupied_domains(self, group: SpreadGroup, view: View) -> Steps[dict[str, Domain]]:
        """Return the domains of a constraint that have pods, or will have some soon."""
        yield from pauses_between(view.index(SpreadGroups).count_domains(group))
        domains: dict[str, Domain] = {}
        for counted in self._counts(view).counted_pods(group):
            for at, pod in counted:
                if (domain := domains.get(at)) is None:
                    domain = domains[at] = Domain(at)
                if not view.is_leaving(pod):
                    domain.add(pod)
            yield YieldPoint()
        for pod, node in view.expected_replacements(group.namespace):
            if group.selector.matches(pod.labels) and self.args.covers(pod):
                node_and_pods = view.pods_of(NodeSubject(node))
                value = node_and_pods and node_and_pods[0].labels.get(group.topology_key)
                if value is not None:
                    domains.setdefault(value, Domain(value)).expect(1)
        return domains

    def _on_absent_nodes(
        self, group: SpreadGroup, view: View
    ) -> Steps[list[tuple[str, float, int]]]:
        """Return how many pods of a constraint nodes have that may be back, and when that is over.

        They count in the domain of their node, as they did before and will again.
        """
        counts = _CountedPods(self, view)
        found: list[tuple[str, float, int]] = []
        for value, wait_s, pods in list(view.absent_nodes(group.topology_key)):
            number = sum(
                pod.namespace == group.namespace
                and group.selector.matches(pod.labels)
                and counts(pod)
                and not view.is_leaving(pod)
                for pod in pods
            )
            if number:
                found.append((value, wait_s, number))
            yield YieldPoint()
        return found

    def _is_declared(
        self, group: SpreadGroup, domains: Iterable[Domain], view: View
    ) -> Steps[bool]:
        """Say whether a pod of the scope that the evictor may evict declares the constraint.

        As a rule one of those that it counts does.
        """
        declared_by = view.index(SpreadGroups).declared_by

        def declares(pod: Pod) -> bool:
            return any(
                found is group and kind in self.args.constraints for kind, found in declared_by(pod)
            )

        def declares_uncounted(pod: Pod) -> bool:
            return (
                pod.is_active
                and declares(pod)
                and view.active_pod(pod.uid) is not None
                and self.args.covers(pod)
                and view.evictable(pod)
            )

        counted = (pod for domain in domains for pod in domain.pods)
        return (yield from _any(map(declares, counted))) or (
            yield from _any(
                map(declares_uncounted, view.index(NamespacePods).pods_of(group.namespace))
            )
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


_ClosedDomains = Callable[[NodesByDomain, View], Steps[Collection[str]]]
"""Says which domains of a constraint neither give pods nor take them."""


def _no_domains(_nodes: NodesByDomain, _view: View) -> Steps[Collection[str]]:
    yield from ()
    return ()


def _emptied_domains(group: SpreadGroup) -> _ClosedDomains:
    """Say which domains have no nodes but those that are being deleted or emptied.

    A hard constraint also counts those that sets of moves empty: the kube-scheduler does.
    """
    is_hard = UnsatisfiableConstraintAction.DO_NOT_SCHEDULE in group.declared

    def ask(nodes: NodesByDomain, view: View) -> Steps[Collection[str]]:
        index = view.index(EmptiedNodes)
        if not (emptied := index.names if is_hard else index.avoided):
            return ()
        closed: set[str] = set()
        for portion in portions(list(nodes.items())):
            closed.update(at for at, those in portion if all(n.name in emptied for n in those))
            yield YieldPoint()
        return closed

    return ask


class _CountedPods(NamedTuple):
    """Says which pods a plugin counts, in the view of its profile."""

    plugin: TopologySpreadPlugin
    view: View

    def __call__(self, pod: Pod) -> bool:
        return not pod.is_terminating and self.plugin.args.covers(pod) and self.view.evictable(pod)


_SizeLimit = Callable[[int], float]
"""How many pods a domain must stay below to take some of a source that has this number left."""


def _any_number_of_pods(_: int) -> float:
    return inf


def _only_fewer_pods(left_in_source: int) -> float:
    return left_in_source


def _any(answers: Iterable[bool]) -> Steps[bool]:
    """Say whether one of the answers is yes."""
    for number, answer in enumerate(answers, 1):
        if answer:
            return True
        if number % LOOKS_PER_SLICE == 0:
            yield YieldPoint()
    return False


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
        decision = yield move.finding
        match decision.scope_exhausted:
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
