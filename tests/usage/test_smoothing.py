"""One spike moves nothing, and what left is not counted: averages, agreement, hysteresis, pods."""

from collections.abc import Collection, Mapping
from itertools import accumulate

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reactive_desched.model.objects import Pod
from reactive_desched.model.usage import NodeUsage
from reactive_desched.testing.builders import pod
from reactive_desched.usage.smoothing import (
    Confirmation,
    Ewma,
    Levels,
    Percentile,
    Smoother,
    SmoothingRule,
    Step,
)


def believed(step: Step, *values: int) -> list[int | None]:
    return [step.take(value) for value in values]


def test_the_average_is_the_sig_deschedulers_to_the_last_unit() -> None:
    assert believed(Ewma(0.1), 1400, 500, 900) == [1400, 1310, 1269]


def test_it_comes_within_five_units_of_a_value_that_stays() -> None:
    average = believed(Ewma(0.1), 1400, 500, *[900] * 300)

    assert average[-1] in range(895, 906)


def test_halves_are_rounded_up() -> None:
    assert believed(Ewma(0.5), 4, 1, 4, 2) == [4, 3, 4, 3]  # 2.5, 3.5 and 3


@pytest.mark.parametrize(("percent", "expected"), [(100, 9), (90, 9), (80, 7), (50, 3), (1, 1)])
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    percent: float, expected: int
) -> None:
    assert believed(Percentile(5, percent), 5, 3, 9, 1, 3, 7, 9, 3, 1, 3)[-1] == expected


def test_a_value_counts_when_enough_of_the_last_samples_reach_it() -> None:
    assert believed(Confirmation(3, 5), 20, 20, 90, 90, 20, 90, 90, 20, 20, 20) == [
        *(None, None, 20, 20, 20),
        *(90, 90),  # three of the last five
        *(90, 20, 20),
    ]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(0, 100))
def test_it_is_above_a_threshold_exactly_when_so_many_samples_are(
    values: list[int], threshold: int
) -> None:
    last = believed(Confirmation(2, 3), 0, *values)[-1]
    recent = [0, *values][-3:]

    assert last is not None
    assert (last > threshold) == (sum(value > threshold for value in recent) >= 2)


class Nodes:
    """Nodes with a thousand of everything, and the pods that a test puts on them."""

    def __init__(self, levels: Mapping[str, Levels] | None = None) -> None:
        self.pods: dict[str, list[Pod]] = {}
        self._levels = levels or {}

    def capacity(self, node: str, resource: str) -> int:
        del node, resource
        return 1000

    def pods_on(self, node: str) -> Collection[Pod]:
        return self.pods.get(node, ())

    def levels(self, source: str) -> Mapping[str, Levels]:
        assert source == "x"
        return self._levels


def sample(cpu: int, at_s: float, node: str = "n1", memory: int = 5) -> NodeUsage:
    return NodeUsage("x", node, {"cpu": cpu, "memory": memory}, at_s)


def smooth(smoother: Smoother, *samples: NodeUsage) -> list[int | None]:
    taken = [smoother.take(each, each.sampled_s) for each in samples]
    return [None if each is None else each.usage["cpu"] for each in taken]


def smoother(nodes: Nodes | None = None, **rule: float) -> Smoother:
    return Smoother(SmoothingRule(**rule), nodes or Nodes(), measures_pods=True)  # type: ignore[arg-type]  # as a test writes them


def test_without_a_rule_samples_are_passed_on() -> None:
    assert smoother().take(sample(7, 1.0), 1.0) == sample(7, 1.0)


def test_the_steps_follow_each_other() -> None:
    found = smooth(
        smoother(weight=0.5, agree=2, of=2), *(sample(cpu, n) for n, cpu in enumerate((0, 8, 8, 8)))
    )

    assert found == [None, 0, 4, 6]  # the average of 0, 8 and 8


def test_a_node_is_unknown_until_as_many_samples_as_must_agree() -> None:
    values = (900, 900, 100, 900, 100, 900, 900)

    found = smooth(smoother(agree=3, of=5), *(sample(cpu, n) for n, cpu in enumerate(values)))

    assert found == [None, None, 100, 900, 900, 900, 900]


