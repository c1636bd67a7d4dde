#include "common/host/cublas_lt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <set>

#include "common/host/error.h"
#include "common/host/verify.h"

namespace ladder {
namespace {

constexpr size_t WORKSPACE_BYTES = size_t{64} << 20;

// --- the library ---------------------------------------------------------------------------------

#define LADDER_STRING(x) #x
#define LADDER_EXPAND_STRING(x) LADDER_STRING(x)
const char SONAME[] = "libcublasLt.so." LADDER_EXPAND_STRING(CUBLAS_VER_MAJOR);

// The loader finds it through its own paths and the run path, which names the toolkit's libraries.
void* open_library() {
  const char* chosen = std::getenv("LADDER_CUBLASLT");
  const std::string path = chosen == nullptr ? SONAME : chosen;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* why = dlerror();
  throw CudaError("cuBLASLt cannot be loaded from " + path + " (" +
                  (why == nullptr ? "no reason given" : why) +
                  "); put it on LD_LIBRARY_PATH or name the file in LADDER_CUBLASLT.");
}

template <class Function>
void find(void* handle, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(handle, name));
  if (*function == nullptr) throw CudaError(std::string("cuBLASLt has no function ") + name);
}

// The functions used, under their own names without the prefix.
struct Library {
#define LADDER_CUBLASLT_FUNCTIONS(X) \
  X(Create)                          \
  X(Destroy)                         \
  X(GetVersion)                      \
  X(GetStatusName)                   \
  X(Matmul)                          \
  X(MatmulAlgoConfigGetAttribute)    \
  X(MatmulAlgoGetHeuristic)          \
  X(MatmulDescCreate)                \
  X(MatmulDescDestroy)               \
  X(MatmulDescSetAttribute)          \
  X(MatmulPreferenceCreate)          \
  X(MatmulPreferenceDestroy)         \
  X(MatmulPreferenceSetAttribute)    \
  X(MatrixLayoutCreate)              \
  X(MatrixLayoutDestroy)
#define LADDER_DECLARE(name) decltype(cublasLt##name)* name = nullptr;
  LADDER_CUBLASLT_FUNCTIONS(LADDER_DECLARE)

  Library() {
    void* handle = open_library();
#define LADDER_FIND(name) find(handle, "cublasLt" #name, &name);
    LADDER_CUBLASLT_FUNCTIONS(LADDER_FIND)
  }
};

// Loaded once a process and never unloaded.
const Library& lt() {
  static const Library library;
  return library;
}

void check_lt(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(std::string(what) + ": " + lt().GetStatusName(status));
}

// --- what describes a problem to cuBLASLt --------------------------------------------------------

// cuBLASLt is column-major, and a row-major matrix is its transpose there. So D (m x n, row-major)
// is computed as D^T = B · A^T: its first operand is B, stored as k x n and transposed, its second
// is A, stored as k x m and not. MN-major operands are stored the other way round.
struct Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, added = nullptr, result = nullptr;

  explicit Plan(const LibraryCall& call) {
    const bool integers = call.type_in == CUDA_R_8I;
    const auto floats = call.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check_lt(lt().MatmulDescCreate(&operation, integers ? CUBLAS_COMPUTE_32I : floats,
                                   integers ? CUDA_R_32I : CUDA_R_32F),
             "cublasLtMatmulDescCreate");
    set_scales(call);
    set_epilogue(call);
    const cublasOperation_t of_b = call.mn_major_b ? CUBLAS_OP_N : CUBLAS_OP_T;
    const cublasOperation_t of_a = call.mn_major_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_lt(
        lt().MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &of_b, sizeof of_b),
        "cublasLtMatmulDescSetAttribute TRANSA");
    check_lt(
        lt().MatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &of_a, sizeof of_a),
        "cublasLtMatmulDescSetAttribute TRANSB");
    const auto m = static_cast<uint64_t>(call.m), n = static_cast<uint64_t>(call.n);
    const auto k = static_cast<uint64_t>(call.k);
    const bool mn_a = call.mn_major_a, mn_b = call.mn_major_b;
    check_lt(lt().MatrixLayoutCreate(&first, call.type_in, mn_b ? n : k, mn_b ? k : n, call.ldb),
             "cublasLtMatrixLayoutCreate B");
    check_lt(lt().MatrixLayoutCreate(&second, call.type_in, mn_a ? m : k, mn_a ? k : m, call.lda),
             "cublasLtMatrixLayoutCreate A");
    check_lt(lt().MatrixLayoutCreate(&result, call.type_out, n, m, call.ldd),
             "cublasLtMatrixLayoutCreate D");
    check_lt(lt().MatrixLayoutCreate(&added, call.type_out, n, m,
                                     call.c == nullptr ? call.ldd : call.ldc),
             "cublasLtMatrixLayoutCreate C");
  }
  ~Plan() {
    if (added != nullptr) lt().MatrixLayoutDestroy(added);
    if (result != nullptr) lt().MatrixLayoutDestroy(result);
    if (second != nullptr) lt().MatrixLayoutDestroy(second);
    if (first != nullptr) lt().MatrixLayoutDestroy(first);
    if (operation != nullptr) lt().MatmulDescDestroy(operation);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Where the call's scales and bias lie; before each launch, since calls that share a plan differ in
  // that.
  void set_pointers(const LibraryCall& call) const {
    if (call.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias);
    if (call.scales == LibraryScales::none) return;
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, call.scale_b);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, call.scale_a);
  }

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) const {
    check_lt(lt().MatmulDescSetAttribute(operation, attribute, &value, sizeof value),
             "cublasLtMatmulDescSetAttribute");
  }

  // Its first operand is our B.
  void set_scales(const LibraryCall& call) {
    if (call.scales == LibraryScales::blocks) {
      set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F});
      set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F});
    }
    // Without it sums would leave the tensor cores' accumulators now and then: this is the ceiling.
    if (call.scales == LibraryScales::tensor) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    set_pointers(call);
  }

  // Rows of its D^T, one bias each, are columns of ours.
  void set_epilogue(const LibraryCall& call) {
    const bool bias = call.bias != nullptr;
    cublasLtEpilogue_t epilogue = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    if (call.activation == LibraryActivation::relu) {
      epilogue = bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    }
    if (call.activation == LibraryActivation::gelu) {
      epilogue = bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    }
    if (epilogue == CUBLASLT_EPILOGUE_DEFAULT) return;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (bias) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(call.type_out));
    set_pointers(call);
  }
};

