#!/usr/bin/env python3
"""What make says of a goal that it does not have.

    goals.py GOAL NAME...    refuses the goal, with the nearest of the names; those in capitals, as in
                             stage-N, stand for what is put there
"""

from __future__ import annotations

import re
import sys

from lib.cli import Problem, command, nearest, parser_of


@command()
def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("goal")
    parser.add_argument("names", nargs="+", metavar="NAME")
    options = parser.parse_args()
    goal, names = options.goal, options.names
    # Of stag-3 and stage_3 stage-3, of diff diff-N, of tset test.
    placeholders = {name.partition("-")[0]: name for name in names if not name.islower()}
    word = re.sub(r"[\d.]*$", "", goal)
    number = goal.removeprefix(word)
    word = word.rstrip("-_ ").lower()
    others = [] if number else [name for name in names if name.islower()]
    near = nearest(word, [*placeholders, *others])
    if near in placeholders:
        near = f"{near}-{number}" if number else placeholders[near]
    hint = f"; did you mean {near}? make" if near else "; make"
    raise Problem(f"There is no {goal} to make{hint} help lists what there is.")


if __name__ == "__main__":
    sys.exit(main())
