"""What plugins import is there, and who needs none of it does not wait for it."""

import subprocess
import sys

import pytest

import reactive_desched.api


@pytest.mark.parametrize("name", reactive_desched.api.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(reactive_desched.api, name).__name__ == name


def test_other_names_are_missing_as_in_any_module() -> None:
    assert not hasattr(reactive_desched.api, "Plugins")


def test_a_reader_of_events_does_not_load_what_plugins_need() -> None:
    code = "import sys, reactive_desched.api.event; print('pydantic' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "False\n"
