// The words in which an access and its order are told. No rule is here.
#pragma once

#include <cstdint>

namespace machine {

enum class Access : uint8_t { read, write, atomic };
enum class Order : uint8_t { weak, relaxed, acquire, release, acq_rel };  // volatile is relaxed
enum class Scope : uint8_t { cta, cluster, gpu };                         // sys is gpu
enum class Proxy : uint8_t { shared, global, all };                       // of fence.proxy.async

// A store that is about to happen.
class Store {
 public:
  // Whether a lane stores what is there already: such stores do not race with each other.
  virtual bool is_same(uint32_t lane) const = 0;
  // Stores these lanes' values, once.
  virtual void store(uint32_t lanes) = 0;

 protected:
  ~Store() = default;
};

}  // namespace machine
