// SPDX-License-Identifier: GPL-2.0-only
#include "entities.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "hex.h"

namespace sluice::entities {
namespace {

struct Named {
  std::string_view name;
  char letter;
};

// HTML, 13.5. They end with the semicolon.
constexpr Named kNames[] = {{"plus;", '+'},  {"sol;", '/'},   {"equals;", '='}, {"colon;", ':'},    {"comma;", ','},
                            {"semi;", ';'},  {"lpar;", '('},  {"rpar;", ')'},   {"period;", '.'},   {"Tab;", '\t'},
                            {"amp;", '&'},   {"quot;", '"'},  {"apos;", '\''},  {"NewLine;", '\n'}, {"lowbar;", '_'},
                            {"lt;", '<'},    {"gt;", '>'}};

struct Entity {
  uint8_t byte;
  size_t length;
};

// With as many zeros before the number as somebody likes; without a semicolon it ends where its digits do.
std::optional<Entity> NumberAt(std::string_view text) {
  const bool is_hex = text.size() > 2 && (text[2] | 0x20) == 'x';
  size_t at = is_hex ? 3 : 2;
  const size_t first = at;
  uint32_t number = 0;
  for (; at < text.size() && number < 256; at++) {
    const std::optional<uint8_t> digit = DigitOf(text[at]);
    if (!digit || (!is_hex && *digit > 9)) break;
    number = number * (is_hex ? 16 : 10) + *digit;
  }
  if (at == first || number >= 256) return std::nullopt;
  return Entity{static_cast<uint8_t>(number), at + (text.substr(at).starts_with(';') ? 1 : 0)};
}

// The text begins with an ampersand.
std::optional<Entity> EntityAt(std::string_view text) {
  if (text.substr(1).starts_with('#')) return NumberAt(text);
  for (const Named& named : kNames) {
    if (text.substr(1).starts_with(named.name)) return Entity{static_cast<uint8_t>(named.letter), named.name.size() + 1};
  }
  return std::nullopt;
}

size_t NextSign(std::string_view text, size_t at) { return std::min(text.find('&', at), text.size()); }

}  // namespace

bool HasNeedless(Bytes text) {
  constexpr std::string_view kSigns = "+/=:,;";
  const std::string_view view = TextOf(text);
  for (size_t at = NextSign(view, 0); at < view.size(); at = NextSign(view, at + 1)) {
    const std::optional<Entity> entity = EntityAt(view.substr(at));
    if (!entity) continue;
    const bool is_letter = (entity->byte | 0x20) >= 'a' && (entity->byte | 0x20) <= 'z';
    const bool is_digit = entity->byte >= '0' && entity->byte <= '9';
    if (is_letter || is_digit || kSigns.find(static_cast<char>(entity->byte)) != kSigns.npos) return true;
  }
  return false;
}

streams::End Decode(Bytes text, streams::Output& output) {
  const std::string_view view = TextOf(text);
  for (size_t at = 0; at < view.size();) {
    const size_t sign = NextSign(view, at);
    if (!output.Put(text.subspan(at, sign - at))) return output.stopped();
    at = sign;
    if (at == view.size()) break;
    const std::optional<Entity> entity = EntityAt(view.substr(at));
    const uint8_t byte = entity ? entity->byte : '&';
    if (!output.Put(Bytes(&byte, 1))) return output.stopped();
    at += entity ? entity->length : 1;
  }
  return streams::End::kWhole;
}

}  // namespace sluice::entities
