# build/serve: the projections of models as a server calls them, timed beside cuBLASLt
# (docs/serving.md).

build/serve: build/obj/common/serve/serve.o build/obj/common/host/bench.o $(LIB_OBJECTS) \
    $(STAGE_OBJECTS) build/objects
	$(call say,LINK,$@)
	$(Q)$(link)

.PHONY: serve-table
serve-table: build/serve
	$(Q)$(PYTHON) scripts/serve_table.py

# tests/programs/serve_table_test.py runs it on the PTX machine.
TEST_NEEDS += build/serve
