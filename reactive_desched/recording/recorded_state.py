"""The cluster after some items of a recording, which are applied in their order."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.usage import NodeUsage
from reactive_desched.recording.items import (
    BrakesHeld,
    ConfigurationInForce,
    HealthAnswered,
    Instant,
    Item,
    LookedForWork,
    NodesClosed,
    NodeSeen,
    NothingChanged,
    ObjectChanged,
    ObjectFound,
    PauseSet,
    PictureBegun,
    PictureEnded,
    ProcessBegan,
    RecordingInterrupted,
    ResourceDenied,
    TermChanged,
    UsageMeasured,
    Verb,
    Worked,
)
from reactive_desched.recording.rows import FoldedFrame
from reactive_desched.state.resources import PODS

_CHANGING_NOTHING: Final = (
    LookedForWork
    | NodesClosed
    | NodeSeen
    | NothingChanged
    | ObjectFound
    | PictureBegun
    | PictureEnded
    | ProcessBegan
    | Worked
)
"""The items after which the cluster is as it was before them."""


class RecordedState:
    """The cluster after some items, which are applied in their order.

    `objects` has those of each resource by their keys, `samples` the measured use by its key, and
    `pauses` the reasons of those that hold, empty where one has ended. `missing` says why the state
    is not known, as before the first picture; it is empty while it is. `changed_s` is when it last
    changed, in seconds since the epoch: no earlier than its picture. `at` is the time of the last
    item that was applied.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, ClusterObject]] = {}
        self.samples: dict[str, NodeUsage] = {}
        self.denied: set[str] = set()
        self.pauses: dict[str, str] = {}
        self.configuration: ConfigurationInForce | None = None
        self.brakes: BrakesHeld | None = None
        self.answers: dict[str, HealthAnswered] = {}
        self.term: TermChanged | None = None
        self.picture: PictureBegun | None = None
        self.missing = "no picture of the cluster was recorded before"
        self.changed_s = 0.0
        self.at = Instant(0.0, 0.0)
        self._is_repeated = False

    def apply(self, item: Item) -> None:  # noqa: C901, PLR0912 -- one case for each item
        """Apply the next item."""
        self.at = item.at
        if not isinstance(item, _CHANGING_NOTHING):
            self.changed_s = item.at.wall_s
        match item:
            case ObjectChanged(resource=resource, verb=verb, obj=obj):
                of_kind = self.objects.setdefault(resource, {})
                if verb is Verb.DELETED:
                    of_kind.pop(obj.key, None)
                else:
                    of_kind[obj.key] = obj
            case ObjectFound(resource=resource, obj=obj):
                if not self._is_repeated:
                    self.objects.setdefault(resource, {})[obj.key] = obj
            case UsageMeasured(sample=sample, is_gone=is_gone):
                if is_gone:
                    self.samples.pop(sample.key, None)
                else:
                    self.samples[sample.key] = sample
            case PictureBegun():
                self._begin(item)
            case PictureEnded():
                self.missing, self._is_repeated = "", False
            case RecordingInterrupted(reason=reason):
                self.missing = f"the recording was interrupted: {reason}"
            case ConfigurationInForce():
                self.configuration = item
            case ResourceDenied(resource=resource, is_denied=is_denied):
                (self.denied.add if is_denied else self.denied.discard)(resource)
            case PauseSet(name=name, reason=reason):
                self.pauses[name] = reason
            case TermChanged():
                self.term = item
            case BrakesHeld():
                self.brakes = item
            case HealthAnswered(name=name):
                self.answers[name] = item
            case _:
                pass

    def apply_folded(self, frame: FoldedFrame) -> None:
        """Apply a frame but for the changes of pods, which the reader of its rows keeps."""
        for each in frame.found:
            if not isinstance(each, Pod):
                self.apply(each)
            elif not self._is_repeated:
                self.objects.setdefault(PODS, {})[each.key] = each
        self.at, self.changed_s = frame.ends, max(self.changed_s, frame.changed_s)

    def settle(self, pods: Iterable[Pod]) -> None:
        """Apply the last of the changes of each pod that folded frames kept back."""
        for pod in pods:
            self.objects.setdefault(PODS, {})[pod.key] = pod

    def lose(self, reason: str) -> None:
        """Note why the cluster is not known from here on, up to the next picture."""
        self.missing = reason

    @property
    def is_picture_open(self) -> bool:
        """Say whether the end of the picture is missing."""
        return self.missing == _PICTURE_OPEN

    @property
    def leads(self) -> bool:
        """Say whether the process that recorded led."""
        return self.term is not None and self.term.leads

    def as_picture(self, at: Instant) -> Iterator[Item]:
        """Yield this state as a picture that continues nothing."""
        picture, denied = self.picture or PictureBegun(at), tuple(sorted(self.denied))
        yield replace(picture, at=at, denied=denied, is_continued=False)
        standing = (self.configuration, self.term, self.brakes, *self.answers.values())
        yield from (replace(item, at=at) for item in standing if item is not None)
        yield from (PauseSet(at, name, reason) for name, reason in self.pauses.items())
        yield from (UsageMeasured(at, sample) for sample in self.samples.values())
        for resource, of_kind in self.objects.items():
            yield from (ObjectFound(at, resource, obj) for obj in of_kind.values())
        yield PictureEnded(at, {name: len(each) for name, each in self.objects.items() if each})

    def _begin(self, picture: PictureBegun) -> None:
        self._is_repeated = picture.is_continued and not self.missing
        self.picture = picture
        if self._is_repeated:
            return
        self.objects, self.samples, self.changed_s = {}, {}, picture.at.wall_s
        self.denied = set(picture.denied)
        self.pauses, self.configuration, self.term, self.brakes = {}, None, None, None
        self.answers = {}
        self.missing = _PICTURE_OPEN


_PICTURE_OPEN: Final = "its picture is not complete"
