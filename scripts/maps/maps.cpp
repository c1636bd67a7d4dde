// build/maps NAME [KEY=VALUE ...]: an index map of common/tile as JSON, as the kernels compute it.
//
// scripts/figures.py draws what this prints, scripts/explore.py explains it: neither has a formula of
// its own. Both check what they pass; here a name, key or value that is not known ends in exit code 2.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/block/stage_tile.cuh"
#include "common/tile/configurations.h"
#include "common/tile/cost_model.h"
#include "common/tile/descriptor.h"
#include "common/tile/fragment.h"
#include "common/tile/k_shares.h"
#include "common/tile/operand_tile.h"
#include "common/tile/packed_weights.h"
#include "common/tile/ring.h"
#include "common/tile/schedule.h"
#include "common/tile/smem_tile.h"
#include "common/tile/swizzle.h"

namespace {

using tile::Major;

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "maps: %s\n", why.c_str());
  std::exit(2);
}

// --- options and JSON ----------------------------------------------------------------------------

class Options {
 public:
  Options(int count, char** words) {
    for (int i = 0; i < count; ++i) {
      const std::string word = words[i];
      const size_t equals = word.find('=');
      if (equals == std::string::npos) refuse("\"" + word + "\" is not KEY=VALUE");
      given_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }

  int number(const std::string& key, int standard) {
    const std::string word = text(key, std::to_string(standard));
    char* end = nullptr;
    const long value = std::strtol(word.c_str(), &end, 0);
    if (word.empty() || *end != '\0' || value < 0 || value > 1 << 30) refuse(key + "=" + word);
    return static_cast<int>(value);
  }
  std::string text(const std::string& key, const std::string& standard) {
    const auto found = given_.find(key);
    if (found == given_.end()) return standard;
    const std::string value = found->second;
    given_.erase(found);
    return value;
  }
  void none_left() const {
    if (!given_.empty()) refuse("no option " + given_.begin()->first);
  }

 private:
  std::map<std::string, std::string> given_;
};

// {"key":value,...}, values being JSON already.
std::string object(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out = "{";
  for (const auto& [key, value] : members) {
    out += (out.size() > 1 ? "," : "") + ("\"" + key + "\":" + value);
  }
  return out + "}";
}

std::string number(long long value) {
  return std::to_string(value);
}
std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "\"0x%016llx\"", static_cast<unsigned long long>(value));
  return text;
}
std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}
std::string array(const std::vector<std::string>& items) {
  std::string out = "[";
  for (const std::string& item : items) out += (out.size() > 1 ? "," : "") + item;
  return out + "]";
}
// [make(0), make(1), ..., make(count - 1)]
template <class Make>
std::string array_of(int count, Make make) {
  std::vector<std::string> items;
  for (int i = 0; i < count; ++i) items.push_back(make(i));
  return array(items);
}
std::string numbers(const std::vector<int>& values) {
  return array_of(static_cast<int>(values.size()), [&](int i) { return number(values[i]); });
}

// --- values that are template arguments ----------------------------------------------------------

// Calls use.operator()<V>() for the V of the list that equals `value`.
template <int... VALUES, class Use>
void with_value(const char* key, int value, Use use) {
  const bool found = ((value == VALUES ? (use.template operator()<VALUES>(), true) : false) || ...);
  if (!found) refuse(std::string(key) + "=" + std::to_string(value));
}

// --- maps ----------------------------------------------------------------------------------------

// Byte offset of each chunk of each row: offsets[row][chunk].
std::string swizzle(Options& options) {
  const int span = options.number("span", 128), rows = options.number("rows", 16);
  options.none_left();
  if (span != 128 && span != 64 && span != 32 && span != 16) refuse("span");
  const int chunks = span / tile::CHUNK_BYTES;
  const auto row_of = [&](int row) {
    return array_of(chunks,
                    [&](int chunk) { return number(tile::swizzle_offset(span, row, chunk)); });
  };
  return object({{"span", number(span)}, {"offsets", array_of(rows, row_of)}});
}

