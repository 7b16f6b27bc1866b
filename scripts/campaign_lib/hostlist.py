"""Host lists in Slurm's bracket form: 'nodes[006,011]', 'gpu[01-16]:8,login', 'r[1-2]n[01-04]'."""

import re
from dataclasses import dataclass

MAX_HOSTS = 65536
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


class HostListError(ValueError):
    """The text is no host list; the message quotes it and says what is wrong."""


@dataclass(frozen=True)
class Host:
    name: str
    slots: int | None = None  # "node1:8"


def parse(text):
    """The hosts of the list in order. Zeros in front are kept ('[006,011]' is 006 and 011). HostListError for an open
    bracket, an empty item, a range that runs backwards, a bad name, a host given twice."""
    hosts = []
    for item in _split(text):
        body, colon, slots = item.partition(":")
        if colon and not (slots.isascii() and slots.isdigit() and int(slots) > 0):
            raise HostListError(f"'{text}': '{slots}' is not a number of slots")
        for name in _expand(body, text):
            if not _NAME.fullmatch(name):
                raise HostListError(f"'{text}': '{name}' is not a host name")
            hosts.append(Host(name, int(slots) if colon else None))
            if len(hosts) > MAX_HOSTS:
                raise HostListError(f"'{text}': more than {MAX_HOSTS} hosts")
    seen = set()
    for host in hosts:
        if host.name in seen:
            raise HostListError(f"'{text}': {host.name} is given twice")
        seen.add(host.name)
    return hosts


def _split(text):
    """Items between commas that are not inside brackets."""
    items, start, depth = [], 0, 0
    for i, char in enumerate(text):
        if char == "[":
            depth += 1
        elif char == "]":
            depth -= 1
        if depth not in (0, 1):
            raise HostListError(f"'{text}': brackets do not match at character {i + 1}")
        if char == "," and depth == 0:
            items.append(text[start:i])
            start = i + 1
    if depth:
        raise HostListError(f"'{text}': '[' without ']'")
    items.append(text[start:])
    if any(not item for item in items):
        raise HostListError(f"'{text}': empty item")
    return items


def _expand(body, text):
    """'r[1-2]n[01,03]' -> r1n01 r1n03 r2n01 r2n03."""
    head, bracket, rest = body.partition("[")
    if not bracket:
        return [body]
    inside, _, tail = rest.partition("]")
    tails = _expand(tail, text)
    numbers = _numbers(inside, text)
    if len(numbers) * len(tails) > MAX_HOSTS:
        raise HostListError(f"'{text}': more than {MAX_HOSTS} hosts")
    return [head + number + end for number in numbers for end in tails]


def _numbers(inside, text):
    numbers = []
    for part in inside.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if not match:
            raise HostListError(f"'{text}': '{part}' is not a number or a range like 01-16")
        low, high = match[1], match[2] or match[1]
        if int(high) < int(low):
            raise HostListError(f"'{text}': the range {part} runs backwards")
        if int(high) - int(low) >= MAX_HOSTS:
            raise HostListError(f"'{text}': more than {MAX_HOSTS} hosts")
        numbers += [str(n).zfill(len(low)) for n in range(int(low), int(high) + 1)]
    return numbers
