#include "services/cli/cluster/state_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const ProcessView& process) {
  return {{"name", process.name}, {"role", process.role},
          {"pid", process.pid},   {"grpc", process.grpc},
          {"http", process.http}, {"restarts", process.restarts}};
}

// Throws when a member is missing or of another type.
ProcessView FromJson(const Json& json) {
  return {
      json.at("name").get<std::string>(), json.at("role").get<std::string>(),
      json.at("pid").get<pid_t>(),        json.at("grpc").get<std::string>(),
      json.at("http").get<std::string>(), json.at("restarts").get<uint32_t>()};
}

}  // namespace

const ProcessView* ClusterState::Find(const std::string& role) const {
  for (const ProcessView& process : processes) {
    if (process.role == role) return &process;
  }
  return nullptr;
}

std::string StateJson(const ClusterState& state) {
  Json json = {{"pid", state.supervisor_pid},
               {"ready", state.ready},
               {"log_dir", state.log_dir}};
  json["workers"] = Json::array();
  for (const ProcessView& process : state.processes) {
    if (process.role == "gateway" || process.role == "kvstore") {
      json[process.role] = ToJson(process);
    } else {
      json["workers"].push_back(ToJson(process));
    }
  }
  return json.dump(2) + "\n";
}

absl::Status WriteStateFile(const std::string& path,
                            const ClusterState& state) {
  const std::string next = absl::StrCat(path, ".", getpid(), ".tmp");
  std::ofstream file(next, std::ios::trunc);
  file << StateJson(state);
  file.close();
  if (!file || std::rename(next.c_str(), path.c_str()) != 0) {
    return absl::UnavailableError(
        absl::StrCat("state file ", path, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ClusterState> ReadStateFile(const std::string& path) {
  std::ifstream file(path);
  if (!file.is_open()) {
    return absl::NotFoundError(absl::StrCat("no state file ", path));
  }
  std::stringstream text;
  text << file.rdbuf();
  ClusterState state;
  try {
    const Json json = Json::parse(text.str());
    state.supervisor_pid = json.at("pid").get<pid_t>();
    state.ready = json.at("ready").get<bool>();
    state.log_dir = json.at("log_dir").get<std::string>();
    for (const char* role : {"gateway", "kvstore"}) {
      if (json.contains(role)) state.processes.push_back(FromJson(json[role]));
    }
    for (const Json& worker : json.at("workers")) {
      state.processes.push_back(FromJson(worker));
    }
  } catch (const Json::exception& error) {
    return absl::DataLossError(
        absl::StrCat("state file ", path, ": ", error.what()));
  }
  return state;
}

void RemoveStateFile(const std::string& path, pid_t supervisor_pid) {
  const auto state = ReadStateFile(path);
  if (!state.ok() || state->supervisor_pid != supervisor_pid) return;
  std::remove(path.c_str());
}

}  // namespace baton::cli