template <class Tile>
std::string operand_of(uint32_t start) {
  constexpr int K_STEP = 32 / Tile::BYTES;  // of one wgmma
  const uint64_t first = Tile::descriptor(start);
  const auto step = [&](int i) {
    const int offset = Tile::offset(0, i * K_STEP);
    return object({{"k", number(i * K_STEP)},
                   {"offset", number(offset)},
                   {"bits", hex(tile::advance(first, offset))}});
  };
  const auto starts_of_mn = [&](int i) { return number(Tile::offset(i * 64, 0)); };
  // Where the first element of each chunk lies: [row of the panel][chunk of the major side].
  const auto place = [&](int row, int chunk) {
    constexpr int PER_CHUNK = tile::CHUNK_BYTES / Tile::BYTES;
    return Tile::MAJOR == Major::K ? Tile::offset(row, chunk * PER_CHUNK)
                                   : Tile::offset(chunk * PER_CHUNK, row);
  };
  const auto row_of = [&](int row) {
    return array_of(Tile::ALONG * Tile::BYTES / tile::CHUNK_BYTES,
                    [&](int chunk) { return number(place(row, chunk)); });
  };
  return object({{"span", number(Tile::SPAN)},
                 {"width", number(Tile::WIDTH)},
                 {"rows", number(Tile::ROWS)},
                 {"panel_bytes", number(Tile::PANEL_BYTES)},
                 {"bytes", number(sizeof(Tile::bytes))},
                 {"steps", array_of(Tile::BK / K_STEP, step)},
                 {"starts_mn", array_of(Tile::MN / 64, starts_of_mn)},
                 {"offsets", array_of(Tile::ROWS, row_of)}});
}

// A tile of an operand: its panels, and the descriptor of each step along K.
std::string operand(Options& options) {
  const std::string major = options.text("major", "K");
  const int span = options.number("span", 128), bytes = options.number("bytes", 2);
  const int mn = options.number("mn", 128), bk = options.number("bk", 64);
  const auto start = static_cast<uint32_t>(options.number("start", 1024));
  options.none_left();
  std::string out;
  with_value<128, 64, 32, 16>("span", span, [&]<int SPAN>() {
    with_value<64, 128, 192, 256>("mn", mn, [&]<int MN>() {
      with_value<32, 64, 128>("bk", bk, [&]<int BK>() {
        with_value<1, 2, 4>("bytes", bytes, [&]<int BYTES>() {
          if constexpr (BK * BYTES >= SPAN) {
            if (major == "K")
              out = operand_of<tile::OperandTile<Major::K, SPAN, BYTES, MN, BK>>(start);
          }
          if constexpr (BYTES == 2) {
            if (major == "MN") {
              out = operand_of<tile::OperandTile<Major::MN, SPAN, BYTES, MN, BK>>(start);
            }
          }
        });
      });
    });
  });
  if (out.empty()) refuse("no such tile");
  return out;
}

// Which element a lane holds or points at, one entry a lane.
std::string fragment(Options& options) {
  options.none_left();
  const auto lanes = [](auto make) { return array_of(32, make); };
  const auto pair = [](int row, int col) { return numbers({row, col}); };
  return object({
      {"acc", lanes([&](int lane) {
         return array_of(
             2, [&](int half) { return pair(tile::acc_row(lane, half), tile::acc_col(lane)); });
       })},
      {"ldmatrix_a", lanes([&](int lane) {
         return pair(tile::ldmatrix_a_row(lane), tile::ldmatrix_a_chunk(lane));
       })},
      {"ldmatrix_b", lanes([&](int lane) {
         return pair(tile::ldmatrix_b_row(lane), tile::ldmatrix_b_chunk(lane));
       })},
      {"traded_col", lanes([&](int lane) { return number(tile::traded_col(lane)); })},
  });
}

template <int M, int N>
struct OneByOne {
  static constexpr int BM = 1, BN = 1, CLUSTER_M = M, CLUSTER_N = N;
};

template <class T>
std::string raster_of(int tiles_m, int tiles_n, int group, int clusters) {
  const auto cta = [&](int index) {
    const int cluster = index / (T::CLUSTER_M * T::CLUSTER_N);
    const int rank = index % (T::CLUSTER_M * T::CLUSTER_N);
    std::vector<std::string> visited;
    for (tile::ClusterTiles<T> t(tiles_m, tiles_n, cluster, clusters, rank, group); t.has();
         t.next()) {
      visited.push_back(numbers({t.m0(), t.n0()}));
    }
    return array(visited);
  };
  return object({{"ctas", array_of(clusters * T::CLUSTER_M * T::CLUSTER_N, cta)}});
}

// The tiles of each CTA, in the order in which it works on them.
std::string raster(Options& options) {
  const int tiles_m = options.number("tiles_m", 64), tiles_n = options.number("tiles_n", 32);
  const int group = options.number("group", 1), clusters = options.number("clusters", 132);
  const int cluster_m = options.number("cluster_m", 1), cluster_n = options.number("cluster_n", 1);
  options.none_left();
  if (group < 1 || clusters < 1) refuse("group and clusters are 1 or more");
  std::string out;
  with_value<1, 2, 4>("cluster_m", cluster_m, [&]<int M>() {
    with_value<1, 2, 4>("cluster_n", cluster_n, [&]<int N>() {
      out = raster_of<OneByOne<M, N>>(tiles_m, tiles_n, group, clusters);
    });
  });
  return out;
}

