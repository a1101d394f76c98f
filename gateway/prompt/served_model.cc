#include "gateway/prompt/served_model.h"

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kvstore/block/block_key.h"
#include "services/base/log.h"
#include "services/base/status_macros.h"

namespace baton::gateway {
namespace {

std::shared_ptr<const text::ChatTemplate> BuildTemplate(
    const gguf::GgufHeader& header, const text::Tokenizer& tokenizer) {
  auto source = header.String("tokenizer.chat_template");
  if (!source.ok()) return nullptr;
  std::string bos, eos;
  if (tokenizer.bos() >= 0) bos = tokenizer.TokenBytes(tokenizer.bos(), true);
  if (auto id = header.Unsigned("tokenizer.ggml.eos_token_id"); id.ok()) {
    eos = tokenizer.TokenBytes(static_cast<TokenId>(*id), true);
  }
  auto made = text::ChatTemplate::Create(*source, bos, eos, {});
  if (!made.ok()) {
    Log(LogLevel::kWarning, "chat template not usable",
        {{"error", made.status().ToString()}});
    return nullptr;
  }
  return *std::move(made);
}

uint64_t CountParameters(const gguf::GgufHeader& header) {
  uint64_t count = 0;
  for (const gguf::GgufTensorInfo& tensor : header.tensors()) {
    uint64_t elements = 1;
    for (int64_t extent : tensor.shape) elements *= extent;
    count += elements;
  }
  return count;
}

// The file's name without folder and ".gguf".
std::string NameOfFile(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  const size_t suffix = name.rfind(".gguf");
  return suffix == std::string::npos ? name : name.substr(0, suffix);
}

}  // namespace

absl::StatusOr<ServedModel> BuildServedModel(const gguf::GgufHeader& header) {
  ServedModel model;
  BATON_ASSIGN_OR_RETURN(model.architecture,
                         header.String("general.architecture"));
  BATON_ASSIGN_OR_RETURN(
      uint64_t context,
      header.Unsigned(absl::StrCat(model.architecture, ".context_length")));
  if (context == 0 || context > (uint64_t{1} << 30)) {
    return absl::InvalidArgumentError(
        absl::StrCat("context length ", context, " is out of range"));
  }
  model.context_length = static_cast<uint32_t>(context);
  BATON_ASSIGN_OR_RETURN(auto tokenizer, text::Tokenizer::Create(header));
  model.tokenizer = std::move(tokenizer);
  model.chat_template = BuildTemplate(header, *model.tokenizer);
  model.parameters = CountParameters(header);
  return model;
}

std::shared_ptr<ModelTracker> ModelTracker::Create(const Options& options,
                                                   HeaderSource* headers,
                                                   Executor* executor,
                                                   const Clock* clock,
                                                   Observer observer) {
  return std::shared_ptr<ModelTracker>(
      new ModelTracker(options, headers, executor, clock, std::move(observer)));
}

ModelTracker::ModelTracker(const Options& options, HeaderSource* headers,
                           Executor* executor, const Clock* clock,
                           Observer observer)
    : options_(options),
      headers_(headers),
      executor_(executor),
      clock_(clock),
      observer_(std::move(observer)) {}

std::shared_ptr<const ServedModel> ModelTracker::Current() const {
  MutexLock lock(&mutex_);
  return current_;
}

absl::Status ModelTracker::Problem() const {
  MutexLock lock(&mutex_);
  return problem_;
}

absl::Status ModelTracker::LoadFile(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(auto header, gguf::GgufHeader::FromFile(path));
  BATON_ASSIGN_OR_RETURN(ServedModel model, BuildServedModel(*header));
  std::string bytes(header->header_bytes(), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
    return absl::UnavailableError(absl::StrCat("cannot read ", path));
  }
  WorkerFacts facts;
  facts.model_name = NameOfFile(path);
  facts.header_digest = kvstore::Sha256(bytes).Raw();
  file.seekg(0, std::ios::end);
  facts.file_bytes = static_cast<uint64_t>(file.tellg());
  Publish(std::move(model), facts);
  return absl::OkStatus();
}

void ModelTracker::OnFacts(const std::string& address,
                           const WorkerFacts& facts) {
  {
    MutexLock lock(&mutex_);
    if (fetching_) return;
    if (current_ != nullptr && header_digest_ == facts.header_digest &&
        current_->digest == facts.model_digest) {
      return;
    }
    // It would be refused again.
    if (!refused_digest_.empty() && refused_digest_ == facts.header_digest) {
      return;
    }
    fetching_ = true;
  }
  headers_->Fetch(address, [self = shared_from_this(),
                            facts](absl::StatusOr<std::string> bytes) {
    // Building a tokenizer takes a while; RPC threads do not wait for it.
    const bool posted =
        self->executor_->Post([self, facts, bytes = std::move(bytes)] {
          self->OnHeader(facts, bytes);
        });
    if (!posted) {
      MutexLock lock(&self->mutex_);
      self->fetching_ = false;
    }
  });
}

void ModelTracker::OnHeader(const WorkerFacts& facts,
                            const absl::StatusOr<std::string>& bytes) {
  if (!bytes.ok()) {
    Log(LogLevel::kError, "model header not received",
        {{"error", bytes.status().ToString()}});
  } else if (kvstore::Sha256(*bytes).Raw() != facts.header_digest) {
    Log(LogLevel::kError, "model header not received",
        {{"error", "its digest is not the worker's"}});
  } else if (const absl::Status status = Adopt(facts, *bytes); !status.ok()) {
    Refuse(facts, status);
  }
  MutexLock lock(&mutex_);
  fetching_ = false;
}

void ModelTracker::Refuse(const WorkerFacts& facts,
                          const absl::Status& problem) {
  Log(LogLevel::kError, "model header not usable",
      {{"error", problem.ToString()}});
  MutexLock lock(&mutex_);
  // The workers have another model than the one before: its tokens would mean
  // something else to them.
  current_ = nullptr;
  header_digest_.clear();
  refused_digest_ = facts.header_digest;
  problem_ = problem;
}

absl::Status ModelTracker::Adopt(const WorkerFacts& facts,
                                 const std::string& bytes) {
  BATON_ASSIGN_OR_RETURN(auto header, gguf::GgufHeader::FromBytes(bytes));
  BATON_ASSIGN_OR_RETURN(ServedModel model, BuildServedModel(*header));
  // A worker may run with a shorter context than the model was trained for.
  if (facts.context_length > 0) model.context_length = facts.context_length;
  Publish(std::move(model), facts);
  return absl::OkStatus();
}

void ModelTracker::Publish(ServedModel model, const WorkerFacts& facts) {
  model.name = options_.served_names.empty() ? facts.model_name
                                             : options_.served_names.front();
  for (size_t i = 1; i < options_.served_names.size(); ++i) {
    model.aliases.push_back(options_.served_names[i]);
  }
  if (model.name != facts.model_name) model.aliases.push_back(facts.model_name);
  if (facts.parameters > 0) model.parameters = facts.parameters;
  model.file_bytes = facts.file_bytes;
  model.file_type = facts.file_type;
  model.digest = facts.model_digest;
  model.created_unix_seconds = absl::ToUnixSeconds(clock_->Now());
  auto shared = std::make_shared<const ServedModel>(std::move(model));
  {
    MutexLock lock(&mutex_);
    header_digest_ = facts.header_digest;
    refused_digest_.clear();
    problem_ = absl::OkStatus();
    current_ = shared;
  }
  Log(LogLevel::kInfo, "model served",
      {{"model", shared->name}, {"context", shared->context_length}});
  if (observer_) observer_(*shared);
}

}  // namespace baton::gateway
