// SPDX-License-Identifier: GPL-2.0-only
// What functions are given by JavaScript, checked, and what they throw where the system refuses.
#pragma once

#include <napi.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace sluice {

inline Napi::Number NumberOf(const Napi::Value& value, const char* name) {
  if (!value.IsNumber()) throw Napi::TypeError::New(value.Env(), std::string(name) + " must be a number");
  return value.As<Napi::Number>();
}

struct ArrayKind {
  napi_typedarray_type type;
  const char* name;
};
template <typename Item>
inline constexpr ArrayKind kArrayOf{};
template <>
inline constexpr ArrayKind kArrayOf<uint8_t>{napi_uint8_array, "Uint8Array"};
template <>
inline constexpr ArrayKind kArrayOf<int32_t>{napi_int32_array, "Int32Array"};
template <>
inline constexpr ArrayKind kArrayOf<uint32_t>{napi_uint32_array, "Uint32Array"};
template <>
inline constexpr ArrayKind kArrayOf<double>{napi_float64_array, "Float64Array"};

template <typename Item>
Napi::TypedArrayOf<Item> ArrayOf(const Napi::Value& value, const char* name) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != kArrayOf<Item>.type) {
    throw Napi::TypeError::New(value.Env(), std::string(name) + " must be a " + kArrayOf<Item>.name);
  }
  return value.As<Napi::TypedArrayOf<Item>>();
}

// With the code that Node has for what an operator can mend.
inline Napi::Error SystemError(Napi::Env env, const char* call, int code = errno) {
  Napi::Error error = Napi::Error::New(env, std::string(call) + ": " + std::strerror(code));
  const char* name = code == EADDRINUSE ? "EADDRINUSE" : code == EACCES ? "EACCES" : code == EADDRNOTAVAIL ? "EADDRNOTAVAIL" : nullptr;
  if (name != nullptr) error.Value().Set("code", Napi::String::New(env, name));
  return error;
}

}  // namespace sluice
