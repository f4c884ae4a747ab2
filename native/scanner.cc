// SPDX-License-Identifier: GPL-2.0-only
// The border to JavaScript: checks every argument again, calls the engine, turns its report into an object.
#include "scanner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "arguments.h"
#include "content-types.h"
#include "engine.h"
#include "hex.h"
#include "loader.h"
#include "sandbox.h"

namespace sluice {
namespace {

Napi::Object ObjectOf(Napi::Env env, const Napi::Value& value, const char* what) {
  if (!value.IsObject()) throw Napi::TypeError::New(env, std::string(what) + " must be an object");
  return value.As<Napi::Object>();
}

std::string TextOf(const Napi::Object& object, const char* key) {
  Napi::Value value = object.Get(key);
  if (!value.IsString()) throw Napi::TypeError::New(object.Env(), std::string(key) + " must be a string");
  std::string text = value.As<Napi::String>().Utf8Value();
  if (text.empty() || text.find('\0') != std::string::npos) {
    throw Napi::TypeError::New(object.Env(), std::string(key) + " must be text without a null character");
  }
  return text;
}

template <typename Integer>
Integer WholeNumberOf(const Napi::Value& value, const char* name) {
  // 2^53 - 1: beyond it a JavaScript number is not one whole number any more.
  constexpr double kSafe = 9007199254740991.0;
  constexpr double kLargest = std::min(kSafe, static_cast<double>(std::numeric_limits<Integer>::max()));
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : -1;
  // Zero would switch the limit off in libclamav.
  if (!(number >= 1 && number <= kLargest) || number != std::floor(number)) {
    throw Napi::TypeError::New(value.Env(), std::string(name) + " must be a whole number above zero");
  }
  return static_cast<Integer>(number);
}

std::vector<std::string> PathsOf(const Napi::Array& list) {
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < list.Length(); i++) paths.push_back(TextOf(list, std::to_string(i).c_str()));
  return paths;
}

std::vector<std::string> DirectoriesOf(const Napi::Object& options) {
  Napi::Value value = options.Get("directories");
  if (!value.IsArray() || value.As<Napi::Array>().Length() == 0) {
    throw Napi::TypeError::New(options.Env(), "directories must be a list with at least one folder");
  }
  return PathsOf(value.As<Napi::Array>());
}

std::string BytesOf(const Napi::Object& object, const char* key) {
  auto bytes = ArrayOf<uint8_t>(object.Get(key), key);
  return std::string(reinterpret_cast<const char*>(bytes.Data()), bytes.ByteLength());
}

std::vector<std::string> ListOf(const Napi::Object& object, const char* key) {
  Napi::Value value = object.Get(key);
  if (!value.IsArray()) throw Napi::TypeError::New(object.Env(), std::string(key) + " must be a list");
  return PathsOf(value.As<Napi::Array>());
}

// A bit, or none for -1.
uint32_t ShareOf(const Napi::Object& gates, const char* key, size_t share_count) {
  Napi::Value value = gates.Get(key);
  const int64_t share = value.IsNumber() ? value.As<Napi::Number>().Int64Value() : std::numeric_limits<int64_t>::max();
  if (share < -1 || share >= static_cast<int64_t>(share_count)) {
    throw Napi::TypeError::New(gates.Env(), std::string(key) + " must be the number of a share, or -1");
  }
  return share < 0 ? 0 : 1U << share;
}

uint32_t CountOf(const Napi::Object& object, const char* key) { return NumberOf(object.Get(key), key).Uint32Value(); }

std::optional<GateFiles> GatesOf(Napi::Env env, const Napi::Value& value) {
  if (value.IsNull()) return std::nullopt;
  Napi::Object object = ObjectOf(env, value, "gates");
  GateFiles files{TextOf(object, "gates"), TextOf(object, "literals"), CountOf(object, "literalCount"), CountOf(object, "gateCount"),
                  TextOf(object, "conditions"), ListOf(object, "shares"), ListOf(object, "supports"), ListOf(object, "programs"), 0, {}, 0};
  // A gate's name has a bit for each share.
  constexpr size_t kSharesMax = 32;
  if (files.shares.size() > kSharesMax) throw Napi::TypeError::New(env, "gates must have 32 shares at most");
  files.mail_shares = ShareOf(object, "mailShare", files.shares.size());
  files.program_shares = ShareOf(object, "programShare", files.shares.size());
  for (const std::string& hex : ListOf(object, "mailBeginnings")) files.mail_beginnings.push_back(BytesOfHex(hex));
  return files;
}

bool FlagOf(const Napi::Object& object, const char* key) {
  Napi::Value value = object.Get(key);
  if (!value.IsBoolean()) throw Napi::TypeError::New(object.Env(), std::string(key) + " must be a boolean");
  return value.As<Napi::Boolean>().Value();
}

std::vector<uint64_t> WindowsOf(Napi::Env env, const Napi::Value& value) {
  auto numbers = ArrayOf<double>(value, "windows");
  constexpr double kHashes = 0x1p39;
  std::vector<uint64_t> windows;
  for (const double number : std::span(numbers.Data(), numbers.ElementLength())) {
    if (!(number >= 0 && number < kHashes)) throw Napi::TypeError::New(env, "windows must be hashes of 39 bits");
    windows.push_back(static_cast<uint64_t>(number));
  }
  return windows;
}

LoadRequest RequestOf(Napi::Env env, const Napi::Value& value) {
  Napi::Object options = ObjectOf(env, value, "options");
  Napi::Object limits = ObjectOf(env, options.Get("limits"), "limits");
  return {
      DirectoriesOf(options),
      TextOf(options, "temporaryDirectory"),
      TextOf(options, "marksDirectory"),
      {
          WholeNumberOf<uint64_t>(limits.Get("maxScanSizeBytes"), "maxScanSizeBytes"),
          WholeNumberOf<uint64_t>(limits.Get("maxFileSizeBytes"), "maxFileSizeBytes"),
          WholeNumberOf<uint32_t>(limits.Get("maxFiles"), "maxFiles"),
          WholeNumberOf<uint32_t>(limits.Get("maxRecursion"), "maxRecursion"),
          WholeNumberOf<uint32_t>(limits.Get("maxScanTimeMs"), "maxScanTimeMs"),
          WholeNumberOf<uint64_t>(limits.Get("maxTemporaryBytes"), "maxTemporaryBytes"),
      },
      FlagOf(options, "singlePass"),
      FlagOf(options, "imageHashes"),
      WholeNumberOf<uint64_t>(options.Get("expectedSignatures"), "expectedSignatures"),
      BytesOf(options, "infectedSample"),
      BytesOf(options, "cleanSample"),
      GatesOf(env, options.Get("gates")),
      WindowsOf(env, options.Get("windows")),
  };
}

Napi::Object ReportToObject(Napi::Env env, const ScanReport& report) {
  Napi::Array alerts = Napi::Array::New(env, report.alerts.size());
  for (uint32_t i = 0; i < report.alerts.size(); i++) alerts[i] = report.alerts[i];
  Napi::Object answer = Napi::Object::New(env);
  answer["code"] = report.code;
  answer["codeText"] = report.code_text;
  // A name is bytes; what is not UTF-8 becomes U+FFFD here.
  answer["virusName"] = report.virus_name ? static_cast<napi_value>(Napi::String::New(env, *report.virus_name))
                                          : static_cast<napi_value>(env.Null());
  answer["alerts"] = alerts;
  answer["storageFailed"] = report.storage_failed;
  answer["type"] = report.type;
  answer["secondLookBeganMs"] = report.second_look.began_millis;
  answer["secondLookEndedMs"] = report.second_look.ended_millis;
  return answer;
}

Napi::Object ConfinementToObject(Napi::Env env, const sandbox::Confinement& confinement) {
  Napi::Object object = Napi::Object::New(env);
  object["seccomp"] = confinement.seccomp;
  object["landlock"] = confinement.landlock == 0 ? static_cast<napi_value>(env.Null())
                                                 : static_cast<napi_value>(Napi::Number::New(env, confinement.landlock));
  return object;
}

template <typename Confine>
Napi::Value Confined(Napi::Env env, Confine confine) {
  try {
    return ConfinementToObject(env, confine());
  } catch (const sandbox::SandboxError& error) {
    throw Napi::Error::New(env, error.what());
  }
}

}  // namespace