// The largest power of two, up to 256, that divides an address.
uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

struct Preference {
  cublasLtMatmulPreference_t handle = nullptr;

  explicit Preference(const LibraryCall& call) {
    check_lt(lt().MatmulPreferenceCreate(&handle), "cublasLtMatmulPreferenceCreate");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{WORKSPACE_BYTES});
    // No split-K that adds its parts in 16 bits: that would not be fp32 accumulation. In place they
    // are added in D's type.
    const bool wide = call.type_out == CUDA_R_32F || call.type_out == CUDA_R_32I;
    const uint32_t in_place = wide ? CUBLASLT_REDUCTION_SCHEME_INPLACE : 0;
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        in_place | uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(call.b));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(call.a));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        alignment_of(call.c == nullptr ? call.d : call.c));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(call.d));
  }
  ~Preference() { lt().MatmulPreferenceDestroy(handle); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

 private:
  template <class Value>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
    check_lt(lt().MatmulPreferenceSetAttribute(handle, attribute, &value, sizeof value),
             "cublasLtMatmulPreferenceSetAttribute");
  }
};

// --- names of configurations ---------------------------------------------------------------------

#define LADDER_NAME_STAGES(name)      \
  case CUBLASLT_MATMUL_STAGES_##name: \
    return #name;
#define LADDER_NAME_CLUSTER(name)         \
  case CUBLASLT_CLUSTER_SHAPE_##name##x1: \
    return #name;

// Elements of K in a slot x slots.
std::string stages_name(uint32_t id) {
  switch (id) {
    LADDER_NAME_STAGES(32x3)
    LADDER_NAME_STAGES(32x4)
    LADDER_NAME_STAGES(32x5)
    LADDER_NAME_STAGES(64x2)
    LADDER_NAME_STAGES(64x3)
    LADDER_NAME_STAGES(64x4)
    LADDER_NAME_STAGES(64x5)
    LADDER_NAME_STAGES(64x6)
    LADDER_NAME_STAGES(32xAUTO)
    LADDER_NAME_STAGES(64xAUTO)
    LADDER_NAME_STAGES(128xAUTO)
  }
  return "id" + std::to_string(id);
}

std::string cluster_name(uint16_t id) {
  switch (id) {
    LADDER_NAME_CLUSTER(1x1)
    LADDER_NAME_CLUSTER(2x1)
    LADDER_NAME_CLUSTER(1x2)
    LADDER_NAME_CLUSTER(2x2)
    LADDER_NAME_CLUSTER(4x1)
    LADDER_NAME_CLUSTER(1x4)
    LADDER_NAME_CLUSTER(4x2)
    LADDER_NAME_CLUSTER(2x4)
    LADDER_NAME_CLUSTER(4x4)
    LADDER_NAME_CLUSTER(8x1)
    LADDER_NAME_CLUSTER(1x8)
    case CUBLASLT_CLUSTER_SHAPE_AUTO:
      return "auto";
  }
  return "id" + std::to_string(id);
}

template <class Value>
Value attribute(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t name) {
  Value value = 0;
  size_t written = 0;
  check_lt(lt().MatmulAlgoConfigGetAttribute(&algo, name, &value, sizeof value, &written),
           "cublasLtMatmulAlgoConfigGetAttribute");
  return value;
}

}  // namespace

