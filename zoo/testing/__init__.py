"""The conformance kit: every law of the contract, for any architecture.

from zoo.testing import LAWS, case

@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law):
    law(case("my-architecture"))
"""

from zoo.testing.case import BrokenLawError, Case, case, case_of
from zoo.testing.laws import LAWS

__all__ = ["LAWS", "BrokenLawError", "Case", "case", "case_of"]
