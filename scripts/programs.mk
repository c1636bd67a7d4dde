# Small programs that call the library, as docs/your_program.md shows them. `make programs` builds
# all.

PROGRAM_FOLDER := docs/programs
C_PROGRAMS := $(patsubst $(PROGRAM_FOLDER)/%.c,build/programs/%,$(wildcard $(PROGRAM_FOLDER)/*.c))
CU_PROGRAMS := $(patsubst $(PROGRAM_FOLDER)/%.cu,build/programs/%,\
  $(wildcard $(PROGRAM_FOLDER)/*.cu))
TEST_NEEDS += $(C_PROGRAMS) $(CU_PROGRAMS)

.PHONY: programs
programs: $(C_PROGRAMS) $(CU_PROGRAMS)

PROGRAM_LIBS := -Lbuild -lladder -lcudart
build/programs/%: $(PROGRAM_FOLDER)/%.c common/host/ladder.h build/libladder.so build/flags
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -std=c11 -O2 $(WARNINGS) -Icommon/host \
	  $(addprefix -isystem ,$(filter-out /usr/include,$(CUDA_INCLUDE))) $< -o $(NEW) \
	  $(LDFLAGS) $(PROGRAM_LIBS) -lm -Wl,-rpath,'$$ORIGIN/..' $(move)

build/programs/%: $(PROGRAM_FOLDER)/%.cu common/host/ladder.h build/libladder.so build/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -std=c++20 -O3 -lineinfo $(ARCH) -ccbin $(CXX) --cudart shared --no-compress \
	  -Icommon/host $< -o $(NEW) -Lbuild -lladder -ldl -Xlinker -rpath -Xlinker '$$ORIGIN/..' $(move)
