// Options: CLI11 behind a thin layer, so that one source file pays for it and every tool refuses in the same
// words.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/dtype.h"
#include "common/inject.h"

namespace tt {

/// Collects a tool's options, then parses. Every add_* binds a variable whose present value is the default;
/// `names` is CLI11's form, "-b,--minbytes"; `placeholder` stands for the value in the help. A bad value, an
/// unknown option or a stray word is a UsageError naming the option, the text and what is accepted. An option
/// given twice is an error unless it is a list.
class OptionSet {
 public:
  OptionSet(const std::string& tool, const std::string& description);
  ~OptionSet();
  void add_size(const std::string& names, int64_t& value, const std::string& help, int64_t min = 0);
  void add_int(const std::string& names, int& value, const std::string& help, int64_t min, int64_t max,
               const std::string& placeholder = "N");
  void add_int(const std::string& names, int64_t& value, const std::string& help, int64_t min, int64_t max,
               const std::string& placeholder = "N");
  void add_double(const std::string& names, double& value, const std::string& help, double min, double max,
                  const std::string& placeholder = "X");
  /// Empty unless given.
  void add_int(const std::string& names, std::optional<int64_t>& value, const std::string& help, int64_t min,
               int64_t max, const std::string& placeholder = "N");
  void add_double(const std::string& names, std::optional<double>& value, const std::string& help, double min,
                  double max, const std::string& placeholder = "X");
  void add_bool(const std::string& names, bool& value,
                const std::string& help);  // takes 0 or 1, as nccl-tests does
  void add_flag(const std::string& names, bool& value, const std::string& help);  // takes nothing
  void add_text(const std::string& names, std::string& value, const std::string& help,
                const std::string& placeholder = "TEXT");
  void add_texts(const std::string& names, std::vector<std::string>& values, const std::string& help,
                 const std::string& placeholder = "TEXT");  // repeatable
  void add_choice(const std::string& names, std::string& value, const std::vector<std::string>& accepted,
                  const std::string& help);
  /// Comma-separated list, each out of `accepted` (any text when empty); "all" stands for all of them if
  /// `all` is set.
  void add_choices(const std::string& names, std::vector<std::string>& values,
                   const std::vector<std::string>& accepted, const std::string& help, bool all = false);
  void add_ints(const std::string& names, std::vector<int>& values, const std::string& help, int64_t min,
                int64_t max);
  /// Any parser that throws UsageError; `text` is the default shown in the help.
  void add_custom(const std::string& names, std::function<void(const std::string&)> parse,
                  const std::string& text, const std::string& help);
  /// Starts a heading in --help.
  void heading(const std::string& title);

  enum class Outcome { run, help, version };
  /// Throws the first UsageError, after all values that are good were taken. On `help` the text is in help().
  /// `version` when --version was given (added by the constructor).
  Outcome parse(int argc, const char* const* argv);
  std::string help() const;

  /// Every option's final value as text, by long name, for the record's settings.
  std::vector<std::pair<std::string, std::string>> settings() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Common to all executables.
struct CommonOptions {
  std::string device = "auto";  // auto cuda host
  std::string comm = "auto";    // auto nccl mpi
  std::string bind = "numa";    // numa core none
  int gpus = 1;                 // -g: ranks to start on this node when there is no launcher
  double duration_s = 0;        // --duration: soak
  double timeout_s = 600;       // -T: one phase or one row may take this long; 0 = no watchdog
  std::string baseline;         // file
  double min_ratio = 0.90;
  std::string json, prom;  // files
  int telemetry_interval_ms = 100;
  int64_t seed = 1;
  bool list = false;       // --list: the rows that would be measured, nothing run
  bool share_gpu = false;  // --share-gpu: several ranks on one GPU are wanted
  std::vector<std::string> inject_texts;
  Injection injection;  // parsed
};

/// Adds them; finish_common() after parse() turns inject_texts into injection and checks combinations.
void add_common(OptionSet& set, CommonOptions& options);
void finish_common(CommonOptions& options);

/// nccl-tests' sweep: -b -e -f -i -n -w -c.
struct SweepOptions {
  int64_t min_bytes = 32 << 20, max_bytes = 32 << 20;
  double factor = 0;             // -f; 0: use step
  int64_t step_bytes = 1 << 20;  // -i
  int iterations = 20;           // -n
  int warmup = 1;                // -w: at least this many; the warm-up goes on until stable
  bool check = true;             // -c
};
void add_sweep(OptionSet& set, SweepOptions& options, const std::string& unit = "bytes");

/// The sizes of the sweep, first min, last <= max. Throws UsageError when min > max, factor <= 1 or step is
/// 0.
std::vector<int64_t> sizes_of(const SweepOptions& options);

}  // namespace tt
