"""Keeps which nodes have a label, for the labels that selectors read."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from reactive_desched.fit.change_log import ChangeLog
from reactive_desched.model.labels import Labels, Requirement, Selector
from reactive_desched.model.node_affinity import NodeSelector, NodeSelectorTerm
from reactive_desched.model.objects import Node, PodSpec
from reactive_desched.primitives import bits
from reactive_desched.primitives.long_answers import AnswerTakesLong, LongAnswers

MAX_INDEXED_LABELS: Final = 200
"""How many labels are indexed; at the bound the least recently used is dropped, and indexed again
when it is read again."""

READ_AT_ONCE: Final = 500
"""Of so many nodes a label, or the slot, is read in one step: some 0.2 ms."""

_SLOTS_PER_VALUE: Final = 5
"""So many slots are looked at in the time in which the set of one value is joined."""


class _LabelColumn:
    """The slots by their value of one label, current up to a cursor into the changes.

    The set of a value, and that of all slots with the label, is built when it is first read: of
    thousands of host names few ever are.
    """

    __slots__ = ("_present", "_sets", "_slots", "_values", "cursor")

    def __init__(self) -> None:
        self._values: list[str | None] = []
        self._slots: dict[str, list[int]] = {}
        self._sets: dict[str, int] = {}
        self._present: int | None = 0
        self.cursor = -1

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[str]:
        return iter(self._slots)

    def __contains__(self, value: object) -> bool:
        return value in self._slots

    @property
    def present(self) -> int:
        """The slots that have the label."""
        if self._present is None:
            self._present = bits.of_flags([value is not None for value in self._values])
        return self._present

    def slots_with(self, value: str) -> int:
        """Return the slots with a value."""
        found = self._sets.get(value)
        if found is None:
            slots = self._slots.get(value, ())
            found = 1 << slots[0] if len(slots) == 1 else bits.of_slots(slots)
            if slots:
                self._sets[value] = found
        return found

    def slots_with_any(self, values: Collection[str]) -> int:
        """Return the slots with one of these values; of many values each slot's is looked up."""
        if len(values) * _SLOTS_PER_VALUE < len(self._values):
            found = 0
            for value in values:
                found |= self.slots_with(value)
            return found
        wanted = frozenset(values)
        return bits.of_flags([value in wanted for value in self._values])

    def value_in(self, slot: int) -> str | None:
        """Return the value in a slot."""
        return self._values[slot] if slot < len(self._values) else None

    def read(
        self, key: str, nodes: Sequence[Node | None], changes: ChangeLog[int]
    ) -> Iterator[None]:
        """Read the label of all slots, some in each step; then the changes since have to be."""
        cursor = changes.end
        values: list[str | None] = []
        slots: dict[str, list[int]] = {}
        while len(values) < len(nodes):
            at = len(values)
            for node in nodes[at : at + READ_AT_ONCE]:
                value = None if node is None else node.labels.get(key)
                if value is not None:
                    if value in slots:
                        slots[value].append(len(values))
                    else:
                        slots[value] = [len(values)]
                values.append(value)
            yield
        self._values, self._slots, self._sets, self._present = values, slots, {}, None
        self.cursor = cursor

    def update(self, slot: int, value: str | None) -> None:
        """Read the label of one slot."""
        self._values += [None] * (slot + 1 - len(self._values))
        before = self._values[slot]
        if value == before:
            return
        self._values[slot] = value
        if self._present is not None:
            self._present = bits.with_bit(self._present, slot, present=value is not None)
        if before is not None:
            self._remove(slot, before)
        if value is not None:
            self._slots.setdefault(value, []).append(slot)
            self._sets.pop(value, None)

    def _remove(self, slot: int, value: str) -> None:
        slots = self._slots[value]
        slots.remove(slot)
        if not slots:
            del self._slots[value]
        self._sets.pop(value, None)