def test_a_sample_is_counted_once_by_its_time() -> None:
    found = smooth(smoother(weight=0.5), sample(0, 1), sample(8, 1), sample(8, 0), sample(8, 2))

    assert found == [0, None, None, 4]


def test_nodes_are_smoothed_apart_and_forgotten_alone() -> None:
    each = smoother(weight=0.5)
    smooth(each, sample(0, 1), sample(100, 1, "n2"))
    each.take(sample(50, 2), 2)
    each.forget_before(2)

    assert smooth(each, sample(100, 3), sample(50, 3, "n2")) == [63, 50]


NEAR_50 = (500, 549, 451, 550, 501, 500)


def test_without_a_threshold_a_small_change_is_not_taken_in() -> None:
    found = smooth(smoother(hysteresis=5), *(sample(cpu, n) for n, cpu in enumerate(NEAR_50)))

    assert found == [500, 500, 500, 550, 550, 500]


def test_what_left_with_pods_is_taken_in_however_little_it_is() -> None:
    nodes = Nodes()
    nodes.pods["n1"] = [A, B]
    each = smoother(nodes, hysteresis=5)
    each.take(measured(500, 0, a=30, b=20), 0)
    nodes.pods["n1"] = [A]

    taken = each.take(measured(490, 10, a=30), 10)

    assert taken is not None
    assert taken.usage == {"cpu": 480}, "500 without b; that a node uses 10 more does not count"


def test_a_node_is_overutilized_from_well_above_the_threshold_until_it_is_back_at_it() -> None:
    values = (510, 549, 551, 510, 501, 500, 549, 499, 600)
    nodes = Nodes({"cpu": Levels(high=(50.0,))})

    found = smooth(smoother(nodes, hysteresis=5), *(sample(v, n) for n, v in enumerate(values)))

    assert found == [500, 500, 551, 510, 501, 500, 500, 499, 600]


def test_a_node_is_underutilized_from_well_below_the_threshold_until_it_is_above_it() -> None:
    values = (490, 451, 450, 490, 500, 501, 451, 449)
    nodes = Nodes({"cpu": Levels(low=(50.0,))})

    found = smooth(smoother(nodes, hysteresis=5), *(sample(v, n) for n, v in enumerate(values)))

    assert found == [501, 501, 450, 490, 500, 501, 501, 449]


def test_a_threshold_near_the_end_can_be_passed_all_the_same() -> None:
    nodes = Nodes({"cpu": Levels(low=(2.0,), high=(98.0,))})

    found = smooth(smoother(nodes, hysteresis=5), *map(sample, (500, 985, 991, 15, 9), range(5)))

    assert found == [500, 980, 991, 21, 9]


def levels() -> st.SearchStrategy[Levels]:
    percent = st.sampled_from([0.0, 7.0, 14.3, 29.0, 57.0, 58.0, 90.0, 100.0])
    return st.builds(
        lambda one, other: Levels((min(one, other),), (max(one, other),)), percent, percent
    )


@given(levels(), st.floats(0.1, 30), st.lists(st.integers(0, 1000), min_size=2, max_size=20))
def test_a_threshold_is_crossed_into_action_only_by_the_hysteresis_and_left_at_once(
    level: Levels, hysteresis: float, values: list[int]
) -> None:
    each = smoother(Nodes({"cpu": level}), hysteresis=hysteresis)
    found = smooth(each, *(sample(value, n) for n, value in enumerate(values)))
    (low,), (high,) = level.low, level.high
    assume(low + 0.2 < high)  # between them is room for a value
    is_over = is_under = False

    for measured, believed in zip(values, found, strict=True):
        assert believed is not None
        use, shown = measured / 1000 * 100, believed / 1000 * 100
        far_above = use > min(high + hysteresis, (high + 100) / 2)
        far_below = use <= max(low - hysteresis, low / 2)
        assert (shown > high) == (use > high if is_over else far_above)
        assert (shown <= low) == (use <= low if is_under else far_below)
        is_over, is_under = shown > high, shown <= low


