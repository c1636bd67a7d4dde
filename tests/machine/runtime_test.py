"""What programs see of the PTX machine's runtime: names, refusals, answers to wrong calls, ends."""

import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import mutations  # noqa: E402

MACHINE = ROOT / "build" / "machine"
PROGRAMS = ROOT / "build" / "tests" / "programs"
RUN = ROOT / "build" / "ptx-machine"


def clean_environment():
    """Without settings that the caller's environment may have."""
    settings = ("MACHINE_", "LADDER_", "REPLACE_PTX")
    return {k: v for k, v in os.environ.items() if not k.startswith(settings)}


def run(*command, **variables):
    return subprocess.run(
        [str(word) for word in command], env={**clean_environment(), **variables}, cwd=ROOT,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        check=False, timeout=600,
    )  # fmt: skip


def on_machine(program, *arguments, **variables):
    return run(RUN, program, *arguments, **variables)


def exported(path):
    """Names that a shared library exports, with their version node, if they have one."""
    text = subprocess.run(
        ["nm", "-D", "--defined-only", str(path)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return {line.split()[-1].replace("@@", "@") for line in text.splitlines()}


def toolkit(pattern):
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    for folder in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
        found = sorted((home / folder).glob(pattern))
        if found:
            return found[0]
    raise unittest.SkipTest(f"the CUDA toolkit in {home} has no {pattern}")


class Names(unittest.TestCase):
    def test_every_name_of_the_toolkits_runtime_is_defined_with_its_version(self):
        theirs = toolkit("libcudart.so.??")
        mine = MACHINE / theirs.name
        missing = exported(theirs) - exported(mine)
        self.assertEqual(missing, set())

    def test_every_name_of_the_toolkits_driver_is_defined(self):
        # cudbg...: the debugger's, which are no calls of a program.
        theirs = {n for n in exported(toolkit("stubs/libcuda.so")) if re.match("cu[A-Z]", n)}
        self.assertGreater(len(theirs), 100)
        mine = {name.split("@")[0] for name in exported(next(MACHINE.glob("libcudart.so.*")))}
        self.assertEqual(theirs - mine, set())

    def test_an_entry_point_is_of_the_version_that_the_header_gives_its_name(self):
        code = (
            "import ctypes; "
            "library = ctypes.CDLL('libcuda.so.1'); "
            "found = ctypes.c_void_p(); "
            "address = lambda call: ctypes.cast(call, ctypes.c_void_p).value; "
            "ask = lambda name: library.cuGetProcAddress_v2("
            "name, ctypes.byref(found), 13000, ctypes.c_uint64(0), None); "
            "print(ask(b'cuMemAlloc'), found.value == address(library.cuMemAlloc_v2)); "
            "print(ask(b'cuMemcpyHtoD'), found.value == address(library.cuMemcpyHtoD_v2))"
        )
        ended = on_machine(sys.executable, "-c", code)
        self.assertEqual(ended.stdout, "0 True\n0 True\n", ended.stderr)

    def test_the_driver_is_there_also_where_the_toolkits_runtime_is_loaded(self):
        code = (
            "import ctypes, sys; "
            "ctypes.CDLL(sys.argv[1]); "
            "print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
        )
        ended = on_machine(sys.executable, "-c", code, toolkit("libcudart.so.??"))
        self.assertEqual(ended.stdout, "0\n", ended.stderr)

    def test_the_drivers_old_calls_that_pycuda_makes(self):
        code = (
            "import ctypes; "
            "library = ctypes.CDLL('libcuda.so.1'); "
            "made, current = ctypes.c_void_p(), ctypes.c_void_p(1); "
            "library.cuInit(0); "
            "library.cuCtxCreate_v2(ctypes.byref(made), 0, 0); "
            "print(library.cuFuncSetBlockShape(None, 32, 1, 1), library.cuCtxDetach(made)); "
            "library.cuCtxGetCurrent(ctypes.byref(current)); "
            "print(current.value)"
        )
        ended = on_machine(sys.executable, "-c", code)
        self.assertEqual((ended.stdout, ended.stderr), ("0 0\nNone\n", ""))

    def test_what_is_not_supported_is_refused_by_name_once(self):
        code = (
            "import ctypes, glob; "
            "library = ctypes.CDLL('libcuda.so.1'); "
            "print(library.cuTensorMapEncodeIm2col(), library.cuTensorMapEncodeIm2col())"
        )
        ended = on_machine(sys.executable, "-c", code)
        self.assertEqual(ended.stdout, "801 801\n", ended.stderr)
        self.assertEqual(
            ended.stderr, "cuTensorMapEncodeIm2col is not supported by the PTX machine.\n"
        )

    def test_an_empty_text_is_no_library(self):
        code = (
            "import ctypes; "
            "library = ctypes.CDLL('libcuda.so.1'); "
            "library.cuInit(0); "
            "made = ctypes.c_void_p(); "
            "load = library.cuLibraryLoadData; "
            "print(load(ctypes.byref(made), b'', None, None, 0, None, None, 0))"
        )
        ended = on_machine(sys.executable, "-c", code)
        self.assertEqual(ended.stdout, "200\n", ended.stderr)  # CUDA_ERROR_INVALID_IMAGE
        self.assertEqual(ended.stderr, "PTX line 1: PTX begins with .version, found ''\n")

    def test_a_copy_onto_its_own_source_is_refused(self):
        code = (
            "import ctypes; "
            "library = ctypes.CDLL('libcuda.so.1'); "
            "base, pitch = ctypes.c_void_p(), ctypes.c_size_t; "
            "library.cudaMalloc(ctypes.byref(base), pitch(400)); "
            "at = lambda offset: ctypes.c_void_p(base.value + offset); "
            "copy = lambda to, bytes: library.cudaMemcpy(at(to), at(0), pitch(bytes), 3); "
            "rows = lambda to: library.cudaMemcpy2D("
            "at(to), pitch(40), at(0), pitch(40), pitch(20), pitch(9), 3); "
            "print(copy(4, 8), copy(4, 4), copy(0, 8), rows(19), rows(20), rows(79), rows(0))"
        )
        ended = on_machine(sys.executable, "-c", code)
        self.assertEqual(ended.stdout, "1 0 0 1 0 1 0\n", ended.stderr)
        self.assertRegex(ended.stderr, "cudaMemcpy: the source 0x[0-9a-f]+ and the .* overlap")
        self.assertEqual(len(ended.stderr.splitlines()), 3)

    def test_a_runtime_that_a_library_was_linked_with_is_told(self):
        code = "import ctypes; ctypes.CDLL('libcuda.so.1').cuGetExportTable(None, None)"
        ended = on_machine(sys.executable, "-c", code)
        self.assertIn("a CUDA runtime that is linked statically", ended.stderr)


class Runner(unittest.TestCase):
    def refused(self, *command):
        ended = run(RUN, *command)
        self.assertEqual(ended.returncode, 2, ended.stderr)
        return ended.stderr

    def test_it_says_how_it_is_used(self):
        self.assertIn("Usage: ptx-machine [OPTIONS] PROGRAM", self.refused())

    def test_a_program_that_is_not_there_is_named(self):
        self.assertIn("there is no program ./nothing", self.refused("./nothing"))

    def test_a_static_runtime_is_named_with_the_flag(self):
        self.assertIn("--cudart shared", self.refused(PROGRAMS / "hello_static"))

    def test_an_rpath_is_named_with_the_flag(self):
        self.assertIn("--enable-new-dtags", self.refused(PROGRAMS / "hello_rpath"))

    def test_the_exit_code_is_the_programs(self):
        self.assertEqual(on_machine("sh", "-c", "exit 7").returncode, 7)
        ended = on_machine(PROGRAMS / "hello")
        self.assertEqual((ended.returncode, ended.stdout), (0, "cudaSuccess 42\n"), ended.stderr)

    def test_code_without_ptx_names_the_flag_at_the_launch(self):
        for program, flag in (
            ("hello_compressed", "--no-compress"), ("hello_no_ptx", "code=[sm_90a,compute_90a]"),
        ):  # fmt: skip
            ended = on_machine(PROGRAMS / program)
            self.assertEqual(ended.returncode, 1)
            self.assertEqual(ended.stdout, "cudaErrorNoKernelImageForDevice 0\n")
            self.assertIn("kernel write cannot run", ended.stderr)
            self.assertIn(flag, ended.stderr)
            self.assertEqual(len(ended.stderr.splitlines()), 1)

    def test_files_that_nvlink_has_linked_run_as_one(self):
        ended = on_machine(PROGRAMS / "linked")
        self.assertEqual((ended.returncode, ended.stdout), (0, "one 5, two 7: 16 8\n"), ended.stderr)
        ended = on_machine(PROGRAMS / "linked", "race")
        self.assertRegex(ended.stderr, r"writes it by st.shared\S*\n +at \S*linked_to.cu:20\n")

    def test_a_file_that_nvlink_has_left_out_names_its_architecture_at_the_launch(self):
        ended = on_machine(PROGRAMS / "left_out")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stdout, "cudaErrorNoKernelImageForDevice 0\n")
        said = r"kernel write cannot run: its PTX is for sm_100a, not for sm_90a; build it with .*\.$"
        self.assertRegex(ended.stderr, said)
        self.assertEqual(len(ended.stderr.splitlines()), 1)

    def test_a_setting_that_makes_no_sense_is_2(self):
        for program in ("errors", "hello"):
            ended = on_machine(PROGRAMS / program, MACHINE_SMS="many")
            self.assertEqual(ended.returncode, 2)
            self.assertIn("MACHINE_SMS is 'many'", ended.stderr)

    def test_a_setting_that_there_is_not_is_2(self):
        for name, value, said in (
            ("MACHINE_POLITE", "1", "MACHINE_POLITE is no setting"),
            ("MACHINE_REPORTS", "some", "must be first or all"),
            ("MACHINE_IGNORE", "proxy-war,nothing", "no rule 'nothing'; there are shared-race"),
        ):  # fmt: skip
            for program in ("errors", "hello"):  # whose first calls differ
                ended = on_machine(PROGRAMS / program, **{name: value})
                self.assertEqual(ended.returncode, 2)
                self.assertIn(said, ended.stderr)
                self.assertEqual(len(ended.stderr.splitlines()), 1)


class Calls(unittest.TestCase):
    def test_what_should_work_works(self):
        ended = on_machine(PROGRAMS / "calls")
        self.assertEqual((ended.returncode, ended.stdout), (0, "ok\n"), ended.stderr)

    def test_the_drivers_calls_work(self):
        ended = on_machine(PROGRAMS / "driver")
        self.assertEqual((ended.returncode, ended.stdout), (0, "ok\n"), ended.stderr)
        for said in ("cuMemFree: 0x[0-9a-f]+ has been freed before",
                     "cuMemFreeHost: 0x[0-9a-f]+ has been freed before",
                     "cuMemFree: 0x[0-9a-f]+ is memory of cudaHostAlloc, which cudaFreeHost frees"):
            self.assertRegex(ended.stderr, said)

    def test_graphs_are_taken_apart_and_have_memory(self):
        ended = on_machine(PROGRAMS / "graphs")
        self.assertEqual((ended.returncode, ended.stdout), (0, "ok\n"), ended.stderr)
        self.assertIn("a node for cudaGraphAddMemAllocNode allocates, has not been freed since",
                      ended.stderr)
        self.assertIn("a node of type cudaGraphNodeTypeConditional; kernels, copies", ended.stderr)
        for how, said in (("freed", "have been freed: 4000 bytes from a graph's cudaMallocAsync"),
                          ("unwritten", "of a graph's cudaMallocAsync), which nothing has written")):
            ended = on_machine(PROGRAMS / "graphs", how)
            self.assertEqual(ended.returncode, 1, how)
            self.assertIn(said, ended.stderr)

    def test_functions_are_called_by_pointer_and_by_themselves(self):
        ended = on_machine(PROGRAMS / "functions")
        self.assertEqual((ended.returncode, ended.stdout), (0, "ok\n"), ended.stderr)

    def test_printf_takes_texts_of_all_kinds_of_memory(self):
        ended = on_machine(PROGRAMS / "functions", SAY="1")
        self.assertEqual((ended.returncode, ended.stdout), (0, "bcd cta all -1 0.500000 %\nok\n"),
                         ended.stderr)

    def test_a_kernels_second_free_is_named(self):
        ended = on_machine(PROGRAMS / "functions", FREE_AGAIN="1")
        self.assertEqual((ended.returncode, ended.stdout), (1, "1 wrong\n"), ended.stderr)
        self.assertRegex(ended.stderr, "Fault in kernel free_again: free: 0x[0-9a-f]+ has been freed")

    def test_wrong_calls_have_the_answers_of_a_gpu(self):
        expected = (Path(__file__).parent / "programs" / "errors.txt").read_text("utf-8")
        ended = on_machine(PROGRAMS / "errors")
        self.assertEqual(ended.stdout.splitlines(), expected.splitlines(), ended.stderr)
        self.assertIn("PTX machine: launch of ", ended.stderr)
        self.assertNotIn("_Z", ended.stderr)  # kernels have the source's names

    def test_a_failed_kernel_spoils_the_process_even_if_it_looks_away(self):
        ended = on_machine(PROGRAMS / "out_of_bounds")
        self.assertEqual(ended.returncode, 1)
        errors = re.findall(r"cuda\w+", ended.stdout)
        self.assertEqual(errors, ["cudaErrorIllegalAddress"] * 3)
        self.assertIn("cudaMalloc", ended.stderr)
        self.assertEqual(ended.stderr.count("out_of_bounds.cu"), 1, ended.stderr)

    def test_kernels_end_with_the_errors_of_a_gpu(self):
        for what, error, rule in (
            ("bounds", "cudaErrorIllegalAddress", "out-of-bounds"),
            ("shared", "cudaErrorIllegalAddress", "out-of-bounds"),
            ("misaligned", "cudaErrorMisalignedAddress", "misaligned"),
            ("trap", "cudaErrorLaunchFailure", "trap"),
            ("assert", "cudaErrorAssert", "assert"),
            ("races", "cudaErrorLaunchFailure", "shared-race"),
        ):  # fmt: skip
            ended = on_machine(PROGRAMS / "out_of_bounds", what)
            self.assertEqual(ended.returncode, 1, what)
            self.assertEqual(re.findall(r"cuda\w+", ended.stdout), [error] * 3, ended.stderr)
            self.assertEqual(ended.stderr.count(f"  Rule: {rule}"), 1, ended.stderr)

    def test_a_shared_variable_has_its_own_end(self):
        ended = on_machine(PROGRAMS / "out_of_bounds", "shared")
        self.assertIn("0 bytes behind the end of fill_shared(int*)::values, which has 128 bytes",
                      ended.stderr)

    def test_a_report_quotes_the_source(self):
        ended = on_machine(PROGRAMS / "out_of_bounds", "races")
        self.assertIn("second[threadIdx.x] = first[63 - threadIdx.x];", ended.stderr)

    def test_all_reports_of_a_run_are_listed_and_it_goes_on(self):
        ended = on_machine(PROGRAMS / "out_of_bounds", "races", MACHINE_REPORTS="all")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(re.findall(r"cuda\w+", ended.stdout), ["cudaSuccess"] * 3)
        self.assertEqual(ended.stderr.count("Race in kernel races"), 2, ended.stderr)
        ended = on_machine(PROGRAMS / "out_of_bounds", "races", MACHINE_IGNORE="shared-race")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_new_memory_is_poison(self):
        ended = on_machine(PROGRAMS / "out_of_bounds", "never")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("of cudaMalloc), which nothing has written", ended.stderr)
        ended = on_machine(PROGRAMS / "out_of_bounds", "never", MACHINE_POISON="0")
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_a_kernel_that_cannot_run_is_refused_at_its_launch_and_others_run(self):
        ended = on_machine(PROGRAMS / "out_of_bounds", "refused")
        self.assertEqual(ended.returncode, 1)
        errors = re.findall(r"cuda\w+", ended.stdout)
        self.assertEqual(errors, ["cudaErrorNotSupported"] + ["cudaSuccess"] * 3)
        self.assertRegex(
            ended.stderr,
            r"^PTX machine: kernel strange cannot run: 'vadd\S*' at \S*out_of_bounds.cu:34 ")

    def test_there_is_no_more_memory_than_is_said(self):
        ended = on_machine(PROGRAMS / "out_of_bounds", "alloc")
        errors = re.findall(r"cuda\w+", ended.stdout)[:2]
        self.assertEqual(errors, ["cudaErrorMemoryAllocation", "cudaSuccess"])

    def test_a_limit_on_addresses_leaves_gaps_and_room_for_the_host(self):
        limited = f"ulimit -v 3000000; exec {RUN} {PROGRAMS / 'out_of_bounds'} limited"
        ended = on_machine("sh", "-c", limited, MACHINE_THREADS="1")
        self.assertEqual(ended.stdout.splitlines()[0], "memory for the host", ended.stderr)
        self.assertIn("are in no allocation; they begin 3696 bytes behind the end", ended.stderr)

    def test_a_dependent_launch_must_wait_for_the_kernel_before(self):
        for captured in "01":
            for waits, allowed in ("11", "10", "00"):
                ended = on_machine(PROGRAMS / "dependent", waits, allowed, captured, "1")
                self.assertEqual(ended.stdout, "cudaSuccess 3\n", ended.stderr)
                self.assertEqual(ended.returncode, 0)
            # The kernel before lets nothing begin, so that nothing need wait.
            ended = on_machine(PROGRAMS / "dependent", "0", "1", captured, "0")
            self.assertEqual((ended.returncode, ended.stdout), (0, "cudaSuccess 3\n"), ended.stderr)
            ended = on_machine(PROGRAMS / "dependent", "0", "1", captured, "1")
            self.assertEqual(ended.returncode, 1)
            self.assertNotIn("cudaSuccess", ended.stdout)
            self.assertIn("the grid before may still be running", ended.stderr)
            self.assertIn("griddepcontrol.wait", ended.stderr)
            self.assertEqual(ended.stderr.count("dependent.cu:17"), 1, ended.stderr)
        unchecked = on_machine(PROGRAMS / "dependent", "0", "1", "0", "1", MACHINE_CHECK="0")
        self.assertEqual(unchecked.stdout, "cudaSuccess 3\n")

    def test_what_comes_between_two_launches_may_end_the_first(self):
        for captured in "01":
            for between in ("memset", "memcpy", "function"):
                ended = on_machine(PROGRAMS / "dependent", "0", "1", captured, "1", between)
                self.assertEqual(ended.stdout, "cudaSuccess 3\n", between + ended.stderr)
        for between in ("stream", "device", "wait", "legacy", "legacy kernel"):
            ended = on_machine(PROGRAMS / "dependent", "0", "1", "0", "1", between)
            self.assertEqual(ended.stdout, "cudaSuccess 3\n", between + ended.stderr)
        for between in ("event", "allocation", "other stream"):
            ended = on_machine(PROGRAMS / "dependent", "0", "1", "0", "1", between)
            self.assertIn("the grid before may still be running", ended.stderr, between)

    def test_a_dependent_launch_may_do_what_no_grid_beside_it_minds(self):
        ended = on_machine(PROGRAMS / "chain", "beside")
        self.assertEqual((ended.returncode, ended.stdout), (0, "cudaSuccess 131\n"), ended.stderr)
        for how, said in (("table", "ld.global.u32 reads"), ("early", "ld.global.u32 reads"),
                          ("store", "st.global.u32 writes")):  # fmt: skip
            ended = on_machine(PROGRAMS / "chain", how)
            self.assertEqual(ended.returncode, 1, how)
            self.assertIn(f"Race in kernel use: {said}", ended.stderr)
            self.assertIn("griddepcontrol.wait by warp 0", ended.stderr)

    def test_work_of_several_streams_needs_an_order_where_it_shares_memory(self):
        add, fill = "Race in kernel add: it reads global", "Race in kernel fill: it writes global"
        for case, said in (
            ("event", add), ("again", fill), ("early", add), ("nonblocking", add), ("host", add),
            ("copy", "Race in cudaMemcpy: it reads global"), ("graph", add), ("launches", fill),
            ("pool", "Race in cudaFreeAsync: it frees global"), ("apart", ""), ("told", ""),
        ):  # fmt: skip
            ended = on_machine(PROGRAMS / "streams", case, "right")
            self.assertEqual((ended.returncode, ended.stdout), (0, "ok\n"), case + ended.stderr)
            if not said:
                continue
            ended = on_machine(PROGRAMS / "streams", case, "wrong")
            self.assertEqual(ended.returncode, 1, case)
            self.assertIn(said, ended.stderr, case)
            self.assertEqual(ended.stderr.count("Rule: stream-race"), 1, ended.stderr)
            ended = on_machine(PROGRAMS / "streams", case, "wrong", MACHINE_IGNORE="stream-race")
            self.assertEqual((ended.returncode, ended.stderr), (0, ""), case)
        ended = on_machine(PROGRAMS / "streams", "nonblocking", "wrong")
        self.assertIn("cudaEventRecord in the default stream behind kernel fill, and "
                      "cudaStreamWaitEvent in stream 4 (non-blocking) before kernel add", ended.stderr)
        self.assertIn("cudaStreamNonBlocking does not wait for the default stream", ended.stderr)
        ended = on_machine(PROGRAMS / "streams", "graph", "wrong")
        self.assertIn("What would order them: an edge of the graph", ended.stderr)
        self.assertIn("earlier: kernel fill, node 2 of a graph, in stream 4", ended.stderr)

    def test_files_of_settings_are_refused_before_anything_is_launched(self):
        for name, path, why in (("REPLACE_PTX", "/nonexistent.ptx", "cannot be read"),
                                ("REPLACE_PTX", "/tmp", "cannot be read"),
                                ("MACHINE_TRACE", "/nonexistent/trace.json", "cannot be written")):  # fmt: skip
            for command in ([PROGRAMS / "hello"], ["build/stage-01", "--check"]):
                ended = on_machine(*command, **{name: path})
                self.assertEqual(ended.returncode, 2, ended.stderr)
                self.assertIn(f"{name} is '{path}', which {why}", ended.stderr)
                self.assertEqual(ended.stderr.count("\n"), 1, ended.stderr)
                self.assertEqual(ended.stdout, "")


# 2 x 3 x 16: A is ones, row i of B is all i.
LIBRARY = """
import ctypes, struct, sys
ladder = ctypes.CDLL(sys.argv[1])
cuda = ctypes.CDLL(sys.argv[2])
def device(words):
    pointer = ctypes.c_void_p()
    data = struct.pack(f"{len(words)}H", *(struct.unpack("<I", struct.pack("<f", word))[0] >> 16
                                           for word in words))
    assert cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(len(data))) == 0
    assert cuda.cudaMemcpy(pointer, data, ctypes.c_size_t(len(data)), 1) == 0
    return pointer
a, b, d = device([1.0] * 32), device([float(i // 16) for i in range(48)]), device([-1.0] * 16)
long = ctypes.c_longlong
status = ladder.ladder_gemm_bf16(5, 2, 3, 16, a, long(16), b, long(16), d, long(8), None)
result = ctypes.create_string_buffer(32)
assert cuda.cudaMemcpy(result, d, ctypes.c_size_t(32), 2) == 0
values = [struct.unpack("<f", struct.pack("<I", word << 16))[0]
          for word in struct.unpack("16H", result.raw)]
print(status, values[0:3], values[8:11], values[3])
"""


class Ladder(unittest.TestCase):
    def test_a_library_runs_in_python(self):
        library = next(MACHINE.glob("libcudart.so.*"))
        ended = on_machine(sys.executable, "-c", LIBRARY, "build/libladder.so", library.name)
        self.assertEqual(ended.stdout, "0 [0.0, 16.0, 32.0] [0.0, 16.0, 32.0] -1.0\n", ended.stderr)

    def test_without_a_gpu_a_program_starts_itself_on_the_machine(self):
        ended = run("build/stage-01", "--m=70", "--n=40", "--k=33", "--data=ints",
                    CUDA_VISIBLE_DEVICES="")  # fmt: skip
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stdout, r"^PTX machine \(no GPU: .*\): results are checked against")
        self.assertIn("70x40x33", ended.stdout)
        self.assertNotRegex(ended.stdout, "TFLOPS|MHz|cuBLAS")

    def test_the_machine_can_be_asked_for(self):
        ended = run("build/stage-01", "--m=70", "--n=40", "--k=33", LADDER_DEVICE="machine")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertTrue(ended.stdout.startswith("PTX machine (LADDER_DEVICE=machine)"))
        wrong = run("build/stage-01", LADDER_DEVICE="tpu")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("LADDER_DEVICE is 'tpu'", wrong.stderr)

    def test_a_setting_that_nothing_reads_or_that_makes_no_sense_is_refused_before_anything_runs(self):
        for name, value, said in (
            ("LADDER_TIMEOT", "5", "LADDER_TIMEOT is no variable of the ladder, which has "
             "LADDER_DEVICE, .* did you mean LADDER_TIMEOUT?"),
            ("LADDER_HOME", "/", "LADDER_HOME is no variable .*, LADDER_NVML.$"),
            ("LADDER_TIMEOUT", "soon", "LADDER_TIMEOUT is 'soon'"),
        ):  # fmt: skip
            for program in ("build/ladder", "build/limits"):
                ended = run(program, "--list", **{name: value})
                self.assertEqual((ended.returncode, ended.stdout), (2, ""), (program, name))
                self.assertRegex(ended.stderr, said)
                self.assertEqual(len(ended.stderr.splitlines()), 1)

    def test_what_cannot_be_printed_is_no_success(self):
        for command in (
            ["build/stage-01", "--list"], ["build/stage-01", "--m=70", "--n=40", "--k=33"],
            ["build/limits", "--list"], ["build/limits", "--help"], ["build/ladder", "--help"],
            ["build/maps", "gpu"], ["build/maps", "swizzle"], ["build/machine/isa"],
        ):  # fmt: skip
            with open("/dev/full", "w") as full:
                ended = subprocess.run(
                    command, env={**clean_environment(), "LADDER_DEVICE": "machine"}, cwd=ROOT,
                    stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=600,
                )  # fmt: skip
            self.assertEqual(ended.returncode, 2, command)
            said = r"^(What the program|(maps|isa): what it) prints cannot be written: .*\n$"
            self.assertRegex(ended.stderr, said)

    def test_rows_that_cannot_be_read_are_no_success(self):
        folder = os.open(ROOT, os.O_RDONLY)
        self.addCleanup(os.close, folder)
        ended = subprocess.run(
            ["build/stage-01", "--choices"], cwd=ROOT, stdin=folder, capture_output=True, text=True,
            env={**clean_environment(), "LADDER_DEVICE": "machine"}, check=False, timeout=600,
        )  # fmt: skip
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        said = "The rows on standard input cannot be read: is it a folder?\n"
        self.assertEqual(ended.stderr, said)

    def test_rows_are_judged_before_a_gpu_is_looked_for(self):
        for mode, right in (
            ("--bench-rows", "1 32x32 64 72 80 burst"), ("--energy-rows", "1 32x32 64 72 80 ints 0"),
        ):  # fmt: skip
            for rows, code in ((right, 3), (right + "\n1 32x32 64 72", 2)):
                ended = subprocess.run(
                    ["build/ladder", mode], cwd=ROOT, input=rows, capture_output=True, text=True,
                    env={**clean_environment(), "LADDER_DEVICE": "machine"}, check=False, timeout=600,
                )  # fmt: skip
                self.assertEqual((ended.returncode, ended.stdout), (code, ""), ended.stderr)
                self.assertIn("Row '1 32x32 64 72'" if code == 2 else "measure", ended.stderr)

    def test_the_largest_sizes_are_refused_for_want_of_memory(self):
        sizes = [f"--{name}={2**30}" for name in "mnk"]  # operands and references of 2^64 bytes
        ended = run("build/stage-05", *sizes, LADDER_DEVICE="machine")
        self.assertEqual(ended.returncode, 2)
        self.assertRegex(ended.stderr, r"^1073741824x1073741824x1073741824 needs 17179869184\.0 GiB")

    def test_of_groups_sizes_that_would_fit_are_named(self):
        said = (r"^8 groups of (\d+) x (\d+) weights and (\d+) rows need [\d.]+ GiB of device "
                r"memory but ([\d.]+) GiB are free; (\d+) x (\d+) weights and (\d+) rows would fit\.$")
        for m, n, k in ((2**30, 2**30, 2**30), (2**20, 2**20, 1), (1, 2**30, 2**10)):
            sizes = [f"--m={m}", f"--n={n}", f"--k={k}"]
            ended = run("build/stage-16", *sizes, LADDER_DEVICE="machine")
            self.assertEqual(ended.returncode, 2)
            self.assertRegex(ended.stderr, said)
            numbers = re.match(said, ended.stderr).groups()
            self.assertEqual(tuple(map(int, numbers[:3])), (n, k, m))
            fits_n, fits_k, rows = map(int, numbers[4:])
            self.assertGreaterEqual(min(fits_n, fits_k, rows), 1)
            of_b_and_d = 2 * (8 * fits_n * fits_k + rows * fits_n)
            self.assertLessEqual(of_b_and_d, float(numbers[3]) * 2**30)

    def test_a_row_that_no_kernel_takes_is_named(self):
        row = "13 swizzle128 64 64 64 burst type=tf32,layout=NT"
        ended = subprocess.run(
            ["build/stage-13", "--choices"], input=row + "\n", cwd=ROOT, text=True, timeout=600,
            env={**clean_environment(), "LADDER_DEVICE": "machine"}, capture_output=True, check=False,
        )  # fmt: skip
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        self.assertIn(f"Row '{row}': mn_major_a is 1: it must be 0", ended.stderr)

    def test_numbers_to_choose_from_are_named_in_their_order(self):
        ended = run("build/ladder", "--groups=7")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("one of 1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512; the nearest that works is 8",
                      ended.stderr)

    def test_a_rung_runs_under_every_policy_or_the_one_that_is_asked_for(self):
        sizes = ("--m=70", "--n=40", "--k=33", "--variant=bn64")
        ended = run("build/stage-05", *sizes, LADDER_DEVICE="machine", MACHINE_STATS="1")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertRegex(ended.stdout, r"\n.* policies eager, lazy and random \(seed 1\).*\n")
        self.assertEqual(ended.stderr.count("warp instructions"), 3)
        for policy in ("eager", "lazy", "random"):
            ended = run("build/stage-05", *sizes, LADDER_DEVICE="machine", MACHINE_STATS="1",
                        MACHINE_POLICY=policy)  # fmt: skip
            self.assertRegex(ended.stdout, rf"\nPolicy {policy} alone")
            self.assertEqual(ended.stderr.count("warp instructions"), 1)
        ended = run("build/stage-05", *sizes, LADDER_DEVICE="machine", MACHINE_POLICY="late")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("MACHINE_POLICY is 'late'", ended.stderr)

    def test_a_long_launch_says_how_far_it_is(self):
        with subprocess.Popen(
            ["build/stage-01", "--m=2048", "--n=2048", "--k=2048", "--variant=32x32"], cwd=ROOT,
            env={**clean_environment(), "LADDER_DEVICE": "machine", "MACHINE_PROGRESS": "1"},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        ) as program:  # fmt: skip
            lines = [program.stderr.readline() for _ in range(2)]
            program.kill()
        said = r"machine: smem_tiled::gemm<.*> under eager: {} s, \d+ warp instructions, \d+ of 4096 "
        for seconds, line in enumerate(lines, 1):
            self.assertRegex(line, said.format(seconds) + "CTAs done\n")

    def test_by_itself_it_says_so_where_somebody_looks(self):
        for terminal, variables, usual in (
            (True, {}, 30), (True, {"MACHINE_JSON": "-"}, 0), (False, {}, 0),
        ):  # fmt: skip
            ours, theirs = pty.openpty() if terminal else os.pipe()
            with open(ours, "rb", buffering=0) as read, open(theirs, "wb") as written:
                subprocess.run(
                    [RUN, PROGRAMS / "hello"], cwd=ROOT, stdin=subprocess.DEVNULL, stderr=written,
                    env={**clean_environment(), "MACHINE_PROGRESS": "often", **variables},
                    check=False, timeout=600,
                )  # fmt: skip
                said = read.read(1000).decode()
            rule = f"must be a whole number from 0 to 86400, as {usual}."
            self.assertIn("MACHINE_PROGRESS is 'often' but " + rule, said)

    def test_what_make_stage_5_runs_finds_a_wait_that_is_too_lax(self):
        """The kernel with wait_group 1 for 0, as `make stage-5` would run it."""
        bug = mutations.MUTATIONS["wait-group-too-lax"]
        with tempfile.TemporaryDirectory() as folder:
            command, environment = mutations.machine_run(
                [ROOT / "build/stage-05"], mutations.write_mutated(bug, folder))
            ended = run(*command, **environment)
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertRegex(ended.stderr, r"Race in kernel wgmma::gemm<wgmma::Tile<256, 0>>")
        self.assertRegex(ended.stderr, r"FAIL: rung 5 05_wgmma bn256 at \S+, policy \w+: ")

    def test_a_limit_on_the_grid_is_refused_in_one_sentence_for_all_rungs(self):
        ended = run("build/ladder", "--grid=8")
        self.assertEqual(ended.returncode, 2)
        said = ended.stderr.strip().splitlines()
        self.assertEqual(len(said), 2, ended.stderr)
        self.assertIn("01_smem_tiled, 02_mma_sync, ", said[1])
        self.assertNotIn("07_persistent,", said[1])
        self.assertIn("Only persistent kernels", said[1])
        self.assertIn("the nearest that works is 2.", run("build/stage-08", "--grid=1").stderr)

    def test_a_limit_on_the_grid_is_not_blamed_for_another_rule(self):
        ended = run("build/ladder", "--stage=17", "--variant=none_128x256", "--act=relu", "--grid=1")
        self.assertEqual(ended.returncode, 2)
        self.assertIn("17_fused_epilogue: none_128x256", ended.stderr)
        self.assertNotIn("--grid", ended.stderr)

    def test_nothing_is_measured_on_the_machine(self):
        for ended in (
            run("build/ladder", "--bench-rows", LADDER_DEVICE="machine"),
            on_machine("build/ladder", "--bench-rows"),
        ):
            self.assertEqual(ended.returncode, 3)
            self.assertRegex(ended.stderr, "--bench-rows.* measure")
            self.assertEqual(ended.stdout, "")


if __name__ == "__main__":
    unittest.main()
