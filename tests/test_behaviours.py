"""Every behaviour in scope is proven by some test. `bin/test --behaviours` tells by which."""

from tests.support.behaviour_table import is_whole_suite, untested


def test_every_row_in_scope_has_a_test_wherever_the_whole_suite_is_collected(request):
    missing = untested(request.session.items) if is_whole_suite(request.config) else []

    assert missing == [], f"no test proves {', '.join(missing)}; see bin/test --behaviours"
