#include "services/text/chat_template.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "jinja/budget.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"
#include "services/base/error_details.h"
#include "services/base/status_macros.h"
#include "services/text/template_values.h"

namespace baton::text {
namespace {

// A template copies its text about once per nested block, filter and
// concatenation; this many copies of the longest output are allowed.
constexpr uint64_t kCopiesPerOutputByte = 32;
// For names, variables and the like, whatever the output's limit.
constexpr uint64_t kBaseBytes = 1 << 20;
// A value of the engine takes about 300 bytes.
constexpr uint64_t kMaxLiveValues = 500'000;
// Nesting of client variables: far above any use, far below max_depth.
constexpr int kMaxKwargsDepth = 64;

jinja::budget MakeBudget(const ChatTemplate::Options& options) {
  jinja::budget budget;
  budget.steps = options.max_steps;
  budget.bytes = options.max_output_bytes * kCopiesPerOutputByte + kBaseBytes;
  budget.values = kMaxLiveValues;
  budget.max_text = std::max(options.max_output_bytes, kBaseBytes);
  budget.max_depth = options.max_depth;
  return budget;
}

// The engine's messages hold line breaks and an excerpt of the source.
std::string OneLine(const char* message) {
  std::string line =
      absl::StrReplaceAll(message, {{"\n------------\n", ""}, {"\n", " "}});
  constexpr size_t kMaxLength = 400;
  if (line.size() > kMaxLength) line.resize(kMaxLength);
  return line;
}

absl::Status SourceError(absl::string_view source, size_t position,
                         absl::string_view message) {
  const auto end = source.begin() + std::min(position, source.size());
  const auto line = 1 + std::count(source.begin(), end, '\n');
  return absl::InvalidArgumentError(
      absl::StrCat("chat template: line ", line, ": ", message));
}

absl::Status LimitError(const jinja::limit_exception& e) {
  return absl::ResourceExhaustedError(
      absl::StrCat("chat template: ", e.message));
}

// The engine throws; its exceptions end in this function and in Execute.
absl::StatusOr<jinja::program> Parse(const std::string& source,
                                     const ChatTemplate::Options& options) {
  jinja::budget budget = MakeBudget(options);
  const jinja::budget_scope scope(budget);
  try {
    jinja::lexer lexer;
    return jinja::parse_from_tokens(lexer.tokenize(source));
  } catch (const jinja::lexer_exception& e) {
    return SourceError(source, e.pos, e.msg);
  } catch (const jinja::parser_exception& e) {
    return SourceError(source, e.pos, e.msg);
  } catch (const jinja::limit_exception& e) {
    return LimitError(e);
  } catch (const std::exception& e) {
    return SourceError(source, 0, e.what());
  }
}

class JinjaTemplate : public ChatTemplate {
 public:
  JinjaTemplate(std::string source, absl::string_view bos,
                absl::string_view eos, const Options& options,
                jinja::program program)
      : source_(std::move(source)),
        bos_(bos),
        eos_(eos),
        options_(options),
        program_(std::move(program)) {}

  absl::StatusOr<std::vector<TextSpan>> Render(
      const std::vector<ChatTurn>& turns,
      absl::string_view kwargs_json) const override {
    absl::string_view field = kTemplateKwargsField;
    auto spans = TryRender(turns, kwargs_json, &field);
    if (spans.ok()) return spans;
    return WithField(spans.status(), field);
  }

 private:
  // `field`: what is being read when an error comes.
  absl::StatusOr<std::vector<TextSpan>> TryRender(
      const std::vector<ChatTurn>& turns, absl::string_view kwargs_json,
      absl::string_view* field) const {
    jinja::budget budget = MakeBudget(options_);
    const jinja::budget_scope scope(budget);
    try {
      return Execute(turns, kwargs_json, field);
    } catch (const jinja::limit_exception& e) {
      return LimitError(e);
    } catch (const jinja::template_exception& e) {
      return absl::InvalidArgumentError(
          absl::StrCat("chat template: ", e.message));
    } catch (const std::exception& e) {
      return absl::InvalidArgumentError(
          absl::StrCat("chat template: ", OneLine(e.what())));
    }
  }

  absl::StatusOr<std::vector<TextSpan>> Execute(
      const std::vector<ChatTurn>& turns, absl::string_view kwargs_json,
      absl::string_view* field) const {
    jinja::context context(source_);
    context.set_val("add_generation_prompt",
                    jinja::mk_val<jinja::value_bool>(true));
    BATON_RETURN_IF_ERROR(SetKwargs(kwargs_json, kMaxKwargsDepth, context));
    *field = kTemplateMessagesField;
    context.set_val("bos_token", jinja::mk_val<jinja::value_string>(bos_));
    context.set_val("eos_token", jinja::mk_val<jinja::value_string>(eos_));
    context.set_val("messages", MessagesValue(turns));

    jinja::runtime runtime(context);
    const jinja::value result = runtime.execute(program_);
    const auto text = jinja::runtime::gather_string_parts(result);
    std::vector<TextSpan> spans;
    uint64_t total = 0;
    for (jinja::string_part& part : text->val_str.parts) {
      total += part.val.size();
      if (part.val.empty()) continue;
      spans.push_back({std::move(part.val), !part.is_input});
    }
    if (total > options_.max_output_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("chat template: limit reached: output bytes (",
                       options_.max_output_bytes, ")"));
    }
    return spans;
  }

  const std::string source_;
  const std::string bos_;
  const std::string eos_;
  const Options options_;
  const jinja::program program_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Create(
    absl::string_view source, absl::string_view bos, absl::string_view eos,
    const Options& options) {
  if (source.size() > options.max_source_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("chat template: limit reached: source bytes (",
                     options.max_source_bytes, ")"));
  }
  // Done here because the engine takes quadratic time for it.
  std::string text =
      absl::StrReplaceAll(source, {{"\r\n", "\n"}, {"\r", "\n"}});
  BATON_ASSIGN_OR_RETURN(jinja::program program, Parse(text, options));
  return std::make_unique<JinjaTemplate>(std::move(text), bos, eos, options,
                                         std::move(program));
}

}  // namespace baton::text
