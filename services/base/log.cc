#include "services/base/log.h"

#include <unistd.h>

#include <cstdio>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace baton {
namespace {

// Written by ConfigureLog before threads start, read-only afterwards.
LogOptions& Options() {
  static LogOptions* const options = new LogOptions;
  return *options;
}

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

// Quotes for JSON; text lines use the same form when a value needs quotes.
void AppendQuoted(std::string* out, absl::string_view text) {
  out->push_back('"');
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
      out->append(escaped);
    } else {
      out->push_back(static_cast<char>(c));
    }
  }
  out->push_back('"');
}

bool NeedsQuotes(absl::string_view text) {
  if (text.empty()) return true;
  for (unsigned char c : text) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\') return true;
  }
  return false;
}

}  // namespace

void ConfigureLog(const LogOptions& options) { Options() = options; }

void Log(LogLevel level, absl::string_view message,
         std::initializer_list<LogField> fields) {
  const LogOptions& options = Options();
  if (level < options.level) return;
  const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                            absl::UTCTimeZone());
  std::string line;
  if (options.format == LogFormat::kJson) {
    line = absl::StrCat("{\"time\":\"", time, "\",\"level\":\"",
                        LevelName(level), "\",\"process\":");
    AppendQuoted(&line, options.process);
    line.append(",\"message\":");
    AppendQuoted(&line, message);
    for (const LogField& field : fields) {
      line.push_back(',');
      AppendQuoted(&line, field.name);
      line.push_back(':');
      AppendQuoted(&line, field.value);
    }
    line.append("}\n");
  } else {
    line = absl::StrCat(time, " ", LevelName(level), " ", options.process,
                        options.process.empty() ? "" : " ", message);
    for (const LogField& field : fields) {
      absl::StrAppend(&line, " ", field.name, "=");
      if (NeedsQuotes(field.value)) {
        AppendQuoted(&line, field.value);
      } else {
        line.append(field.value);
      }
    }
    line.push_back('\n');
  }
  // One write, so that lines of several threads and processes do not mix.
  ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
  (void)ignored;
}

}  // namespace baton
