#include "common/host/cublas_grouped.h"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <string>

#include "common/host/error.h"
#include "common/host/verify.h"

namespace ladder {
namespace {

constexpr size_t WORKSPACE_BYTES = size_t{64} << 20;

#define LADDER_STRING(x) #x
#define LADDER_EXPAND_STRING(x) LADDER_STRING(x)
const char SONAME[] = "libcublas.so." LADDER_EXPAND_STRING(CUBLAS_VER_MAJOR);

struct Library {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasGemmGroupedBatchedEx) gemm;

  Library() {
    void* const handle = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw CudaError(std::string("cuBLAS cannot be loaded from ") + SONAME);
    find(handle, "cublasCreate_v2", &create);
    find(handle, "cublasDestroy_v2", &destroy);
    find(handle, "cublasSetStream_v2", &set_stream);
    find(handle, "cublasSetWorkspace_v2", &set_workspace);
    find(handle, "cublasGemmGroupedBatchedEx", &gemm);
  }

 private:
  template <class Function>
  static void find(void* handle, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(handle, name));
    if (*function == nullptr) throw CudaError(std::string("cuBLAS has no function ") + name);
  }
};

const Library& cublas() {
  static const Library library;
  return library;
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(std::string(what) + ": cuBLAS status " + std::to_string(status));
}

}  // namespace

// Every product is a group of one; as cuBLAS is column-major, D^T = B · A^T.
struct CublasGrouped::Impl {
  cublasHandle_t handle = nullptr;
  DeviceBuffer workspace{WORKSPACE_BYTES}, pointers;  // of all B, all A, all D
  size_t count;
  std::vector<cublasOperation_t> of_b, of_a;
  std::vector<int> m, n, k, lda, ldb, ldd, ones;
  std::vector<float> alpha, beta;

  explicit Impl(const std::vector<GemmArgs>& products)
      : pointers(products.size() * 3 * sizeof(void*)), count(products.size()) {
    std::vector<const void*> all(count * 3);
    for (size_t i = 0; i < count; ++i) {
      const GemmArgs& one = products[i];
      all[i] = one.b;
      all[count + i] = one.a;
      all[2 * count + i] = one.d;
      m.push_back(one.n);
      n.push_back(one.m);
      k.push_back(one.k);
      ldb.push_back(static_cast<int>(one.ldb));
      lda.push_back(static_cast<int>(one.lda));
      ldd.push_back(static_cast<int>(one.ldd));
    }
    of_b.assign(count, CUBLAS_OP_T);
    of_a.assign(count, CUBLAS_OP_N);
    ones.assign(count, 1);
    alpha.assign(count, 1);
    beta.assign(count, 0);
    check_cuda(cudaMemcpy(pointers.data(), all.data(), pointers.bytes(), cudaMemcpyHostToDevice),
               "copying cuBLAS's pointers");
    check(cublas().create(&handle), "cublasCreate");
  }
  ~Impl() {
    if (handle != nullptr) cublas().destroy(handle);
  }
};

CublasGrouped::CublasGrouped(const std::vector<GemmArgs>& products)
    : impl_(std::make_unique<Impl>(products)) {}
CublasGrouped::~CublasGrouped() = default;

void CublasGrouped::run(cudaStream_t stream) {
  Impl& all = *impl_;
  void** const pointers = all.pointers.as<void*>();
  check(cublas().set_stream(all.handle, stream), "cublasSetStream");  // takes the workspace away
  check(cublas().set_workspace(all.handle, all.workspace.data(), WORKSPACE_BYTES),
        "cublasSetWorkspace");
  check(cublas().gemm(all.handle, all.of_b.data(), all.of_a.data(), all.m.data(), all.n.data(),
                      all.k.data(), all.alpha.data(), pointers, CUDA_R_16BF, all.ldb.data(),
                      pointers + all.count, CUDA_R_16BF, all.lda.data(), all.beta.data(),
                      pointers + 2 * all.count, CUDA_R_16BF, all.ldd.data(),
                      static_cast<int>(all.count), all.ones.data(), CUBLAS_COMPUTE_32F),
        "cublasGemmGroupedBatchedEx");
}

}  // namespace ladder
