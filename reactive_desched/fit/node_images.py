"""The nodes that have the images of pods, for the kube-scheduler's score ImageLocality."""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final

from reactive_desched.model.node_scores import normalized_image
from reactive_desched.model.objects import NodeImage, Pod
from reactive_desched.primitives import bits
from reactive_desched.primitives.long_answers import PORTION

MAX_SOUGHT: Final = 1_000
"""Of so many names of images the nodes are kept; at the bound those that were asked about least
recently are dropped, and sought again."""

_Slots = dict[int, int]
"""The slots that have an image, by the size that their nodes report: not 0."""


class NodeImages:
    """The images of the node in each slot; the slots of an image are sought when a pod has it.

    To keep the slots of every image of every node would take several times the memory of the nodes.
    """

    def __init__(self) -> None:
        self._of_slots: list[tuple[NodeImage, ...]] = []
        self._sought: OrderedDict[str, _Slots] = OrderedDict()
        self._being_sought: list[dict[str, _Slots]] = []

    def update(self, slot: int, images: tuple[NodeImage, ...]) -> None:
        """Follow the images of the node in a slot."""
        while len(self._of_slots) <= slot:
            self._of_slots.append(())
        before = self._of_slots[slot]
        if images == before:
            return
        self._of_slots[slot] = images
        for sought in (self._sought, *self._being_sought):
            for name, size in _sizes(before, sought).items():
                _set_bit(sought[name], size, slot, present=False)
            for name, size in _sizes(images, sought).items():
                _set_bit(sought[name], size, slot, present=True)

    def not_sought(self, pod: Pod) -> Collection[str]:
        """Return those names of a pod's images whose nodes are not known."""
        return {name for name in _names(pod) if name not in self._sought}

    def seek(self, names: Collection[str]) -> Iterator[None]:
        """Find the slots of these images, in steps; what changes meanwhile is followed."""
        if not names:
            return
        found: dict[str, _Slots] = {name: {} for name in names}
        self._being_sought.append(found)
        try:
            slots = iter(range(len(self._of_slots)))
            while portion := tuple(islice(slots, PORTION)):
                for slot in portion:
                    for name, size in _sizes(self._of_slots[slot], found).items():
                        _set_bit(found[name], size, slot, present=True)
                yield
            self._sought |= found
        finally:
            self._being_sought = [each for each in self._being_sought if each is not found]
        while len(self._sought) > MAX_SOUGHT:
            self._sought.popitem(last=False)

    def having(self, pod: Pod) -> Iterator[tuple[int, int]]:
        """Yield the size of each image of a pod, as often as it has it, and the slots that have it.

        Where nodes report several sizes under one name the largest counts; the kube-scheduler takes
        the one that it saw first.
        """
        for _ in self.seek(self.not_sought(pod)):
            pass
        for name in _names(pod):
            if by_size := self._sought.get(name):
                self._sought.move_to_end(name)
                yield max(by_size), sum(by_size.values())  # no slot is in two of them


def _sizes(images: tuple[NodeImage, ...], names: Mapping[str, object]) -> Mapping[str, int]:
    """Return the sizes of those of the images that have one of these names."""
    return {name: image.size_bytes for image in images for name in image.names if name in names}


def _set_bit(by_size: _Slots, size: int, slot: int, *, present: bool) -> None:
    if slots := bits.with_bit(by_size.get(size, 0), slot, present=present):
        by_size[size] = slots
    else:
        by_size.pop(size, None)


def _names(pod: Pod) -> Iterator[str]:
    """Yield the images of a pod as nodes name them."""
    spec = pod.spec
    return map(normalized_image, (*spec.images, *spec.init_images, *spec.volume_images))