Napi::Value LoadEngine(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  LoadRequest request = RequestOf(env, info[0]);
  Napi::Function on_progress;
  if (!info[1].IsUndefined()) {
    if (!info[1].IsFunction()) throw Napi::TypeError::New(env, "onProgress must be a function");
    on_progress = info[1].As<Napi::Function>();
  }
  return StartLoading(env, std::move(request), on_progress);
}

Napi::Value ServeEngine(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), engine::Serve(WholeNumberOf<uint64_t>(info[0], "epoch")));
}

Napi::Value DiscardEngine(const Napi::CallbackInfo& info) {
  engine::Discard(WholeNumberOf<uint64_t>(info[0], "epoch"));
  return info.Env().Undefined();
}

Napi::Value EngineInfo(const Napi::CallbackInfo& info) {
  engine::Reference current = engine::Current();
  if (!current) return info.Env().Null();
  return FactsToObject(info.Env(), current->facts());
}

Napi::Value GateStatisticsOf(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  engine::Reference current = engine::Current();
  std::optional<GateStatistics> statistics = current ? current->gate_statistics() : std::nullopt;
  if (!statistics) return env.Null();
  Napi::Array noisy = Napi::Array::New(env, statistics->noisy.size());
  for (uint32_t i = 0; i < statistics->noisy.size(); i++) {
    Napi::Array entry = Napi::Array::New(env, 2);
    entry[0u] = statistics->noisy[i].first;
    entry[1u] = statistics->noisy[i].second;
    noisy[i] = entry;
  }
  Napi::Object object = Napi::Object::New(env);
  object["scans"] = static_cast<double>(statistics->scans);
  object["secondLooks"] = static_cast<double>(statistics->second_looks);
  object["lookers"] = static_cast<double>(statistics->lookers);
  object["inVain"] = static_cast<double>(statistics->in_vain);
  object["noisy"] = noisy;
  return object;
}

