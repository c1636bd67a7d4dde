// Lets a program that runs on the machine choose the policy of its next launches, so that one
// process can run a kernel under several. Found by dlsym, as `ptx_machine` is.
#include "common/machine/run/settings.h"

extern "C" {

// `name`: eager, lazy or random. Returns whether it is one of them. Not while a kernel runs.
bool ptx_machine_set_policy(const char* name);
bool ptx_machine_set_policy(const char* name) {
  return machine::find_policy(name, &machine::settings().policy);
}

}  // extern "C"
