// The words in which an access and its order are told. No rule is here.
#pragma once

#include <cstdint>

namespace machine {

enum class Access : uint8_t { read, write, atomic };
enum class Order : uint8_t { weak, relaxed, acquire, release, acq_rel };  // volatile is relaxed
enum class Scope : uint8_t { cta, cluster, gpu };                         // sys is gpu
enum class Proxy : uint8_t { shared, global, all };                       // of fence.proxy.async

// Whether a lane stores what is there already: such stores do not race with each other.
class SameValue {
 public:
  virtual bool operator()(uint32_t lane) const = 0;

 protected:
  ~SameValue() = default;
};

}  // namespace machine
