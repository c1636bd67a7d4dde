#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/doctest_main.h"

LADDER_TEST_MAIN("calls")
