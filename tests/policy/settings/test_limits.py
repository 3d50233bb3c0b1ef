from reactive_desched.policy.policy import PolicyEvictionLimits
from reactive_desched.policy.settings.limits import EvictionRateLimits
from tests.support.golden import Golden

NO_LIMITS = PolicyEvictionLimits()

OF_50_NODES = {
    "cluster": "30 a minute, 10 at once",
    "zone": "20 a minute, 7 at once",
    "node": "6 a minute, 3 at once",
    "namespace": "12 a minute, 5 at once",
    "owner": "6 a minute, 2 at once",
    "plugin": "20 a minute, 7 at once",
    "ended": "120 a minute, 20 at once",
    "warmUp": "from 20 % of that, full after 5m",
}


def test_without_settings_every_scope_is_limited() -> None:
    assert EvictionRateLimits().describe(NO_LIMITS, 50) == OF_50_NODES


def test_a_large_cluster_gets_more_in_the_scopes_that_grow_with_it() -> None:
    assert EvictionRateLimits().describe(NO_LIMITS, 5000) == {
        **OF_50_NODES,
        "cluster": "100 a minute, 33 at once",
        "zone": "66.7 a minute, 23 at once",
        "namespace": "40 a minute, 16 at once",
        "plugin": "66.7 a minute, 23 at once",
        "ended": "400 a minute, 66 at once",
    }


def test_what_is_switched_off_is_said_too() -> None:
    written = {"owner": None, "warmUp": None, "cluster": {"evictions": 5, "per": "1h", "burst": 1}}

    said = EvictionRateLimits.model_validate(written).describe(NO_LIMITS, 5000)

    assert (said["owner"], said["cluster"]) == ("unlimited", "5 an hour, 1 at once")
    assert "warmUp" not in said


def test_an_eviction_counts_as_long_as_the_longest_window_schedule_or_refill() -> None:
    rate = {"evictions": 1, "per": "12h", "burst": 5}
    weekend = {"schedule": "0 0 * * sat", "duration": "72h", "evictions": 9}

    def counts_for_s(**written: object) -> float:
        return EvictionRateLimits.model_validate(written).counts_for_s

    assert counts_for_s() == 300
    assert counts_for_s(**dict.fromkeys(EvictionRateLimits().by_scope())) == 300
    assert counts_for_s(window="30h") == 30 * 3600
    assert counts_for_s(owner=rate, window="30h") == 60 * 3600
    assert counts_for_s(owner=rate, window="30h", schedules=[weekend]) == 72 * 3600


def test_named_budgets_are_said_with_whom_they_concern(golden: Golden) -> None:
    slow = {"name": "slow", "evictions": 2, "per": "20h", "namespaces": ["a", "b"]}
    batch = {"name": "batch", "nodeSelector": "pool=batch", "each": "node", "evictions": 9}
    limits = EvictionRateLimits.model_validate({"named": [slow, {**batch, "burst": 3}]})

    said = limits.describe(NO_LIMITS, 50)

    assert "\n".join(text for name, text in said.items() if name.startswith("budget")) == golden()
    assert limits.counts_for_s == 10 * 3600


def test_the_policys_limits_are_said_with_their_window_and_schedules_with_theirs(
    golden: Golden,
) -> None:
    schedule = {"schedule": "0 9 * * mon-fri", "duration": "8h", "evictions": 0, "plugins": ["A"]}
    night = {"schedule": "0 22 * * *", "timeZone": "Europe/Berlin", "duration": "90m"}
    schedules = [schedule, {**night, "evictions": "1%"}]
    limits = EvictionRateLimits.model_validate({"window": "10m", "schedules": schedules})

    said = limits.describe(PolicyEvictionLimits(per_node=0, total=50))

    assert {name: text for name, text in said.items() if name not in OF_50_NODES} == {
        "maxNoOfPodsToEvictTotal": "50 in 10m",
        "maxNoOfPodsToEvictPerNode": "0 in 10m",
        "schedule1": golden(),
        "schedule2": "0 22 * * * Europe/Berlin for 1h 30m: 1% evictions",
    }
