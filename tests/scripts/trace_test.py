"""trace.py: stamps and the machine's events become the same timeline; it says what clock it is."""

import json
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(Path(__file__).parent)]
from lib import stamped, stamps, timeline, timeline_svg  # noqa: E402
from lib.cli import Problem  # noqa: E402
import trace  # noqa: E402
from listing import listing  # noqa: E402

FULL, EMPTY, A = 0x8000, 0x8020, 0x400
MODEL = {"clock": "model", "device": "PTX machine", "kernel": "k<1>"}


def event(name, warp, begin, end, cta=0, **args):
    return timeline.Event(name, cta, warp, begin, end, args)


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
        rows = timeline_svg.rows_to_draw(ring(), ring(), timeline.Slots(ring()))
        self.assertEqual(
            [label for label, _ in rows],
            ["warp 0, producer", "warps 4–7, consumer", "its wgmma", "slot 0", "slot 1"],
        )
        self.assertEqual([len(placed) for _, placed in rows][2:], [4, 2, 2])

    def test_barriers_are_told_apart_by_what_arrives_there(self):
        slots = timeline.Slots(ring())
        titles = {timeline.title(e, slots) for e in ring()}
        self.assertLess({"wait full 0", "wait full 1", "wait empty 0", "wait empty 1"}, titles)
        self.assertLess({"arrive full 1", "arrive empty 1", "TMA load", "bar"}, titles)

    def test_overlapping_flights_share_no_layer(self):
        a, b, c = (event("TMA load", 0, t, t + 10) for t in (0, 5, 12))
        self.assertEqual(timeline_svg.layers([c, b, a]), [(a, 0), (b, 1), (c, 0)])

    def test_the_svg_is_well_formed_and_says_which_clock_it_is(self):
        measured = dict(MODEL, clock="gpu", device="H200")
        for head, words in ((MODEL, "illustrative model clock"),
                            (measured, "SM clocks, stamps on one H200")):  # fmt: skip
            drawing = timeline_svg.draw(ring(), head, 0)
            self.assertEqual(drawing.problems(), [])
            text = drawing.svg()
            root = xml.etree.ElementTree.fromstring(text)
            self.assertIn(words, text)
            self.assertIn("prefers-color-scheme: dark", text)
            right = [float(r.get("x")) + float(r.get("width")) for r in root.iter()
                     if r.tag.endswith("rect")]  # fmt: skip
            self.assertLessEqual(max(right), timeline_svg.WIDTH)
        with self.assertRaisesRegex(Problem, "CTA 7 is not in the trace"):
            timeline_svg.draw(ring(), MODEL, 7)

    def test_a_piece_of_it_has_the_same_rows(self):
        whole, piece = (timeline_svg.draw(ring(), MODEL, 0, *span) for span in ((), (900, 1000)))
        self.assertLess(len(piece.svg()), len(whole.svg()))
        self.assertEqual(piece.height, whole.height)
        self.assertIn(">1,000<", piece.svg())
        self.assertNotIn(">1,500<", piece.svg())

    def test_the_written_file_nests_rows_and_can_be_drawn_again(self):
        events = ring() + ring(cta=1)
        document = timeline.write_document(events, MODEL)
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
            self.assertEqual(svg.read_text(encoding="utf-8"), timeline_svg.draw(events, MODEL, 1).svg())

    def test_what_is_no_trace_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path, out = str(Path(folder, "t.json")), str(Path(folder, "out"))
            for text in ("{", "{}", "[]", '{"traceEvents": [3], "otherData": {}}'):
                Path(path).write_text(text, encoding="utf-8")
                for refuse in (lambda: trace.redraw([path, out]), lambda: trace.keep(path, out)):
                    with self.assertRaisesRegex(Problem, "t.json is no trace"):
                        refuse()
            for option, near in (("--span", trace.PUBLISHED_SPAN), ("--start", 0), ("--cta", 0)):
                for text in ("-1", "nan", "inf", "1e3", "1_0", "٤", "9" * 5000):
                    with self.assertRaisesRegex(Problem, f"{option} is '{text}' but .* try {near}"):
                        trace.redraw([path, out, f"{option}={text}"])
            with self.assertRaisesRegex(Problem, "--span is '0' but must be a whole number from 1"):
                trace.redraw([path, out, "--span=0"])
            self.assertFalse(Path(out).exists())

    def test_hexadecimal_addresses_and_instants_are_read(self):
        document = {"traceEvents": [
            {"ph": "i", "name": "arrive", "ts": 0.5, "pid": 1, "tid": 3,
             "args": {"mbarrier": "0x8000"}},
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "CTA 1"}},
        ]}  # fmt: skip
        self.assertEqual(
            timeline.read_document(document), [event("arrive", 3, 500, 500, cta=1, mbarrier=FULL)])


