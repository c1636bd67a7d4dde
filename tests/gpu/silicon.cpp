#include "tests/gpu/silicon.h"

#include "common/host/where.h"

namespace gpu_test {

std::string why_no_gpu() {
  static const std::string why = [] {
    if (ladder::on_machine()) return std::string("This is the PTX machine; it needs a GPU.");
    try {
      ladder::query_device();
      return std::string();
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
  }();
  return why;
}

}  // namespace gpu_test
