"""Why a path that was named cannot be the kubeconfig."""

import os
from pathlib import Path

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions, locate_config
from tests.support.golden import Golden


def refusal(config: KubeConfigOptions, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        locate_config(config, environ)
    return str(caught.value)


def test_a_directory_in_place_of_a_file_is_reported_as_one(tmp_path: Path, golden: Golden) -> None:
    told = refusal(KubeConfigOptions(str(tmp_path)))
    assert told == golden(tmp_path=tmp_path)


def test_a_pipe_in_place_of_a_file_is_reported_as_none(tmp_path: Path, golden: Golden) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert refusal(KubeConfigOptions(str(pipe))) == golden(pipe=pipe)


def test_a_name_that_is_too_long_is_reported_with_the_reason(
    tmp_path: Path, golden: Golden
) -> None:
    told = refusal(KubeConfigOptions(str(tmp_path / ("x" * 300))))
    assert golden() in told


def test_each_path_of_the_environment_is_reported_with_what_it_lacks(
    tmp_path: Path, golden: Golden
) -> None:
    told = refusal(KubeConfigOptions(), KUBECONFIG=f"{tmp_path}:/missing", HOME="/nowhere")
    assert golden(tmp_path=tmp_path) in told


def test_a_directory_at_the_usual_place_is_reported_as_one(tmp_path: Path) -> None:
    usual = tmp_path / ".kube" / "config"
    usual.mkdir(parents=True)
    assert f"{usual} is a directory" in refusal(KubeConfigOptions(), HOME=str(tmp_path))
