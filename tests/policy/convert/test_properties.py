"""Whatever is converted says what it said, keeps every comment, and is not converted twice."""

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.convert.rewriting import ConvertOptions, convert_policy
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.legacy.strategies import EVICTOR_FLAGS, STRATEGIES
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.semantics import policy_semantics, policy_semantics_by_plugin

Json = Any  # JSON is whatever it is

PLUGINS = plugin_registry()
SLOW = profile(deadline=None, suppress_health_check=[HealthCheck.too_slow])
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WORDS = ("a", "kube-system", "yes", "1", "null", "a, b", "a: b", " #x", "'", '"', "ä\u00a0", "- ")
SETTINGS = "apiVersion: reactive-desched/v1alpha1\nkind:   ReactiveSettings # settings\n\n"
BESIDE = (
    ("", ""),
    (f"# x\n---\n{SETTINGS}---  # y\n", ""),
    ("", f"---\n{SETTINGS}"),
    ("%YAML 1.1\n---\n", "...\n# z\n"),
)


class Writer:
    """Writes YAML in one of the ways there are, with comments here and there."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self.comments: list[str] = []

    def document(self, value: Json) -> str:
        """Write a mapping that is not empty."""
        return "\n".join((*self._inside(value, 0), *self._above(0))) + "\n"

    def _inside(self, value: Json, column: int) -> Iterator[str]:
        keyed = value.items() if isinstance(value, dict) else ((None, each) for each in value)
        for key, each in keyed:
            yield from self._above(column)
            yield from self._entry(key, each, column)

    def _entry(self, key: str | None, value: Json, column: int) -> Iterator[str]:
        begin = " " * column + ("-" if key is None else f"{self._word(key)}:")
        if not isinstance(value, dict | list) or not value or self._one_of(4) == 0:
            yield f"{begin} {self._flow(value)}{self._beside()}"
            return
        if key is None:
            lines = list(self._inside(value, column + 2))
            while lines[0][: column + 2].strip():  # a comment too far to the left
                yield lines.pop(0)
            yield from (begin + lines[0][column + 1 :], *lines[1:])
            return
        yield begin + self._beside()
        deeper = (0, 2, 3)[self._one_of(3)] if isinstance(value, list) else 2
        yield from self._inside(value, column + deeper)

    def _flow(self, value: Json) -> str:
        match value:
            case dict():
                pairs = (f"{self._word(key)}: {self._flow(each)}" for key, each in value.items())
                return f"{{{', '.join(pairs)}}}"
            case list():
                return f"[{', '.join(map(self._flow, value))}]"
            case str():
                return self._word(value)
            case bool():
                return (str(value).lower(), "yes" if value else "off")[self._one_of(2)]
            case _:
                return json.dumps(value)

    def _word(self, text: str) -> str:
        ways = [json.dumps(text)]
        if text.isprintable():
            ways.append("'" + text.replace("'", "''") + "'")
        if re.fullmatch("[A-Za-z][A-Za-z-]*", text) and text not in ("yes", "on", "null"):
            ways += [text, text]
        return ways[self._one_of(len(ways))]

    def _above(self, column: int) -> Iterator[str]:
        for _ in range(max(0, self._one_of(6) - 3)):
            spaces = " " * max(0, column + (0, 0, 2, -2, -column)[self._one_of(5)])
            yield f"{spaces}{self._comment()}" if self._one_of(3) else ""

    def _beside(self) -> str:
        return f"  {self._comment()} # more" if self._one_of(3) == 2 else ""

    def _comment(self) -> str:
        self.comments.append(f"c{len(self.comments)}.")
        return f"#{' ' * self._one_of(2)}{self.comments[-1]}"

    def _one_of(self, count: int) -> int:
        return self._rng.randrange(count)


def texts(values: st.SearchStrategy[Json]) -> st.SearchStrategy[tuple[str, list[str]]]:
    """Give a document and its comments; now and then there is another document beside it."""
    return st.builds(_text, values, st.integers(0, 10_000), st.sampled_from(BESIDE))


def _text(value: Json, seed: int, beside: tuple[str, str]) -> tuple[str, list[str]]:
    writer = Writer(seed)
    text = writer.document(value)
    return f"{beside[0]}{text}{beside[1]}", writer.comments


LISTS = st.lists(st.sampled_from(WORDS), max_size=3, unique=True)
SOME = LISTS.filter(bool)
LABELS = st.dictionaries(
    st.sampled_from(("app", "on", "a.b/c")), st.sampled_from(("a", "yes", "1"))
)
SELECTOR_PARTS: dict[str, st.SearchStrategy[Json]] = {
    "matchLabels": LABELS,
    "matchExpressions": st.just([{"key": "a", "operator": "In", "values": ["b", "on"]}]),
}
SELECTORS = st.fixed_dictionaries({}, optional=SELECTOR_PARTS)
PRIORITIES: st.SearchStrategy[dict[str, Json]] = st.sampled_from(
    ({"thresholdPriority": 5}, {"thresholdPriorityClassName": "high"}, {})
)
PERCENTS = {"cpu": 20, "memory": 30.5}
PARAMS: st.SearchStrategy[dict[str, Json]] = st.fixed_dictionaries(
    {
        "nodeAffinityType": st.just([REQUIRED]),
        "podLifeTime": st.fixed_dictionaries(
            {"maxPodLifeTimeSeconds": st.integers(0, 9)},
            optional={
                "states": st.just(["Running", "Unknown"]),
                "podStatusPhases": st.just(["Pending"]),
            },
        ),
        "podsHavingTooManyRestarts": st.fixed_dictionaries(
            {"podRestartThreshold": st.integers(1, 9)},
            optional={"includingInitContainers": st.booleans()},
        ),
        "nodeResourceUtilizationThresholds": st.fixed_dictionaries(
            {"thresholds": st.just(PERCENTS), "targetThresholds": st.just(PERCENTS)},
            optional={"numberOfNodes": st.integers(0, 3)},
        ),
    },
    optional={
        "nodeFit": st.booleans(),
        "includeSoftConstraints": st.booleans(),
        "includePreferNoSchedule": st.booleans(),
        "excludedTaints": SOME,
        "labelSelector": SELECTORS,
        "namespaces": st.fixed_dictionaries({}, optional={"exclude": LISTS}),
        "failedPods": st.fixed_dictionaries({}, optional={"reasons": LISTS}),
        "removeDuplicates": st.none() | st.fixed_dictionaries({"excludeOwnerKinds": LISTS}),
    },
)
BODY_PARTS: dict[str, st.SearchStrategy[Json]] = {
    "enabled": st.sampled_from((True, True, True, False)),
    "params": st.tuples(PARAMS, PRIORITIES).map(lambda pair: {**pair[0], **pair[1]}),
}
BODIES = st.none() | st.fixed_dictionaries(BODY_PARTS, optional={"weight": st.just(1)})
OLD_PARTS: dict[str, st.SearchStrategy[Json]] = {
    **dict.fromkeys(EVICTOR_FLAGS, st.booleans()),
    "nodeSelector": st.sampled_from(("pool in (a,b)", "")),
    "maxNoOfPodsToEvictPerNode": st.integers(0, 9),
}
OLD = st.fixed_dictionaries(
    {
        "apiVersion": st.just("descheduler/v1alpha1"),
        "kind": st.just("DeschedulerPolicy"),
        "strategies": st.dictionaries(st.sampled_from(sorted(STRATEGIES)), BODIES, min_size=1),
    },
    optional=OLD_PARTS,
)
EVICTOR_PARTS: dict[str, st.SearchStrategy[Json]] = {
    **dict.fromkeys((*EVICTOR_FLAGS, "ignorePodsWithoutPDB"), st.booleans()),
    "nodeFit": st.booleans(),
    "podProtections": st.sampled_from(
        ({}, {"defaultDisabled": []}, {"config": {"PodsWithPVC": {}}}, None)
    ),
    "labelSelector": SELECTORS,
}
EVICTOR = st.fixed_dictionaries({}, optional=EVICTOR_PARTS)
USE = st.sampled_from(
    (None, {"metricsServer": True}, {"metricsServer": False, "source": "KubernetesMetrics"})
)
ENTRIES = st.tuples(EVICTOR, LISTS, USE).map(
    lambda drawn: [
        {"name": "DefaultEvictor", "args": drawn[0]},
        {"name": "RemoveDuplicates", "args": {"excludeOwnerKinds": drawn[1]}},
        {
            "name": "LowNodeUtilization",
            "args": {
                "metricsUtilization": drawn[2],
                "thresholds": PERCENTS,
                "targetThresholds": PERCENTS,
            },
        },
    ]
)
PROFILES = st.tuples(ENTRIES, st.sampled_from(WORDS)).map(
    lambda drawn: {
        "name": drawn[1],
        "pluginConfig": drawn[0],
        "plugins": {"balance": {"enabled": ["RemoveDuplicates", "LowNodeUtilization"]}},
    }
)
NEW = st.fixed_dictionaries(
    {
        "apiVersion": st.just("descheduler/v1alpha2"),
        "kind": st.just("DeschedulerPolicy"),
        "profiles": st.lists(PROFILES, max_size=2, min_size=1),
    },
    optional={
        "metricsCollector": st.sampled_from(({"enabled": True}, {"enabled": False}, {})),
        "metricsProviders": st.sampled_from(
            ([], [{"source": "Prometheus", "prometheus": {"url": "http://a"}}])
        ),
    },
)
WISHES = st.builds(ConvertOptions, merge=st.booleans(), keep_deprecated=st.booleans())


def policy(text: str | bytes) -> Policy:
    return load_sources([SourceText(text, "p.yaml")], PLUGINS).policy


def converted(text: str, wishes: ConvertOptions) -> str:
    """Convert a text, and make sure that there is no need to do so again."""
    once = convert_policy(SourceText(text, "p.yaml"), PLUGINS, wishes)
    again = convert_policy(SourceText(once.text, "p.yaml"), PLUGINS, wishes)
    assert again.text == once.text
    assert not again.is_changed
    return once.text.decode()


@SLOW
@given(texts(OLD))
def test_a_converted_legacy_policy_comes_to_the_same(old: tuple[str, list[str]]) -> None:
    text = converted(old[0], ConvertOptions(keep_deprecated=True))

    assert replace(policy(text), revision="") == replace(policy(old[0]), revision="")


@SLOW
@given(texts(OLD | NEW), WISHES)
def test_meaning_comments_and_other_documents_are_kept(
    old: tuple[str, list[str]], wishes: ConvertOptions
) -> None:
    text, comments = old

    new = converted(text, wishes)

    say = policy_semantics_by_plugin if wishes.merge else policy_semantics
    assert say(policy(new)) == say(policy(text))
    assert sorted(re.findall(r"c\d+\.", new)) == sorted(comments)
    for beside in (SETTINGS, "# x\n---\n", "---  # y\n", "...\n# z\n", "%YAML 1.1\n---\n"):
        assert new.count(beside) == text.count(beside)


@SLOW
@given(texts(OLD | NEW))
def test_nothing_deprecated_is_left(old: tuple[str, list[str]]) -> None:
    new = policy(converted(old[0], ConvertOptions()))

    assert not new.metrics_collector_enabled
    for each in new.profiles:
        assert not [field for field, value in each.evictor if field[:3] in ("evi", "ign") and value]
