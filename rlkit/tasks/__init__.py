"""Problems and the domains they come from."""

from rlkit.tasks.problem import Domain, Problem, Split
from rlkit.tasks.registry import domain_names, get_domain, get_domains, register_domain

__all__ = [
    "Domain",
    "Problem",
    "Split",
    "domain_names",
    "get_domain",
    "get_domains",
    "register_domain",
]
