"""Every exception this package raises, so that a reader finds them in one place.

ReactiveDeschedError
├── ConfigError            a policy, setting or argument is wrong (exit status 2)
│   ├── PluginError        an installed package offers a plugin that cannot be used
│   ├── QuantityError
│   └── SelectorError
├── ClusterError           the cluster edge failed; `retryable` says whether trying again can help
│   ├── Malformed          one object or line cannot be read; it is counted and skipped
│   ├── RequestRejected    the server answered, and said no
│   ├── RateLimited        too many calls already wait for our own rate limiter
│   ├── Unreachable        no whole answer came back
│   └── UsageUnavailable   a source of measured use, or of a health check, gives none
│       └── MonitoringUnavailable   the server of the source does not answer
├── IndexUnavailable       an index of a plugin failed, and answers nothing any more
├── EvaluationEndless      a plugin yields without an end on one subject
├── ConversionError        a converted policy would not say what the old one says
├── SnapshotUnavailable    the cluster could not be read completely: nothing is decided
├── RecordingError         a recording cannot be read, imported or anonymized
│   ├── NotRecorded        it has nothing of the moment that is asked about
│   └── NotAnswered        it is not read now: another question is, or memory lacks
├── JournalError           the record could not be made durable, or cannot be read
│   ├── JournalInUse       another process writes this journal
│   ├── JournalUnavailable the disk fails, is stuck or is full for now: retryable
│   ├── RecordUnwritable   what it holds is too long, or no Unicode
│   └── RecordsExpired     what a reader asks for was removed, or never was
├── LeadershipLost         another replica may act now: this process ends
├── StreamFailed           a controller's stream of events cannot be read
├── ControllerUnavailable  no controller answers where a command asks one
├── SimulatorNotInstalled  `sim` and `demo` need a package that is not there
└── SinkError              a sink could not take records
    ├── SinkUnavailable    not now: it is tried again for ever
    └── EventRejected      never: this one event goes to the dead letters

PluginHung                 a BaseException: a plugin that excepts every Exception must not stop it
"""


class ReactiveDeschedError(Exception):
    """Base of all our exceptions; `retryable` says whether the same call may succeed later."""

    retryable: bool = False


class ConfigError(ReactiveDeschedError, ValueError):
    """A policy, setting or argument is wrong; the text names the place and the remedy."""


class PluginError(ConfigError):
    """An installed package offers a plugin that cannot be used; the text names the package."""


class QuantityError(ConfigError):
    """A text is not a Kubernetes resource quantity."""


class SelectorError(ConfigError):
    """A text or object is not a valid label selector."""


class ClusterError(ReactiveDeschedError):
    """The cluster edge failed.

    It `is_denied` where the server refuses that for the lack of a right, and `is_gone` where it has
    no object of that name.
    """

    is_denied: bool = False
    is_gone: bool = False

    def if_denied(self, remedy: str) -> str | None:
        """Return the remedy for the lack of a right, if that is why it failed."""
        return remedy if self.is_denied else None


class IndexUnavailable(ReactiveDeschedError):  # noqa: N818  the state of a part, as in HTTP 503
    """An index raised an exception before, so that what it would answer may be wrong."""


class EvaluationEndless(ReactiveDeschedError):  # noqa: N818  it is recorded as the fact it names
    """A plugin yielded so much on one subject that its evaluation did not end in time."""


class PluginHung(BaseException):
    """A call of a plugin did not return; it is raised in the plugin's code."""


class ConversionError(ReactiveDeschedError):
    """A converted policy would not say what the old one says; nothing is written."""


class SnapshotUnavailable(ReactiveDeschedError):  # noqa: N818  it is raised as the fact it names
    """The cluster could not be read completely; decisions on a part of it would be wrong."""


class RecordingError(ReactiveDeschedError):
    """A recording cannot be read, imported or anonymized; the text says where and what to do."""


class NotRecorded(RecordingError):  # noqa: N818  it is raised as the fact it names
    """A recording has nothing of the moment that is asked about; the text says what it has."""


class NotAnswered(RecordingError):  # noqa: N818  it is raised as the fact it names
    """A running controller does not read its recording now; the text says why."""

    retryable = True


class JournalError(ReactiveDeschedError):
    """A record could not be made durable."""


# --- the cluster edge -------------------------------------------------------------------------


