"""What `build/ladder --list` says: every rung and variant that is linked in, and stage 0, which chooses
among them."""

import subprocess

NUMBERS = ("stage", "bm", "bn", "bk", "depth", "threads", "smem_bytes", "cluster_m", "cluster_n",
           "regs_dec", "regs_inc", "workspace_bytes")  # fmt: skip
FLAGS = ("result", "persistent", "simt", "configuration", "chooses")


def parse(text, stage_0=False):
    """A dictionary for each line but the first, which names the columns; of the rungs, or of stage 0
    too. A chooser has no kernel: None."""
    lines = [line.split("\t") for line in text.splitlines()]
    variants = [dict(zip(lines[0], line)) for line in lines[1:]]
    for variant in variants:
        variant.update({key: int(variant[key]) for key in NUMBERS})
        variant.update({key: variant[key] == "1" for key in FLAGS})
        variant["kernel"] = None if variant["chooses"] else variant["kernel"]
    return [variant for variant in variants if variant["stage"] > 0 or stage_0]


def ran(row):
    """(rung, variant) of what a row of docs/results was measured with: what its variant chose, if it
    chooses. Stage 0's configuration names the rung too: 11_autotuned/128x256."""
    rung, _, variant = (row.get("configuration") or row["variant"]).rpartition("/")
    return (int(rung.split("_")[0]) if rung else row["stage"]), variant


def read(program, stage_0=False):
    """The same of a program. Throws as subprocess does."""
    listing = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    return parse(listing.stdout, stage_0)
