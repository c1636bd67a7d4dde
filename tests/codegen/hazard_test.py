"""SASS: nothing writes a register of wgmma's A operand between the wgmma and the wait for it.

A wgmma that has A in registers reads them some time until its group has ended. PTX has as many
registers as names; that no other value gets one of these too early is ptxas' work, and ptxas up to
13.2 is known to have got it wrong.
"""

import collections
import glob
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from lib.tools import find_tool  # noqa: E402

SECTION = re.compile(r"^\s*\.section\s+\.text\.([\w$]+)|^//-+ \.text\.(\S+) -+")
LABEL = re.compile(r"^(\.L_x_\d+):")
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
GUARD = re.compile(r"^@!?U?P\w+\s+")
REGISTER = re.compile(r"^R(\d+)\b")
TARGET = re.compile(r"`\((\.L_x_\d+)\)")
RS = re.compile(r"^HGMMA\S*\s+R\d+, R(\d+),")
A_REGISTERS = 4
MOST_GROUPS = 8  # that are told apart: more than a wait leaves
WAIT = re.compile(r"^WARPGROUP\.DEPBAR\.LE gsb0, 0x(\w+)")
# A branch needs its guard; what follows one of these is not reached from it.
JUMPS, ENDS = ("BRA",), ("EXIT", "RET", "BPT", "KILL")
NO_RESULT = ("ST", "RED", "BAR", "SYNCS", "UTMA", "WARPGROUP", "MEMBAR", "FENCE", "DEPBAR", "BRA",
             "EXIT", "NOP", "ISETP", "FSETP", "HSETP2", "PLOP3", "R2UR", "BSSY", "BSYNC", "ERRBAR", "CCTL", "UBLK", "HGMMA")  # fmt: skip

Instruction = collections.namedtuple("Instruction", "text guarded labels")


def functions(listing):
    """{name: [Instruction]} of nvdisasm's text."""
    found, name, labels = {}, None, []
    for line in listing.splitlines():
        section, label = SECTION.match(line), LABEL.match(line)
        if section:
            name, labels = section.group(1) or section.group(2), []
        elif label:
            labels.append(label.group(1))
        else:
            code = INSTRUCTION.search(line)
            if code and name:
                text = code.group(1)
                guard = GUARD.match(text)
                found.setdefault(name, []).append(
                    Instruction(text[guard.end():] if guard else text, bool(guard), tuple(labels)))
                labels = []
    return found


def written(text):
    """Numbers of the registers that an instruction writes, but for those of HGMMA's D."""
    mnemonic, _, operands = text.partition(" ")
    if mnemonic.startswith(NO_RESULT):
        return set()
    register = None
    for operand in operands.split(", ")[:3]:  # predicates that it writes come first
        register = REGISTER.match(operand)
        if register or not re.match(r"^U?P(\d|T)$", operand):
            break
    if not register:
        return set()
    parts = mnemonic.split(".")
    wide = parts[0] == "CS2R" and "32" not in parts or "WIDE" in parts
    count = 4 if "128" in parts else 2 if wide or "64" in parts else 1
    first = int(register.group(1))
    return set(range(first, first + count))


def hazards(code):
    """A sentence for each write to a register of A that a wgmma may still read, on any way through
    the code. What is in flight: groups that have ended with gsb0, oldest first, and the open one."""
    places = {label: i for i, each in enumerate(code) for label in each.labels}
    found, seen, todo = set(), set(), [(0, ((),))]
    products = set()
    while todo:
        at, groups = todo.pop()
        if at >= len(code) or (at, groups) in seen:
            continue
        seen.add((at, groups))
        text, guarded, _ = code[at]
        mnemonic = text.split(" ")[0].split(".")[0]
        busy = {register for group in groups for register in group}
        for register in written(text) & busy:
            found.add(f"{text} writes R{register}, which a wgmma may still read")
        rs, wait = RS.match(text), WAIT.match(text)
        if rs:
            products.add(at)
            first = int(rs.group(1))
            own = tuple(range(first, first + A_REGISTERS))
            groups = groups[:-1] + (tuple(sorted(set(groups[-1] + own))),)
        if text.startswith("HGMMA") and "gsb0" in text:
            groups = groups + ((),)
            if len(groups) > MOST_GROUPS:  # a loop that never waits: the oldest as one
                groups = (tuple(sorted(set(groups[0] + groups[1]))),) + groups[2:]
        if wait:
            left = int(wait.group(1), 16)
            groups = (groups[:-1][-left:] if left else ()) + groups[-1:]
        if mnemonic in JUMPS:
            target = TARGET.search(text)
            if target:
                todo.append((places[target.group(1)], groups))
            if not guarded and "U" not in text.split(" ")[0].split("."):
                continue
        if mnemonic in ENDS and not guarded:
            continue
        todo.append((at + 1, groups))
    if len(products) != sum(bool(RS.match(each.text)) for each in code):
        found.add("some wgmma is not reached from the kernel's beginning")
    return sorted(found)


