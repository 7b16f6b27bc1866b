// Files and folders that appear whole or not at all: written under another name beside the target, then
// renamed. Errors are EnvironmentErrors naming the target and the cause (disk full, not writable, …), and
// leave nothing behind.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tt {

/// A file being written.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();  // removes what was written unless it was published
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// What was written is on the disk, and at `path`; what was there before is replaced.
  void publish();

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
};

/// A folder being filled.
class OutputFolder {
 public:
  /// The folder's parent exists; the folder does not, or is empty.
  explicit OutputFolder(const std::string& path);
  ~OutputFolder();  // removes everything unless it was published
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Where a file of this name has to be written for now.
  std::string path_of(const std::string& name) const;
  /// The folder is at its path.
  void publish();

 private:
  std::string path_, temporary_;
  bool published_ = false;
};

/// UsageError naming `option` unless an OutputFolder can be made at `path` now: for options, before any work
/// is done.
void check_output_folder(const std::string& option, const std::string& path);

}  // namespace tt
