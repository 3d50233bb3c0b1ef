"""A module can stand in for another, and nothing else notices."""

import subprocess
import sys

import pytest

from reactive_desched.primitives.stand_ins import install_stand_in, without_package


def test_a_package_is_missing_meanwhile_and_there_again_afterwards() -> None:
    import colorsys

    with without_package("colorsys"), pytest.raises(ImportError):
        import colorsys

    import colorsys as again

    assert again is colorsys


def test_a_package_that_was_not_loaded_is_loaded_afterwards() -> None:
    sys.modules.pop("colorsys", None)
    with without_package("colorsys"):
        assert sys.modules["colorsys"] is None

    import colorsys

    assert colorsys.rgb_to_hsv


def test_a_stand_in_gives_its_members_and_loads_the_module_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    install_stand_in("colorsys", rgb_to_hsv=tuple)

    from colorsys import rgb_to_hsv

    assert rgb_to_hsv is tuple  # type: ignore[comparison-overlap]  # the stand-in
    stand_in = sys.modules["colorsys"]
    assert not hasattr(stand_in, "__path__")
    assert sys.modules["colorsys"] is stand_in

    from colorsys import hsv_to_rgb

    assert hsv_to_rgb.__module__ == "colorsys"
    assert sys.modules["colorsys"] is not stand_in


def test_pydantic_keeps_its_own_loader_of_plugins_for_other_packages() -> None:
    script = (
        "from reactive_desched.__main__ import _keep_unused_modules_out\n"
        "_keep_unused_modules_out()\n"
        "from pydantic.plugin._loader import get_plugins, PYDANTIC_ENTRY_POINT_GROUP\n"
        "assert (get_plugins(), PYDANTIC_ENTRY_POINT_GROUP) == ((), 'pydantic')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
