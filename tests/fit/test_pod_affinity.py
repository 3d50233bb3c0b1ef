"""Whom a pod must not be near, who must not be near it, and whom it wants near."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reactive_desched.fit.pod_affinity import (
    EXISTING_ANTI_AFFINITY,
    POD_AFFINITY_UNMET,
    POD_ANTI_AFFINITY_VIOLATED,
)
from reactive_desched.model.objects import (
    ZONE_LABEL,
    ClusterObject,
    Namespace,
    Pod,
    PodAffinityTerm,
)
from reactive_desched.testing.anti_affinity import anti_affinity_term, selector, with_anti_affinity
from reactive_desched.testing.builders import node, pod, with_spec

KeptOff = Callable[..., str | None]
WEB = {"app": "web"}
MOVER = pod("mover", on="n1", labels=WEB)
RIVAL = pod("rival", on="n2", labels=WEB)
ELSEWHERE = replace(RIVAL, namespace="bank")
APART = with_anti_affinity(MOVER, anti_affinity_term("app=web"))
APART_FROM_TEAM_A = with_anti_affinity(
    MOVER, anti_affinity_term("app=web", namespace_selector="team=a")
)
ZONE_A = node("n1", zone="a"), node("n2", zone="a")
FRONT_DB = replace(pod("db", on="n2", labels={"app": "db", "tier": "front"}), namespace="bank")


def together(*texts: str) -> Pod:
    """Return the mover, wanting company in its zone that every selector means."""
    wanted = tuple(PodAffinityTerm(ZONE_LABEL, selector(text)) for text in texts)
    return with_spec(MOVER, pod_affinity=wanted)


def together_across(*namespaces: str) -> Pod:
    """Return the mover, wanting a pod of team A in its zone that is in these namespaces, too."""
    of_team_a = PodAffinityTerm(
        ZONE_LABEL, selector("app=db"), namespace_selector=selector("team=a")
    )
    listed = PodAffinityTerm(ZONE_LABEL, selector("tier=front"), namespaces=namespaces)
    return with_spec(MOVER, pod_affinity=(of_team_a, listed))


@pytest.mark.parametrize(
    ("candidate", "things", "why"),
    [
        pytest.param(
            APART, [node("n2"), RIVAL], POD_ANTI_AFFINITY_VIOLATED, id="anti-affinity on the host"
        ),
        pytest.param(
            with_anti_affinity(MOVER, anti_affinity_term(None)),
            [node("n2"), RIVAL],
            None,
            id="anti-affinity to nobody",
        ),
        pytest.param(
            with_anti_affinity(MOVER, anti_affinity_term("app=web", "rack")),
            [node("n2"), RIVAL],
            None,
            id="anti-affinity over a missing label",
        ),
        pytest.param(
            APART, [node("n2"), ELSEWHERE], None, id="anti-affinity stays in the namespace"
        ),
        pytest.param(
            APART_FROM_TEAM_A,
            [node("n2"), Namespace("bank", labels={"team": "a"}), ELSEWHERE],
            POD_ANTI_AFFINITY_VIOLATED,
            id="but for a namespaceSelector",
        ),
        pytest.param(
            APART_FROM_TEAM_A,
            [node("n2"), Namespace("default", labels={"team": "b"}), RIVAL],
            None,
            id="which does not imply its own",
        ),
        pytest.param(
            MOVER,
            [node("n2"), with_anti_affinity(RIVAL, anti_affinity_term("app=web"))],
            EXISTING_ANTI_AFFINITY,
            id="anti-affinity of who is there",
        ),
        pytest.param(
            with_anti_affinity(MOVER, anti_affinity_term("app=web", ZONE_LABEL)),
            [*ZONE_A],
            None,
            id="it does not avoid itself in its zone",
        ),
        pytest.param(
            with_anti_affinity(MOVER, anti_affinity_term("app=web", ZONE_LABEL)),
            [*ZONE_A, replace(RIVAL, node="n1")],
            POD_ANTI_AFFINITY_VIOLATED,
            id="it avoids the others in its zone",
        ),
        pytest.param(
            together("app=db"),
            [node("n2", zone="a")],
            POD_AFFINITY_UNMET,
            id="affinity to nobody there",
        ),
        pytest.param(
            together("app=db"),
            [node("n2", zone="a"), pod("db", on="n2", labels={"app": "db"})],
            None,
            id="affinity to one who is there",
        ),
        pytest.param(together("app=web"), [node("n2", zone="a")], None, id="the first of its kind"),
        pytest.param(
            together("app=web"),
            [node("n2")],
            POD_AFFINITY_UNMET,
            id="the first needs the topology label too",
        ),
        pytest.param(
            together("app=web"),
            [node("n1", zone="a"), node("n2", zone="b"), pod("web", on="n1", labels=WEB)],
            POD_AFFINITY_UNMET,
            id="not the first: another one stays behind",
        ),
        pytest.param(
            together("app=web", "tier=1"),
            [
                node("n2", zone="a"),
                pod("a", on="n2", labels=WEB),
                pod("b", on="n2", labels={"tier": "1"}),
            ],
            POD_AFFINITY_UNMET,
            id="one pod must match all terms at once",
        ),
        pytest.param(
            together_across("shop", "bank"),
            [*ZONE_A, Namespace("bank", labels={"team": "a"}), FRONT_DB],
            None,
            id="its namespace is in the scope of all terms",
        ),
        pytest.param(
            together_across("shop"),
            [*ZONE_A, Namespace("bank", labels={"team": "a"}), FRONT_DB],
            POD_AFFINITY_UNMET,
            id="its namespace is not listed by one term",
        ),
        pytest.param(
            together_across("shop", "bank"),
            [*ZONE_A, FRONT_DB, Namespace("bank", labels={"team": "b"})],
            POD_AFFINITY_UNMET,
            id="its namespace is not selected by one term",
        ),
        pytest.param(
            together("app=web", "tier=1"),
            [node("n2", zone="a"), pod("a", on="n2", labels={**WEB, "tier": "1"})],
            None,
            id="and one that does is enough",
        ),
    ],
)
def test_whether_the_other_node_fits(
    kept_off: KeptOff, candidate: Pod, things: list[ClusterObject], why: str | None
) -> None:
    assert kept_off(candidate, things) == (None if why is None else str(why))
