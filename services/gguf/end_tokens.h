// Which tokens of a vocabulary end a generation. One rule for the tokenizer
// and the worker, so that gateway and worker agree.
#ifndef BATON_SERVICES_GGUF_END_TOKENS_H_
#define BATON_SERVICES_GGUF_END_TOKENS_H_

#include <cstdint>
#include <vector>

#include "services/gguf/gguf_header.h"

namespace baton::gguf {

// The tokens that tokenizer.ggml.{eos,eot,eom}_token_id name, and those of
// control type whose text is one of the usual end markers (<|im_end|>,
// <|endoftext|>, <|eot_id|>, <|end_of_text|>, </s>...): chat models are often
// published with only one of theirs named. Ascending, without duplicates; ids
// outside the vocabulary are left out.
std::vector<int32_t> EndTokens(const GgufHeader& header);

}  // namespace baton::gguf

#endif  // BATON_SERVICES_GGUF_END_TOKENS_H_