class Malformed(ClusterError):  # noqa: N818  it is raised as the fact it names
    """An object or line the server sent cannot be read; counted, named and skipped."""

    def __init__(self, kind: str, name: str, message: str) -> None:
        super().__init__(f"{kind} {name or '(no name)'} cannot be read: {message}")
        self.kind = kind
        self.name = name
        self.message = message


class RequestRejected(ClusterError):  # noqa: N818  it is raised as the fact it names
    """The server answered, and said no; the text holds its code and words.

    It `is_denied` where rights are missing, or the server does not list the resource, and
    `is_unauthorized` where the server does not accept the credentials. A `is_web_page` answer is
    HTML: the server is no API server, whatever the code says. `retry_after_s` is the wait that the
    server asks for.
    """

    def __init__(
        self,
        text: str,
        *,
        retryable: bool,
        is_denied: bool = False,
        is_gone: bool = False,
        is_unauthorized: bool = False,
        is_web_page: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(text)
        self.retryable = retryable
        self.is_denied = is_denied
        self.is_gone = is_gone
        self.is_unauthorized = is_unauthorized
        self.is_web_page = is_web_page
        self.retry_after_s = retry_after_s


class RateLimited(ClusterError):  # noqa: N818  it is raised as the fact it names
    """Our own throttle already holds as many waiting calls as it may; nothing was sent."""

    retryable = True


class Unreachable(ClusterError):  # noqa: N818  it is raised as the fact it names
    """The server sent no complete response; `sent` says whether the request may have arrived.

    `is_partial`: a part of the body came. `is_late`: it was awaited until the time limit.
    """

    retryable = True

    def __init__(
        self, what: str, reason: str, *, sent: bool, is_partial: bool = False, is_late: bool = False
    ) -> None:
        super().__init__(f"{what}: {reason}")
        self.sent = sent
        self.is_partial = is_partial
        self.is_late = is_late


class UsageUnavailable(ClusterError):  # noqa: N818  the state of a part, as in HTTP 503
    """A source of measured use or of a health check could not be asked, or answers no sense."""

    retryable = True


class MonitoringUnavailable(UsageUnavailable):
    """A monitoring server did not answer, or not as one; the message names its address."""


class JournalUnavailable(JournalError):  # noqa: N818  # the state of a part, as in HTTP 503
    """The journal cannot write just now: do not rely on the record; it may be tried again."""

    retryable = True


class RecordUnwritable(JournalError):  # noqa: N818  # the state of a record, as above
    """A record cannot be written for what it holds: it is too long, or no Unicode."""


class JournalInUse(JournalError):  # noqa: N818  it is raised as the fact it names
    """Another process writes this journal; it may be tried again when that one has ended."""

    retryable = True


class RecordsExpired(JournalError):  # noqa: N818  it is raised as the fact it names
    """A reader's place is not in the journal; `oldest` is the first sequence that is."""

    def __init__(self, text: str, oldest: int) -> None:
        super().__init__(text)
        self.oldest = oldest


# --- the election of a leader -----------------------------------------------------------------


class LeadershipLost(ReactiveDeschedError):  # noqa: N818  it is raised as the fact it names
    """The Lease was lost, or could not be renewed in time: this process must not act any more."""


# --- followers of the journal -----------------------------------------------------------------


class SinkError(ReactiveDeschedError):
    """An event could not be delivered."""


class SinkUnavailable(SinkError):  # noqa: N818  the state of a part, as in HTTP 503
    """Nothing can be delivered just now; `retry_after_s` is what the other side asked for."""

    retryable = True

    def __init__(self, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class EventRejected(SinkError):  # noqa: N818  it is raised as the fact it names
    """The first event that was handed over will never be taken; the text says why."""


# --- clients of a running controller --------------------------------------------------------------


class StreamFailed(ReactiveDeschedError):  # noqa: N818  it is raised as the fact it names
    """No server answers at the address in the text, or the response is not a stream of events."""


class ControllerUnavailable(ReactiveDeschedError):  # noqa: N818  it is raised as the fact it names
    """No controller answers at the address in the text, or it does not answer this client."""


class SimulatorNotInstalled(ReactiveDeschedError):  # noqa: N818  it is raised as the fact it names
    """The simulated cluster is not installed; the text says how to get it."""