class NodeLabels:
    """Evaluates selectors over the labels of all nodes, as sets of slots.

    `nodes` has the node of each slot, or None; `slots_by_name` the slot of each name; `changes`
    logs the slots that got another node or other labels.
    """

    def __init__(
        self,
        nodes: Sequence[Node | None],
        slots_by_name: Mapping[str, int],
        changes: ChangeLog[int],
    ) -> None:
        self._nodes = nodes
        self._slots_by_name = slots_by_name
        self._changes = changes
        self._columns: dict[str, _LabelColumn] = {}
        self._long_answers: LongAnswers | None = None

    @contextmanager
    def in_steps(self, long_answers: LongAnswers) -> Iterator[None]:
        """Within the block, have labels that are new read in steps where answers are wanted so.

        Then it raises AnswerTakesLong: what is done in the block can be left.
        """
        self._long_answers = long_answers
        try:
            yield
        finally:
            self._long_answers = None

    def await_steps(self, steps: Iterator[None]) -> None:
        """Raise AnswerTakesLong with these steps, within such a block and where that is wanted."""
        if self._long_answers is not None and self._long_answers.in_steps:
            raise AnswerTakesLong(steps)

    def values(self, key: str) -> Collection[str]:
        """Return the values that any slot has for a label."""
        return self._column(key)

    def value(self, key: str, slot: int) -> str | None:
        """Return one slot's value of a label."""
        return self._column(key).value_in(slot)

    def with_label(self, key: str) -> int:
        """Return the slots that have a label."""
        return self._column(key).present

    def with_label_in(self, key: str, values: Collection[str]) -> int:
        """Return the slots whose value of a label is one of these."""
        return self._column(key).slots_with_any(values)

    def matching_requirement(self, requirement: Requirement, among: int) -> int:
        """Return which of the slots meet a requirement."""
        key, values = requirement.key, requirement.values
        match requirement.operator:
            case "In":
                return among & self.with_label_in(key, values)
            case "NotIn":
                return among & ~self.with_label_in(key, values)
            case "Exists":
                return among & self.with_label(key)
            case "DoesNotExist":
                return among & ~self.with_label(key)
            case _:
                borne = self.values(key)
                fitting = [value for value in borne if requirement.matches({key: value})]
                return among & self.with_label_in(key, fitting)

    def matching_labels(self, selector: Selector, among: int) -> int:
        """Return which of the slots a selector matches."""
        for requirement in selector.requirements:
            among = self.matching_requirement(requirement, among)
        return among

    def matching_node_selector(self, selector: NodeSelector, among: int) -> int:
        """Return which of the slots meet any term of a node selector."""
        found = 0
        for term in selector.node_selector_terms:
            found |= self.matching_term(term, among)
        return found

    def matching_pod(self, spec: PodSpec, among: int) -> int:
        """Return which of the slots meet a pod's node selector and required node affinity."""
        for key, value in spec.node_selector.items():
            among &= self.with_label_in(key, (value,))
        if spec.node_affinity is not None and spec.node_affinity.required is not None:
            among = self.matching_node_selector(spec.node_affinity.required, among)
        return among

    def matching_term(self, term: NodeSelectorTerm, among: int) -> int:
        """Return which of the slots meet a term of a node selector."""
        if not term.usable:
            return 0
        for part in term.match_expressions:
            among = self.matching_requirement(part, among)
        for part in term.match_fields:
            named = bits.of_slots(
                [self._slots_by_name[n] for n in part.values if n in self._slots_by_name]
            )
            among &= named if part.operator == "In" else ~named
        return among

    def _column(self, key: str) -> _LabelColumn:
        found = self._columns.pop(key, None)
        if found is None:  # a column without values is false
            found = _LabelColumn()
        self._columns[key] = found
        self._drop_oldest()
        if found.cursor != self._changes.end:
            self._refresh(key, found)
        return found

    def _drop_oldest(self) -> None:
        """Drop columns beyond the bound, but none while an evaluation waits for some."""
        if self._long_answers is not None and self._long_answers.awaited:
            return
        while len(self._columns) > MAX_INDEXED_LABELS:
            del self._columns[next(iter(self._columns))]

    def _refresh(self, key: str, found: _LabelColumn) -> None:
        if self._changes.since(found.cursor) is None:
            steps = found.read(key, self._nodes, self._changes)
            if len(self._nodes) > READ_AT_ONCE:
                self.await_steps(steps)
            for _ in steps:
                pass
        for slot in self._changes.since(found.cursor) or ():
            found.update(slot, _labels_of(self._nodes[slot]).get(key))
        found.cursor = self._changes.end


_NO_LABELS: Labels = {}


def _labels_of(node: Node | None) -> Labels:
    return _NO_LABELS if node is None else node.labels
