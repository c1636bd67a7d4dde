"""trace.py: stamps and the machine's events become the same timeline; it says what clock it is."""

import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).parent)]
import rewrite_ptx  # noqa: E402
import trace  # noqa: E402
from listing import listing  # noqa: E402

FULL, EMPTY, A = 0x8000, 0x8020, 0x400
MODEL = {"clock": "model", "device": "PTX machine", "kernel": "k<1>"}


def event(name, warp, begin, end, cta=0, **args):
    return trace.Event(name, cta, warp, begin, end, args)


def ring(cta=0):
    """Two laps of a ring of two slots: warp 0 copies, warps 4 to 7 multiply."""
    events = []
    for i in range(4):
        start, slot = 1000 * i, i % 2
        full, empty = FULL + 8 * slot, EMPTY + 8 * slot
        events += [
            event("wait mbarrier", 0, start, start + 90, cta, mbarrier=empty),
            event("arrive", 0, start + 95, start + 95, cta, mbarrier=full, tx=64),
            event("TMA load", 0, start + 100, start + 700, cta, smem=A + 512 * slot, mbarrier=full),
            event("wgmma", 4, start + 710, start + 960, cta),
        ]
        for warp in range(4, 8):
            events += [
                event("wait mbarrier", warp, start, start + 700, cta, mbarrier=full),
                event("wait wgmma", warp, start + 720, start + 960, cta, pending=0),
                event("arrive", warp, start + 970, start + 970, cta, mbarrier=empty),
            ]
    return events + [event("bar", warp, -20, -10, cta) for warp in range(8)]


class Drawing(unittest.TestCase):
    def test_rows_are_roles_and_slots(self):
        rows = trace.rows_to_draw(ring(), trace.Slots(ring()))
        self.assertEqual(
            [label for label, _ in rows],
            ["warp 0, producer", "warps 4–7, consumer", "its wgmma", "slot 0", "slot 1"],
        )
        self.assertEqual([len(placed) for _, placed in rows][2:], [4, 2, 2])

    def test_barriers_are_told_apart_by_what_arrives_there(self):
        slots = trace.Slots(ring())
        titles = {trace.title(e, slots) for e in ring()}
        self.assertLess({"wait full 0", "wait full 1", "wait empty 0", "wait empty 1"}, titles)
        self.assertLess({"arrive full 1", "arrive empty 1", "TMA load", "bar"}, titles)

    def test_overlapping_flights_share_no_layer(self):
        a, b, c = (event("TMA load", 0, t, t + 10) for t in (0, 5, 12))
        self.assertEqual(trace.layers([c, b, a]), [(a, 0), (b, 1), (c, 0)])

    def test_the_svg_is_well_formed_and_says_which_clock_it_is(self):
        measured = dict(MODEL, clock="gpu", device="H200")
        for head, words in ((MODEL, "illustrative model clock"),
                            (measured, "clock stamps on one H200")):  # fmt: skip
            text = trace.draw(ring(), head, 0)
            root = xml.etree.ElementTree.fromstring(text)
            self.assertIn(words, text)
            self.assertIn("prefers-color-scheme: dark", text)
            right = [float(r.get("x")) + float(r.get("width")) for r in root.iter()
                     if r.tag.endswith("rect")]  # fmt: skip
            self.assertLessEqual(max(right), trace.WIDTH)
        with self.assertRaisesRegex(trace.Problem, "CTA 7 is not in the trace"):
            trace.draw(ring(), MODEL, 7)

    def test_until_cuts_it_off(self):
        self.assertLess(len(trace.draw(ring(), MODEL, 0, 900)), len(trace.draw(ring(), MODEL, 0)))

    def test_the_written_file_nests_rows_and_can_be_drawn_again(self):
        events = ring() + ring(cta=1)
        document = trace.write_document(events, MODEL)
        rows = {}
        for e in document["traceEvents"]:
            if e["ph"] == "X":
                rows.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
        for row in rows.values():
            row.sort()
            for (_, end), (start, _) in zip(row, row[1:]):
                self.assertLessEqual(end, start + 1e-9)
        with tempfile.TemporaryDirectory() as folder:
            path, svg = Path(folder) / "t.json", Path(folder) / "t.svg"
            path.write_text(json.dumps(document), encoding="utf-8")
            trace.redraw([str(path), str(svg), "--cta", "1"])
            self.assertEqual(svg.read_text(encoding="utf-8"), trace.draw(events, MODEL, 1))

    def test_hexadecimal_addresses_and_instants_are_read(self):
        document = {"traceEvents": [
            {"ph": "i", "name": "arrive", "ts": 0.5, "pid": 1, "tid": 3,
             "args": {"mbarrier": "0x8000"}},
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "CTA 1"}},
        ]}  # fmt: skip
        self.assertEqual(
            trace.read_document(document), [event("arrive", 3, 500, 500, cta=1, mbarrier=FULL)])


