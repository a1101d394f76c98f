// Structured log lines to standard error: one line an event, text or JSON,
// with key-value fields. Prompts, answers and keys are never logged.
// Thread-safe; a line is written in one call.
//
//   Log(LogLevel::kInfo, "worker ready", {{"model", name}, {"epoch", epoch}});
#ifndef BATON_SERVICES_BASE_LOG_H_
#define BATON_SERVICES_BASE_LOG_H_

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  // Stands in each line, e.g. "decode-0".
  std::string process;
};

// One field. The value is anything absl::StrCat takes.
struct LogField {
  template <typename T>
  LogField(absl::string_view name, const T& value)
      : name(name), value(absl::StrCat(value)) {}
  absl::string_view name;
  std::string value;
};

// Call once, from main, before threads start. Until then: info, text.
void ConfigureLog(const LogOptions& options);

void Log(LogLevel level, absl::string_view message,
         std::initializer_list<LogField> fields = {});

}  // namespace baton

#endif  // BATON_SERVICES_BASE_LOG_H_
