# Builds the PTX machine: build/machine/libcudart.so.NN, which stands in for the toolkit's library
# of that name, and build/machine/libcuda.so.1. Programs find both through LD_LIBRARY_PATH.

CUDART := $(firstword $(wildcard $(addsuffix /libcudart.so.??,$(CUDA_LIB))))
CUDART_SONAME := $(notdir $(or $(CUDART),libcudart.so.13))
CUDA_STUB := $(firstword $(wildcard $(addsuffix /stubs/libcuda.so,$(CUDA_LIB))))
MACHINE_LIBS := build/machine/$(CUDART_SONAME) build/machine/libcuda.so.1 build/machine/libcuda.so

# Products are rounded as PTX says, so nothing may be contracted; nothing reads errno or flags.
# -Wrestrict is wrong about std::string in GCC 12 (its bug 105651).
MACHINE_CXXFLAGS := -std=c++20 -O2 -fvect-cost-model=dynamic -march=native -ffp-contract=off \
  -fno-math-errno -fno-trapping-math -g -fPIC $(WARNINGS) -Wno-restrict -I.

MACHINE_OBJECTS := $(patsubst %.cpp,build/obj/%.o,$(sort $(wildcard common/machine/*.cpp)))
RUNTIME_OBJECTS := $(patsubst %.cpp,build/obj/%.o,$(sort $(wildcard common/machine/runtime/*.cpp)))
NAMES := build/obj/common/machine/names
NAMES_SCRIPT := scripts/runtime_names.py

.PHONY: machine
machine: $(MACHINE_LIBS)

# Rewritten, and everything rebuilt, when the flags change.
MACHINE_FLAGS := build/obj/common/machine/flags
$(MACHINE_FLAGS): FORCE
	@mkdir -p $(@D)
	@echo '$(MACHINE_CXXFLAGS)' >$@.new; $(call update,$@)

build/obj/common/machine/%.o: common/machine/%.cpp $(MACHINE_FLAGS) build/flags
	@mkdir -p $(@D)
	$(call say,CXX    ,$<)
	$(Q)$(CXX) $(MACHINE_CXXFLAGS) -MMD -MP -c $< -o $@

build/obj/common/machine/runtime/%.o: common/machine/runtime/%.cpp $(MACHINE_FLAGS) build/flags \
    | $(NAMES)/errors.inc
	@mkdir -p $(@D)
	$(call say,CXX    ,$<)
	$(Q)$(CXX) $(MACHINE_CXXFLAGS) -I$(NAMES) \
	  $(addprefix -isystem ,$(filter-out /usr/include,$(CUDA_INCLUDE))) -MMD -MP -c $< -o $@

$(NAMES)/errors.inc: $(NAMES_SCRIPT) build/flags
	@mkdir -p $(@D)
	$(Q)$(PYTHON) $(NAMES_SCRIPT) errors --cudart '$(CUDART)' --header '$(CUDA_INCLUDE)/cuda.h' >$@

$(NAMES)/stubs.c: $(NAMES_SCRIPT) $(RUNTIME_OBJECTS)
	$(Q)$(PYTHON) $(NAMES_SCRIPT) stubs --cudart '$(CUDART)' --header '$(CUDA_INCLUDE)/cuda.h' \
	  $(if $(CUDA_STUB),--cuda '$(CUDA_STUB)') --out $(@D) $(RUNTIME_OBJECTS)

$(NAMES)/stubs.o: $(NAMES)/stubs.c
	$(Q)$(CXX) -x c -O1 -fPIC $(WARNINGS) -c $< -o $@

build/machine/$(CUDART_SONAME): $(MACHINE_OBJECTS) $(RUNTIME_OBJECTS) $(NAMES)/stubs.o build/objects
	@mkdir -p $(@D)
	$(call say,LINK   ,$@)
	$(Q)$(CXX) -shared -o $@ $(filter %.o,$^) -Wl,-soname,$(CUDART_SONAME) -Wl,-Bsymbolic \
	  -Wl,--version-script=$(NAMES)/exports.map @$(NAMES)/aliases.rsp -Wl,--no-undefined \
	  -ldl -lpthread

# Empty: the driver's names are defined by the library that it needs.
build/machine/libcuda.so.1: build/machine/$(CUDART_SONAME)
	$(Q)$(CXX) -shared -o $@ -Wl,-soname,libcuda.so.1 -Wl,--no-as-needed $< -Wl,-rpath,'$$ORIGIN'

build/machine/libcuda.so: build/machine/libcuda.so.1
	$(Q)ln -sf libcuda.so.1 $@

# ---- The documented ISA -------------------------------------------------------------------------
ISA := build/machine/isa
$(ISA): build/obj/common/machine/tools/print_isa.o $(MACHINE_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK   ,$@)
	$(Q)$(CXX) -o $@ $^ -ldl -lpthread

.PHONY: isa
isa: $(ISA)
	$(Q)$(ISA) >docs/isa.md

-include $(wildcard build/obj/common/machine/tools/*.d)

# ---- Tests --------------------------------------------------------------------------------------
# Programs that run on the machine, and one that was built in ways that it refuses.
PROGRAM_NVCC = $(NVCC) -std=c++20 -O3 -lineinfo -ccbin $(CXX)
MACHINE_PROGRAMS := $(addprefix build/tests/programs/,calls dependent driver errors hello \
  out_of_bounds hello_static hello_compressed hello_no_ptx hello_rpath registers.cubin)

build/tests/machine: build/obj/common/machine/runtime/fatbin.o | $(MACHINE_PROGRAMS)

$(MACHINE_PROGRAMS): build/flags
$(filter-out %.cubin,$(MACHINE_PROGRAMS)): PROGRAM_FLAGS := $(ARCH) --cudart shared --no-compress
build/tests/programs/hello_static: PROGRAM_FLAGS := $(ARCH) --cudart static --no-compress
build/tests/programs/hello_compressed: PROGRAM_FLAGS := $(ARCH) --cudart shared
build/tests/programs/hello_no_ptx: PROGRAM_FLAGS := -gencode arch=compute_90a,code=sm_90a \
  --cudart shared --no-compress
build/tests/programs/hello_rpath: PROGRAM_FLAGS := $(ARCH) --cudart shared --no-compress \
  -Xlinker --disable-new-dtags,-rpath,/nowhere
build/tests/programs/driver: PROGRAM_FLAGS := $(ARCH) --cudart shared --no-compress \
  $(or $(CUDA_STUB),build/machine/libcuda.so)

build/tests/programs/hello_%: tests/machine/programs/hello.cu
	@mkdir -p $(@D)
	$(call say,NVCC   ,$@)
	$(Q)$(PROGRAM_NVCC) $(PROGRAM_FLAGS) $< -o $@

build/tests/programs/%.cubin: tests/machine/programs/%.cu
	@mkdir -p $(@D)
	$(Q)$(PROGRAM_NVCC) -cubin -gencode arch=compute_90a,code=sm_90a $< -o $@

build/tests/programs/%: tests/machine/programs/%.cu
	@mkdir -p $(@D)
	$(call say,NVCC   ,$@)
	$(Q)$(PROGRAM_NVCC) $(PROGRAM_FLAGS) $< -o $@

-include $(wildcard build/obj/common/machine/runtime/*.d)
