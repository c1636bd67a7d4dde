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

# It also compares and checks, with what common/host has for that.
$(CU_PROGRAMS): build/programs/%: build/obj/$(PROGRAM_FOLDER)/%.o build/libladder.so build/libhost.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) -o $(NEW) $< -Lbuild -lladder build/libhost.a $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/..' \
	  $(LDLIBS) $(move)
