# Builds the PTX machine: build/machine/libcudart.so.NN, which stands in for the toolkit's library
# of that name, and build/machine/libcuda.so.1. Programs find both through LD_LIBRARY_PATH, which
# build/ptx-machine sets.

CUDART := $(firstword $(wildcard $(addsuffix /libcudart.so.??,$(CUDA_LIB))))
CUDART_SONAME := $(notdir $(or $(CUDART),libcudart.so.13))
CUDA_STUB := $(firstword $(wildcard $(addsuffix /stubs/libcuda.so,$(CUDA_LIB))))
MACHINE_LIBS := build/machine/$(CUDART_SONAME) build/machine/libcuda.so.1 build/machine/libcuda.so

# Products are rounded as PTX says, so nothing may be contracted; nothing reads errno or flags.
# GCC 11 does not vectorize at -O2, later ones only what costs no code size; -Wrestrict is wrong
# about std::string in GCC 12 (its bug 105651). clang warns of loops that it cannot vectorize. Loops
# over lanes are a few instructions, and slower where these cross a line of 32 bytes.
MACHINE_CXXFLAGS := -std=c++20 -O2 -march=native -ffp-contract=off -fno-math-errno \
  -fno-trapping-math -falign-loops=32 -g -fPIC $(WARNINGS) -I. $(if $(CLANG),-Wno-pass-failed, \
  -ftree-vectorize -fvect-cost-model=dynamic -Wno-restrict)

