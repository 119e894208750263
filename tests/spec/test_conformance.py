"""The page of rules and their tests is that of the tests as they are."""

import ast
from pathlib import Path

import pytest

from tests.spec.conformance import format_page, is_public, marks, read_rules, rule_tests
from tests.support.golden import Golden

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conformance.md"


def test_the_page_is_up_to_date(golden: Golden) -> None:
    golden(format_page(read_rules(), rule_tests()), PAGE)


def test_every_rule_that_is_named_is_one() -> None:
    rules = read_rules()

    assert {rule for rule in rule_tests() if rule not in rules.texts} == set()
    assert {rule for rule in rules.not_applicable if rule not in rules.texts} == set()


def test_every_rule_has_a_test_on_a_users_way() -> None:
    inside = {rule for rule, tests in rule_tests().items() if not any(map(is_public, tests))}

    assert inside == set()


def test_no_rule_is_both_tested_and_said_not_to_apply() -> None:
    assert set(rule_tests()) & set(read_rules().not_applicable) == set()


def test_marks_are_found_on_functions_and_on_cases() -> None:
    module = ast.parse(
        '@pytest.mark.rule("A-1", "A-2")\n'
        '@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.rule("B-3"))])\n'
        "def test_it(x): ...\n"
    )
    assert sorted(marks(module)) == [("test_it", "A-1"), ("test_it", "A-2"), ("test_it", "B-3")]
    with pytest.raises(ValueError, match="no plain text"):
        list(marks(ast.parse("@pytest.mark.rule(RULE)\ndef test_it(): ...")))
