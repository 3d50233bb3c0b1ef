import pytest
from pydantic import ValidationError

from reactive_desched.plugins.pod_life_time import STATES, PodLifeTimeArgs, PodLifeTimePlugin
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from reactive_desched.testing.scenario import plugin_from_policy
from tests.plugins.conftest import Ask
from tests.support.golden import Golden

NAME = "PodLifeTime"
MAX: dict[str, object] = {"maxPodLifeTimeSeconds": 600}


def plugin(**args: object) -> PodLifeTimePlugin:
    return plugin_from_policy(PodLifeTimePlugin, PodLifeTimeArgs, **args)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({}, id="nothing"),
        pytest.param(
            {"states": [], "conditions": [], "exitCodes": [], "ownerKinds": {"include": ["Job"]}},
            id="no criterion among what is given",
        ),
        pytest.param(
            {**MAX, "namespaces": {"include": ["a"], "exclude": ["b"]}},
            id="both namespace lists",
        ),
        pytest.param(
            {**MAX, "ownerKinds": {"include": ["Job"], "exclude": ["Pod"]}},
            id="both owner lists",
        ),
        pytest.param(
            {"conditions": [{"type": "Ready"}, {}]},
            id="an empty condition",
        ),
        pytest.param({"states": ["Sleeping"]}, id="an unknown state"),
        pytest.param({"maxPodLifeTimeSeconds": -1}, id="below 0"),
        pytest.param({"maxPodLifeTimeSeconds": 2**64}, id="65 bits"),
        pytest.param({"exitCodes": [-(2**31) - 1]}, id="33 bits"),
        pytest.param({"maxPodLifetimeSeconds": 5}, id="nearly the right name"),
    ],
)
def test_wrong_arguments_are_refused(args: dict[str, object], golden: Golden) -> None:
    with pytest.raises(ValidationError) as caught:
        plugin(**args)

    assert golden() in str(caught.value)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"maxPodLifeTimeSeconds": 0}, id="an age, even zero"),
        pytest.param({"states": list(STATES)}, id="every state there is"),
        pytest.param(
            {"conditions": [{"minTimeSinceLastTransitionSeconds": 300}]},
            id="a condition of any kind",
        ),
        pytest.param(
            {"conditions": [{"minTimeSinceLastTransitionSeconds": 0}]}, id="a condition, zero time"
        ),
        pytest.param({"exitCodes": [0]}, id="an exit code"),
    ],
)
def test_one_criterion_is_enough(args: dict[str, object]) -> None:
    plugin(**args)


POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  plugins: {deschedule: {enabled: [PodLifeTime]}}
  pluginConfig:
  - name: PodLifeTime
    args:
      namespaces: {include: [a], exclude: [b]}
"""


def told(args: str) -> dict[str, str]:
    """Read a policy with more arguments, from line 10 on; what is wrong, by place."""
    with pytest.raises(PolicyErrors) as caught:
        load_sources([SourceText(POLICY + args, "p.yaml")], plugin_registry())
    return {p.path.partition(".args.")[2]: str(p) for p in caught.value.diagnostics}


def test_a_missing_criterion_is_reported_beside_what_else_is_wrong(golden: Golden) -> None:
    problems = told("      ownerKinds: {include: [a], exclude: [b]}\n")

    assert problems.keys() == {"namespaces", "ownerKinds", "maxPodLifeTimeSeconds"}
    assert golden() in problems["maxPodLifeTimeSeconds"]


def test_all_errors_are_reported_at_once_each_at_its_place() -> None:
    problems = told("      states: [Runing, Running]\n      conditions: [{type: Ready}, {}]\n")

    assert problems.keys() == {"namespaces", "states[0]", "conditions[1]"}
    assert "p.yaml:10:" in problems["states[0]"]
    assert "did you mean Running?" in problems["states[0]"]
    assert f"states must be one of [{' '.join(STATES)}]" in problems["states[0]"]
    assert "p.yaml:11:" in problems["conditions[1]"]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param("maxPodLifeTimeSeconds: 0", id="an age of 0"),
        pytest.param("maxPodLifeTimeSeconds: 24", id="an age that was meant in hours"),
        pytest.param("maxPodLifeTimeSeconds: 0\nstates: [Running, Failed]", id="with a phase"),
        pytest.param("states: [Pending, Running]", id="that phase without an age"),
        pytest.param("states: [Running]\nlabelSelector: {matchLabels: {a: b}}", id="some pods"),
    ],
)
def test_arguments_that_every_running_pod_matches_at_once_are_warned_of(
    args: str, warned: Ask, golden: Golden
) -> None:
    assert warned(NAME, args) == [golden()]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param("maxPodLifeTimeSeconds: 600", id="an age"),
        pytest.param("maxPodLifeTimeSeconds: 30\nstates: [Pending]", id="pods that wait"),
        pytest.param("maxPodLifeTimeSeconds: 0\nstates: [Failed]", id="pods that failed"),
        pytest.param("states: [CrashLoopBackOff]", id="containers that fail"),
        pytest.param("states: [Running]\nexitCodes: [1]", id="an exit code"),
        pytest.param(
            "maxPodLifeTimeSeconds: 0\nconditions: [{type: Ready, status: 'False'}]",
            id="a condition",
        ),
    ],
)
def test_arguments_that_a_healthy_pod_does_not_match_are_not(args: str, warned: Ask) -> None:
    assert warned(NAME, args) == []
