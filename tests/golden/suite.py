"""Kernels and cases of the golden tests.

A kernel is a few lines of PTX inside one frame: its parameters are the input buffer, the output
buffer, `words` 64-bit words and `maps` tensor maps. A case is one launch of a kernel. golden.cpp
reads what write() leaves: one PTX file a module and cases.txt, one case a line.
"""

import os
import pathlib
import re

HEADER = """.version 8.6
.target sm_90a
.address_size 64
"""

REGISTERS = """  .reg .pred %p<16>;
  .reg .b16 %h<16>;
  .reg .b32 %r<160>;
  .reg .b64 %rd<32>;
  .reg .b32 %thread, %lane, %smem, %cta;
  .reg .b64 %in, %out, %at;
"""

# %thread counts the threads of the whole grid, %cta its CTAs (both along x).
SETUP = """  ld.param.u64 %in, [in];
  ld.param.u64 %out, [out];
  cvta.to.global.u64 %in, %in;
  cvta.to.global.u64 %out, %out;
  mov.u32 %r0, %ntid.x;
  mov.u32 %cta, %ctaid.x;
  mov.u32 %thread, %tid.x;
  mad.lo.u32 %thread, %cta, %r0, %thread;
  mov.u32 %lane, %laneid;
"""


class Suite:
    def __init__(self):
        self.modules = {}  # name -> {entry: text}
        self.declarations = {}  # module -> what stands before its kernels
        self.cases = []
        self.names = set()

    def kernel(self, module, name, body, words=0, maps=0, smem=False):
        """Adds a kernel and returns its entry name. Word i is in %w<i> (its low half in %x<i>), the
        generic address of tensor map i in %m<i>, the address of dynamic shared memory in %smem."""
        entry = "k_" + re.sub(r"\W+", "_", name)
        params = [".param .u64 in", ".param .u64 out"]
        params += [f".param .u64 w{i}" for i in range(words)]
        params += [f".param .align 64 .b8 map{i}[128]" for i in range(maps)]
        setup = ""
        if words:
            setup += f"  .reg .b64 %w<{words}>;\n  .reg .b32 %x<{words}>;\n"
            setup += "".join(
                f"  ld.param.u64 %w{i}, [w{i}];\n  cvt.u32.u64 %x{i}, %w{i};\n" for i in range(words)
            )
        if maps:
            setup += f"  .reg .b64 %m<{maps}>;\n"
            setup += "".join(
                f"  mov.b64 %m{i}, map{i};\n  cvta.param.u64 %m{i}, %m{i};\n" for i in range(maps)
            )
        if smem:
            setup += "  mov.u32 %smem, smem;\n"
        lines = [line.strip() for line in body.strip().splitlines()]
        text = (
            f"// kernel {entry}\n.visible .entry {entry}({', '.join(params)})\n{{\n{REGISTERS}"
            + SETUP
            + setup
            + "".join(f"  {line}\n" for line in lines if line)
            + "  ret;\n}\n"
        )
        kernels = self.modules.setdefault(module, {})
        assert kernels.get(entry, text) == text, f"two kernels are called {entry}"
        kernels[entry] = text
        return entry

    def case(self, name, module, entry, **keys):
        """Adds a case; keys are the words of its line in cases.txt (see golden.cpp)."""
        assert name not in self.names, f"two cases are called {name}"
        assert not re.search(r"\s", name), name
        self.names.add(name)
        words = [f"{key}={value}" for key, value in keys.items()]
        self.cases.append(" ".join(["case", name, f"module={module}", f"entry={entry}"] + words))

    def encode(self, name, tensor_map):
        """Adds a call of cuTensorMapEncodeTiled; its outcome is the CUresult."""
        assert name not in self.names, f"two cases are called {name}"
        self.names.add(name)
        self.cases.append(f"encode {name} map={tensor_map}")

    def write(self, folder):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, kernels in self.modules.items():
            header = HEADER + ".extern .shared .align 1024 .b8 smem[];\n"
            header += self.declarations.get(name, "")
            write_whole(folder / f"{name}.ptx", header + "".join(kernels.values()))
        write_whole(folder / "cases.txt", "\n".join(self.cases) + "\n")


def write_whole(path, text):
    """A file that takes its name when it is whole: another make may be reading the one before."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text)
    new.replace(path)


DATA_TYPES = (
    "u8 u16 u32 s32 u64 s64 f16 f32 f64 bf16 f32_ftz tf32 tf32_ftz".split()
)  # in the order of CUtensorMapDataType
SIZES = dict(u8=1, u16=2, u32=4, s32=4, u64=8, s64=8, f16=2, f32=4, f64=8, bf16=2)
SIZES.update(f32_ftz=4, tf32=4, tf32_ftz=4)
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # bytes -> CUtensorMapSwizzle


def tensor_map(base, type, dims, strides, box, element_strides=None, interleave=0, swizzle=0,
               l2=0, oob=0, rank=None):
    """The text of a tensor map: what cuTensorMapEncodeTiled takes, in golden.cpp's order."""
    element_strides = element_strides or [1] * len(box)
    code = DATA_TYPES.index(type) if type in DATA_TYPES else int(type)
    lists = ["x".join(str(v) for v in values) or "-" for values in
             (dims, strides, box, element_strides)]
    rank = len(dims) if rank is None else rank
    return ":".join([base, str(code), str(rank), *lists,
                     *(str(v) for v in (interleave, swizzle, l2, oob))])


def packed_strides(dims, size):
    """Strides in bytes of dimensions 1 and up of a tensor without gaps but for rounding to 16."""
    strides, step = [], size
    for dim in dims[:-1]:
        step = (step * dim + 15) // 16 * 16
        strides.append(step)
    return strides