def test_without_room_between_the_thresholds_a_node_is_beyond_one_of_them() -> None:
    nodes = Nodes({"cpu": Levels(low=(50.0,), high=(50.0,))})

    assert smooth(smoother(nodes, hysteresis=5), *map(sample, (510, 490), range(2))) == [510, 490]


# --- pods that come and leave ---


def used(**cpu: int) -> dict[str, dict[str, int]]:
    return {f"default/{name}": {"cpu": amount} for name, amount in cpu.items()}


def measured(cpu: int, at_s: float, window_s: float = 0, **pods: int) -> NodeUsage:
    return NodeUsage("x", "n1", {"cpu": cpu}, at_s, used(**pods), window_s)


A, B = (pod(name, on="n1", requests={"cpu": "100m"}) for name in "ab")


def test_an_average_does_not_keep_the_use_of_a_pod_that_has_left() -> None:
    nodes = Nodes()
    nodes.pods["n1"] = [A, B]
    each = smoother(nodes, weight=0.1)
    each.take(measured(500, 0, a=100, b=200), 0)
    nodes.pods["n1"] = [A]

    taken = each.take(measured(300, 10, a=100), 10)

    assert taken is not None
    assert (taken.usage, taken.pods) == ({"cpu": 300}, used(a=100))


def test_a_pod_that_left_counts_until_a_sample_was_measured_without_it() -> None:
    nodes = Nodes()
    nodes.pods["n1"] = [A, B]
    each = smoother(nodes, weight=0.5)
    each.take(measured(500, 0, window_s=15, a=100, b=200), 5)
    nodes.pods["n1"] = [A]  # when, is first seen at 25

    begun = each.take(measured(450, 15, window_s=15, a=100), 25)
    partly = each.take(measured(350, 30, window_s=15, a=100), 40)
    after = each.take(measured(300, 45, window_s=15, a=100), 55)

    assert begun is not None
    assert partly is not None
    assert after is not None
    assert [begun.pods, partly.pods] == [used(a=100, b=200)] * 2, "the plan does not count b"
    assert (begun.usage, partly.usage) == ({"cpu": 475}, {"cpu": 413})
    assert (after.usage, after.pods) == ({"cpu": 257}, used(a=100))


def test_a_pod_that_came_counts_at_once_up_to_what_it_requests() -> None:
    nodes = Nodes()
    nodes.pods["n1"] = [A]
    each = smoother(nodes, weight=0.1)
    each.take(measured(100, 0, a=100), 0)
    nodes.pods["n1"] = [A, B]

    taken = each.take(measured(900, 10, a=100, b=800), 10)

    assert taken is not None
    assert taken.usage == {"cpu": 270}, "100 and 100, and a tenth of what it uses beyond"


def test_what_samples_have_taken_in_of_a_pod_is_not_added_again() -> None:
    nodes = Nodes()
    nodes.pods["n1"] = [A]
    each = smoother(nodes, weight=0.5)
    each.take(measured(100, 0, a=100), 0)
    nodes.pods["n1"] = [A, B]

    unmeasured = [each.take(measured(200, at_s, a=100), at_s) for at_s in (10, 20)]
    taken = each.take(measured(200, 30, a=100, b=100), 30)

    assert [each and each.usage for each in unmeasured] == [{"cpu": 150}, {"cpu": 175}]
    assert taken is not None
    assert taken.usage == {"cpu": 200}


def test_pods_that_were_there_before_the_first_sample_are_in_it() -> None:
    nodes = Nodes()
    nodes.pods["n1"] = [A, B]
    each = smoother(nodes, weight=0.5)
    each.take(measured(200, 0, a=100), 0)

    taken = each.take(measured(200, 10, a=100, b=100), 10)

    assert taken is not None
    assert taken.usage == {"cpu": 200}


