"""What has an effect is accepted without a warning."""

from collections.abc import Callable

from pydantic import BaseModel

from reactive_desched.policy.configuration import Configuration

TAINTS = "RemovePodsViolatingNodeTaints"


def test_a_sound_policy_gets_no_warning(
    read: Callable[[str], Configuration], with_args: Callable[[str, str], str]
) -> None:
    configuration = read(with_args(TAINTS, "most: 3.0\nlabelSelector: null\nweight: 1"))
    assert configuration.warnings == ()
    (profile,) = configuration.policy.profiles
    args: BaseModel = profile.args[TAINTS]
    assert args.model_dump(include={"most", "label_selector"}) == {
        "most": 3,
        "label_selector": None,
    }
