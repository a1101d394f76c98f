#include "services/cli/base/progress_line.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kLineEvery = absl::Seconds(5);

}  // namespace

void ProgressLine::Show(const std::string& text, absl::Duration now) {
  if (terminal_) {
    shown_ = true;
    std::fprintf(out_, "\r\x1b[K%s", text.c_str());
  } else if (!next_line_.has_value() || now >= *next_line_) {
    next_line_ = now + kLineEvery;
    std::fprintf(out_, "%s\n", text.c_str());
  }
  std::fflush(out_);
}

void ProgressLine::Clear() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
  shown_ = false;
}

}  // namespace baton::cli
