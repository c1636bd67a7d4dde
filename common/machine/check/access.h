// The words in which an access and its order are told. No rule is here.
#pragma once

#include <cstdint>

namespace machine {

enum class Access : uint8_t { read, write, atomic };
enum class Order : uint8_t { weak, relaxed, acquire, release, acq_rel };  // volatile is relaxed
enum class Scope : uint8_t { cta, cluster, gpu };                         // sys is gpu
enum class Proxy : uint8_t { shared, global, all };                       // of fence.proxy.async

// Whether a lane stores what is there already: such stores do not race with each other. It refers to
// a function that lives as long.
class SameValue {
 public:
  template <class F>
  explicit SameValue(const F& function)
      : function_(&function),
        call_([](const void* f, uint32_t lane) { return (*static_cast<const F*>(f))(lane); }) {}
  bool operator()(uint32_t lane) const { return call_(function_, lane); }

 private:
  const void* function_;
  bool (*call_)(const void* function, uint32_t lane);
};

}  // namespace machine