// By the engine that serves, where it is the one that is meant and has gates.
Napi::Value CountWindows(const Napi::CallbackInfo& info) {
  const uint64_t epoch = WholeNumberOf<uint64_t>(info[0], "epoch");
  const std::vector<uint64_t> windows = WindowsOf(info.Env(), info[1]);
  engine::Reference current = engine::Current();
  return Napi::Boolean::New(info.Env(), current && current->facts().epoch == epoch && current->CountWindows(windows));
}

// One behind the other: a hash, and in how many contents it was.
Napi::Value WindowCountsOf(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  engine::Reference current = engine::Current();
  const WindowCounts* windows = current ? current->window_counts() : nullptr;
  if (windows == nullptr) return env.Null();
  const auto counts = windows->Read();
  Napi::Float64Array numbers = Napi::Float64Array::New(env, 2 * counts.size());
  for (size_t at = 0; at < counts.size(); at++) {
    numbers[2 * at] = static_cast<double>(counts[at].first);
    numbers[2 * at + 1] = counts[at].second;
  }
  return numbers;
}

Napi::Value ConfineThread(const Napi::CallbackInfo& info) {
  if (!info[0].IsArray()) throw Napi::TypeError::New(info.Env(), "readable must be a list of folders");
  sandbox::Folders folders{{}, PathsOf(info[0].As<Napi::Array>())};
  if (engine::Reference current = engine::Current()) folders.writable.push_back(current->temporary_directory());
  return Confined(info.Env(), [&folders] { return sandbox::ConfineThread(folders); });
}

Napi::Value TryConfinement(const Napi::CallbackInfo& info) { return Confined(info.Env(), sandbox::TryConfinement); }

namespace {

struct Scanned {
  ScanReport report;
  double epoch;
};

Scanned Scan(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  auto content = ArrayOf<uint8_t>(info[0], "content");
  // A detached array looks empty too: there is nothing that could be called clean.
  if (content.ByteLength() == 0) throw Napi::TypeError::New(env, "content must not be empty or detached");
  engine::Reference current = engine::Current();
  if (!current) throw Napi::Error::New(env, "No engine is loaded");
  return {current->Scan(content.Data(), content.ByteLength()), static_cast<double>(current->facts().epoch)};
}

Napi::Value AnswerOf(Napi::Env env, const Scanned& scanned) {
  Napi::Object answer = ReportToObject(env, scanned.report);
  answer["epoch"] = scanned.epoch;
  return answer;
}

}  // namespace

Napi::Value ScanBuffer(const Napi::CallbackInfo& info) { return AnswerOf(info.Env(), Scan(info)); }

// An object takes as long as the twentieth part of a small scan. So epoch and type are one number.
Napi::Value ScanPlain(const Napi::CallbackInfo& info) {
  const Scanned scanned = Scan(info);
  const ScanReport& report = scanned.report;
  const bool looked_again = report.second_look.ended_millis > 0;
  if (report.code == 0 && report.alerts.empty() && !report.storage_failed && !looked_again) {
    return Napi::Number::New(info.Env(), scanned.epoch * (content_types::kMost + 1) + report.type);
  }
  return AnswerOf(info.Env(), scanned);
}

Napi::Value TypeName(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  const std::string_view name = content_types::NameOf(NumberOf(info[0], "type").Uint32Value());
  if (name.empty()) return env.Null();
  return Napi::String::New(env, name.data(), name.size());
}

}  // namespace sluice
