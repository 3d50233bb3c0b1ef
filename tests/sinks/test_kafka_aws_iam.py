"""Tokens of AWS IAM: signed by the library of AWS, of which a stand-in has the functions."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.settings.recording import (
    AwsIamSettings,
    KafkaSettings,
    SaslSettings,
)
from reactive_desched.sinks.kafka.connection import producer_settings
from reactive_desched.sinks.kafka.error_hints import no_broker
from reactive_desched.sinks.kafka.tokens import AWS_REUSED_S, AwsIamToken, token_source
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parent.parent.parent
PACKAGE, MODULE = "aws_msk_iam_sasl_signer", "MSKAuthTokenProvider"
REGION, ROLE = "eu-central-1", "arn:aws:iam::123456789012:role/descheduler"
IAM = AwsIamSettings(region=REGION)
KAFKA: dict[str, Any] = {
    "brokers": ("b-1.example:9098",),
    "sasl": {"mechanism": "OAUTHBEARER", "awsIam": {"region": REGION}},
}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[str, ...]]]:
    """Install a signer that notes its calls, or raises what it is given."""

    def install_one(error: Exception | None = None) -> list[tuple[str, ...]]:
        calls: list[tuple[str, ...]] = []

        def sign(*arguments: str) -> tuple[str, int]:
            calls.append(arguments)
            if error is not None:
                raise error
            return f"token-{len(calls)}", 1795764212000

        module: Any = ModuleType(f"{PACKAGE}.{MODULE}")
        module.generate_auth_token = module.generate_auth_token_from_role_arn = sign
        package: Any = ModuleType(PACKAGE)
        package.__path__ = []
        monkeypatch.setitem(sys.modules, PACKAGE, package)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return calls

    return install_one


async def test_a_token_is_signed_for_the_region_and_reused_for_a_minute(install: Any) -> None:
    calls, now = install(), [0.0]
    tokens = AwsIamToken(IAM, lambda: now[0])

    assert [await tokens.token(), await tokens.token()] == ["token-1", "token-1"]
    now[0] = AWS_REUSED_S
    assert await tokens.token() == "token-2"
    assert calls == [(REGION,), (REGION,)]


async def test_a_token_that_brokers_refused_is_not_used_again(install: Any) -> None:
    install()
    tokens = AwsIamToken(IAM, lambda: 0.0)
    await tokens.token()
    tokens.forget()

    assert await tokens.token() == "token-2"


async def test_a_role_is_assumed(install: Any) -> None:
    calls = install()
    tokens = AwsIamToken(AwsIamSettings(region=REGION, role_arn=ROLE), lambda: 0.0)

    assert (await tokens.token(), calls) == ("token-1", [(REGION, ROLE)])


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(AttributeError("'NoneType' object has no attribute 'x'"), id="no credentials"),
        pytest.param(RuntimeError("AccessDenied\n when calling AssumeRole"), id="a role denied"),
        pytest.param(KeyError(), id="nothing said"),
    ],
)
async def test_what_the_library_raises_is_an_error_with_a_remedy(
    install: Any, error: Exception, golden: Golden
) -> None:
    install(error)
    with pytest.raises(SinkUnavailable) as caught:
        await AwsIamToken(IAM, lambda: 0.0).token()

    assert str(caught.value) == golden()


async def test_without_the_library_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    with pytest.raises(SinkUnavailable) as caught:
        await AwsIamToken(IAM, lambda: 0.0).token()

    assert str(caught.value) == golden()


async def test_it_is_given_to_the_producer(install: Any) -> None:
    install()
    kafka = KafkaSettings.model_validate({**KAFKA, "tls": {}})
    source = token_source(kafka.sasl, lambda: 0.0)
    assert isinstance(source, AwsIamToken)
    settings = producer_settings(kafka, source)

    assert settings["sasl_mechanism"] == "OAUTHBEARER"
    assert settings["security_protocol"] == "SASL_SSL"
    assert await settings["sasl_oauth_token_provider"].token() == "token-1"


def test_what_to_check_where_no_broker_accepts_the_token(golden: Golden) -> None:
    kafka = KafkaSettings.model_validate({**KAFKA, "tls": {}})
    assert no_broker(kafka, "") == golden()


def test_it_is_refused_without_encryption() -> None:
    with pytest.raises(ValidationError, match="must be set with sasl"):
        KafkaSettings.model_validate(KAFKA)


@pytest.mark.parametrize("region", ["us-east-1", "us-gov-west-1", "cn-north-1", "ap-southeast-2"])
def test_regions_of_all_partitions_are_taken(region: str) -> None:
    assert AwsIamSettings(region=region).region == region


@pytest.mark.parametrize(
    "wrong",
    [
        {"region": ""},
        {"region": "eu-central-1a"},
        {"region": "EU"},
        {"region": REGION, "roleArn": "descheduler"},
    ],
)
def test_what_is_no_region_or_role_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        AwsIamSettings.model_validate(wrong)


@pytest.mark.parametrize("other", [{"tokenFile": "/t"}, {"username": "u"}])
def test_it_stands_alone(other: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        SaslSettings.model_validate({**KAFKA["sasl"], **other})


def test_its_lock_has_all_that_the_image_has() -> None:
    run, aws = (
        (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").split("\n")
        for name in ("run", "aws")
    )
    assert [line for line in run if line not in aws] == []
    assert any(line.startswith("aws-msk-iam-sasl-signer-python==") for line in aws)
