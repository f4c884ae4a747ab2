// SPDX-License-Identifier: GPL-2.0-only
// Digests that libclamav asks for by name.
#pragma once

namespace sluice::digests {

// Once, before the first scan: from then on OpenSSL searches its providers once for each name, and not for each digest that is begun.
void Watch();

}  // namespace sluice::digests
