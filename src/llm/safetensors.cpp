#include "src/llm/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <type_traits>

#include "src/device/dtype_visit.h"
#include "src/llm/json.h"

namespace tt {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

using Json = nlohmann::json;

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kLongestHeader = 100'000'000;  // the format's own limit

/// How many bits one element takes; nothing for a type that is not known.
std::optional<int64_t> bits_of(std::string_view dtype) {
  struct Width {
    std::string_view dtype;
    int64_t bits;
  };
  static constexpr Width kWidths[] = {
      {"F32", 32}, {"BF16", 16},   {"F16", 16},    {"F64", 64},    {"I64", 64}, {"I32", 32},
      {"I16", 16}, {"I8", 8},      {"U64", 64},    {"U32", 32},    {"U16", 16}, {"U8", 8},
      {"BOOL", 8}, {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"C64", 64}, {"F4", 4}};
  for (const Width& w : kWidths)
    if (w.dtype == dtype) return w.bits;
  return std::nullopt;
}

/// Calls f with the C++ type that stores these floats; false when they are none.
template <class F>
bool with_floats(std::string_view dtype, F&& f) {
  if (dtype == "F32")
    f(std::type_identity<float>{});
  else if (dtype == "BF16")
    f(std::type_identity<Bf16>{});
  else if (dtype == "F16")
    f(std::type_identity<F16>{});
  else
    return false;
  return true;
}

template <class F>
bool with_integers(std::string_view dtype, F&& f) {
  if (dtype == "I64")
    f(std::type_identity<int64_t>{});
  else if (dtype == "U64")
    f(std::type_identity<uint64_t>{});
  else if (dtype == "I32")
    f(std::type_identity<int32_t>{});
  else if (dtype == "U32")
    f(std::type_identity<uint32_t>{});
  else if (dtype == "I16")
    f(std::type_identity<int16_t>{});
  else if (dtype == "U16")
    f(std::type_identity<uint16_t>{});
  else if (dtype == "I8")
    f(std::type_identity<int8_t>{});
  else if (dtype == "U8")
    f(std::type_identity<uint8_t>{});
  else
    return false;
  return true;
}

template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (std::is_same_v<From, float>)
    return from_float<To>(x);
  else if constexpr (std::is_same_v<To, float>)
    return to_float(x);
  else
    return from_float<To>(to_float(x));
}

/// Elements of one type to elements of another; neither pointer need be aligned.
template <class To, class From>
void convert_bytes(const char* from, char* to, int64_t count) {
  if constexpr (std::is_same_v<To, From>) {
    if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(To));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      From x;
      std::memcpy(&x, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
      const To y = converted<To>(x);
      std::memcpy(to + i * static_cast<int64_t>(sizeof(To)), &y, sizeof(To));
    }
  }
}

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

/// A product of sizes; nothing when it is beyond int64.
std::optional<int64_t> product(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t n : shape)
    if (__builtin_mul_overflow(count, n, &count)) return std::nullopt;
  return count;
}

int64_t size_in(const JsonFields& fields, const std::string& name, const Json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    fields.fail(name, "has " + shown(value) + ", not a size");
  return value.get<int64_t>();
}

