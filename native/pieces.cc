// SPDX-License-Identifier: GPL-2.0-only
// What stands between two pieces decides alone. So a text is decoded as it was found.
#include "pieces.h"

#include <algorithm>
#include <string_view>

namespace sluice::pieces {
namespace {

// No name of a variable or of a file is longer in what scripts do with pieces.
constexpr size_t kBetweenMost = 96;
constexpr std::string_view kBlanks = " \t\r\n";

// `" + "`, `";\n s = s & "`, `",\n "`, and nothing but blanks, as Python and C have it.
std::optional<Next> BehindQuote(std::string_view text, size_t at) {
  constexpr std::string_view kQuotes = "\"'`";
  constexpr std::string_view kMayStand = " \t\r\n+&.,;=()[]_$\\";
  const std::string_view rest = text.substr(at + 1, kBetweenMost);
  const size_t end = rest.find_first_of(kQuotes);
  if (end == rest.npos) return std::nullopt;
  const std::string_view between = rest.substr(0, end);
  const auto is_letter = [](char one) { return (one >= '0' && one <= '9') || ((one | 0x20) >= 'a' && (one | 0x20) <= 'z'); };
  const auto may_stand = [&](char one) { return is_letter(one) || kMayStand.find(one) != kMayStand.npos; };
  if (!std::all_of(between.begin(), between.end(), may_stand)) return std::nullopt;
  const bool is_listed = between.find(',') != between.npos;
  const bool is_joined = is_listed || between.find_first_of("+&.") != between.npos;
  if (!is_joined && between.find_first_not_of(" \t\r\n\\") != between.npos) return std::nullopt;
  return Next{at + 1 + end + 1, is_listed};
}

// Where it is said before the word that echoes: `>>a.b64 echo TVqQ`.
size_t BehindRedirection(std::string_view line, size_t at) {
  if (at == line.npos || line[at] != '>') return at;
  const size_t file = line.find_first_not_of("> \t", at);
  return line.find_first_not_of(" \t@", line.find_first_of(kBlanks, file));
}

// Enough to be no word that is echoed to be read, or with padding at its end, which may be behind the text.
bool IsLong(std::string_view piece) {
  constexpr size_t kWordMost = 16;
  const size_t end = piece.find_first_of("\r\n");
  return end > kWordMost || piece.substr(0, end).find('=') != piece.npos;
}

// `TVqQ>>a.b64`, and the next line echoes as well; or nothing, where all of a group goes to one file.
std::optional<Next> BehindEcho(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at, kBetweenMost);
  const size_t sign = rest.find_first_not_of(" \"'");
  const size_t end = rest.find('\n');
  if (sign == rest.npos || end == rest.npos || sign > end) return std::nullopt;
  const bool has_sign = rest[sign] == '>';
  if (!has_sign && rest[sign] != '\r' && rest[sign] != '\n') return std::nullopt;
  const size_t start = at + end + 1;
  const std::string_view line = text.substr(start, kBetweenMost);
  const size_t first = line.find_first_not_of(" \t@(");
  const size_t word = BehindRedirection(line, first);
  for (const std::string_view echo : {"echo ", "ECHO ", "printf %s ", "printf '%s' "}) {
    if (word == line.npos || line.substr(word, echo.size()) != echo) continue;
    const size_t next = line.find_first_not_of(" \"'", word + echo.size());
    if (next != line.npos && (has_sign || word != first || IsLong(line.substr(next)))) return Next{start + next};
  }
  return std::nullopt;
}

// Ends of lines in a text of JSON or of a script, a line that goes on behind its end, and `\/`.
std::optional<Next> BehindBackslash(std::string_view text, size_t at) {
  size_t next = at;
  for (const std::string_view end : {"\\r", "\\n"}) {
    if (text.substr(next, end.size()) == end) next += end.size();
  }
  if (next > at && text.substr(next, 2) == "\\\n") next += 2;
  if (next > at) return Next{next};
  if (text.substr(at, 2) == "\\/") return Next{at + 1};
  next = text.find_first_not_of(kBlanks, at + 1);
  const bool has_line = next != text.npos && text.substr(at, next - at).find('\n') != text.npos;
  return has_line ? std::optional(Next{next}) : std::nullopt;
}

}  // namespace

std::optional<Next> Behind(Bytes bytes, size_t at) {
  const std::string_view text = TextOf(bytes);
  if (at >= text.size()) return std::nullopt;
  switch (text[at]) {
    case '\\':
      return BehindBackslash(text, at);
    case '>':
    case ' ':
    case '\r':
    case '\n':
      return BehindEcho(text, at);
    case '"':
    case '\'':
    case '`': {
      const std::optional<Next> next = BehindQuote(text, at);
      return next ? next : BehindEcho(text, at);
    }
    default:
      return std::nullopt;
  }
}

Letter SpelledAt(Bytes bytes, size_t at) {
  constexpr uint8_t kPlus = 62;
  constexpr uint8_t kSlash = 63;
  struct Spelling {
    std::string_view text;
    uint8_t value;
  };
  constexpr Spelling kSpellings[] = {
      {"-", kPlus},       {"_", kSlash},      {"%2B", kPlus},    {"%2b", kPlus},    {"%2F", kSlash}, {"%2f", kSlash}, {"\\u002B", kPlus},
      {"\\u002b", kPlus}, {"\\u002F", kSlash}, {"\\u002f", kSlash}, {"\\x2B", kPlus},  {"\\x2b", kPlus}, {"\\x2F", kSlash}, {"\\x2f", kSlash}, {"&#43;", kPlus}, {"&#47;", kSlash},
      {"&#x2B;", kPlus},  {"&#x2F;", kSlash},
  };
  constexpr std::string_view kFirst = "-_%\\&";
  if (at >= bytes.size() || kFirst.find(static_cast<char>(bytes[at])) == kFirst.npos) return {0, 0};
  const auto found = std::find_if(std::begin(kSpellings), std::end(kSpellings), [&](const Spelling& one) { return Has(bytes, at, one.text); });
  return found == std::end(kSpellings) ? Letter{0, 0} : Letter{found->value, static_cast<uint8_t>(found->text.size())};
}

}  // namespace sluice::pieces
