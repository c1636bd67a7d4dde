#!/usr/bin/env python3
"""What make says of a goal that it does not have.

    goals.py GOAL NAME...    refuses the goal, with the nearest of the names; those in capitals, as in
                             stage-N, stand for what is put there
"""

from __future__ import annotations

import re
import sys

from lib.cli import Problem, command, nearest, parser_of


def meant(goal: str, names: list[str]) -> str:
    """Of stag-3 and stage_3 stage-3, of diff diff-N, of tset test; "" if none is near."""
    placeholders = {name.partition("-")[0]: name for name in names if not name.islower()}
    word = re.sub(r"[\d.]*$", "", goal)
    number = goal.removeprefix(word)
    word = word.rstrip("-_ ").lower()
    others = [] if number else [name for name in names if name.islower()]
    near = nearest(word, [*placeholders, *others])
    if near not in placeholders:
        return near
    return f"{near}-{number}" if number else placeholders[near]


@command()
def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("goal")
    parser.add_argument("names", nargs="+", metavar="NAME")
    options = parser.parse_args()
    near = meant(options.goal, options.names)
    hint = f"; did you mean {near}? make" if near else "; make"
    raise Problem(f"There is no {options.goal} to make{hint} help lists what there is.")


if __name__ == "__main__":
    sys.exit(main())
