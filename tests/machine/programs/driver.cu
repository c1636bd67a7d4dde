// The driver's calls alone, linked with -lcuda: PTX text is loaded and launched in each of their
// ways. Prints "ok", or which line is wrong.
#include <cuda.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) {                                            \
      std::printf("line %d is wrong: %s\n", __LINE__, #condition); \
      std::exit(1);                                                \
    }                                                              \
  } while (false)
#define OK(call) CHECK((call) == CUDA_SUCCESS)

namespace {

// *out += value + offset, where offset is a variable of the module
const char CODE[] = R"(
.version 8.0
.target sm_90a
.address_size 64
.global .align 4 .u32 offset = 5;
.visible .entry add(.param .u64 out, .param .u32 value)
{
  .reg .u32 %r<5>;
  .reg .u64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [value];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.u32 %r2, [offset];
  ld.global.u32 %r3, [%rd2];
  add.u32 %r4, %r3, %r1;
  add.u32 %r4, %r4, %r2;
  st.global.u32 [%rd2], %r4;
  ret;
}
)";

}  // namespace

int main() {
  int devices = 0, major = 0;
  char name[100] = "";
  CUdevice device = 0;
  CUcontext context = nullptr, current = nullptr;
  OK(cuInit(0));
  OK(cuDeviceGetCount(&devices));
  CHECK(devices >= 1);
  OK(cuDeviceGet(&device, 0));
  OK(cuDeviceGetName(name, sizeof name, device));
  CHECK(std::strlen(name) > 0);
  OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  CHECK(major == 9);
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  OK(cuCtxGetCurrent(&current));
  CHECK(current == context);

  CUmodule module = nullptr;
  CUfunction add = nullptr, missing = nullptr;
  OK(cuModuleLoadData(&module, CODE));
  OK(cuModuleGetFunction(&add, module, "add"));
  CHECK(cuModuleGetFunction(&missing, module, "subtract") == CUDA_ERROR_NOT_FOUND);
  CUdeviceptr out = 0, offset = 0;
  size_t bytes = 0;
  OK(cuModuleGetGlobal(&offset, &bytes, module, "offset"));
  CHECK(bytes == 4);
  OK(cuMemAlloc(&out, 4));
  OK(cuMemsetD32(out, 100, 1));

  unsigned value = 10;
  void* arguments[] = {&out, &value};
  OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));  // 115
  struct {
    CUdeviceptr out;
    unsigned value;
  } block{out, 20};
  size_t block_bytes = sizeof block;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &block_bytes, CU_LAUNCH_PARAM_END};
  // The driver wants the parameters' size, without the padding at the struct's end.
  CHECK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra) != CUDA_SUCCESS);
  block_bytes = offsetof(decltype(block), value) + sizeof block.value;
  OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));  // 140
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  OK(cuLaunchKernelEx(&config, add, arguments, nullptr));  // 155
  OK(cuMemsetD32(offset, 0, 1));
  OK(cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));  // 165
  OK(cuCtxSynchronize());
  unsigned result = 0;
  OK(cuMemcpyDtoH(&result, out, 4));
  CHECK(result == 165);

  // The second row of two, from its third byte on.
  CUdeviceptr rows = 0;
  size_t pitch = 0;
  OK(cuMemAllocPitch(&rows, &pitch, 8, 2, 4));
  OK(cuMemsetD8(rows, 1, pitch + 8));
  OK(cuMemsetD8(rows + pitch + 2, 9, 3));
  unsigned char row[4] = {};
  CUDA_MEMCPY2D part{};
  part.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  part.srcDevice = rows;
  part.srcPitch = pitch;
  part.srcY = 1;
  part.srcXInBytes = 2;
  part.dstMemoryType = CU_MEMORYTYPE_HOST;
  part.dstHost = row;
  part.dstPitch = sizeof row;
  part.WidthInBytes = sizeof row;
  part.Height = 1;
  OK(cuMemcpy2D(&part));
  CHECK(row[0] == 9 && row[2] == 9 && row[3] == 1);
  OK(cuMemFree(rows));

  CHECK(cuLaunchKernel(add, 1, 1, 1, 2000, 1, 1, 0, nullptr, arguments, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  const char* text = nullptr;
  OK(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
  CHECK(std::strcmp(text, "CUDA_ERROR_INVALID_VALUE") == 0);
  OK(cuMemFree(out));
  OK(cuModuleUnload(module));
  OK(cuDevicePrimaryCtxRelease(device));
  std::printf("ok\n");
  return 0;
}