SITES = [
    "wait begin|s.cu:1  wait|try_wait", "wait end|s.cu:1  wait|try_wait",
    "arrive|s.cu:2  arrive|mbarrier.arrive.expect_tx", "TMA load|s.cu:3  load|cp",
    "wgmma begin|s.cu:4  mul|fence", "wgmma commit|s.cu:4  mul|commit",
    "wgmma wait begin|s.cu:5  w|wait", "wgmma wait end|s.cu:5  w|wait",
]  # fmt: skip
(WAIT, WAITED, ARRIVE, LOAD, FENCE, COMMIT, DRAIN, DRAINED) = range(1, 9)


def stamped_ptx():
    return "".join(f"// trace site: {i + 1}|k|{site}\n" for i, site in enumerate(SITES))


START_NS = 1_790_000_000_000_000_001  # of %globaltimer, which counts from 1970


def dump(lists):
    """A trace buffer: {(cta, warp): [(cycles, site, argument)]}, at 2 cycles a nanosecond."""
    stride = rewrite_ptx.TRACE_RECORDS * rewrite_ptx.TRACE_RECORD_BYTES
    size = stride * rewrite_ptx.TRACE_WARPS * rewrite_ptx.TRACE_CTAS
    out = bytearray(size)
    for (cta, warp), records in lists.items():
        at = (cta * rewrite_ptx.TRACE_WARPS + warp) * stride
        for cycles, site, argument in records:
            trace.RECORD.pack_into(out, at, cycles, START_NS + cycles // 2, site, argument, 0, 0)
            at += trace.RECORD.size
    return bytes(out)


class Stamps(unittest.TestCase):
    def test_the_record_is_what_the_rewriter_stores(self):
        self.assertEqual(trace.RECORD.size, rewrite_ptx.TRACE_RECORD_BYTES)

    def test_stamps_become_intervals(self):
        events = trace.read_gpu(stamped_ptx(), dump({
            (0, 0): [(100, ARRIVE, FULL), (120, LOAD, A), (140, LOAD, A + 64)],
            (0, 4): [(0, WAIT, FULL), (2000, WAITED, FULL), (2020, FENCE, 0), (2060, COMMIT, 0),
                     (2080, FENCE, 0), (2100, COMMIT, 0), (2110, DRAIN, 1), (2800, DRAINED, 1),
                     (2810, DRAIN, 0), (3200, DRAINED, 0)],
        }))  # fmt: skip
        by_name = {}
        for e in events:
            by_name.setdefault(e.name, []).append((e.warp, round(e.begin), round(e.end)))
        self.assertEqual(by_name, {
            "arrive": [(0, 50, 50)],
            "TMA load": [(0, 60, 1000), (0, 70, 1000)],
            "wait mbarrier": [(4, 0, 1000)],
            "wait wgmma": [(4, 1055, 1400), (4, 1405, 1600)],
            "wgmma": [(4, 1010, 1400), (4, 1040, 1600)],
        })  # fmt: skip
        slots = trace.Slots(events)
        self.assertEqual({slots.of(e) for e in events if e.name == "TMA load"}, {("full", 0)})
        rows = [label for label, _ in trace.rows_to_draw(events, slots)]
        self.assertEqual(rows, ["warp 0, producer", "warp 4", "its wgmma", "slot 0"])

    def test_an_empty_buffer_is_refused(self):
        with self.assertRaisesRegex(trace.Problem, "no clock stamps"):
            trace.read_gpu(stamped_ptx(), dump({}))


class CommandLine(unittest.TestCase):
    def test_a_failed_run_is_reported_not_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "stage-01"
            text = listing([{"stage": 1, "variant": "v", "result": 1, "kernel": "k"}])
            program.write_text(
                "#!/bin/sh\n[ $1 = --list ] && printf '%s' '" + text + "' && exit\n"
                "echo broken; exit 3\n", encoding="utf-8")
            program.chmod(0o755)
            ended = subprocess.run(
                [sys.executable, str(ROOT / "scripts" / "trace.py"), str(program), "x.ptx",
                 str(Path(folder) / "out")],
                env={"LADDER_DEVICE": "machine", "PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(ended.returncode, 1)
            self.assertIn("ended with exit code 3:\nbroken", ended.stderr)


if __name__ == "__main__":
    unittest.main()
