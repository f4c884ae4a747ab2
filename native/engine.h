// SPDX-License-Identifier: GPL-2.0-only
// The engine that serves: one per process, replaced as a whole, never changed.
#pragma once

#include <chrono>
#include <memory>

#include "engine-set.h"

namespace sluice::engine {

using Reference = std::shared_ptr<const EngineSet>;

// Null before the first load has succeeded. The engine lives as long as somebody holds the reference.
Reference Current();

// Builds an engine and proves it, beside the current one unless the request says otherwise; it waits, not serving yet,
// for Serve or Discard. Throws LoadError and keeps nothing when it can't. One build runs at a time, others wait.
EngineFacts Prepare(const LoadRequest& request, const LoadObserver& observer);

// Puts a prepared engine in the place of the current one, which is freed after its last scan. False when no engine of
// that epoch is prepared, or a later one serves already.
bool Serve(uint64_t epoch);

// Frees a prepared engine that shall not serve.
void Discard(uint64_t epoch);

// Frees the engine that serves, for programs that end without one (test/sanitize/). False: scans with it have not ended by then.
bool Clear(std::chrono::milliseconds wait);

}  // namespace sluice::engine
