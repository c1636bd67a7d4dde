// build/ptx-machine: runs a CUDA program on the PTX machine. It puts the machine's libraries in front
// of the toolkit's, turns options into the machine's settings, and says beforehand what would keep the
// program from finding them. It knows nothing of PTX.
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/machine/check/rules.h"
#include "common/machine/tools/leave_out.h"
#include "common/machine/tools/process.h"

namespace {

namespace fs = std::filesystem;

constexpr char HELP[] =
    R"(Runs a CUDA program on the PTX machine: its kernels on the CPU, each access checked. No GPU is needed.

Usage: ptx-machine [OPTIONS] PROGRAM [ARGUMENTS...]

  --policy=eager|lazy|random[,...]  when asynchronous copies and wgmma take effect (eager); with more
                                    than one the program runs once under each
  --seed=N                          of the policy random (1)
  --reports=first|all               end the launch at the first report, or list all and go on (first)
  --ignore=RULE[,RULE...]           leave out reports of these rules: --rules lists them
  --json[=FILE]                     reports as JSON, one object a line: appended to FILE, or on stderr
                                    in place of the text; of --leave-out=each its list, on stdout
  --sms=N                           SMs of the device (132); more CTAs than they hold wait
  --threads=N                       worker threads (all cores)
  --leave-out=each                  which fences, barriers, waits and arrivals does the program need?
                                    Runs it again for each of them, without it, and lists what is
                                    reported then; under eager, lazy and random, or --policy
  --leave-out=N                     runs it once without the Nth of that list, and shows the report
  --no-check                        run without looking for races
  --no-poison                       new device memory is 0, not NaN that is reported when it is read
  --rules                           print the rules and end
  --help                            print this and end

The program must be linked with the shared runtime and carry its PTX uncompressed; -lineinfo gives
reports their source lines:
  nvcc -lineinfo --cudart shared --no-compress \
    -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' ...
A script, or a program that loads such code as a library (python3 x.py), runs as it is.

Exit code: the program's own, but where that is 0:
  1  something was reported     2  bad usage, or it cannot be run here     4  a deadlock or livelock
With several policies, of the first one whose code is not 0.
)";

constexpr char FLAGS[] =
    "--cudart shared --no-compress -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]'";
using tools::fail;
using tools::joined;
using tools::REFUSED;

[[noreturn]] void print_and_end(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    fail("what it prints cannot be written: is the disk full?");
  }
  std::exit(0);
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream text(list);
  for (std::string word; std::getline(text, word, ',');) words.push_back(word);
  if (list.ends_with(',')) words.emplace_back();
  return words;
}

bool is_one_of(const std::string& word, const std::vector<std::string>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// ---- Options ------------------------------------------------------------------------------------

std::vector<std::string> rule_names() {
  std::vector<std::string> names;
  for (const machine::Rule& rule : machine::rule::IGNORABLE) names.emplace_back(rule.name);
  return names;
}

bool is_number(const std::string& value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c));
  });
}

void check_number(const std::string& option, const std::string& value) {
  if (!is_number(value)) fail(option + " is '" + value + "' but must be a whole number, as 4.");
}

struct Options {
  std::vector<std::string> policies;
  std::string leave_out;  // "each", a number, or "": nothing
  int program = 1;        // index of its name among the arguments
};

