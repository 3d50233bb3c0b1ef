from pathlib import Path

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.kubeconfig import (
    InCluster,
    KubeconfigFiles,
    KubeConfigOptions,
    locate_config,
)
from reactive_desched.kube.auth.kubeconfig_merge import choose_context

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").touch()
    return tmp_path


@pytest.fixture
def account(tmp_path: Path) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("t")
    return folder


def test_an_explicit_path_wins_over_everything(home: Path, account: Path) -> None:
    mine = home / "mine"
    mine.touch()
    environ = POD | {"HOME": str(home), "KUBECONFIG": "/elsewhere"}
    found = locate_config(KubeConfigOptions(str(mine), "blue", service_account=account), environ)
    assert found == KubeconfigFiles((str(mine),), "blue")


def test_an_explicit_path_that_does_not_exist_is_named(home: Path) -> None:
    with pytest.raises(ConfigError, match="kubeconfig /no/such does not exist"):
        locate_config(KubeConfigOptions("/no/such"), {"HOME": str(home)})


def test_the_environment_may_list_several_files_of_which_some_are_missing(home: Path) -> None:
    one, two = home / "one", home / "two"
    one.touch()
    two.touch()
    environ = {"HOME": str(home), "KUBECONFIG": f"{one}:/missing:{two}"}
    assert locate_config(KubeConfigOptions(), environ) == KubeconfigFiles(
        (str(one), str(two)), None
    )


@pytest.mark.parametrize("place", ["folder", "one/below"], ids=["a folder", "below a file"])
def test_a_file_of_the_environment_that_cannot_be_read_is_an_error_and_not_passed_over(
    home: Path, place: str
) -> None:
    (home / "one").touch()
    (home / "folder").mkdir()
    environ = {"HOME": str(home), "KUBECONFIG": f"{home / 'one'}:{home / place}"}
    source = locate_config(KubeConfigOptions(), environ)
    assert isinstance(source, KubeconfigFiles)

    with pytest.raises(ConfigError, match=f"{place} cannot be read"):
        choose_context(source)


def test_an_environment_that_names_only_missing_files_is_an_error(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"none of the files in \$KUBECONFIG.*/missing"):
        locate_config(KubeConfigOptions(), {"HOME": str(home), "KUBECONFIG": "/missing"})


def test_the_home_file_comes_before_the_pods_account(home: Path, account: Path) -> None:
    found = locate_config(KubeConfigOptions(service_account=account), POD | {"HOME": str(home)})
    assert found == KubeconfigFiles((str(home / ".kube" / "config"),), None)


def test_a_pod_without_any_file_uses_its_account(tmp_path: Path, account: Path) -> None:
    found = locate_config(KubeConfigOptions(service_account=account), POD | {"HOME": "/nowhere"})
    assert found == InCluster(account)


def test_in_cluster_can_be_insisted_on(home: Path, account: Path) -> None:
    config = KubeConfigOptions(in_cluster=True, service_account=account)
    assert locate_config(config, POD | {"HOME": str(home)}) == InCluster(account)


def test_in_cluster_can_be_forbidden(account: Path) -> None:
    config = KubeConfigOptions(in_cluster=False, service_account=account)
    with pytest.raises(ConfigError, match="no kubeconfig found: "):
        locate_config(config, POD | {"HOME": "/nowhere"})


def test_in_cluster_outside_a_pod_says_so(account: Path) -> None:
    config = KubeConfigOptions(in_cluster=True, service_account=account)
    with pytest.raises(ConfigError, match="this is not a pod"):
        locate_config(config, {})


def test_the_message_about_a_missing_token_says_how_to_get_one(tmp_path: Path) -> None:
    config = KubeConfigOptions(in_cluster=True, service_account=tmp_path)
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        locate_config(config, POD)


def test_a_context_makes_no_sense_in_a_pod(account: Path) -> None:
    config = KubeConfigOptions(context="blue", in_cluster=True, service_account=account)
    with pytest.raises(ConfigError, match="context 'blue' is asked for"):
        locate_config(config, POD)


def test_when_nothing_is_found_every_place_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        locate_config(KubeConfigOptions(), {"HOME": "/nowhere"})
    for place in (
        "--kubeconfig",
        "$KUBECONFIG",
        "/nowhere/.kube/config",
        "KUBERNETES_SERVICE_HOST",
    ):
        assert place in str(caught.value)
