"""`python -m reactive_desched` is the same as `reactive-desched`."""

import gc
import os
import sys
from typing import Final

INTERRUPTED = 130
"""As a shell counts it: ended by SIGINT."""

_LOADING_THRESHOLD: Final = 200_000
"""New objects before a collection: more than loading makes. They stay, so at the default of 700 the
collector walks them again and again, a fifth of the start."""


def main() -> int:
    """Run one command and return its exit status; interrupted, end quietly, even while loading."""
    gc.set_threshold(_LOADING_THRESHOLD)
    try:
        _keep_unused_modules_out()
        from reactive_desched.primitives.lean_imports import patterns_on_demand

        with patterns_on_demand():
            from reactive_desched.cli import main as command

        return command()
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        gc.freeze()  # the process ends: the interpreter's last collections need not walk anything


def _keep_unused_modules_out() -> None:
    """Let libraries import what no command of ours calls without loading it.

    pydantic looks for no plugins of its own: it would read every installed package. The variable
    is how its documentation says it. Its module that looks is imported all the same, and loads
    `importlib.metadata`.
    """
    from reactive_desched.primitives.stand_ins import install_stand_in

    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    install_stand_in("pydantic.plugin._loader", get_plugins=tuple)
    install_stand_in("secrets")  # of pydantic's types, with OpenSSL
    install_stand_in("tokenize")  # of `linecache`, to read source
    install_stand_in("msgspec.inspect")  # of its JSON Schemas
    install_stand_in("bz2")  # of `shutil`, like the next, for archives
    install_stand_in("lzma")
    # of argparse, whose texts have no translation; it loads `locale` and looks for files
    install_stand_in("gettext", gettext=_untranslated, ngettext=_one_or_many)


def _untranslated(text: str | None) -> str | None:
    return text  # argparse asks for the description of a group that has none, too


def _one_or_many(one: str, many: str, number: int) -> str:
    return one if number == 1 else many


if __name__ == "__main__":
    sys.exit(main())