// Sets the machine's variables; an option is stronger than a variable.
Options read_options(int count, char** arguments) {
  Options options;
  std::set<std::string> given;
  for (int& i = options.program; i < count && arguments[i][0] == '-'; ++i) {
    const std::string text = arguments[i];
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const bool has_value = equals != std::string::npos;
    const std::string value = has_value ? text.substr(equals + 1) : "";
    if (text != "--" && !given.insert(name).second)
      fail(name + " is given more than once, as " + text + " too; give it once.");
    const auto set = [&](const char* variable, const std::string& to) {
      setenv(variable, to.c_str(), 1);
    };
    if (text == "--") {
      ++i;
      break;
    }
    if (text == "--help" || text == "-h") {
      print_and_end(HELP);
    } else if (text == "--rules") {
      print_and_end(joined(rule_names(), "\n") + "\n");
    } else if (name == "--policy" && has_value) {
      for (const std::string& policy : split(value)) {
        if (!is_one_of(policy, {"eager", "lazy", "random"})) {
          fail("--policy has '" + policy + "' but there are eager, lazy and random.");
        }
        if (is_one_of(policy, options.policies)) fail("--policy has " + policy + " twice.");
        options.policies.push_back(policy);
      }
      if (options.policies.empty()) fail("--policy names none; there are eager, lazy and random.");
    } else if (name == "--reports" && has_value) {
      if (value != "first" && value != "all") {
        fail("--reports is '" + value + "' but must be first or all.");
      }
      set("MACHINE_REPORTS", value);
    } else if (name == "--ignore" && has_value) {
      for (const std::string& rule : split(value)) {
        if (!is_one_of(rule, rule_names())) {
          fail("--ignore: there is no rule '" + rule + "'; there are " + joined(rule_names()) +
               ".");
        }
      }
      if (value.empty()) fail("--ignore names no rule; there are " + joined(rule_names()) + ".");
      set("MACHINE_IGNORE", value);
    } else if (name == "--json") {
      if (has_value && value.empty()) fail("--json= needs a file, as --json=reports.jsonl.");
      const bool is_file = has_value && value != "-";
      if (is_file && !std::ofstream(value, std::ios::app)) {
        fail("--json: " + value + " cannot be written: " + std::strerror(errno) + ".");
      }
      // Programs may change their folder.
      set("MACHINE_JSON", is_file ? fs::absolute(value).string() : "-");
    } else if (name == "--seed" || name == "--sms" || name == "--threads") {
      check_number(name, value);
      set(name == "--seed"  ? "MACHINE_SEED"
          : name == "--sms" ? "MACHINE_SMS"
                            : "MACHINE_THREADS",
          value);
    } else if (name == "--leave-out") {
      if (value != "each" && !is_number(value)) {
        fail("--leave-out is '" + value +
             "' but must be each, or a number of the list that each "
             "prints.");
      }
      options.leave_out = value;
    } else if (text == "--no-check") {
      set("MACHINE_CHECK", "0");
    } else if (text == "--no-poison") {
      set("MACHINE_POISON", "0");
    } else {
      fail("there is no option " + text + "; --help lists them.");
    }
  }
  return options;
}

// ---- What must be true of the program -----------------------------------------------------------

// Of an ELF file; nothing of what is none, as of a script.
class Elf {
 public:
  explicit Elf(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    Elf64_Ehdr head;
    if (!copy(0, &head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB) {
      return;
    }
    Elf64_Shdr names{};
    copy(head.e_shoff + head.e_shstrndx * sizeof names, &names);
    for (uint32_t i = 0; i < head.e_shnum; ++i) {
      Elf64_Shdr section{};
      if (!copy(head.e_shoff + i * sizeof section, &section)) return;
      sections_.emplace_back(text_at(names.sh_offset + section.sh_name), section);
    }
  }

  bool has(const std::string& name) const { return find(name).has_value(); }

  // The texts of a tag of the dynamic section.
  std::vector<std::string> dynamic(int64_t tag) const {
    std::vector<std::string> texts;
    const auto entries = find(".dynamic"), strings = find(".dynstr");
    if (!entries || !strings) return texts;
    Elf64_Dyn entry{};
    for (uint64_t at = 0; at + sizeof entry <= entries->sh_size; at += sizeof entry) {
      if (!copy(entries->sh_offset + at, &entry)) break;
      if (entry.d_tag == tag) texts.push_back(text_at(strings->sh_offset + entry.d_un.d_val));
    }
    return texts;
  }

 private:
  template <class T>
  bool copy(uint64_t offset, T* to) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return false;
    std::memcpy(to, bytes_.data() + offset, sizeof(T));
    return true;
  }
  std::string text_at(uint64_t offset) const {
    if (offset >= bytes_.size()) return "";
    return {bytes_.data() + offset, strnlen(bytes_.data() + offset, bytes_.size() - offset)};
  }
  std::optional<Elf64_Shdr> find(const std::string& name) const {
    for (const auto& [known, section] : sections_) {
      if (known == name) return section;
    }
    return {};
  }

