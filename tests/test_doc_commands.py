"""Each command of the documentation is typed by a test, or says why not."""

import re
from pathlib import Path

from tests.support.doc_commands import (
    NOT_TYPED,
    PAGES_NOT_TYPED,
    DocCommand,
    commands,
    commands_of,
    typed,
)

ROOT = Path(__file__).parents[1]


def test_no_reason_is_given_for_a_command_that_is_not_there_any_more() -> None:
    texts = [command.text for command in commands()]
    stale = [start for start in NOT_TYPED if not any(text.startswith(start) for text in texts)]

    assert stale == []
    assert PAGES_NOT_TYPED.keys() - {command.page for command in commands()} == set()


def test_each_reason_names_tests_that_are_there() -> None:
    named = [name for why in NOT_TYPED.values() for name in re.findall(r"tests/[\w/.]*\w", why)]

    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_most_commands_are_typed() -> None:
    here = [each for each in commands() if each.page not in PAGES_NOT_TYPED]
    assert sum(map(typed, here)) > 4 * sum(not typed(each) for each in here)


def test_a_command_goes_on_behind_a_backslash_and_ends_before_a_remark() -> None:
    page = """
1.  Install it:

    ```console
    $ helm install x \\
        --set a=b    # slowly
    done
    $ ls
    ```

```sh
echo 'a # b'
```
"""
    assert list(commands_of("page.md", page)) == [
        DocCommand("page.md", "helm install x --set a=b", "done\n"),
        DocCommand("page.md", "ls"),
        DocCommand("page.md", "echo 'a # b'"),
    ]


def test_every_fence_of_commands_has_a_prompt() -> None:
    fence = re.compile(r"^ *```console\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    fences = [
        (page.name, block) for page in pages for block in fence.findall(page.read_text("utf-8"))
    ]

    assert [(name, block) for name, block in fences if not block.lstrip().startswith("$ ")] == []