def test_a_pod_that_was_not_measured_once_is_not_new_afterwards() -> None:
    nodes = Nodes()
    nodes.pods["n1"] = [A, B]
    each = smoother(nodes, weight=0.5)
    each.take(measured(200, 0, a=100, b=100), 0)
    each.take(measured(200, 10, a=100), 10)

    taken = each.take(measured(200, 20, a=100, b=100), 20)

    assert taken is not None
    assert taken.usage == {"cpu": 200}


RULES = st.builds(
    SmoothingRule,
    weight=st.sampled_from([1.0, 0.5, 0.27, 0.1]),
    window=st.integers(1, 5),
    percentile=st.sampled_from([50, 90, 100]),
    agree=st.integers(1, 3),
    of=st.integers(3, 5),
)
USES = {"a": 1000, "b": 20_000, "c": 300_000, "d": 4_000_000}
BASE = 5_000_000
NAMES = st.sets(st.sampled_from(sorted(USES)))


@given(RULES, st.lists(NAMES, min_size=2, max_size=15), st.data())
def test_whatever_the_smoothing_the_use_without_pods_that_left_is_never_too_high(
    rule: SmoothingRule, present: list[set[str]], data: st.DataObject
) -> None:
    """Pods use the same all the time, and only leave; samples lag, and average over a window."""
    present = list(accumulate(present, set.intersection))
    window_s = data.draw(st.sampled_from([0.0, 15.0, 40.0]))
    lag_s = data.draw(st.sampled_from([0.0, 12.0, 30.0]))
    nodes = Nodes()
    each = Smoother(rule, nodes, measures_pods=True)
    for step, names in enumerate(present):
        now_s = 15.0 * step
        nodes.pods["n1"] = [pod(name, on="n1") for name in sorted(names)]
        end_s = now_s - lag_s
        cpu = BASE + sum(
            use * _share(name, present, end_s - window_s, end_s) for name, use in USES.items()
        )
        raw = measured(int(cpu), end_s, window_s, **{name: USES[name] for name in names})

        taken = each.take(raw, now_s)

        if taken is None:
            assert step < rule.agree - 1
            continue
        staying = {f"default/{name}" for name in names}
        left = sum(used["cpu"] for name, used in taken.pods.items() if name not in staying)
        truth = BASE + sum(USES[name] for name in names)
        assert taken.usage["cpu"] - left <= truth + 5 * len(present)


def _share(name: str, present: list[set[str]], begin_s: float, end_s: float) -> float:
    """Return how much of this time the pod was there; it left just after the step before."""
    steps = sum(name in names for names in present)
    if steps in (0, len(present)):
        return float(bool(steps))
    gone_s = 15.0 * (steps - 1) + 1
    if end_s == begin_s:
        return float(end_s < gone_s)
    return max(0.0, min(end_s, gone_s) - begin_s) / (end_s - begin_s)


@given(RULES, st.lists(NAMES, min_size=2, max_size=15))
def test_with_samples_of_the_moment_the_use_is_exact_whatever_pods_come_and_leave(
    rule: SmoothingRule, present: list[set[str]]
) -> None:
    nodes = Nodes()
    each = Smoother(rule, nodes, measures_pods=True)
    for step, names in enumerate(present):
        nodes.pods["n1"] = [pod(n, on="n1", requests={"cpu": f"{USES[n]}m"}) for n in names]
        uses = {name: USES[name] for name in names}
        truth = BASE + sum(uses.values())

        taken = each.take(measured(truth, 15.0 * step, **uses), 15.0 * step)

        if taken is None:
            assert step < rule.agree - 1
            continue
        assert taken.pods.keys() == {f"default/{name}" for name in names}
        assert abs(taken.usage["cpu"] - truth) <= 5 * len(present)


def test_pods_are_passed_on_as_they_were_measured() -> None:
    nodes = Nodes()
    nodes.pods["n1"] = [A]
    each = smoother(nodes, weight=0.5)
    each.take(measured(0, 1, a=1), 1)
    taken = each.take(measured(8, 2, a=7), 2)

    assert taken is not None
    assert taken.pods == used(a=7)
    assert taken.sampled_s == 2