std::string cublas_tile_name(uint32_t id) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {
        "UNDEFINED", "8x8",    "8x16",   "16x8",   "8x32",    "16x16",   "32x8",    "8x64",
        "16x32",     "32x16",  "64x8",   "32x32",  "32x64",   "64x32",   "32x128",  "64x64",
        "128x32",    "64x128", "128x64", "64x256", "128x128", "256x64",  "64x512",  "128x256",
        "256x128",   "512x64", "64x96",  "96x64",  "96x128",  "128x160", "160x128", "192x128",
        "128x192",   "128x96", "32x256", "256x32"};
    // Rows in steps of `row_step`, each by columns in steps of `col_step`, without those that are there.
    const auto more = [&all](int row_step, int col_step, int most_elements) {
      const std::set<std::string> before(all.begin(), all.end());
      for (int rows = row_step; rows <= 768; rows += row_step) {
        for (int cols = col_step; cols <= 768 && rows * cols <= most_elements; cols += col_step) {
          const std::string name = std::to_string(rows) + "x" + std::to_string(cols);
          if (!before.contains(name)) all.push_back(name);
        }
      }
    };
    more(8, 64, 49152);
    more(64, 8, 65536);
    return all;
  }();
  return id < names.size() ? names[id] : "id" + std::to_string(id);
}

// --- the class -----------------------------------------------------------------------------------

struct CublasLt::Algorithm {
  std::shared_ptr<Plan> plan;
  int rank;  // among the heuristics' answers, 0 the best guess
  cublasLtMatmulAlgo_t algo;
};

struct CublasLt::Impl {
  cublasLtHandle_t handle = nullptr;
  DeviceBuffer workspace{WORKSPACE_BYTES};

  Impl() { check_lt(lt().Create(&handle), "cublasLtCreate"); }
  ~Impl() { lt().Destroy(handle); }
};

CublasLt::CublasLt() : impl_(std::make_unique<Impl>()) {}
CublasLt::~CublasLt() = default;

std::string CublasLt::version() {
  const size_t version = lt().GetVersion();
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// What its documentation lists: D of the operands' type, or of fp32; bf16 of e4m3, s32 of s8. Asked for D in bf16 or fp16 of
// fp32 operands, 13.1 has offered a kernel that writes fp32, beyond the end of D.
static bool has_types(const LibraryCall& call) {
  if (call.type_in == CUDA_R_8F_E4M3) return call.type_out == CUDA_R_16BF;
  if (call.type_in == CUDA_R_8I) return call.type_out == CUDA_R_32I;
  return call.type_out == call.type_in || call.type_out == CUDA_R_32F;
}

std::vector<std::shared_ptr<CublasLt::Algorithm>> CublasLt::candidates(const LibraryCall& call,
                                                                       int count) {
  if (!has_types(call)) return {};
  const auto plan = std::make_shared<Plan>(call);
  const Preference preference(call);
  std::vector<cublasLtMatmulHeuristicResult_t> answers(static_cast<size_t>(count));
  int found = 0;
  const cublasStatus_t status = lt().MatmulAlgoGetHeuristic(
      impl_->handle, plan->operation, plan->first, plan->second, plan->added, plan->result,
      preference.handle, count, answers.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check_lt(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<std::shared_ptr<Algorithm>> list;
  for (int rank = 0; rank < found; ++rank) {
    const cublasLtMatmulHeuristicResult_t& answer = answers[static_cast<size_t>(rank)];
    if (answer.state != CUBLAS_STATUS_SUCCESS || answer.workspaceSize > WORKSPACE_BYTES) continue;
    list.push_back(std::make_shared<Algorithm>(Algorithm{plan, rank, answer.algo}));
  }
  return list;
}

// Tile and cluster as cuBLASLt counts them: N first, then M, since it computes D^T.
std::string CublasLt::describe(const Algorithm& algorithm) {
  const cublasLtMatmulAlgo_t& algo = algorithm.algo;
  std::string text =
      "#" + std::to_string(algorithm.rank) +                                                  //
      " algo " + std::to_string(attribute<int32_t>(algo, CUBLASLT_ALGO_CONFIG_ID)) +          //
      " tile " + cublas_tile_name(attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_TILE_ID)) +  //
      " stages " + stages_name(attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID)) +   //
      " cluster " + cluster_name(attribute<uint16_t>(algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
  const auto split_k = attribute<int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  if (split_k > 1) text += " split-K " + std::to_string(split_k);
  const auto swizzle = attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING);
  if (swizzle != 0) text += " CTA swizzle " + std::to_string(swizzle);
  const auto custom = attribute<uint32_t>(algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION);
  if (custom != 0) text += " option " + std::to_string(custom);
  return text;
}

void CublasLt::run(const Algorithm& algorithm, const LibraryCall& call) {
  const float one = call.alpha, other = call.beta;
  const int32_t integer_one = 1, integer_zero = 0;
  const bool integers = call.type_in == CUDA_R_8I;
  const void* const alpha = integers ? static_cast<const void*>(&integer_one) : &one;
  const void* const beta = integers ? static_cast<const void*>(&integer_zero) : &other;
  const Plan& plan = *algorithm.plan;
  plan.set_pointers(call);
  check_lt(
      lt().Matmul(impl_->handle, plan.operation, alpha, call.b, plan.first, call.a, plan.second,
                  beta, call.c == nullptr ? call.d : call.c, plan.added, call.d, plan.result,
                  &algorithm.algo, impl_->workspace.data(), WORKSPACE_BYTES, call.stream),
      "cublasLtMatmul");
}

}  // namespace ladder
