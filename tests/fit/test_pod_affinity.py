"""Whom a pod must not be near, who must not be near it, and whom it wants near."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reactive_desched.fit.pod_affinity import NO_COMPANY, REPELLED, UNWELCOME_COMPANY
from reactive_desched.model.objects import (
    ZONE_LABEL,
    ClusterObject,
    Namespace,
    Pod,
    PodAffinityTerm,
)
from reactive_desched.testing.anti_affinity import avoid, avoiding, selector
from reactive_desched.testing.builders import node, pod, with_spec

KeptOff = Callable[..., str | None]
WEB = {"app": "web"}
MOVER = pod("mover", on="n1", labels=WEB)
RIVAL = pod("rival", on="n2", labels=WEB)
ELSEWHERE = replace(RIVAL, namespace="bank")
APART = avoiding(MOVER, avoid("app=web"))
APART_FROM_TEAM_A = avoiding(MOVER, avoid("app=web", namespaces_like="team=a"))
ZONE_A = node("n1", zone="a"), node("n2", zone="a")


def together(*texts: str) -> Pod:
    """Return the mover, wanting company in its zone that every selector means."""
    wanted = tuple(PodAffinityTerm(ZONE_LABEL, selector(text)) for text in texts)
    return with_spec(MOVER, pod_affinity=wanted)


@pytest.mark.parametrize(
    ("candidate", "things", "why"),
    [
        pytest.param(APART, [node("n2"), RIVAL], UNWELCOME_COMPANY, id="anti-affinity on the host"),
        pytest.param(
            avoiding(MOVER, avoid(None)), [node("n2"), RIVAL], None, id="anti-affinity to nobody"
        ),
        pytest.param(
            avoiding(MOVER, avoid("app=web", "rack")),
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
            UNWELCOME_COMPANY,
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
            [node("n2"), avoiding(RIVAL, avoid("app=web"))],
            REPELLED,
            id="anti-affinity of who is there",
        ),
        pytest.param(
            avoiding(MOVER, avoid("app=web", ZONE_LABEL)),
            [*ZONE_A],
            None,
            id="it does not avoid itself in its zone",
        ),
        pytest.param(
            avoiding(MOVER, avoid("app=web", ZONE_LABEL)),
            [*ZONE_A, replace(RIVAL, node="n1")],
            UNWELCOME_COMPANY,
            id="it avoids the others in its zone",
        ),
        pytest.param(
            together("app=db"), [node("n2", zone="a")], NO_COMPANY, id="affinity to nobody there"
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
            NO_COMPANY,
            id="the first needs the topology label too",
        ),
        pytest.param(
            together("app=web"),
            [node("n1", zone="a"), node("n2", zone="b"), pod("web", on="n1", labels=WEB)],
            NO_COMPANY,
            id="not the first: another one stays behind",
        ),
        pytest.param(
            together("app=web", "tier=1"),
            [
                node("n2", zone="a"),
                pod("a", on="n2", labels=WEB),
                pod("b", on="n2", labels={"tier": "1"}),
            ],
            NO_COMPANY,
            id="one pod must match all terms at once",
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
    assert kept_off(candidate, things) == why
