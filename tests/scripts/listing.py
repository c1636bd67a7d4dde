"""What a stand-in for build/ladder says to --list."""

COLUMNS = ("stage", "name", "problem", "variant", "result", "bm", "bn", "bk", "depth", "threads",
           "smem_bytes", "cluster_m", "cluster_n", "regs_dec", "regs_inc", "persistent", "simt", "kernel",
           "configuration", "chooses", "workspace_bytes", "what")  # fmt: skip
USUAL = {"problem": "bf16", "result": 0, "bm": 128, "bn": 256, "bk": 64, "depth": 4, "threads": 384,
         "smem_bytes": 1000, "cluster_m": 1, "cluster_n": 1, "regs_dec": 0, "regs_inc": 0,
         "persistent": 0, "simt": 0, "configuration": 0, "chooses": 0, "workspace_bytes": 0,
         "what": "knob"}  # fmt: skip


def listing(variants):
    """The text of --list for dictionaries that have at least a stage, a variant and a kernel."""
    rows = [{**USUAL, "name": f"{v['stage']:02}_rung", **v} for v in variants]
    lines = [COLUMNS] + [[str(int(cell) if cell in (True, False) else cell)
                          for cell in (row[column] for column in COLUMNS)] for row in rows]
    return "".join("\t".join(line) + "\n" for line in lines)
