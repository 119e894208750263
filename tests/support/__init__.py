"""What tests share."""

import pytest

# Before it is imported, so that a golden file that differs is shown as a diff.
pytest.register_assert_rewrite("tests.support.golden")