  std::vector<char> bytes_;
  std::vector<std::pair<std::string, Elf64_Shdr>> sections_;
};

// Ends with what is missing if the program has device code that the machine cannot reach.
void check_program(const fs::path& path, const std::string& runtime) {
  const Elf elf(path);
  std::vector<std::string> asked = elf.dynamic(DT_NEEDED);
  std::erase_if(asked, [](const std::string& name) { return !name.starts_with("libcudart.so"); });
  if (asked.empty() && elf.has(".nv_fatbin")) {
    fail(path.string() + " has the CUDA runtime linked in; rebuild it with nvcc " + FLAGS);
  }
  if (!asked.empty() && !elf.dynamic(DT_RPATH).empty()) {
    fail(path.string() +
         " has an RPATH, which comes before LD_LIBRARY_PATH; relink it with "
         "-Xlinker --enable-new-dtags, which makes it a RUNPATH");
  }
  for (const std::string& name : asked) {
    if (name == runtime) continue;
    fail(path.string() + " needs " + name + ", but the machine was built for " + runtime +
         "; build one of them with the other's CUDA toolkit");
  }
}

// ---- Where things are ---------------------------------------------------------------------------

// The folder of the machine's libraries: build/machine, or lib/ptx-machine where it is installed.
fs::path machine_folder(std::string* runtime) {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path folders[] = {here / "machine", here.parent_path() / "lib" / "ptx-machine"};
  for (const fs::path& folder : folders) {
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      *runtime = entry.path().filename().string();
      if (runtime->starts_with("libcudart.so.")) return folder;
    }
  }
  fail("the PTX machine's libraries are neither in " + folders[0].string() + " nor in " +
       folders[1].string() + "; make machine builds them, make install puts them there");
}

fs::path find_program(const std::string& name) {
  const auto runs = [](const fs::path& path) {
    return fs::is_regular_file(path) && access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    if (runs(name)) return name;
  } else {
    const char* const path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
      if (runs(fs::path(folder) / name)) return fs::path(folder) / name;
    }
  }
  fail("there is no program " + name + " that can be run");
}

}  // namespace

int main(int count, char** arguments) {
  const Options options = read_options(count, arguments);
  if (options.program >= count) {
    std::fputs(HELP, stderr);
    return REFUSED;
  }
  std::string runtime;
  const std::string machine = machine_folder(&runtime).string();
  const fs::path program = find_program(arguments[options.program]);
  check_program(program, runtime);
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  const bool has_before = before != nullptr && *before != '\0';
  setenv("LD_LIBRARY_PATH", (has_before ? machine + ":" + before : machine).c_str(), 1);

  char** const its_arguments = arguments + options.program;
  if (!options.leave_out.empty()) {
    return tools::leave_out(options.leave_out, options.policies, program, its_arguments);
  }
  if (options.policies.size() <= 1) {
    if (!options.policies.empty()) setenv("MACHINE_POLICY", options.policies[0].c_str(), 1);
    tools::become(program, its_arguments);
  }
  int first = 0;
  for (const std::string& policy : options.policies) {
    setenv("MACHINE_POLICY", policy.c_str(), 1);
    const int code = tools::run_once(program, its_arguments);
    std::fprintf(stderr, "ptx-machine: policy %s: exit code %d\n", policy.c_str(), code);
    if (first == 0) first = code;
  }
  return first;
}
