"""What commands say of reasons, without the page that it comes from."""

import re

import pytest

from tools.reason_meanings import RUNBOOK, remedies


@pytest.mark.parametrize("code", sorted(remedies()))
def test_a_remedy_has_no_words_that_were_only_a_link_to_another_page(code: str) -> None:
    section = RUNBOOK.read_text("utf-8").partition(f"\n## `{code}`")[2].partition("\n## ")[0]
    pointers = re.findall(r"[:.] \[([^]]*)\]\([^)]*\)\.", section)

    assert [words for words in pointers if remedies()[code].endswith(f" {words}.")] == []
    assert ".." not in remedies()[code]