SITES = [
    "wait end|512|s.cu:1  wait", "TMA load||s.cu:3  load", "wgmma wait end||s.cu:5  w",
    "epilogue end||s.cu:6  store", "bar end||s.cu:7  bar",
]  # fmt: skip
(WAITED, LOAD, DRAINED, STORED, BAR) = range(1, 6)
FIRST = 8  # CTA


def stamped_ptx():
    return f"// trace first CTA: {FIRST}\n" + "".join(
        f"// trace site: {i + 1}|k|{site}\n" for i, site in enumerate(SITES)
    )  # fmt: skip


START_NS = 1_790_000_000_000_000_001  # of %globaltimer, which counts from 1970
CLOCK = 2**33 - 50  # at entry: the lower half of the counter turns over soon


def dump(lists, begins=(0, 400)):
    """A trace buffer: {(cta, warp): [(clocks since entry, site, argument)]}, at 2 clocks a nanosecond;
    begins: of each CTA, in clocks."""
    out = bytearray(stamps.TRACE_BYTES)
    for (cta, warp), records in lists.items():
        at = (cta * stamps.TRACE_WARPS + warp) * stamps.TRACE_LIST_BYTES
        entry, length = START_NS + begins[cta] // 2, 10_000
        clock = CLOCK + 12345 * cta  # of another SM
        stamped.HEAD.pack_into(out, at, clock, entry, clock + length, entry + length // 2, len(records), 0)
        at += stamps.TRACE_HEAD_BYTES
        for clocks, site, argument in records:
            word = site << stamps.TRACE_ARGUMENT_BITS | argument
            stamped.RECORD.pack_into(out, at, (clock + clocks) % 2**32, word)
            at += stamped.RECORD.size
    return bytes(out)


def by_name(events):
    found = {}
    for e in events:
        found.setdefault(e.name, []).append((e.warp, round(e.begin), round(e.end)))
    return found


class Stamps(unittest.TestCase):
    def test_the_records_are_what_the_rewriter_stores(self):
        self.assertEqual(stamped.RECORD.size, stamps.TRACE_RECORD_BYTES)
        self.assertEqual(stamped.HEAD.size, stamps.TRACE_HEAD_BYTES)

    def test_stamps_become_intervals(self):
        events, mhz = stamped.read_gpu(stamped_ptx(), dump({
            (0, 0): [(100, LOAD, FULL)],
            # The second is written late, as records that are held in registers are.
            (0, 4): [(1500, DRAINED, 0), (1000, WAITED, FULL), (1600, WAITED, FULL),
                     (2200, DRAINED, 0), (3000, STORED, 0)],
        }))  # fmt: skip
        self.assertAlmostEqual(mhz, 2000)
        self.assertEqual({e.cta for e in events}, {FIRST})
        self.assertEqual(by_name(events), {
            "TMA load": [(0, 100, 1000)],
            "wait mbarrier": [(4, 0, 1000), (4, 1500, 1600)],
            "wait wgmma": [(4, 1000, 1500), (4, 1600, 2200)],
            "wgmma": [(4, 1000, 1500), (4, 1600, 2200)],
            "epilogue": [(4, 2200, 3000)],
        })  # fmt: skip
        slots = timeline.Slots(events)
        self.assertEqual({slots.of(e) for e in events if e.name == "TMA load"}, {("full", 0)})
        rows = [label for label, _ in timeline_svg.rows_to_draw(events, events, slots)]
        self.assertEqual(rows, ["warp 0, producer", "warps 4–7, consumer", "its wgmma", "slot 0"])

    def test_a_group_that_may_still_run_ends_later(self):
        events, _ = stamped.read_gpu(stamped_ptx(), dump({
            (0, 0): [(100, WAITED, FULL), (600, DRAINED, 1), (700, WAITED, FULL), (1300, DRAINED, 1),
                     (1900, DRAINED, 0)],
        }))  # fmt: skip
        self.assertEqual(by_name(events)["wgmma"], [(0, 100, 1300), (0, 700, 1900)])

    def test_a_barrier_ends_when_its_last_warp_has_come(self):
        events, _ = stamped.read_gpu(stamped_ptx(), dump({
            (0, 0): [(100, DRAINED, 0), (110, BAR, 0), (900, WAITED, FULL)],
            (0, 4): [(700, DRAINED, 0), (710, BAR, 0), (720, WAITED, FULL)],
        }))  # fmt: skip
        self.assertEqual(by_name(events)["bar"], [(0, 100, 700), (4, 700, 710)])
        self.assertEqual(by_name(events)["wait mbarrier"], [(0, 700, 900), (4, 710, 720)])

    def test_who_multiplied_nothing_had_no_epilogue(self):
        events, _ = stamped.read_gpu(stamped_ptx(), dump({(0, 0): [(5, BAR, 0), (9, STORED, 0)]}))
        self.assertEqual(by_name(events), {"bar": [(0, 0, 5)]})

    def test_ctas_of_two_sms_stand_in_one_time(self):
        events, _ = stamped.read_gpu(stamped_ptx(), dump({
            (0, 0): [(10, BAR, 0)], (1, 0): [(10, BAR, 0)]}))  # fmt: skip
        self.assertEqual([(e.cta, round(e.end)) for e in events], [(FIRST, 10), (FIRST + 1, 410)])

    def test_an_address_with_its_cta_s_rank_leaves_the_site_readable(self):
        rank = 1 << 24
        events, _ = stamped.read_gpu(stamped_ptx(), dump({(0, 0): [(10, LOAD, FULL + rank)]}))
        self.assertEqual([(e.name, e.args["mbarrier"]) for e in events], [("TMA load", FULL)])

    def test_an_empty_buffer_is_refused(self):
        with self.assertRaisesRegex(Problem, "no clock stamps"):
            stamped.read_gpu(stamped_ptx(), dump({}))


def steady(laps=20, cta=0):
    """Two consumers in turn, each group 512 clocks at the tensor cores' peak, then an epilogue."""
    events = []
    for i in range(laps):
        for consumer, start in ((4, 1100 * i), (8, 1100 * i + 550)):
            events.append(event("wgmma", consumer, start, start + 560, cta, clocks=512))
            events.append(event("wait wgmma", consumer, start, start + 560, cta, pending=0))
    for consumer in (4, 8):
        events.append(event("epilogue", consumer, laps * 1100, laps * 1100 + 3000, cta))
    return events


class Busy(unittest.TestCase):
    def test_how_long_some_wgmma_runs_and_how_long_its_products_take(self):
        span, under, need = timeline.busy(steady(), 0)
        self.assertEqual((span, under, need), (20 * 1100 + 3000, 19 * 1100 + 1110, 40 * 512))
        self.assertEqual(timeline.busy(ring(), 0)[2], 0)  # the machine's trace does not say
        self.assertEqual(timeline.busy([event("bar", 0, 0, 5)], 0), (0, 0, 0))

    def test_products_at_their_peak_do_not_overlap_and_end_with_their_group(self):
        times = timeline.at_peak(steady())
        self.assertEqual(sum(end - begin for begin, end in times), 40 * 512)
        self.assertEqual(times[-1][1], 19 * 1100 + 1110)
        for (_, end), (begin, _) in zip(times, times[1:]):
            self.assertLessEqual(end, begin)

    def test_the_piece_shown_is_the_middle_one_by_how_busy_it_is(self):
        span, events = 3 * timeline_svg.PUBLISHED_SPAN, []
        for tile, gap in enumerate((2000, 6000, 4000)):  # until the next tile's first group
            begin = tile * span
            events += [event("wgmma", 4, t, t + 500, clocks=500)
                       for t in range(begin + gap, begin + span - 1000, 500)]  # fmt: skip
            events.append(event("epilogue", 4, begin + span - 1000, begin + span + 500))
        events.append(event("bar", 4, 4 * span, 4 * span))
        # Behind the first two tiles are the gaps of 6000 and 4000, behind the last nothing at all.
        self.assertEqual(timeline_svg.window(events, 0), span - 1000 - timeline_svg.BEFORE_EPILOGUE)
        with self.assertRaisesRegex(Problem, "CTA 3 has no epilogue"):
            timeline_svg.window([event("bar", 0, 0, 9, cta=3)], 3)

    def test_what_is_kept_is_drawn_alike(self):
        head = {"clock": "gpu", "device": "H200", "kernel": "k", "stage": 7, "variant": "v", "m": 1,
                "n": 1, "k": 1, "what": "w", "us": 10.5, "plain_us": 10.0, **trace.gpu_head(steady())}  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path, results = Path(folder) / "t.json", Path(folder) / "r.json"
            path.write_text(json.dumps(timeline.write_document(steady(), head)), encoding="utf-8")
            for _ in range(2):
                with redirect_stdout(StringIO()):
                    trace.keep(str(path), str(results))
            [row] = json.loads(results.read_text(encoding="utf-8"))["rows"]
            self.assertEqual(row["start"], 20 * 1100 + 3000 - timeline_svg.PUBLISHED_SPAN)
            text = timeline_svg.draw_row(row).svg()
            whole = timeline_svg.draw(steady(), head, 0, row["start"], timeline_svg.PUBLISHED_SPAN).svg()
            self.assertEqual(text, whole)
            self.assertIn("need 82 % of them", text)
            self.assertIn("With stamps a launch took 10.5 µs, without 10.0 µs.", text)
            for broken in ("", "{", '{"rows": 3}'):
                results.write_text(broken, encoding="utf-8")
                with self.assertRaisesRegex(Problem, "r.json is not a file of timelines; remove it"):
                    trace.keep(str(path), str(results))
                self.assertEqual(results.read_text(encoding="utf-8"), broken)
            path.write_text(json.dumps(timeline.write_document(ring(), MODEL)), encoding="utf-8")
            with self.assertRaisesRegex(Problem, "only what a GPU did is kept"):
                trace.keep(str(path), str(results))

    def test_each_storer_has_a_row_and_is_one_where_it_stores_nothing(self):
        events = steady()
        for warp, begin in ((1, 0), (2, 20 * 1100)):  # one before the piece, one in it
            events.append(event("wait mbarrier", warp, begin, begin + 24000, mbarrier=64))
            events.append(event("TMA store", warp, begin, begin + 90, smem=A))
        labels = ["warp 1, storer", "warp 2, storer", "warps 4–7", "warps 8–11"]
        self.assertEqual([label for label, _ in timeline_svg.roles(events)], labels)
        row = timeline_svg.cut(events, dict(MODEL, clock="model", device="machine"))
        text = timeline_svg.draw_row(row).svg()
        for label in [*labels, "stores"]:
            self.assertIn(f">{label}<", text)

    def test_which_ctas_are_recorded(self):
        tile = {"persistent": False, "bm": 128, "bn": 256}
        self.assertEqual(trace.first_cta(tile, {"m": 8192, "n": 8192}), 1024)
        self.assertEqual(trace.first_cta(tile, {"m": 130, "n": 256}), 0)
        self.assertEqual(trace.first_cta(dict(tile, persistent=True), {"m": 8192, "n": 8192}), 0)

    def test_the_time_of_a_launch_is_read_from_the_table(self):
        table = (
            "NVIDIA H200, 132 SMs\n\n"
            "variant  knob         registers  smem bytes      us  TFLOPS  host us  check\n"
            "-------  ----  ----------------  ----------  ------  ------  -------  -----\n"
            "v *      fast  168 -> 40/232/56      197632  1612.5   681.9      7.1  ok, within rounding\n"
        )
        self.assertEqual(trace.microseconds(table), 1612.5)
        self.assertIsNone(trace.microseconds("variant  knob  check\n-------  ----  -----\nv  fast  ok\n"))


class CommandLine(unittest.TestCase):
    def test_another_device_than_gpu_or_machine_is_refused(self):
        for wish in ("nope", "GPU"):
            with mock.patch.dict("os.environ", LADDER_DEVICE=wish), \
                    self.assertRaisesRegex(Problem, f"LADDER_DEVICE is '{wish}': it must be gpu"):
                trace.has_gpu()

    def test_a_failed_run_is_reported_not_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "stage-01"
            text = listing([{"stage": 1, "variant": "v", "result": 1, "kernel": "k"}])
            program.write_text(
                "#!/bin/sh\n[ $1 = --list ] && printf '%s' '" + text + "' && exit\n"
                "echo banner; echo 'v  FAIL: 3 wrong'; echo broken >&2; exit 4\n", encoding="utf-8")
            program.chmod(0o755)
            ended = subprocess.run(
                [sys.executable, str(ROOT / "scripts" / "trace.py"), str(program), "x.ptx",
                 str(Path(folder) / "out")],
                env={"LADDER_DEVICE": "machine", "PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
            self.assertEqual(ended.returncode, 4)
            self.assertEqual(ended.stderr, "trace: v  FAIL: 3 wrong\nbroken\n")

    def test_options_that_the_program_refuses_are_its_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "stage-01"
            program.write_text("#!/bin/sh\n[ \"$*\" = '--list --k=abc' ] && echo 'k is abc.' >&2; exit 2\n",
                               encoding="utf-8")  # fmt: skip
            program.chmod(0o755)
            ended = subprocess.run(
                [sys.executable, str(ROOT / "scripts" / "trace.py"), str(program), "x.ptx",
                 str(Path(folder) / "out"), "--k=abc"],
                env={"LADDER_DEVICE": "machine", "PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
            self.assertEqual((ended.returncode, ended.stdout), (2, ""))
            self.assertEqual(ended.stderr, "trace: k is abc.\n")


if __name__ == "__main__":
    unittest.main()
