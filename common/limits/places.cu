// On which SMs the CTAs of a launch run, plain and in clusters. No ceiling: what rung 8's page says
// about the order in which a launch fills the chip.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/launch.h"
#include "common/host/text.h"
#include "common/host/verify.h"
#include "common/host/where.h"
#include "common/limits/limit.h"
#include "common/limits/places.h"

namespace limits {

using ladder::check_cuda;

constexpr int SMEM_BYTES = 200 * 1024;  // so much that an SM has one CTA
constexpr int THREADS = 128;
constexpr long long STAY_CLOCKS = 200000;  // until all CTAs have come
constexpr int LAUNCHES = 5;                // of each size of cluster, which need not be alike
constexpr int SHOWN = 3;                   // launches whose CTAs are printed

// sms[CTA] = its SM. Each CTA stays until the others have their places.
__global__ void record_places(int* sms, long long stay_clocks) {
  if (threadIdx.x != 0) return;
  int sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  sms[blockIdx.x] = sm;
  const long long start = clock64();
  while (clock64() - start < stay_clocks) {
  }
}

// %smid of each CTA of a launch of as many as fit. cluster 0: a plain launch; 1: one in clusters of
// one CTA.
static std::vector<int> places(int cluster) {
  const int size = cluster == 0 ? 1 : cluster;
  ladder::allow_smem(record_places, SMEM_BYTES);
  const int ctas = cluster == 0
                       ? ladder::sm_count()
                       : ladder::max_active_clusters(reinterpret_cast<const void*>(record_places),
                                                     THREADS, SMEM_BYTES, size) *
                             size;
  const ladder::DeviceBuffer buffer(static_cast<size_t>(ctas) * sizeof(int));
  const ladder::Launch launch(ctas, THREADS, SMEM_BYTES, size, false, ladder::Call{});
  cudaLaunchConfig_t config = launch.config;
  if (cluster == 1) config.numAttrs = 2;  // asked for, though it is of one
  const long long stay = ladder::on_machine() ? 0 : STAY_CLOCKS;
  check_cuda(cudaLaunchKernelEx(&config, record_places, buffer.as<int>(), stay),
             "launch of record_places");
  std::vector<int> sms(static_cast<size_t>(ctas));
  check_cuda(cudaMemcpy(sms.data(), buffer.data(), buffer.bytes(), cudaMemcpyDeviceToHost),
             "record_places");
  return sms;
}

void print_places() {
  Gpcs gpcs;
  for (int cluster = 2; cluster <= 8; ++cluster) {
    try {
      for (int i = 0; i < LAUNCHES; ++i) gpcs.add(places(cluster), cluster);
    } catch (const ladder::CudaError& error) {
      cudaGetLastError();
      std::printf("no clusters of %d: %s\n", cluster, error.what());
    }
  }
  std::printf("GPCs, by SMs that were in one cluster:\n");
  for (const std::vector<int>& sms : gpcs.groups()) {
    std::printf("  %c, %zu SMs:", gpcs.letter(sms.front()), sms.size());
    for (const int sm : sms) std::printf(" %d", sm);
    std::printf("\n");
  }
  for (const int cluster : {0, 1, 2, 4}) {
    std::printf(cluster == 0 ? "plain launch, the GPC of each CTA by index:\n"
                             : "clusters of %d, the GPC of each CTA by index:\n",
                cluster);
    for (int i = 0; i < SHOWN; ++i) {
      std::string letters;
      for (const int sm : places(cluster)) letters += gpcs.letter(sm);
      const Spread spread = spread_of(letters);
      std::printf("  %s\n  neighbours in one GPC: %.2f; 16 neighbours lie in %.1f GPCs\n",
                  letters.c_str(), spread.neighbours_together, spread.gpcs_of_16);
    }
  }
}

}  // namespace limits
