"""What a stand-in for build/ladder says to --list."""

import json

USUAL = {"problem": "bf16", "result": False, "bm": 128, "bn": 256, "bk": 64, "depth": 4, "threads": 384,
         "smem_bytes": 1000, "cluster_m": 1, "cluster_n": 1, "regs_dec": 0, "regs_inc": 0,
         "persistent": False, "simt": False, "configuration": False, "chooses": False,
         "workspace_bytes": 0, "what": "knob"}  # fmt: skip
FLAGS = ("result", "persistent", "simt", "configuration", "chooses")


def listing(variants):
    """The text of --list for dictionaries that have at least a stage, a variant and a kernel."""
    rows = [{**USUAL, "name": f"{v['stage']:02}_rung", **v} for v in variants]
    rows = [{**row, **{key: bool(row[key]) for key in FLAGS}} for row in rows]
    return json.dumps(rows) + "\n"
