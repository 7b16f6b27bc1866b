// A file's bytes in memory, read on demand by the system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tt {

/// A regular file, mapped for reading. Errors are EnvironmentErrors naming the file.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  const char* data() const { return data_; }  // of any alignment to what is read there
  int64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  const char* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// A whole small text file; EnvironmentError naming the file, also when it is larger than `limit` bytes.
std::string read_text_file(const std::string& path, int64_t limit = int64_t{64} << 20);

}  // namespace tt
