// SPDX-License-Identifier: GPL-2.0-only
// The engine that serves: one per process, replaced as a whole, never changed.
#pragma once

#include <memory>

#include "clamav-engine.h"

namespace sluice::engine {

using Reference = std::shared_ptr<const ClamavEngine>;

// Null before the first load has succeeded. The engine lives as long as somebody holds the reference.
Reference Current();

// Builds a new engine beside the current one and puts it in its place; throws LoadError and changes nothing when it
// can't. One build runs at a time, others wait. Returns the new engine and, in `retired`, the one it replaced.
Reference Reload(const LoadRequest& request, const LoadObserver& observer, Reference& retired);

// Waits for the last scan of a replaced engine and frees it here, because that takes too long for a scan thread.
void Retire(Reference retired);

}  // namespace sluice::engine
