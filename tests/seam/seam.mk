# build/tests/seam: a program with one rung, of a problem that no rung of the ladder solves.

build/tests/seam: $(HOST_OBJECTS) build/obj/tests/seam/01_fp16.o build/obj/tests/seam/fp16.o build/objects
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(link)

TEST_NEEDS += build/tests/seam

-include $(wildcard build/obj/tests/seam/*.d)
