"""Installed packages are read once, and again as soon as a folder of the path has changed."""

import os
import shutil
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from reactive_desched.api import installed
from reactive_desched.api.installed import installed_in, package_of
from tests.support.packages import write_package

GROUP = "reactive_desched.tests"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, in which nothing is installed yet."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_package_is_found_once_it_is_installed_and_not_when_it_is_gone(site: Path) -> None:
    assert list(installed_in(GROUP)) == []

    write_package(site, GROUP, {"One": "One"})
    os.utime(site, ns=(1, 1))  # a clock of files may not have moved on since
    assert list(installed_in(GROUP)) == [EntryPoint("One", "other:One", GROUP)]
    assert [package_of(each) for each in installed_in(GROUP)] == ["other 1.0"]

    shutil.rmtree(site / "other-1.0.dist-info")
    os.utime(site, ns=(2, 2))
    assert list(installed_in(GROUP)) == []


def test_packages_are_not_read_again_while_no_folder_changes(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_package(site, GROUP, {"One": "One"})
    first = installed_in(GROUP)
    monkeypatch.setattr(installed, "entry_points", lambda group: entry_points(name="none"))

    assert installed_in(GROUP) is first
