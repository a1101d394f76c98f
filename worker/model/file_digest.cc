#include "worker/model/file_digest.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "services/base/log.h"
#include "services/base/status_macros.h"

namespace baton::worker {
namespace {

// Between two calls of `progress`.
constexpr size_t kPieceBytes = size_t{16} << 20;

absl::StatusOr<kvstore::Digest> Compute(
    absl::string_view bytes, const std::function<void(double)>& progress) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(
      EVP_MD_CTX_new(), EVP_MD_CTX_free);
  const absl::Status failed = absl::InternalError("OpenSSL: SHA-256 failed");
  if (!context ||
      EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return failed;
  }
  for (size_t done = 0; done < bytes.size(); done += kPieceBytes) {
    const absl::string_view piece = bytes.substr(done, kPieceBytes);
    if (EVP_DigestUpdate(context.get(), piece.data(), piece.size()) != 1) {
      return failed;
    }
    if (progress) {
      progress(static_cast<double>(done + piece.size()) / bytes.size());
    }
  }
  kvstore::Digest digest;
  if (EVP_DigestFinal_ex(context.get(), digest.bytes.data(), nullptr) != 1) {
    return failed;
  }
  return digest;
}

// Named by the identity's digest, so that no field needs escaping.
std::string CachePath(const std::string& directory, const FileIdentity& id) {
  const std::string text = absl::StrCat(id.device, ":", id.inode, ":", id.size,
                                        ":", id.modified_nanoseconds);
  return absl::StrCat(directory, "/", kvstore::Sha256(text).Hex(), ".sha256");
}

std::optional<kvstore::Digest> ReadCached(const std::string& path) {
  std::ifstream in(path);
  std::string hex;
  if (!(in >> hex) || hex.size() != 64) return std::nullopt;
  if (hex.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return std::nullopt;
  }
  const auto digest = kvstore::Digest::FromRaw(absl::HexStringToBytes(hex));
  return digest.ok() ? std::make_optional(*digest) : std::nullopt;
}

// Written beside and renamed over, so that a reader sees all or nothing.
void WriteCached(const std::string& path, const kvstore::Digest& digest) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(),
                                      error);
  const std::string part = absl::StrCat(path, ".", getpid(), ".part");
  {
    std::ofstream out(part);
    out << digest.Hex() << '\n';
    out.close();
    if (!out) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) std::filesystem::rename(part, path, error);
  if (error) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    Log(LogLevel::kWarning, "the model file's digest cannot be remembered",
        {{"path", path}, {"error", error.message()}});
  }
}

}  // namespace

absl::StatusOr<kvstore::Digest> FileDigest(
    const MappedFile& file, const std::string& cache_directory,
    const std::function<void(double)>& progress) {
  const std::string path = cache_directory.empty()
                               ? ""
                               : CachePath(cache_directory, file.identity());
  if (!path.empty()) {
    if (const auto digest = ReadCached(path)) {
      if (progress) progress(1);
      return *digest;
    }
  }
  BATON_ASSIGN_OR_RETURN(const kvstore::Digest digest,
                         Compute(file.bytes(), progress));
  if (!path.empty()) WriteCached(path, digest);
  return digest;
}

}  // namespace baton::worker
