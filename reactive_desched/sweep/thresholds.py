"""Priority thresholds by class name: a cycle needs the class to exist, as upstream does."""

from collections.abc import Iterable, Iterator

from reactive_desched.errors import ConfigError
from reactive_desched.model.objects import SYSTEM_CRITICAL_PRIORITY, PriorityClass
from reactive_desched.policy.policy import Profile
from reactive_desched.state.cluster import ClusterView


def check_thresholds(profiles: Iterable[Profile], view: ClusterView) -> None:
    """Raise ConfigError for every class that a profile names and the cluster cannot answer for."""
    problems = [problem for profile in profiles for problem in _problems(profile, view)]
    if problems:
        raise ConfigError("\n".join(problems))


def _problems(profile: Profile, view: ClusterView) -> Iterator[str]:
    name = profile.evictor.priority_threshold.name
    if name is None:
        return
    where = f'profile "{profile.name}", DefaultEvictor, priorityThreshold.name'
    found = view.store(PriorityClass).get(name)
    if found is None:
        yield (
            f"{where}: unable to get priority value from the priority class: "
            f'there is no PriorityClass "{name}"; create it, or write priorityThreshold.value'
        )
    elif found.value > SYSTEM_CRITICAL_PRIORITY:
        yield (
            f"{where}: a threshold must be at most {SYSTEM_CRITICAL_PRIORITY}; "
            f'PriorityClass "{name}" has {found.value}'
        )
