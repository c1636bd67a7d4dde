// What the build left behind about the rungs: the PTX and ptxas' log of each, and the registry.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace codegen {

// One object of `build/ladder --list`.
struct Variant {
  int number;
  std::string stem, name;
  bool result;
  int bm, bn, bk, depth, threads, smem_bytes, cluster_m, cluster_n, regs_dec, regs_inc;
  bool persistent;
  std::string kernel;  // mangled
  bool configuration, chooses;
};

// Both throw std::runtime_error rather than return nothing, over which a test would loop in vain.
std::vector<Variant> list_variants();
// Those of them that are one kernel.
std::vector<Variant> list_kernels();

// File stems of stages/, in order.
std::vector<std::string> stage_stems();

struct Instruction {
  std::string mnemonic;  // "cp.async.cg.shared.global"
  bool ours;             // it stands in an asm statement, not in code that the compiler made
};

// Instructions of every .entry of a PTX module, by mangled name.
std::map<std::string, std::vector<Instruction>> parse_ptx(const std::string& text);

struct Resources {
  int registers = -1;                                                   // a thread, at launch
  int smem_bytes = 0;                                                   // static, a CTA
  int frame_bytes = -1, spill_store_bytes = -1, spill_load_bytes = -1;  // a thread
};

// What ptxas -v says of every entry, by mangled name.
std::map<std::string, Resources> parse_log(const std::string& text);

// The text of a file; throws std::runtime_error naming it if it cannot be read.
std::string read_file(const std::string& path);

// Does a mnemonic match a pattern: its first part (up to '*') as a prefix, the others after it in
// order? "cp.async.bulk*multicast" matches multicast TMA copies.
bool matches(const std::string& mnemonic, const std::string& pattern);

}  // namespace codegen
