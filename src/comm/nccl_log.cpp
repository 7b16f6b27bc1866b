#include "src/comm/nccl_log.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace tt {
namespace {

/// The word behind `label`.
std::string word_after(std::string_view line, std::string_view label) {
  const size_t at = line.find(label);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = line.substr(at + label.size());
  return std::string(rest.substr(0, rest.find_first_of(" \r\n")));
}

}  // namespace

std::string algorithm_in(std::string_view log) {
  std::string last;
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = log.find('\n', begin);
    if (end == std::string_view::npos) break;  // a line that is still being written
    const std::string_view line = log.substr(begin, end - begin);
    const std::string algorithm = word_after(line, " Algo "), protocol = word_after(line, " proto ");
    if (!algorithm.empty() && !protocol.empty()) last = algorithm + "/" + protocol;
    begin = end + 1;
  }
  return last;
}

NcclTuningLog::NcclTuningLog() {
  if (std::getenv("NCCL_DEBUG")) return;
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string(folder && *folder ? folder : "/tmp") + "/nccl-tuning-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return;
  close(file);
  path_ = path;
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "TUNING", 1);
  setenv("NCCL_DEBUG_FILE", path_.c_str(), 1);
}

NcclTuningLog::~NcclTuningLog() {
  if (on()) unlink(path_.c_str());
}

std::string NcclTuningLog::last_algorithm() {
  if (!on()) return "";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path_.c_str(), "rb"), std::fclose);
  if (!file || std::fseek(file.get(), read_, SEEK_SET) != 0) return "";
  std::string text;
  char part[65536];
  for (size_t n; (n = std::fread(part, 1, sizeof part, file.get())) > 0;) text.append(part, n);
  const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  read_ += static_cast<long>(whole);
  return algorithm_in(std::string_view(text).substr(0, whole));
}

}  // namespace tt
