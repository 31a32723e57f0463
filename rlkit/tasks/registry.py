"""The domains by name, and how to add one of your own."""

from __future__ import annotations

from collections.abc import Iterable

from rlkit.errors import UserError
from rlkit.tasks.arith import Arith
from rlkit.tasks.countdown import Countdown
from rlkit.tasks.problem import Domain
from rlkit.tasks.pyfunc import PyFunc
from rlkit.tasks.pywords import PyWords
from rlkit.tasks.sort import Sort

_DOMAINS: dict[str, Domain] = {
    d.name: d for d in (Arith(), Sort(), Countdown(), PyFunc(), PyWords())
}


def domain_names() -> list[str]:
    """Names of all known domains.

    >>> domain_names()[:5]
    ['arith', 'sort', 'countdown', 'pyfunc', 'pywords']
    """
    return list(_DOMAINS)


def get_domain(name: str | Domain) -> Domain:
    """The domain of this name; a `Domain` is given back as it is.

    Raises:
        UserError: no such domain.
    """
    if isinstance(name, Domain):
        return name
    if name not in _DOMAINS:
        raise UserError(f"unknown domain {name!r}; known domains: {', '.join(_DOMAINS)}")
    return _DOMAINS[name]


def get_domains(names: Iterable[str | Domain]) -> list[Domain]:
    """The domains of these names, in order, each at most once.

    Raises:
        UserError: an empty list, an unknown name, or a name given twice.
    """
    domains = [get_domain(name) for name in names]
    if not domains:
        raise UserError(f"the list of domains is empty; give at least one of {', '.join(_DOMAINS)}")
    seen = [d.name for d in domains]
    if len(set(seen)) < len(seen):
        raise UserError(f"a domain is given twice in {seen}; give each one once")
    return domains


def register_domain(domain: Domain) -> Domain:
    """Makes a domain known by its name, so that the command line finds it too.

    Raises:
        UserError: no name, or a name that is taken by another class.
    """
    if not domain.name:
        raise UserError(f"{type(domain).__name__} has no name; set its class attribute `name`")
    known = _DOMAINS.get(domain.name)
    if known is not None and type(known).__qualname__ != type(domain).__qualname__:
        raise UserError(f"a domain {domain.name!r} exists already; choose another name")
    _DOMAINS[domain.name] = domain
    return domain
