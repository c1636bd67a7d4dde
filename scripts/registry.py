"""What `build/ladder --list` says: every rung and variant that is linked in, and stage 0, which chooses
among them."""

import json
import subprocess


def parse(text, stage_0=False):
    """A dictionary for each variant of the rungs, or of stage 0 too. A chooser has no kernel: None."""
    return [variant for variant in json.loads(text) if variant["stage"] > 0 or stage_0]


def ran(row):
    """(rung, variant) of what a row of docs/results was measured with: what its variant chose, if it
    chooses. Stage 0's configuration names the rung too: 11_autotuned/128x256."""
    rung, _, variant = (row.get("configuration") or row["variant"]).rpartition("/")
    return (int(rung.split("_")[0]) if rung else row["stage"]), variant


def read(program, stage_0=False):
    """The same of a program. Throws as subprocess does."""
    listing = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    return parse(listing.stdout, stage_0)