// Slot and parity of each step of a ring, for its consumer, and what its producer waits for.
std::string ring(Options& options) {
  const int depth = options.number("depth", 4), steps = options.number("steps", 12);
  options.none_left();
  std::string out;
  with_value<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16>(
      "depth", depth, [&]<int DEPTH>() {
        tile::RingState<DEPTH> state;
        out = array_of(steps, [&](int) {
          const std::string step =
              object({{"slot", number(state.slot)}, {"parity", number(state.parity)}});
          state.advance();
          return step;
        });
      });
  return out;
}

// Which K steps of which tile each cluster takes: [tile, first step, steps] in its order.
std::string shares(Options& options) {
  const std::map<std::string, tile::Share> kinds = {{"none", tile::Share::none},
                                                    {"cut", tile::Share::cut},
                                                    {"last", tile::Share::last_round},
                                                    {"all", tile::Share::all_rounds}};
  const std::string share = options.text("share", "all");
  const int tiles = options.number("tiles", 6), k_tiles = options.number("k_tiles", 8);
  const int clusters = options.number("clusters", 4);
  options.none_left();
  if (!kinds.contains(share) || tiles < 1 || k_tiles < 1 || clusters < 1) refuse("shares");
  const tile::KSchedule schedule = tile::share_k(kinds.at(share), tiles, k_tiles, clusters);
  const auto pieces = [&](int cluster) {
    std::vector<std::string> found;
    tile::KShares share(schedule, schedule.part_of(cluster));
    for (; share.has(); share.next()) {
      found.push_back(numbers({share.tile(), share.first_k(), share.k_tiles()}));
    }
    return array(found);
  };
  return object(
      {{"whole", number(schedule.whole)}, {"clusters", array_of(schedule.clusters, pieces)}});
}

// What each lane of a warp gives to each stmatrix with which a warpgroup stages its results in boxes
// of 64 columns: the byte in the box that it points at, and the accumulators in its registers, the
// first of each two.
std::string box(Options& options) {
  const int warp = options.number("warp", 0);
  options.none_left();
  if (warp > 3) refuse("warp=0 to 3");
  constexpr int BOX = 64;
  static tile::SmemTile<__nv_bfloat16, 64, BOX> boxes[1];
  float acc[BOX / 2];
  for (int i = 0; i < BOX / 2; ++i) acc[i] = static_cast<float>(i);
  std::vector<std::string> lanes;
  for (int lane = 0; lane < 32; ++lane) {
    threadIdx.x = warp * 32 + lane;
    ptx::noted.clear();
    block::stage_tile(acc, boxes);
    lanes.push_back(array_of(static_cast<int>(ptx::noted.size()), [&](int i) {
      const ptx::Stmatrix& one = ptx::noted[i];
      return object(
          {{"offset", number(one.row - boxes[0].bytes)},
           {"registers", array_of(4, [&](int r) { return number(one.registers[r] & 0xffff); })}});
    }));
  }
  return object({{"lanes", array(lanes)}});
}

// Where the weights of the first 16 rows and 64 of K of a block lie: its word in the block, and the
// word's bit at which it begins.
std::string packed(Options& options) {
  const int bits = options.number("bits", 4);
  options.none_left();
  if (bits != 4 && bits != 8) refuse("bits=4 or 8");
  const auto place_of = [&](int row, int k) {
    const tile::PackedPlace place = tile::packed_place(bits, row, k);
    return object({{"word", number(place.word)}, {"shift", number(place.shift)}});
  };
  const auto row_of = [&](int row) {
    return array_of(64, [&](int k) { return place_of(row, k); });
  };
  return object({{"bits", number(bits)}, {"places", array_of(16, row_of)}});
}

// What rung 11 chooses from.
std::string configurations(Options& options) {
  options.none_left();
  std::vector<std::string> found;
  for (const tile::GemmConfig& config : tile::CONFIGURATIONS) {
    found.push_back(
        object({{"name", quoted(config.name)},
                {"bm", number(config.bm())},
                {"bn", number(config.bn)},
                {"cluster", number(config.cluster())},
                {"slots", number(tile::ring_slots(config, tile::staging_buffers(config)))}}));
  }
  return array(found);
}

// What the cost model knows of an H200.
std::string gpu(Options& options) {
  options.none_left();
  const tile::Gpu h200;
  return object(
      {{"sms", number(h200.sms)}, {"l2_bytes", number(static_cast<long long>(h200.l2_bytes))}});
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::string (*)(Options&)> maps = {
      {"swizzle", swizzle},   {"operand", operand},
      {"fragment", fragment}, {"raster", raster},
      {"ring", ring},         {"shares", shares},
      {"box", box},           {"packed", packed},
      {"gpu", gpu},           {"configurations", configurations}};
  const std::string name = argc > 1 ? argv[1] : "";
  if (!maps.contains(name)) refuse("no map \"" + name + "\"");
  Options options(argc - 2, argv + 2);
  std::printf("%s\n", maps.at(name)(options).c_str());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    refuse("what it prints cannot be written: is the disk full?");
  }
}