/// The entry of one tensor in the header.
TensorInfo parse_tensor(const std::string& file, const std::string& name, const Json& entry) {
  const std::string where = file + ": tensor " + in_quotes(name);
  if (!entry.is_object()) throw EnvironmentError(where + " is " + shown(entry) + ", not an object");
  const JsonFields fields(entry, where);
  TensorInfo tensor;
  tensor.name = name;
  tensor.dtype = fields.text("dtype");
  const Json &shape = fields.at("shape"), &offsets = fields.at("data_offsets");
  if (!shape.is_array()) fields.fail("shape", "is " + shown(shape) + ", not a list");
  for (const Json& n : shape) tensor.shape.push_back(size_in(fields, "shape", n));
  if (!offsets.is_array() || offsets.size() != 2)
    fields.fail("data_offsets", "is " + shown(offsets) + ", not a list of two");
  tensor.begin = size_in(fields, "data_offsets", offsets[0]);
  tensor.end = size_in(fields, "data_offsets", offsets[1]);
  const std::optional<int64_t> count = product(tensor.shape), width = bits_of(tensor.dtype);
  int64_t bits = 0;
  if (!count || (width && __builtin_mul_overflow(*count, *width, &bits)))
    fields.fail("shape", "is " + shown(shape) + ", too large");
  tensor.count = *count;
  if (tensor.end < tensor.begin) fields.fail("data_offsets", "is " + shown(offsets) + ", backwards");
  if (width && (bits % 8 != 0 || bits / 8 != tensor.end - tensor.begin))
    throw EnvironmentError(where + ": shape " + shape_text(tensor.shape) + " of " + tensor.dtype + " takes " +
                           std::to_string(bits / 8) + " bytes, data_offsets hold " +
                           std::to_string(tensor.end - tensor.begin));
  return tensor;
}

void check_metadata(const std::string& file, const Json& metadata) {
  bool texts = metadata.is_object();
  if (texts)
    for (const Json& value : metadata) texts = texts && value.is_string();
  if (!texts) throw EnvironmentError(file + ": __metadata__ is " + shown(metadata) + ", not texts by name");
}

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t n : shape) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "[" + text + "]";
}

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  parse_header();
  check_places();
  by_name_.resize(tensors_.size());
  for (size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = i;
  std::sort(by_name_.begin(), by_name_.end(),
            [this](size_t a, size_t b) { return tensors_[a].name < tensors_[b].name; });
}

void SafetensorsFile::parse_header() {
  const int64_t bytes = file_.bytes();
  if (bytes < kLengthBytes)
    throw EnvironmentError(path() + ": truncated: " + std::to_string(bytes) +
                           " bytes, no safetensors header length");
  uint64_t length = 0;
  std::memcpy(&length, file_.data(), sizeof(length));
  if (length > static_cast<uint64_t>(kLongestHeader))
    throw EnvironmentError(path() + ": header of " + std::to_string(length) + " bytes, more than the " +
                           std::to_string(kLongestHeader) + " of the safetensors format");
  if (static_cast<int64_t>(length) > bytes - kLengthBytes)
    throw EnvironmentError(path() + ": truncated: header of " + std::to_string(length) +
                           " bytes in a file of " + std::to_string(bytes));
  data_start_ = kLengthBytes + static_cast<int64_t>(length);
  const std::string_view text(file_.data() + kLengthBytes, length);
  const Json header = parse_json_file(text, path());
  if (!header.is_object()) throw EnvironmentError(path() + ": the header is not a JSON object");
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__")
      check_metadata(path(), entry);
    else if (has_control_characters(name))
      throw EnvironmentError(path() + ": tensor " + in_quotes(name) + " has control characters in its name");
    else
      tensors_.push_back(parse_tensor(path(), name, entry));
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
}

/// The tensors have to fill the data from its first byte to its last, without holes.
void SafetensorsFile::check_places() const {
  const int64_t available = file_.bytes() - data_start_;
  int64_t at = 0;
  const TensorInfo* before = nullptr;
  for (const TensorInfo& tensor : tensors_) {
    const std::string range =
        "takes bytes " + std::to_string(tensor.begin) + " to " + std::to_string(tensor.end) + " of the data";
    if (tensor.end > available)
      fail(tensor, range + ", of which the file has " + std::to_string(available) + " (truncated?)");
    if (tensor.begin < at) fail(tensor, range + ", overlapping tensor " + in_quotes(before->name));
    if (tensor.begin > at) fail(tensor, range + ", a hole after byte " + std::to_string(at));
    at = tensor.end;
    before = &tensor;
  }
  if (at != available)
    throw EnvironmentError(path() + ": " + std::to_string(available) + " bytes of data, " +
                           std::to_string(at) + " of them belong to tensors");
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto it = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [this](size_t i, std::string_view n) { return tensors_[i].name < n; });
  return it != by_name_.end() && tensors_[*it].name == name ? &tensors_[*it] : nullptr;
}

