#include "src/llm/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/error.h"

namespace tt {
namespace {

[[noreturn]] void fail(const std::string& path, const char* call, int error) {
  throw EnvironmentError(path + ": " + call + " failed: " + std::strerror(error));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, "open", errno);
  struct stat status {};
  const int stat_error = ::fstat(descriptor, &status) == 0 ? 0 : errno;
  const bool regular = S_ISREG(status.st_mode);
  void* data = nullptr;
  int map_error = 0;
  if (stat_error == 0 && regular && status.st_size > 0) {
    data = ::mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) map_error = errno;
  }
  ::close(descriptor);
  if (stat_error) fail(path, "fstat", stat_error);
  if (!regular) throw EnvironmentError(path + ": not a regular file");
  if (map_error) fail(path, "mmap", map_error);
  data_ = static_cast<const char*>(data);
  bytes_ = status.st_size;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<char*>(data_), static_cast<size_t>(bytes_));
}

std::string read_text_file(const std::string& path, int64_t limit) {
  const MappedFile file(path);
  if (file.bytes() > limit)
    throw EnvironmentError(path + ": " + std::to_string(file.bytes()) + " bytes, more than the " +
                           std::to_string(limit) + " that are read");
  return {file.data(), static_cast<size_t>(file.bytes())};
}

}  // namespace tt
