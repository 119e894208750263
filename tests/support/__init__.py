"""What tests share."""

import pytest

# Before they are imported, so that a failure shows what differs.
pytest.register_assert_rewrite("tests.support.golden", "tests.support.sound")
