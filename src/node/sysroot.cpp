#include "src/node/sysroot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/error.h"

namespace tt::node {
namespace {

namespace fs = std::filesystem;
constexpr size_t kLimit = 4 << 20;
constexpr int kMaxLinks = 40;  // as the kernel's own limit

class File {
 public:
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::string words_of(int error) {
  return std::strerror(error);
}

}  // namespace

Sysroot::Sysroot(const std::string& root) : root_(root) {
  while (!root_.empty() && root_.back() == '/') root_.pop_back();
  std::error_code error;
  if (!root_.empty() && !fs::is_directory(root_, error))
    throw EnvironmentError("--sysroot: '" + root + "' is not a folder" +
                           (error ? ": " + error.message() : ""));
}

Text Sysroot::resolve(const std::string& path) const {
  std::string done;         // resolved so far, "" is the root
  std::string rest = path;  // still to walk
  for (int links = 0;;) {
    rest.erase(0, rest.find_first_not_of('/'));
    if (rest.empty()) return Text::of(done.empty() ? "/" : done);
    const size_t slash = rest.find('/');
    const std::string part = rest.substr(0, slash);
    rest = slash == std::string::npos ? "" : rest.substr(slash);
    if (part == ".") continue;
    if (part == "..") {
      done.erase(std::min(done.rfind('/'), done.size()));
      continue;
    }
    const std::string next = done + "/" + part;
    std::error_code error;
    const fs::path target = fs::read_symlink(real(next), error);
    if (error) {  // not a link, or not there: the caller's open() tells
      done = next;
      continue;
    }
    if (++links > kMaxLinks) return Text::unknown(path + ": too many links");
    note(next, Kind::link);
    if (target.is_absolute()) done.clear();
    rest = target.string() + rest;
    if (rest.front() != '/') rest.insert(0, "/");
  }
}

Text Sysroot::text(const std::string& path) const {
  Text text = bytes(path);
  const auto blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) || c == '\0'; };
  while (text && !text.value->empty() && blank(text.value->back())) text.value->pop_back();
  return text;
}

Text Sysroot::bytes(const std::string& path) const {
  const Text where = resolve(path);
  if (!where) return where;
  const File file(real(*where));
  struct stat status {};
  if (file.fd() < 0 || ::fstat(file.fd(), &status) != 0) return Text::unknown(path + ": " + words_of(errno));
  if (!S_ISREG(status.st_mode)) return Text::unknown(path + ": not a regular file");
  std::string text;
  char block[16384];
  while (text.size() < kLimit) {
    const ssize_t got = ::read(file.fd(), block, std::min(sizeof block, kLimit - text.size()));
    if (got < 0) return Text::unknown(path + ": " + words_of(errno));
    if (got == 0) break;
    text.append(block, static_cast<size_t>(got));
  }
  note(*where, Kind::file);
  return Text::of(std::move(text));
}

Reading<int64_t> Sysroot::integer(const std::string& path) const {
  const Text t = text(path);
  if (!t) return Reading<int64_t>::unknown(t.why);
  auto number = to_integer(*t);
  if (!number) number.why = path + ": " + number.why;
  return number;
}

Reading<std::vector<std::string>> Sysroot::list(const std::string& folder) const {
  using Names = Reading<std::vector<std::string>>;
  const Text where = resolve(folder);
  if (!where) return Names::unknown(where.why);
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(real(*where), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename());
  if (error) return Names::unknown(folder + ": " + error.message());
  std::sort(names.begin(), names.end(), [](auto& a, auto& b) { return compare_natural(a, b) < 0; });
  note(*where, Kind::folder);
  return Names::of(std::move(names));
}

bool Sysroot::exists(const std::string& path) const {
  const Text where = resolve(path);
  std::error_code error;
  const fs::file_status status = where ? fs::status(real(*where), error) : fs::file_status();
  if (!fs::exists(status)) return false;
  // In a copy, a file whose existence alone was asked for lies there too (empty when it cannot be read).
  note(*where, fs::is_directory(status) ? Kind::folder : Kind::file);
  return true;
}

void Sysroot::copy_read(const std::string& folder) const {
  const auto fail = [](const std::string& what, const std::error_code& error) {
    throw EnvironmentError("--record: cannot write " + what + ": " + error.message());
  };
  const auto make_folder = [&](const fs::path& at) {
    std::error_code error;
    fs::create_directories(at, error);
    if (error) fail(at, error);
  };
  // Copying reads through text(), which notes what it reads: walk over a copy of the list.
  const auto read = read_;
  for (const auto& [path, kind] : read) {
    const fs::path at = folder + path;
    make_folder(kind == Kind::folder ? at : at.parent_path());
    std::error_code error;
    if (kind == Kind::link && !fs::is_symlink(fs::symlink_status(at, error))) {
      fs::create_symlink(fs::read_symlink(real(path), error), at, error);
      if (error) fail(at, error);
    } else if (kind == Kind::file) {
      std::ofstream file(at, std::ios::binary);
      const Text content = bytes(path);
      file << (content ? *content : "");
      if (!file.flush()) fail(at, std::make_error_code(std::errc::io_error));
    }
  }
  for (const auto& [path, kind] : read) {  // what a listing named but nobody read: present, empty
    if (kind != Kind::folder) continue;
    const auto names = list(path);
    if (!names) continue;
    for (const std::string& name : *names) {
      const fs::path at = folder + path + "/" + name;
      std::error_code error;
      if (fs::exists(fs::symlink_status(at, error))) continue;
      if (fs::is_directory(real(path + "/" + name), error))
        make_folder(at);
      else
        std::ofstream(at).flush();
    }
  }
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (const char c : text.substr(0, limit)) out += (c >= ' ' && c <= '~') ? c : '?';
  return text.size() > limit ? out + "..." : out;
}

Reading<int64_t> to_integer(std::string_view text) {
  const std::string_view digits = text.starts_with("0x") ? text.substr(2) : text;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value,
                                            digits.size() < text.size() ? 16 : 10);
  if (error == std::errc() && end == digits.data() + digits.size()) return Reading<int64_t>::of(value);
  return Reading<int64_t>::unknown("'" + printable(text, 40) + "' is not a whole number" +
                                   (error == std::errc::result_out_of_range ? " of 64 bits" : ""));
}

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

int compare_natural(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto run = [&](std::string_view& text) {  // takes a run of digits, without leading zeros
    size_t n = 0;
    while (n < text.size() && digit(text[n])) ++n;
    std::string_view digits = text.substr(0, n);
    text.remove_prefix(n);
    while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
    return digits;
  };
  while (!a.empty() && !b.empty()) {
    if (digit(a.front()) && digit(b.front())) {
      const std::string_view x = run(a), y = run(b);
      if (x.size() != y.size()) return x.size() < y.size() ? -1 : 1;
      if (const int order = x.compare(y)) return order;
    } else {
      if (a.front() != b.front())
        return static_cast<unsigned char>(a.front()) < static_cast<unsigned char>(b.front()) ? -1 : 1;
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.empty() ? (b.empty() ? 0 : -1) : 1;
}

Reading<int64_t> count_list(const std::string& list) {
  const auto bad = [&] {
    return Reading<int64_t>::unknown("'" + printable(list, 40) + "' is not a list of numbers");
  };
  int64_t count = 0;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) {
    const size_t dash = part.find('-');
    const auto first = to_integer(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : to_integer(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > 1 << 24) return bad();
    count += *last - *first + 1;
  }
  return count > 0 ? Reading<int64_t>::of(count) : bad();
}

}  // namespace tt::node
