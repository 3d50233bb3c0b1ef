"""Has plans be sought for less long, where which nodes they find does not matter."""

from functools import partial

import pytest

from reactive_desched.draining import node_emptying
from reactive_desched.draining.emptying import plan_emptying

LOOKS = 40
"""Of a plan that may take ten thousand, for seconds."""


def seek_plans_briefly(patches: pytest.MonkeyPatch) -> None:
    """Have plans to empty nodes end after a few looks."""
    patches.setattr(node_emptying, "plan_emptying", partial(plan_emptying, looks=LOOKS))
