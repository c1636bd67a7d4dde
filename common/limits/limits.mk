# build/limits: what this GPU can do at most, one ceiling after the other (docs/limits.md).

LIMITS_OBJECTS := $(patsubst %,build/obj/%.o,$(basename $(sort $(wildcard common/limits/*.cpp \
  common/limits/*.cu))))

build/limits: $(LIMITS_OBJECTS) build/libhost.a
	$(call say,LINK,$@)
	$(Q)$(link)

limits: build/limits build/ladder $(HASHES)
	$(Q)$(PYTHON) scripts/limits.py $(call option,ROWS,rows)

# tests/scripts/limits_test.py runs it on the PTX machine.
TEST_NEEDS += build/limits
