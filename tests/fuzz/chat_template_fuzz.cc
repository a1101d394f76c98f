// Any bytes as a chat template: an error or spans within the limits, never a
// crash, and no client text that became trusted.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "services/text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using baton::text::ChatTemplate;
  ChatTemplate::Options options;
  options.max_steps = 20'000;
  options.max_depth = 60;
  options.max_output_bytes = 1 << 16;
  options.max_source_bytes = 1 << 14;
  const absl::string_view source(reinterpret_cast<const char*>(data), size);
  const auto chat_template =
      ChatTemplate::Create(source, "<s>", "</s>", options);
  if (!chat_template.ok()) return 0;
  // A byte that no template of the corpus holds marks the client's text.
  const auto spans = (*chat_template)
                         ->Render({{"system", "\x01", "", ""},
                                   {"user", "\x01 \x01", "\x01", ""},
                                   {"assistant", "\x01", "", "\x01"}},
                                  R"({"enable_thinking": false})");
  if (!spans.ok()) return 0;
  const bool source_has_mark = source.find('\x01') != absl::string_view::npos;
  size_t total = 0;
  for (const auto& span : *spans) {
    total += span.text.size();
    if (span.trusted && !source_has_mark &&
        span.text.find('\x01') != std::string::npos) {
      std::abort();
    }
  }
  if (total > options.max_output_bytes) std::abort();
  return 0;
}
