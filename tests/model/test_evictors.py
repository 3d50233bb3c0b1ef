"""What holds of every evictor, whichever there are."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from reactive_desched.journal.event_builder import action_payload, evictor_of
from reactive_desched.model.eviction_options import EVICTION, DeleteOptions, EvictionOptions
from reactive_desched.model.evictor import Evictor, Requester
from reactive_desched.model.evictor_table import EVICTORS, _by_name, evictor_named
from reactive_desched.model.evictors.soft_eviction import SOFT_EVICTION
from reactive_desched.model.outcomes import EvictionRequest, PodFound, outcome_from_response
from reactive_desched.model.read_back import outcome_from_lookup
from reactive_desched.policy.settings import controller_settings
from reactive_desched.policy.settings.controller_settings import EvictionSettings
from reactive_desched.policy.settings.migration import MigrationJobSettings

ME = Requester("me", 1_800_000_000.0)
EACH = pytest.mark.parametrize("evictor", EVICTORS.values(), ids=lambda each: each.name)


def request_by(evictor: Evictor, name: str = "web-1") -> EvictionRequest:
    options = EvictionOptions(evictor.name, DeleteOptions(grace_period_seconds=7))
    return EvictionRequest("shop", name, "the-uid", "node n1 is tainted", options)


@EACH
def test_a_request_names_the_pod_that_was_judged_by_its_uid(evictor: Evictor) -> None:
    call = evictor.call(request_by(evictor), ME)

    assert b'"the-uid"' in call.body


@EACH
def test_a_name_cannot_lead_a_request_to_another_path(evictor: Evictor) -> None:
    call = evictor.call(request_by(evictor, "../secrets/x?y"), ME)

    assert "../" not in call.path
    assert "?" not in call.path


@EACH
def test_the_record_says_by_which_evictor(evictor: Evictor) -> None:
    what = action_payload(EvictionOptions(evictor.name))

    assert (what.action, evictor_of(what)) == (evictor.action, evictor.name)


@EACH
def test_what_an_accepted_request_leads_to_has_a_reason(evictor: Evictor) -> None:
    if evictor.accepted is not None:
        outcome = outcome_from_response(evictor.accepted)
        assert outcome is not None
        assert outcome.reason == evictor.accepted.reason.code


@EACH
def test_a_pod_that_shows_nothing_of_the_request_was_not_evicted(evictor: Evictor) -> None:
    found = PodFound("the-uid", terminating=False)

    assert outcome_from_lookup(request_by(evictor), found, 90.0).reason == "FoundRunning"


@EACH
def test_settings_may_name_it(evictor: Evictor) -> None:
    assert MigrationJobSettings.model_validate({"evictionPolicy": evictor.name}).eviction_policy
    if evictor.for_profiles:
        assert EvictionSettings.model_validate({"perProfile": {"p": evictor.name}}).per_profile


def test_the_evictor_of_a_profile_is_its_own_or_else_the_eviction_api(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller_settings, "_FOR_PROFILES", {"Another": EVICTORS["SoftEviction"]})
    by_profile = {"p": "Another", "q": "migration", "r": "api"}
    settings = EvictionSettings.model_construct(per_profile=by_profile)

    named = [settings.evictor_of_intents(profile) for profile in ("p", "q", "r", "s")]
    assert named == ["Another", EVICTION, EVICTION, EVICTION]


def test_a_copied_file_that_keeps_the_name_is_refused() -> None:
    copied = replace(SOFT_EVICTION, action="copied")

    with pytest.raises(ValueError, match="SoftEviction"):
        _by_name(iter([SOFT_EVICTION, copied]))


def test_names_and_actions_are_of_one_evictor_each() -> None:
    actions = [each.action for each in EVICTORS.values()]

    assert sorted(actions) == sorted(set(actions))
    assert next(iter(EVICTORS)) == EVICTION
    assert evictor_named("one of a later version") is EVICTORS[EVICTION]


def test_what_the_role_in_deploy_base_does_not_grant_has_a_role_of_its_own() -> None:
    base = Path(__file__).parents[2] / "deploy" / "base" / "rbac.yaml"
    granted = base.read_text(encoding="utf-8")

    for evictor in EVICTORS.values():
        rule = f"resources: [{evictor.right.resource}]\n    verbs: [{evictor.right.verbs[0]}]"
        assert evictor.role or rule in granted, evictor.name
