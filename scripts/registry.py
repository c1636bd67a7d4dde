"""What `build/ladder --list` says: every rung and variant that is linked in."""

import subprocess

NUMBERS = ("stage", "bm", "bn", "bk", "depth", "threads", "smem_bytes", "cluster_m", "cluster_n",
           "regs_dec", "regs_inc")  # fmt: skip
FLAGS = ("result", "persistent", "simt", "configuration", "chooses")


def parse(text):
    """A dictionary for each line but the first, which names the columns. A chooser has no kernel:
    None."""
    lines = [line.split("\t") for line in text.splitlines()]
    variants = [dict(zip(lines[0], line)) for line in lines[1:]]
    for variant in variants:
        variant.update({key: int(variant[key]) for key in NUMBERS})
        variant.update({key: variant[key] == "1" for key in FLAGS})
        variant["kernel"] = None if variant["chooses"] else variant["kernel"]
    return variants


def read(program):
    """The same of a program. Throws as subprocess does."""
    listing = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    return parse(listing.stdout)