const TensorInfo& SafetensorsFile::at(std::string_view name) const {
  const TensorInfo* tensor = find(name);
  if (!tensor) throw EnvironmentError(path() + ": tensor " + in_quotes(name) + " is missing");
  return *tensor;
}

void SafetensorsFile::fail(const TensorInfo& tensor, const std::string& what) const {
  throw EnvironmentError(path() + ": tensor " + in_quotes(tensor.name) + " " + what);
}

bool SafetensorsFile::is_float(const TensorInfo& tensor) {
  return with_floats(tensor.dtype, [](auto) {});
}

bool SafetensorsFile::is_integer(const TensorInfo& tensor) {
  return with_integers(tensor.dtype, [](auto) {});
}

std::string_view SafetensorsFile::bytes(const TensorInfo& tensor) const {
  return {file_.data() + data_start_ + tensor.begin, static_cast<size_t>(tensor.end - tensor.begin)};
}

/// Where element `first` of a tensor of whole bytes is.
const char* SafetensorsFile::elements(const TensorInfo& tensor, int64_t first, int64_t count) const {
  if (first < 0 || count < 0 || first > tensor.count || count > tensor.count - first)
    throw std::out_of_range("SafetensorsFile::read: elements " + std::to_string(first) + " + " +
                            std::to_string(count) + " of " + std::to_string(tensor.count));
  return bytes(tensor).data() + first * (bits_of(tensor.dtype).value() / 8);
}

void SafetensorsFile::read(const TensorInfo& tensor, int64_t first, int64_t count, DType type,
                           void* to) const {
  const bool known = with_floats(tensor.dtype, [&](auto from_tag) {
    using From = typename decltype(from_tag)::type;
    const char* const from = elements(tensor, first, count);
    char* const out = static_cast<char*>(to);
    if (type == DType::f32)
      convert_bytes<float, From>(from, out, count);
    else if (type == DType::bf16)
      convert_bytes<Bf16, From>(from, out, count);
    else if (type == DType::f16)
      convert_bytes<F16, From>(from, out, count);
    else
      throw std::invalid_argument(std::string("SafetensorsFile::read: into ") + name_of(type));
  });
  if (!known)
    fail(tensor, "has dtype " + in_quotes(tensor.dtype) +
                     ", which is not implemented here; accepted: F32, BF16, F16");
}

void SafetensorsFile::read(const TensorInfo& tensor, int64_t first, int64_t count, int64_t* to) const {
  const bool known = with_integers(tensor.dtype, [&](auto from_tag) {
    using From = typename decltype(from_tag)::type;
    const char* const from = elements(tensor, first, count);
    for (int64_t i = 0; i < count; ++i) {
      From x;
      std::memcpy(&x, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
      if constexpr (std::is_same_v<From, uint64_t>)
        if (x > static_cast<uint64_t>(INT64_MAX))
          fail(tensor, "has the element " + std::to_string(x) + ", too large");
      to[i] = static_cast<int64_t>(x);
    }
  });
  if (!known)
    fail(tensor, "has dtype " + in_quotes(tensor.dtype) +
                     ", not integers; accepted: I8, U8, I16, U16, I32, U32, I64, U64");
}

std::vector<float> SafetensorsFile::floats(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  std::vector<float> values(static_cast<size_t>(is_float(tensor) ? tensor.count : 0));
  read(tensor, 0, tensor.count, DType::f32, values.data());
  return values;
}

std::vector<int64_t> SafetensorsFile::integers(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  std::vector<int64_t> values(static_cast<size_t>(is_integer(tensor) ? tensor.count : 0));
  read(tensor, 0, tensor.count, values.data());
  return values;
}

}  // namespace tt