def disassembled(path):
    run = subprocess.run([find_tool("nvdisasm"), "--print-code", path], stdout=subprocess.PIPE,
                         text=True, check=True)  # fmt: skip
    return functions(run.stdout)


def listing(*lines):
    """As nvdisasm prints it."""
    body = (line if line.startswith(".L") else f"        /*{i:04x}*/   {line} ;"
            for i, line in enumerate(lines))  # fmt: skip
    return functions(".section .text.kernel\n" + "\n".join(body))["kernel"]


GROUP = ("HGMMA.64x8x16.F32.BF16 R24, R56, gdesc[UR8], RZ, !UPT",
         "HGMMA.64x8x16.F32.BF16 R24, R60, gdesc[UR8], R24, gsb0")
ALL = "WARPGROUP.DEPBAR.LE gsb0, 0x0"


class Hazards(unittest.TestCase):
    def test_a_write_before_the_wait_is_found(self):
        for write in ("HADD2.BF16_V2 R57, R1, R2", "LDS.128 R60, [R2]", "LOP3.LUT P0, R63, R1, R2, R3",
                      "IMAD.WIDE R58, R1, R2, R4", "CS2R R56, SRZ", "@!P0 MOV R59, R1"):
            self.assertEqual(len({text.split(" writes")[0] for text in hazards(
                listing(*GROUP, write, ALL, "EXIT"))}), 1, write)  # fmt: skip
            self.assertEqual(hazards(listing(*GROUP, ALL, write, "EXIT")), [])
        for harmless in ("HADD2.BF16_V2 R64, R56, R57", "STS [R56], R57", "ISETP.NE.AND P0, PT, R56, R57"):
            self.assertEqual(hazards(listing(*GROUP, harmless, ALL, "EXIT")), [], harmless)

    def test_a_wait_may_leave_the_latest_groups(self):
        other = [line.replace("R56", "R72").replace("R60", "R76") for line in GROUP]
        one = "WARPGROUP.DEPBAR.LE gsb0, 0x1"
        self.assertEqual(hazards(listing(*GROUP, *other, one, "MOV R56, R1", ALL, "EXIT")), [])
        self.assertEqual(len(hazards(listing(*GROUP, *other, one, "MOV R72, R1", ALL, "EXIT"))), 1)

    def test_every_way_through_a_loop_counts(self):
        loop = (".L_x_1:", "MOV R56, R1", *GROUP, "@P0 BRA `(.L_x_1)", ALL, "EXIT")
        self.assertEqual(len(hazards(listing(*loop))), 1)
        waits = (".L_x_1:", "MOV R56, R1", *GROUP, ALL, "@P0 BRA `(.L_x_1)", "EXIT")
        self.assertEqual(hazards(listing(*waits)), [])

    def test_no_kernel_has_one(self):
        if find_tool("nvdisasm") is None:
            self.skipTest("nvdisasm is neither on PATH nor in CUDA_HOME nor from pip")
        kernels = 0
        for path in sorted(glob.glob(os.path.join(ROOT, "build", "ptx", "*.cubin"))):
            with open(path.replace(".cubin", ".ptx"), encoding="utf-8") as file:
                if not re.search(r"wgmma\.mma_async[^;]*\}, \{", file.read()):
                    continue  # none has A in registers
            for name, code in disassembled(path).items():
                if not any(RS.match(each.text) for each in code):
                    continue
                self.assertEqual(hazards(code), [], name)
                kernels += 1
        self.assertGreater(kernels, 10)


if __name__ == "__main__":
    unittest.main()
