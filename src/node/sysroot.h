// Reads files below a root: "/" for this machine, or a recorded tree of another one (--sysroot DIR).
//
// A tree holds copies of the files at their own paths. What comes from calls rather than files lies in its
// folder live/: live/nvml.json, live/adjtimex.json, live/versions.json, live/kernel.log (docs/node_check.md
// describes them).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/reading.h"

namespace tt::node {

using Text = Reading<std::string>;

class Sysroot {
 public:
  /// EnvironmentError when `root` is not a folder.
  explicit Sysroot(const std::string& root = "/");

  bool live() const { return root_.empty(); }
  /// "/" or the tree's path, for messages.
  std::string root() const { return live() ? "/" : root_; }

  /// The file's text without white space at its end; at most the first 4 MiB. Unknown: "PATH: the system's
  /// words". Never blocks: what is not a regular file is refused.
  Text text(const std::string& path) const;
  /// The same, byte for byte (PCI configuration space).
  Text bytes(const std::string& path) const;
  /// As text(), empty files and texts that are not one whole number (decimal, or hexadecimal with 0x) being
  /// unknown.
  Reading<int64_t> integer(const std::string& path) const;
  /// Names in a folder, digits compared as numbers (cpu2 before cpu10).
  Reading<std::vector<std::string>> list(const std::string& folder) const;
  bool exists(const std::string& path) const;
  /// Where a path leads when all links are followed, as seen from the root: links never lead out of a tree.
  Text resolve(const std::string& path) const;

  /// Copies all that has been read so far through this object, links and listings included, to a new tree
  /// (`--record DIR`). EnvironmentError naming what could not be written.
  void copy_read(const std::string& folder) const;

 private:
  enum class Kind { file, folder, link };
  std::string real(const std::string& path) const { return root_ + path; }
  void note(const std::string& path, Kind kind) const { read_.try_emplace(path, kind); }

  std::string root_;  // "" for "/"
  mutable std::map<std::string, Kind> read_;
};

/// "a/b/c" -> "c".
std::string base_name(const std::string& path);
/// Text fit for one line of a terminal: control characters and bytes beyond ASCII as "?", cut to `limit` with
/// "...".
std::string printable(std::string_view text, size_t limit = 120);
/// The number that the whole text is; unknown: "'…' is not a whole number". Hexadecimal with 0x.
Reading<int64_t> to_integer(std::string_view text);
std::string_view trimmed(std::string_view text);
std::vector<std::string> split_lines(const std::string& text);
std::vector<std::string> split_words(const std::string& text);
/// Compares with runs of digits taken as numbers: "570.86" < "570.124", "eth2" < "eth10"; < 0, 0, > 0.
int compare_natural(std::string_view a, std::string_view b);
/// A list such as "0-3,8" -> 5; unknown when it is not one.
Reading<int64_t> count_list(const std::string& list);

}  // namespace tt::node