# machine_objects(folders)
machine_objects = $(patsubst %.cpp,build/obj/%.o,$(sort $(wildcard \
  $(patsubst %,common/machine/%/*.cpp,$(1)))))
MACHINE_OBJECTS := $(call machine_objects,text code ops ops/rare run check timeline)
RUNTIME_OBJECTS := $(call machine_objects,runtime runtime/foreign)
NAMES := build/obj/common/machine/names
NAMES_SCRIPT := scripts/runtime_names.py

.PHONY: machine
machine: $(MACHINE_LIBS) build/ptx-machine

# What the rungs need besides themselves: the machine, unless the driver names a Hopper. If it is
# there but cannot be used, the program says so, and that `make machine` builds the PTX machine.
HOPPER := $(if $(wildcard /dev/nvidia[0-9]*),$(shell \
  grep -lsE 'Model:.*\<G?H(20|100|200|800)\>' /proc/driver/nvidia/gpus/*/information))
ifeq ($(LADDER_DEVICE),gpu)
  MACHINE_WITHOUT_GPU :=
else
  MACHINE_WITHOUT_GPU := $(if $(HOPPER),$(filter machine,$(LADDER_DEVICE)),machine)
endif

# Rewritten, and everything rebuilt, when the flags change, or what -march=native stands for: the
# macros that it defines say so, one for each extension of the CPU and one for its model.
MACHINE_FLAGS := build/obj/common/machine/flags
$(MACHINE_FLAGS): $(ALWAYS) | tools-are-there
	@mkdir -p $(@D)
	@{ echo '$(MACHINE_CXXFLAGS)'; \
	  $(CXX) -march=native -dM -E -x c++ /dev/null | LC_ALL=C sort; } >$(NEW); $(update)

build/obj/common/machine/%.o: common/machine/%.cpp $(MACHINE_FLAGS) build/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(call compile,$(MACHINE_CXXFLAGS))

build/obj/common/machine/runtime/%.o: common/machine/runtime/%.cpp $(MACHINE_FLAGS) build/flags \
    | $(NAMES)/errors.inc
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(call compile,$(MACHINE_CXXFLAGS) -I$(NAMES) \
	  $(addprefix -isystem ,$(filter-out /usr/include,$(CUDA_INCLUDE))))

$(NAMES)/errors.inc: $(NAMES_SCRIPT) build/flags
	@mkdir -p $(@D)
	$(Q)$(PYTHON) $(NAMES_SCRIPT) errors --cudart '$(CUDART)' --header '$(CUDA_INCLUDE)/cuda.h' >$(NEW) \
	  $(move)

$(NAMES)/stubs.c: $(NAMES_SCRIPT) $(RUNTIME_OBJECTS)
	$(Q)$(PYTHON) $(NAMES_SCRIPT) stubs --cudart '$(CUDART)' --header '$(CUDA_INCLUDE)/cuda.h' \
	  $(if $(CUDA_STUB),--cuda '$(CUDA_STUB)') --out $(@D) $(RUNTIME_OBJECTS)

$(NAMES)/stubs.o: $(NAMES)/stubs.c
	$(Q)$(CXX) -x c -O1 -fPIC $(WARNINGS) -c $< -o $(NEW) $(move)

build/machine/$(CUDART_SONAME): $(MACHINE_OBJECTS) $(RUNTIME_OBJECTS) $(NAMES)/stubs.o build/objects
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared -o $(NEW) $(filter %.o,$^) -Wl,-soname,$(CUDART_SONAME) -Wl,-Bsymbolic \
	  -Wl,--version-script=$(NAMES)/exports.map @$(NAMES)/aliases.rsp -Wl,--no-undefined \
	  -ldl -lpthread $(move)

# Empty: the driver's names are defined by the library that it needs. That is the one beside it, also
# in a process that has loaded the toolkit's libcudart, as Python packages do: hence its name with a path.
$(NAMES)/beside.so: build/flags
	@mkdir -p $(@D)
	$(Q)$(CXX) -shared -o $(NEW) -Wl,-soname,'$$ORIGIN/$(CUDART_SONAME)' -x c /dev/null $(move)

build/machine/libcuda.so.1: $(NAMES)/beside.so build/machine/$(CUDART_SONAME)
	$(Q)$(CXX) -shared -o $(NEW) -Wl,-soname,libcuda.so.1 -Wl,--no-as-needed $< $(move)

build/machine/libcuda.so: build/machine/libcuda.so.1
	$(Q)ln -s libcuda.so.1 $(NEW) $(move)

# ---- The launcher, and what is installed ---------------------------------------------------------
build/ptx-machine: $(patsubst %,build/obj/common/machine/tools/%.o,ptx_machine leave_out process)
	$(call say,LINK,$@)
	$(Q)$(CXX) -o $(NEW) $^ -static-libstdc++ -static-libgcc $(move)

.PHONY: install-machine
install: install-machine
install-machine: machine
	$(Q)install -d '$(INSTALLED)/bin' '$(INSTALLED)/lib/ptx-machine'
	$(Q)install -m 755 build/ptx-machine '$(INSTALLED)/bin/'
	$(Q)install -m 755 $(filter-out %/libcuda.so,$(MACHINE_LIBS)) '$(INSTALLED)/lib/ptx-machine/'
	$(Q)ln -sf libcuda.so.1 '$(INSTALLED)/lib/ptx-machine/libcuda.so'

# ---- The documented ISA -------------------------------------------------------------------------
ISA := build/machine/isa
$(ISA): build/obj/common/machine/tools/print_isa.o $(MACHINE_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) -o $(NEW) $^ -ldl -lpthread $(move)

.PHONY: isa
isa: $(ISA)
	$(Q)$(ISA) >docs/isa.md.$$$$ && mv -f docs/isa.md.$$$$ docs/isa.md || { rm -f docs/isa.md.$$$$; exit 1; }

# ---- Tests --------------------------------------------------------------------------------------
# Programs that run on the machine, and one that was built in ways that it refuses.
PROGRAM_NVCC = $(NVCC) -std=c++20 -O3 -lineinfo -ccbin $(CCBIN)
MACHINE_PROGRAMS := $(addprefix build/tests/programs/,calls chain dependent driver errors \
  functions graphs hello \
  out_of_bounds streams hello_static hello_compressed hello_no_ptx left_out linked \
  hello_rpath registers.cubin)

build/tests/machine: build/obj/common/machine/runtime/fatbin.o | $(MACHINE_PROGRAMS)

$(MACHINE_PROGRAMS): build/flags
$(filter-out %.cubin,$(MACHINE_PROGRAMS)): PROGRAM_FLAGS := $(ARCH) --cudart shared --no-compress
build/tests/programs/hello_static: PROGRAM_FLAGS := $(ARCH) --cudart static --no-compress
build/tests/programs/hello_compressed: PROGRAM_FLAGS := $(ARCH) --cudart shared
build/tests/programs/hello_no_ptx: PROGRAM_FLAGS := -gencode arch=compute_90a,code=sm_90a \
  --cudart shared --no-compress
build/tests/programs/linked: PROGRAM_FLAGS := $(ARCH) --cudart shared --no-compress -rdc=true \
  tests/machine/programs/linked_to.cu
build/tests/programs/linked: tests/machine/programs/linked_to.cu
LEFT_OUT := build/tests/programs/hello_sm_100a.o
$(LEFT_OUT): PROGRAM_FLAGS := -gencode 'arch=compute_100a,code=[sm_100a,compute_100a]' \
  --no-compress -rdc=true -c
$(LEFT_OUT): build/flags
build/tests/programs/left_out: PROGRAM_FLAGS := $(ARCH) --cudart shared --no-compress -rdc=true \
  -Xnvlink --suppress-arch-warning $(LEFT_OUT)
build/tests/programs/left_out: $(LEFT_OUT)
build/tests/programs/hello_rpath: PROGRAM_FLAGS := $(ARCH) --cudart shared --no-compress \
  -Xlinker --disable-new-dtags,-rpath,/nowhere
build/tests/programs/driver: PROGRAM_FLAGS := $(ARCH) --cudart shared --no-compress \
  $(or $(CUDA_STUB),build/machine/libcuda.so)

build/tests/programs/hello_%: tests/machine/programs/hello.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(PROGRAM_NVCC) $(PROGRAM_FLAGS) $< -o $(NEW) $(move)

build/tests/programs/%.cubin: tests/machine/programs/%.cu
	@mkdir -p $(@D)
	$(Q)$(PROGRAM_NVCC) -cubin -gencode arch=compute_90a,code=sm_90a $< -o $(NEW) $(move)

$(addprefix build/tests/programs/,calls driver graphs streams): tests/machine/programs/check.h
build/tests/programs/%: tests/machine/programs/%.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(PROGRAM_NVCC) $(PROGRAM_FLAGS) $< -o $(NEW) $(move)

-include $(wildcard build/obj/common/machine/*/*.d build/obj/common/machine/*/*/*.d)
