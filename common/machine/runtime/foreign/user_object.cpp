// User objects: what is destroyed when neither the program nor a graph, or an instance of one, has a
// reference to it any more.
#include <algorithm>
#include <memory>

#include "common/machine/runtime/foreign/forward.h"
#include "common/machine/runtime/graph.h"

namespace machine::runtime {
namespace {

struct UserObject {
  unsigned references = 0;      // of the program
  std::shared_ptr<void> own{};  // while it has any
  std::weak_ptr<void> all{};
};

UserObject& object_of(cudaUserObject_t handle) {
  require(handle != nullptr);
  return *reinterpret_cast<UserObject*>(handle);
}

void release(UserObject& object, unsigned count) {
  require(count != 0 && count <= object.references);
  object.references -= count;
  if (object.references == 0) std::shared_ptr<void>(std::move(object.own)).reset();
}

}  // namespace

extern "C" {

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy,
                                 unsigned references, unsigned) {
  return attempt([&] {
    require(object != nullptr && destroy != nullptr && references != 0);
    const auto made = new UserObject{references};
    made->own.reset(data, [made, destroy](void* kept) {
      destroy(kept);
      delete made;
    });
    made->all = made->own;
    *object = reinterpret_cast<cudaUserObject_t>(made);
  });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return attempt([&] {
    require(count != 0 && object_of(object).references != 0);
    object_of(object).references += count;
  });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return attempt([&] { release(object_of(object), count); });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                      unsigned flags) {
  return attempt([&] {
    require(graph != nullptr && count != 0);
    auto& kept = graph_of(graph)->objects;
    kept.insert(kept.end(), count, object_of(object).all.lock());
    if ((flags & cudaGraphUserObjectMove) != 0) release(object_of(object), count);
  });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count) {
  return attempt([&] {
    require(graph != nullptr);
    auto& kept = graph_of(graph)->objects;
    const std::shared_ptr<void> one = object_of(object).all.lock();
    require(count != 0 && std::count(kept.begin(), kept.end(), one) >= count);
    for (; count != 0; --count) kept.erase(std::find(kept.begin(), kept.end(), one));
  });
}

FORWARD2(cuUserObjectRetain, cudaUserObjectRetain, CUuserObject, unsigned);
FORWARD2(cuUserObjectRelease, cudaUserObjectRelease, CUuserObject, unsigned);
FORWARD4(cuGraphRetainUserObject, cudaGraphRetainUserObject, CUgraph, CUuserObject, unsigned,
         unsigned);
FORWARD3(cuGraphReleaseUserObject, cudaGraphReleaseUserObject, CUgraph, CUuserObject, unsigned);

CUresult cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned references,
                            unsigned flags) {
  return forward(cudaUserObjectCreate, object, data, destroy, references, flags);
}

}  // extern "C"
}  // namespace machine::runtime
